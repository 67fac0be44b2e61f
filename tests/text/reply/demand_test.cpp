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

// Calls that need not be made: "get_weather" is strict, "note" and "ping" are not.
ToolDemand demand_optional() {
  ToolDemand demand = demand_both();
  demand.optional = true;
  demand.tools[1].strict = demand.tools[2].strict = false;
  return demand;
}

void expect_held_to_form(const std::vector<std::string>& control_tokens) {
  const auto tokenizer = byte_tokenizer(control_tokens);
  const grammar::TokenTrie tokens(*tokenizer);
  size_t strict_calls = 0;
  for (const ReplyFormat& format : all_formats()) {
    const auto grammar = make_call_grammar(format, demand_optional(), *tokenizer);
    ASSERT_TRUE(grammar.ok()) << format.name << ": " << grammar.status().message();
    ParseOptions options;
    options.tool_calls = true;
    options.tool_names = {"get_weather", "note", "ping"};
    options.tool_parameters = {&weather(), &note(), nullptr};
    const MakeParser parser = parser_of_format(format.name, options);
    // Whatever opens, names and ends calls in this form is tried, in any order.
    std::vector<std::string> hints = {"get_weather",
                                      "\"get_weather\"",
                                      "{\"name\": ",
                                      "{\"name\": \"get_weather\"",
                                      "</think>",
                                      "</parameter>",
                                      "}",
                                      "\"",
                                      "[",
                                      "]",
                                      "{\"city\": 5}",
                                      "words"};
    hints.insert(hints.end(), format.headers.open.begin(), format.headers.open.end());
    hints.insert(hints.end(), {" to=get_weather<|message|>", "<|channel|>commentary to=functions.get_weather "});
    for (const CallShape& shape : format.shapes) {
      hints.push_back(pattern_text(shape.section_open));
      hints.push_back(pattern_text(shape.call_open));
      hints.push_back(pattern_text(shape.section_open + (shape.array ? "[" : "") + shape.call_open));
      hints.push_back(pattern_text(shape.name_prefix + "get_weather" + shape.name_suffix + shape.name_close));
    }
    std::erase(hints, "");
    const unsigned seed = 5;
    std::mt19937 random(seed);
    for (int round = 0; round < 20; ++round) {
      const std::string text = walk(*grammar, *tokenizer, tokens, hints, random);
      const Reply reply = parse(parser, text);
      for (const Call& call : reply.calls) {
        if (call.name != "get_weather") continue;
        ++strict_calls;
        const Json arguments = Json::parse(call.arguments, nullptr, false);
        ASSERT_TRUE(satisfies(arguments, weather())) << described(format.name, seed, text) << "\n" << call;
      }
    }
  }
  EXPECT_GE(strict_calls, 30u);
}

TEST(OptionalCalls, OfStrictFunctionsAreValidWhateverElseIsWritten) { expect_held_to_form({}); }

TEST(OptionalCalls, AreHeldToTheirFormWhereMarkersAreControlTokens) {
  expect_held_to_form({"<tool_call>", "</tool_call>", "[TOOL_CALLS]", "[ARGS]", "<|python_tag|>", "<|tool_call|>",
                       "<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|eom|>", "<|START_ACTION|>",
                       "<|END_ACTION|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>", "<think>", "</think>"});
}

TEST(OptionalCalls, LeaveContentFree) {
  const auto tokenizer = byte_tokenizer();
  for (const ReplyFormat& format : all_formats()) {
    const auto grammar = make_call_grammar(format, demand_optional(), *tokenizer);
    ASSERT_TRUE(grammar.ok()) << format.name;
    const std::string header = format.headers.style == HeaderStyle::kHarmony     ? "<|channel|>final<|message|>"
                               : format.headers.style == HeaderStyle::kRecipient ? " to=user<|message|>"
                                                                                 : "";
    for (const char* content :
         {"", "Hello, world: 5 < 6 é 😀\n\n{}", "{\"answer\": [42, \"get\"]}", "<tool", "```json\n{}"}) {
      grammar::Matcher matcher(*grammar);
      EXPECT_TRUE(matcher.accept(header + content) && matcher.may_end()) << format.name << ": " << content;
    }
    if (format.headers.style != HeaderStyle::kNone) continue;
    grammar::Matcher thinking(*grammar);
    EXPECT_TRUE(thinking.accept("<think>hm</think>\nSo.") && thinking.may_end()) << format.name;
  }
}

TEST(OptionalCalls, MayFollowContentAndTakeAnyArgumentsWhereNotStrict) {
  const auto tokenizer = byte_tokenizer();
  const auto accepts = [&](const std::string& name, const std::string& text) {
    for (const ReplyFormat& format : all_formats()) {
      if (format.name != name) continue;
      const auto grammar = make_call_grammar(format, demand_optional(), *tokenizer);
      grammar::Matcher matcher(*grammar);
      return matcher.accept(text) && matcher.may_end();
    }
    return false;
  };
  const std::string strict = R"(<tool_call>
{"name": "get_weather", "arguments": {"city": "Rome", "unit": "C"}}
</tool_call>)";
  EXPECT_TRUE(accepts("hermes", "Let me see.\n" + strict));
  EXPECT_TRUE(accepts("hermes", strict + "\n" + strict + "\nDone."));
  EXPECT_FALSE(accepts("hermes", R"(<tool_call>
{"name": "get_weather", "arguments": {"city": 5}})"));
  EXPECT_TRUE(accepts("hermes", R"(<tool_call>
{"name": "note", "arguments": {"any": [1,2, {"x":  null}]}}
</tool_call>)"));
  EXPECT_TRUE(accepts(
      "qwen-xml", "So:\n<tool_call>\n<function=note>\n<parameter=zzz>\n<b>5\n</parameter>\n</function>\n</tool_call>"));
  EXPECT_FALSE(accepts("qwen-xml", "<tool_call>\n<function=get_weather>\n<parameter=zzz>"));
  EXPECT_FALSE(accepts("llama3", R"({"name": "get_weather", "parameters": {}})"));
  EXPECT_FALSE(accepts("llama3", R"( {"parameters": {}, "name": "get\u005Fweather"})"));
  EXPECT_TRUE(accepts("llama3", R"({"name": "get_weather", "parameters": {"city": "Rome", "unit": "F"}})"));
  EXPECT_TRUE(accepts("llama3", R"({"name": "get_weathe", "parameters": {}})"));
}

TEST(OptionalCalls, StandBesideContentOfAForm) {
  const auto tokenizer = byte_tokenizer();
  const Json schema = Json::parse(R"({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})");
  ToolDemand demand = demand_optional();
  demand.content = &schema;
  for (const ReplyFormat& format : all_formats()) {
    const auto grammar = make_call_grammar(format, demand, *tokenizer);
    ASSERT_TRUE(grammar.ok()) << format.name << ": " << grammar.status().message();
    if (format.headers.style != HeaderStyle::kNone) continue;
    grammar::Matcher matcher(*grammar);
    EXPECT_TRUE(matcher.accept("{\"n\": 5}") && matcher.may_end()) << format.name;
    EXPECT_FALSE(grammar::Matcher(*grammar).accept("Hello")) << format.name;
    EXPECT_FALSE(grammar::Matcher(*grammar).accept("{\"n\": \"5\"}")) << format.name;
  }
}

TEST(DemandGrammar, ArgumentsAreAnObjectAndNoneWhereThereAreNoParameters) {
  const auto tokenizer = byte_tokenizer();
  const auto accepts = [&](const Json* parameters, const std::string& arguments) {
    ToolDemand demand;
    demand.tools = {{"f", parameters}};
    const auto grammar = make_call_grammar(generic_format(), demand, *tokenizer);
    if (!grammar.ok()) return grammar.status().message();
    grammar::Matcher matcher(*grammar);
    const std::string call = "<tool_call>\n{\"name\": \"f\", \"arguments\": " + arguments + "}\n</tool_call>";
    return std::string(matcher.accept(call) && matcher.may_end() ? "yes" : "no");
  };
  const Json anything = Json::object();
  const Json nullable = Json::parse(R"({"type": ["object", "null"], "properties": {"a": {"type": "integer"}}})");
  const Json choice = Json::parse(R"({"anyOf": [{"type": "string"}, {"properties": {"a": {"type": "integer"}}}]})");
  const Json array = Json::parse(R"({"type": "array"})");
  EXPECT_EQ(accepts(nullptr, "{}"), "yes");
  EXPECT_EQ(accepts(nullptr, R"({"a": 1})"), "no");
  EXPECT_EQ(accepts(&anything, R"({"a": [1]})"), "yes");
  EXPECT_EQ(accepts(&anything, "5"), "no");
  EXPECT_EQ(accepts(&nullable, R"({"a": 1})"), "yes");
  EXPECT_EQ(accepts(&nullable, "null"), "no");
  EXPECT_EQ(accepts(&choice, R"({"a": 1})"), "yes");
  EXPECT_EQ(accepts(&choice, "\"a\""), "no");
  EXPECT_THAT(accepts(&array, "[]"), testing::HasSubstr("tool \"f\": its parameters must be of the type \"object\""));
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
