// What is found out about a template, and what the server is told of it.
#include "server/text/reply/reply_syntax.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "reply_tools.h"

namespace twostroke::reply {
namespace {

using Json = nlohmann::ordered_json;

// A template of a family that nobody has heard of: `call` writes one call `c`.
std::string unknown_template(const std::string& before, const std::string& call, const std::string& between,
                             const std::string& after) {
  return "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% if m.tool_calls %}" + before +
         "{% for c in m.tool_calls %}" + call + "{% if not loop.last %}" + between + "{% endif %}{% endfor %}" + after +
         "{% endif %}[over]{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";
}

ParseOptions with_get() {
  ParseOptions options;
  options.tool_calls = true;
  options.tool_names = {"get"};
  return options;
}

Reply read(const std::string& source, const std::string& text) {
  const auto tokenizer = byte_tokenizer();
  const auto syntax = ReplySyntax::detect(source, *tokenizer);
  EXPECT_EQ(syntax->name(), "template");
  const ParseOptions options = with_get();
  return parse_in_every_way(parser_of(*syntax, options), text);
}

const Reply kTwo{"So:", {{"get", R"({"a": 1})", ""}, {"get", "{}", ""}}, ""};

TEST(ReplySyntax, TakesObjectsBetweenMarkersFromTheTemplate) {
  const std::string object = R"({{ {"fn": c.function.name, "input": c.function.arguments} | tojson }})";
  EXPECT_EQ(read(unknown_template("", "@@" + object + "##\n", "", ""),
                 "So:@@{\"fn\": \"get\", \"input\": {\"a\": 1}}##\n@@{\"fn\": \"get\", \"input\": {}}##\n"),
            kTwo);
  EXPECT_EQ(read(unknown_template(R"({{ "\n<<CALLS>>\n[" }})", object, ", ", R"({{ "]\n<<END>>" }})"),
                 "So:\n<<CALLS>>\n[{\"fn\": \"get\", \"input\": {\"a\": 1}}, {\"input\": {}, \"fn\": \"get\"}]<<END>>"),
            kTwo);
}

TEST(ReplySyntax, TakesNamedArgumentsBetweenMarkersFromTheTemplate) {
  const std::string call = "<call {{ c.function.name }}>{{ c.function.arguments | tojson }}</call>";
  EXPECT_EQ(read(unknown_template("", call, "", ""), "So:<call get>{\"a\": 1}</call><call get>{}</call>"), kTwo);
  EXPECT_EQ(read(unknown_template("<all>", call, R"({{ "\n" }})", "</all>"),
                 "So:<all><call get>{\"a\": 1}</call>\n<call get>{}</call></all>"),
            kTwo);
}

TEST(ReplySyntax, IsNotMisledByMarkersThatAKnownFormatHasToo) {
  const std::string object = R"({{ {"fn": c.function.name, "input": c.function.arguments} | tojson }})";
  EXPECT_EQ(read(unknown_template("", "<tool_call>" + object + "</tool_call>", "", ""),
                 "So:<tool_call>{\"fn\": \"get\", \"input\": {\"a\": 1}}</tool_call><tool_call>{\"fn\": \"get\", "
                 "\"input\": {}}</tool_call>"),
            kTwo);
  const std::string llama = R"({{ {"name": c.function.name, "parameters": c.function.arguments} | tojson }})";
  EXPECT_EQ(read(unknown_template("", "<use>" + llama + "</use>", "", ""),
                 "So:<use>{\"name\": \"get\", \"parameters\": {\"a\": 1}}</use><use>{\"name\": \"get\", "
                 "\"parameters\": {}}</use>"),
            kTwo);
}

TEST(ReplySyntax, IsGenericForATemplateWithoutCallsAndForNone) {
  const auto tokenizer = byte_tokenizer();
  for (const std::string source : {"", "{% for m in messages %}{{ m.content }}{% endfor %}", "{% broken"}) {
    const auto syntax = ReplySyntax::detect(source, *tokenizer);
    EXPECT_EQ(syntax->name(), "generic");
    EXPECT_FALSE(syntax->template_uses_tools());
    EXPECT_EQ(syntax->call_id_bytes(), 0u);
    const ParseOptions options = with_get();
    EXPECT_EQ(parse(parser_of(*syntax, options), "<think>x</think>").content, "<think>x</think>");
    const Reply reply =
        parse(parser_of(*syntax, options), "<tool_call>\n{\"name\": \"get\", \"arguments\": {}}\n</tool_call>");
    EXPECT_EQ(reply, (Reply{"", {{"get", "{}", ""}}, ""}));
  }
}

TEST(ReplySyntax, KnowsReasoningByTheVocabulary) {
  const auto tokenizer = byte_tokenizer({"<think>", "</think>"});
  const auto syntax = ReplySyntax::detect("", *tokenizer);
  EXPECT_EQ(parse(parser_of(*syntax, {}), "<think>x</think>y"), (Reply{"y", {}, "x"}));
}

TEST(ReplySyntax, NamesTheControlTokensThatItReads) {
  const auto tokenizer =
      byte_tokenizer({"<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|call|>", "<|other|>"});
  const auto syntax = ReplySyntax::detect(
      "<|start|>assistant<|channel|>analysis<|message|>{{ messages[0].content }}<|end|>", *tokenizer);
  EXPECT_EQ(syntax->name(), "harmony");
  const std::vector<TokenId> markers(syntax->marker_tokens().begin(), syntax->marker_tokens().end());
  EXPECT_EQ(markers, (std::vector<TokenId>{257, 258, 259, 260, 261}));
  EXPECT_TRUE(syntax->extra_stop_tokens().empty());  // every tokenizer knows <|call|> for an end
}

TEST(ReplySyntax, NamesTheTokensThatEndATurnOfItsOwn) {
  const auto tokenizer = byte_tokenizer({"<|tool_call>", "<tool_call|>", "<|tool_response>"});
  const auto syntax = ReplySyntax::detect("<|tool_call>call:{{ messages[0].content }}<tool_call|>", *tokenizer);
  EXPECT_EQ(syntax->name(), "gemma4");
  const std::vector<TokenId> stops(syntax->extra_stop_tokens().begin(), syntax->extra_stop_tokens().end());
  EXPECT_EQ(stops, (std::vector<TokenId>{259}));
}

TEST(ReplySyntax, ReadsMiniMaxsNestedElements) {
  const std::string mark = "]<]minimax[>[";
  const std::string text = mark + "<tool_call>" + mark + "<invoke name=\"get\">" + mark + "<a>" + mark + "<b>x" + mark +
                           "</b>" + mark + "<a>" + mark + "<item>1" + mark + "</item>" + mark + "<item>true" + mark +
                           "</item>" + mark + "</a>" + mark + "</a>" + mark + "</invoke>" + mark + "</tool_call>";
  const Reply reply = parse_in_every_way(parser_of_format("minimax-m3", with_get()), text);
  ASSERT_EQ(reply.calls.size(), 1u) << reply;
  EXPECT_EQ(reply.calls[0].arguments, R"({"a": {"b": "x", "a": [1, true]}})");
}

TEST(ToolsPrompt, NamesEveryToolAndTheGenericForm) {
  const Json tools =
      Json::parse(R"([{"type": "function", "function": {"name": "get", "parameters": {"type": "object"}}},
                                     {"type": "function", "function": {"name": "set"}}])");
  const std::string text = tools_prompt(tools);
  for (const Json& tool : tools) EXPECT_NE(text.find(tool.dump()), std::string::npos);
  EXPECT_NE(text.find("<tool_call>\n{\"name\": "), std::string::npos);
}

}  // namespace
}  // namespace twostroke::reply
