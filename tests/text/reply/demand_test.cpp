// Grammars of demanded calls: whatever they let a model write is read back as calls that satisfy the demand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "reply_tools.h"
#include "server/text/grammar/matcher.h"
#include "server/text/grammar/token_trie.h"
#include "server/text/reply/call_grammar.h"
#include "server/text/reply/reply_format.h"

namespace twostroke::reply {
namespace {

using Json = nlohmann::ordered_json;

// As far as these tests' schemas go.
bool satisfies(const Json& value, const Json& schema) {
  if (schema.contains("enum")) {
    const Json& values = schema.at("enum");
    if (std::find(values.begin(), values.end(), value) == values.end()) return false;
  }
  const std::string type = schema.value("type", "");
  if (type == "string") {
    if (!value.is_string()) return false;
    const std::string& text = value.get_ref<const std::string&>();
    const auto length = static_cast<size_t>(std::count_if(
        text.begin(), text.end(), [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }));
    return length >= schema.value("minLength", size_t{0}) && length <= schema.value("maxLength", size_t{100'000});
  }
  if (type == "integer") {
    return value.is_number_integer() && value.get<int64_t>() >= schema.value("minimum", INT64_MIN) &&
           value.get<int64_t>() <= schema.value("maximum", INT64_MAX);
  }
  if (type == "boolean") return value.is_boolean();
  if (type == "array") {
    return value.is_array() && std::all_of(value.begin(), value.end(),
                                           [&](const Json& item) { return satisfies(item, schema.at("items")); });
  }
  if (type == "object") {
    if (!value.is_object()) return false;
    for (const Json& key : schema.value("required", Json::array())) {
      if (!value.contains(key.get<std::string>())) return false;
    }
    for (const auto& [key, member] : value.items()) {
      if (!schema.at("properties").contains(key) || !satisfies(member, schema.at("properties").at(key))) return false;
    }
  }
  return true;
}

const Json& weather() {
  static const Json schema = Json::parse(R"({"type": "object", "additionalProperties": false,
    "properties": {"city": {"type": "string", "maxLength": 12}, "days": {"type": "integer", "minimum": 1, "maximum": 14},
                   "unit": {"type": "string", "enum": ["C", "F"]}, "exact": {"type": "boolean"},
                   "tags": {"type": "array", "items": {"type": "string", "maxLength": 4}, "maxItems": 3}},
    "required": ["city", "unit"]})");
  return schema;
}

const Json& note() {
  static const Json schema = Json::parse(R"({"type": "object", "additionalProperties": false,
    "properties": {"text": {"type": "string"},
                   "where": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"],
                             "additionalProperties": false}}})");
  return schema;
}

ToolDemand demand_both() {
  ToolDemand demand;
  demand.tools = {{"get_weather", &weather()}, {"note", &note()}, {"ping", nullptr}};
  return demand;
}

std::vector<ReplyFormat> all_formats() {
  std::vector<ReplyFormat> formats(known_formats().begin(), known_formats().end());
  formats.push_back(generic_format());
  for (ReplyFormat& format : formats) {
    if (format.reasoning.close.empty()) format.reasoning = {"<think>", "</think>"};
  }
  return formats;
}

// Walks at random through what the grammar allows. Markers and ends are tried whole now and then: no random bytes would
// ever make them. "" where the walk got too long.
std::string walk(const std::shared_ptr<const grammar::Grammar>& grammar, const Tokenizer& tokenizer,
                 const grammar::TokenTrie& tokens, const std::vector<std::string>& hints, std::mt19937& random) {
  grammar::Matcher matcher(grammar);
  std::string text;
  for (int step = 0; step < 1500; ++step) {
    if (matcher.must_end() || (matcher.may_end() && random() % 4 == 0)) return text;
    if (random() % 2 == 0) {
      const std::string& hint = hints[random() % hints.size()];
      const TokenId control = tokenizer.find(hint);
      if (control >= 0 ? matcher.accept_control(control) : matcher.accept(hint)) {
        text += hint;
        continue;
      }
    }
    std::vector<uint32_t> mask((static_cast<size_t>(tokenizer.vocab_size()) + 31) / 32);
    matcher.fill_mask(tokens, mask);
    std::vector<TokenId> allowed;
    for (TokenId token = 0; token < tokenizer.vocab_size(); ++token) {
      if ((mask[static_cast<size_t>(token) / 32] >> (token % 32) & 1) != 0) allowed.push_back(token);
    }
    if (allowed.empty()) return matcher.may_end() ? text : "";
    const TokenId token = allowed[random() % allowed.size()];
    EXPECT_TRUE(matcher.accept_token(token, tokenizer.piece(token, false)));
    text += tokenizer.piece(token, true);
  }
  return "";
}

std::string described(const std::string& format, unsigned seed, const std::string& text) {
  return format + ", seed " + std::to_string(seed) + ":\n" + text;
}

void expect_readable(const std::vector<std::string>& control_tokens, const std::string& prompt_end, bool parallel) {
  const auto tokenizer = byte_tokenizer(control_tokens);
  const grammar::TokenTrie tokens(*tokenizer);
  const std::vector<std::string> hints = {"\"",     "}",        "</think>", "<|end|>",      "</parameter>", ", ",
                                          "<|\"|>", "</param>", "<|eom|>",  "</arg_value>", "\n",           "]"};
  for (const ReplyFormat& format : all_formats()) {
    ToolDemand demand = demand_both();
    demand.parallel = parallel;
    demand.prompt_end = prompt_end;
    const auto grammar = make_call_grammar(format, demand, *tokenizer);
    ASSERT_TRUE(grammar.ok()) << format.name << ": " << grammar.status().message();
    ParseOptions options;
    options.tool_calls = true;
    options.prompt_end = prompt_end;
    options.tool_names = {"get_weather", "note", "ping"};
    options.tool_parameters = {&weather(), &note(), nullptr};
    const MakeParser parser = parser_of_format(format.name, options);
    const unsigned seed = 17;
    std::mt19937 random(seed);
    int read = 0;
    size_t calls = 0;
    for (int round = 0; round < 12; ++round) {
      const std::string text = walk(*grammar, *tokenizer, tokens, hints, random);
      if (text.empty()) continue;
      ++read;
      const Reply reply = parse(parser, text);
      const std::string trace = described(format.name, seed, text);
      ASSERT_GE(reply.calls.size(), 1u) << trace << "\n" << reply;
      if (!parallel) {
        ASSERT_EQ(reply.calls.size(), 1u) << trace;
      }
      ASSERT_EQ(reply.content, "") << trace;
      calls += reply.calls.size();
      for (const Call& call : reply.calls) {
        const Json arguments = Json::parse(call.arguments, nullptr, false);
        ASSERT_TRUE(arguments.is_object()) << trace << "\n" << call;
        if (call.name == "get_weather") {
          EXPECT_TRUE(satisfies(arguments, weather())) << trace << "\n" << call;
        } else if (call.name == "note") {
          EXPECT_TRUE(satisfies(arguments, note())) << trace << "\n" << call;
        } else {
          EXPECT_EQ(call.name, "ping") << trace;
        }
      }
    }
    EXPECT_GE(read, 5) << format.name;
  }
}

TEST(DemandGrammar, IsReadBackInEveryFormat) { expect_readable({}, "", true); }

TEST(DemandGrammar, HoldsExactlyOneCallWhereOneIsDemanded) { expect_readable({}, "</think>\n", false); }

TEST(DemandGrammar, LeavesRoomForReasoningThatThePromptOpened) { expect_readable({}, "<think>\n", true); }

TEST(DemandGrammar, WritesControlTokensAsSuch) {
  expect_readable({"<think>",
                   "</think>",
                   "<tool_call>",
                   "</tool_call>",
                   "[TOOL_CALLS]",
                   "[ARGS]",
                   "<|python_tag|>",
                   "<|tool_call|>",
                   "<｜tool▁calls▁begin｜>",
                   "<｜tool▁calls▁end｜>",
                   "<｜tool▁call▁begin｜>",
                   "<｜tool▁call▁end｜>",
                   "<｜tool▁sep｜>",
                   "<|tool_calls_section_begin|>",
                   "<|tool_calls_section_end|>",
                   "<|tool_call_begin|>",
                   "<|tool_call_end|>",
                   "<|tool_call_argument_begin|>",
                   "<|start|>",
                   "<|channel|>",
                   "<|message|>",
                   "<|end|>",
                   "<|constrain|>",
                   "<|eom|>",
                   "<|\"|>",
                   "<tool_call|>",
                   "<|tool_call>",
                   "<|START_ACTION|>",
                   "<|END_ACTION|>",
                   "<|tools_prefix|>",
                   "<|tools_suffix|>",
                   "<|role_sep|>",
                   "<|message_sep|>",
                   "<arg_key>",
                   "</arg_key>",
                   "<arg_value>",
                   "</arg_value>",
                   "<|tool_call_start|>",
                   "<|tool_call_end|>"},
                  "", true);
}

TEST(DemandGrammar, RefusesWhatItCannotHold) {
  const auto tokenizer = byte_tokenizer();
  const auto message_of = [&](const std::string& format, const ToolDemand& demand) {
    for (const ReplyFormat& known : known_formats()) {
      if (known.name != format) continue;
      const auto grammar = make_call_grammar(known, demand, *tokenizer);
      return grammar.ok() ? "" : grammar.status().message();
    }
    return std::string("no such format");
  };
  EXPECT_NE(message_of("hermes", {}), "");
  const Json any_of = Json::parse(R"({"type": "object", "anyOf": [{"required": ["a"]}]})");
  ToolDemand demand;
  demand.tools = {{"get", &any_of}};
  EXPECT_THAT(message_of("qwen-xml", demand), testing::HasSubstr("tool \"get\": 'anyOf'"));
  const Json odd_key = Json::parse(R"({"type": "object", "properties": {"a>b": {"type": "string"}}})");
  demand.tools = {{"get", &odd_key}};
  EXPECT_THAT(message_of("qwen-xml", demand), testing::HasSubstr("\"a>b\""));
  EXPECT_EQ(message_of("hermes", demand), "");
  const Json impossible = Json::parse(R"({"type": "object", "properties": {"a": {"enum": ["</parameter>"]}}})");
  demand.tools = {{"get", &impossible}};
  EXPECT_THAT(message_of("qwen-xml", demand), testing::HasSubstr("properties.a"));
  const Json unknown = Json::parse(R"({"type": "object", "properties": {"a": {"type": "array", "contains": {}}}})");
  demand.tools = {{"get", &unknown}};
  EXPECT_THAT(message_of("hermes", demand), testing::HasSubstr("contains"));
}

}  // namespace
}  // namespace twostroke::reply
