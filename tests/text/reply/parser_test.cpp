// What every format has in common: reasoning, what is no call after all, what is held back, and limits.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "reply_tools.h"
#include "server/text/reply/json_scanner.h"
#include "server/text/reply/reply_format.h"

namespace twostroke::reply {
namespace {

ParseOptions tools_of(const std::vector<std::string>& names) {
  ParseOptions options;
  options.tool_calls = true;
  options.tool_names = names;
  return options;
}

Reply parse_hermes(std::string_view text, const ParseOptions& options = tools_of({"get"})) {
  return parse_in_every_way(parser_of_format("hermes", options), text);
}

TEST(ReplyParser, TakesNothingForACallWithoutTools) {
  const std::string text = "\n<tool_call>\n{\"name\": \"get\", \"arguments\": {}}\n</tool_call>\n";
  EXPECT_EQ(parse_hermes(text, {}).content, text);
}

TEST(ReplyParser, GivesBackWhatIsNoCall) {
  for (const std::string text : {
           "<tool_call>",
           "<tool_call>\n",
           "a <tool_call b",
           "<tool_call>\n{\"name\": \"unknown\", \"arguments\": {\"a\": 1}}\n</tool_call> x",
           "<tool_call>\n{\"nam\": \"get\"}\n</tool_call>",
           "<tool_call>\n{\"name\": 5, \"arguments\": {}}",
           "<tool_call>{\"name\": \"get\", \"arguments\": 5}",
           "<tool_call>{\"name\": \"get\" \"arguments\": {}}",
           "<tool_call>{\"name\": \"get\", }</tool_call>",
           "<tool_call>{\"name\": \"",
           "text with < and <tool_ and \n\n <tool_call",
           "<tool_call>[1]</tool_call>",
           "1 <think> 2 </think> 3",
           "   indented",
           "\n\n\n",
       }) {
    EXPECT_EQ(parse_hermes(text), (Reply{text, {}, ""})) << text;
  }
}

TEST(ReplyParser, FindsTheCallBehindAFalseStart) {
  const std::string call = "<tool_call>\n{\"name\": \"get\", \"arguments\": {}}\n</tool_call>";
  const std::vector<Call> calls = {{"get", "{}", ""}};
  EXPECT_EQ(parse_hermes("<tool_call>\n" + call), (Reply{"<tool_call>", calls, ""}));
  EXPECT_EQ(parse_hermes("<tool_<" + call), (Reply{"<tool_<", calls, ""}));
  EXPECT_EQ(parse_hermes("<tool_call>{\"name\": " + call), (Reply{"<tool_call>{\"name\": ", calls, ""}));
  EXPECT_EQ(parse_hermes("<tool_call>\n<function=" + call), (Reply{"<tool_call>\n<function=", calls, ""}));
  // The end is missing.
  EXPECT_EQ(parse_hermes("<tool_call>\n{\"name\": \"get\", \"arguments\": {}}\n" + call),
            (Reply{"", {{"get", "{}", ""}, {"get", "{}", ""}}, ""}));
}

TEST(ReplyParser, DropsTheBeginningOfAnotherCallThatTheTextEndsIn) {
  const std::string call = "<tool_call>\n{\"name\": \"get\", \"arguments\": {}}\n</tool_call>";
  const std::vector<Call> calls = {{"get", "{}", ""}};
  for (const std::string end : {"\n<tool", "\n<tool_call>", "<tool_call>\n{\"name\": \"g"}) {
    EXPECT_EQ(parse_hermes(call + end), (Reply{"", calls, ""})) << end;
  }
  EXPECT_EQ(parse_hermes(call + "\nso <tool"), (Reply{"so <tool", calls, ""})) << "content has begun";
  EXPECT_EQ(parse_hermes(call + "<tin"), (Reply{"<tin", calls, ""})) << "no marker begins so";
}

TEST(ReplyParser, KeepsACallWhoseArgumentsBreak) {
  const Reply reply = parse_hermes("<tool_call>{\"name\": \"get\", \"arguments\": {\"a\": 1 \"b\"}}</tool_call>");
  EXPECT_EQ(reply, (Reply{"\"b\"}}</tool_call>", {{"get", "{\"a\": 1 ", ""}}, ""}));
  EXPECT_EQ(parse_hermes("<tool_call>{\"name\": \"get\", \"arguments\": {\"a\": \"x"),
            (Reply{"", {{"get", "{\"a\": \"x", ""}}, ""}));
  // Tags: the object is made whole.
  EXPECT_EQ(parse_in_every_way(parser_of_format("qwen-xml", tools_of({"get"})),
                               "<tool_call><function=get><parameter=a>1</parameter>oops"),
            (Reply{"oops", {{"get", "{\"a\": 1}", ""}}, ""}));
}

TEST(ReplyParser, EscapesLineFeedsThatAModelLeavesInStrings) {
  const Reply reply = parse_hermes("<tool_call>{\"name\": \"get\", \"arguments\": {\"a\": \"1\n2\"}}</tool_call>");
  EXPECT_EQ(reply.calls, (std::vector<Call>{{"get", "{\"a\": \"1\\n2\"}", ""}}));
}

TEST(ReplyParser, TakesReasoningApart) {
  const ParseOptions plain;
  EXPECT_EQ(parse_hermes("<think>\nWhy?\n</think>\n\nSo.", plain), (Reply{"So.", {}, "Why?"}));
  EXPECT_EQ(parse_hermes("\n<think>Why?</think>So.", plain), (Reply{"So.", {}, "Why?"}));
  EXPECT_EQ(parse_hermes("<think>\n\n</think>\n\nSo.", plain), (Reply{"So.", {}, ""}));
  EXPECT_EQ(parse_hermes("<think>a\n\nb</thin", plain), (Reply{"", {}, "a\n\nb</thin"}));
  EXPECT_EQ(parse_hermes("</think>So.", plain), (Reply{"So.", {}, ""}));
  EXPECT_EQ(parse_hermes("So, <think> it is.", plain), (Reply{"So, <think> it is.", {}, ""}));
}

TEST(ReplyParser, StartsWithinReasoningThatThePromptOpened) {
  ParseOptions options;
  options.prompt_end = "<|im_start|>assistant\n<think>\n";
  EXPECT_EQ(parse_hermes("Why?\n</think>\n\nSo.", options), (Reply{"So.", {}, "Why?"}));
  EXPECT_EQ(parse_hermes("Why", options), (Reply{"", {}, "Why"}));
  options.prompt_end += "\n</think>\n\n";
  EXPECT_EQ(parse_hermes("So.", options), (Reply{"So.", {}, ""}));
}

TEST(ReplyParser, LeavesReasoningInTheContentWhereThatIsWanted) {
  ParseOptions options = tools_of({"get"});
  options.reasoning = false;
  const std::string text = "<think>\nWhy?\n</think>\n\nSo.";
  EXPECT_EQ(parse_hermes(text, options), (Reply{text, {}, ""}));
  options.prompt_end = "<think>";
  EXPECT_EQ(parse_hermes("<tool_call>\n</think>\nSo.", options), (Reply{"<tool_call>\n</think>\nSo.", {}, ""}));
}

TEST(ReplyParser, FindsNoCallWithinReasoning) {
  const std::string call = "<tool_call>{\"name\": \"get\", \"arguments\": {}}</tool_call>";
  EXPECT_EQ(parse_hermes("<think>" + call + "</think>" + call), (Reply{"", {{"get", "{}", ""}}, call}));
}

TEST(ReplyParser, HoldsExactlyWhatMayBecomeAMarker) {
  const auto parser = parser_of_format("hermes", tools_of({"get"}))();
  EXPECT_EQ(parser->push("Hello\n\n").content, "Hello\n");  // one line feed may belong to a marker
  EXPECT_EQ(parser->push("<tool").content, "");
  EXPECT_EQ(parser->push("s").content, "\n<tools");
  EXPECT_EQ(parser->push(" <").content, " ");
  EXPECT_EQ(parser->push("b>").content, "<b>");
  EXPECT_EQ(parser->push("<tool_call>\n{\"name\": \"get\", ").content, "");
  const ReplyDelta begun = parser->push("\"arguments\": {");
  ASSERT_EQ(begun.tool_calls.size(), 1u);
  EXPECT_TRUE(begun.tool_calls[0].begins);
  EXPECT_EQ(begun.tool_calls[0].name, "get");
  EXPECT_EQ(begun.tool_calls[0].arguments, "{");
  const ReplyDelta more = parser->push("\"a\": \"xy");
  ASSERT_EQ(more.tool_calls.size(), 1u);
  EXPECT_FALSE(more.tool_calls[0].begins);
  EXPECT_EQ(more.tool_calls[0].arguments, "\"a\": \"xy");
  EXPECT_TRUE(parser->push("\n").tool_calls[0].arguments == "\\n");
}

TEST(ReplyParser, StreamsTaggedStringsWhoseTypeIsKnown) {
  const auto schema = nlohmann::ordered_json::parse(R"({"properties": {"a": {"type": "string"}}})");
  ParseOptions options = tools_of({"get"});
  options.tool_parameters = {&schema};
  const auto parser = parser_of_format("qwen-xml", options)();
  parser->push("<tool_call><function=get><parameter=a>\n");
  EXPECT_EQ(parser->push("long text\n").tool_calls.at(0).arguments, "long text");
  EXPECT_EQ(parser->push("more").tool_calls.at(0).arguments, "\\nmore");
}

TEST(ReplyParser, BoundsTheCallsOfATurn) {
  const std::string call = "<tool_call>{\"name\": \"get\", \"arguments\": {}}</tool_call>";
  std::string text;
  for (size_t i = 0; i < kCallsMax + 1; ++i) text += call;
  const Reply reply = parse(parser_of_format("hermes", tools_of({"get"})), text);
  EXPECT_EQ(reply.calls.size(), kCallsMax);
  EXPECT_EQ(reply.content, call);
}

TEST(ReplyParser, BoundsWhatItHolds) {
  const std::string long_value(kHeldBytesMax + 10, 'x');
  // In front of the name: given back.
  const std::string early = "<tool_call>{\"arguments\": {\"a\": \"" + long_value;
  EXPECT_EQ(parse(parser_of_format("hermes", tools_of({"get"})), early + "\"}, \"name\": \"get\"}").calls.size(), 0u);
  // White space in front of a call.
  const auto parser = parser_of_format("hermes", tools_of({"get"}))();
  EXPECT_GT(parser->push(std::string(2 * kHeldSpaceMax, ' ')).content.size(), kHeldSpaceMax / 2);
  EXPECT_GT(parser->push("<tool_call>" + std::string(3 * kHeldBytesMax, ' ')).content.size(), kHeldBytesMax);
  // A value whose type is open becomes a string.
  const Reply reply = parse(parser_of_format("qwen-xml", tools_of({"get"})),
                            "<tool_call><function=get><parameter=a>[" + long_value + "]</parameter></function>");
  EXPECT_EQ(reply.calls.at(0).arguments, "{\"a\": \"[" + long_value + "]\"}");
}

TEST(ReplyParser, BoundsTheDepthOfArguments) {
  const std::string deep(100'000, '[');
  const Reply json = parse(parser_of_format("hermes", tools_of({"get"})),
                           "<tool_call>{\"name\": \"get\", \"arguments\": {\"a\": " + deep);
  EXPECT_EQ(json.calls.at(0).arguments.size(), std::string("{\"a\": ").size() + kJsonDepthMax - 1);
  EXPECT_GT(json.content.size(), 90'000u);
  const Reply python = parse(parser_of_format("lfm2", tools_of({"get"})), "<|tool_call_start|>[get(a=" + deep);
  EXPECT_LT(python.calls.at(0).arguments.size(), 200u);
}

// Whatever a model writes out of pieces of markers and JSON: nothing depends on how it was cut, and what did not become
// a call or a marker comes out as it was.
TEST(ReplyParser, NeverDependsOnHowTheTextWasCut) {
  const std::vector<std::string> pieces = {"<tool_call>",
                                           "</tool_call>",
                                           "<tool_calls>",
                                           "<think>",
                                           "</think>",
                                           "\n",
                                           " ",
                                           "{\"name\": \"get\"",
                                           "{\"name\": \"get\", \"arguments\": {\"b\": [2]}}",
                                           "{\"get\": {}}",
                                           "<tool_call>\n{\"name\": \"get\", \"arguments\": ",
                                           "<|tools_prefix|>[",
                                           "<|tool_call|>[",
                                           "<|START_ACTION|>[",
                                           ", ",
                                           "\"arguments\": ",
                                           "{\"a\": [1, \"x\"]}",
                                           "{",
                                           "}",
                                           "]",
                                           "[",
                                           "[TOOL_CALLS]",
                                           "[ARGS]",
                                           "get",
                                           "<function=get>",
                                           "<parameter=a>",
                                           "</parameter>",
                                           "</function>",
                                           "text",
                                           "é",
                                           "\"",
                                           "<|python_tag|>",
                                           "get.call(a=1)",
                                           ";",
                                           "<｜tool▁calls▁begin｜>",
                                           "<｜tool▁call▁begin｜>",
                                           "<｜tool▁sep｜>",
                                           "<|tool_call_start|>",
                                           "(a='b')",
                                           "<",
                                           "<|channel|>analysis<|message|>",
                                           "<|channel|>commentary to=functions.get<|message|>",
                                           "<|end|>",
                                           "<|start|>",
                                           "<arg_key>a</arg_key>",
                                           "<arg_value>1</arg_value>"};
  const unsigned seed = 5;
  std::mt19937 random(seed);
  size_t calls = 0;
  for (const ReplyFormat& format : known_formats()) {
    for (int round = 0; round < 500; ++round) {
      std::string text;
      for (int i = 0; i < 12; ++i) text += pieces[random() % pieces.size()];
      const auto parser = parser_of_format(format.name, tools_of({"get"}));
      const Reply whole = parse(parser, text);
      std::vector<size_t> cuts;
      for (size_t i = 1; i < text.size(); ++i) {
        if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) cuts.push_back(i);
      }
      ASSERT_EQ(parse(parser, text, cuts), whole) << format.name << " seed " << seed << ": " << text;
      calls += whole.calls.size();
    }
  }
  EXPECT_GT(calls, 50u);
}

TEST(JsonScanner, AgreesWithAJsonLibrary) {
  const std::vector<std::string> pieces = {
      "{",    "}",   "[",    "]", ",",  ":", "\"a\"", "\"\\u00e9\\n\"", "\"\\x\"", "1", "-0.5", "01", "1.",
      "true", "nul", "null", " ", "\n", "-", "\"",    "{\"k\": 2}",     "[1e-5]"};
  const unsigned seed = 3;
  std::mt19937 random(seed);
  int valid = 0;
  for (int round = 0; round < 60000; ++round) {
    std::string text;
    const size_t count = 1 + random() % 7;
    for (size_t i = 0; i < count; ++i) text += pieces[random() % pieces.size()];
    // What it allows beyond JSON.
    bool in_string = false;
    bool control_in_string = false;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '"' && (i == 0 || text[i - 1] != '\\')) in_string = !in_string;
      control_in_string = control_in_string || (in_string && text[i] == '\n');
    }
    if (control_in_string) continue;
    const bool expected = nlohmann::json::accept(text);
    ASSERT_EQ(is_json(text), expected) << text << " seed " << seed;
    valid += expected ? 1 : 0;
  }
  EXPECT_GT(valid, 3000);
}

}  // namespace
}  // namespace twostroke::reply
