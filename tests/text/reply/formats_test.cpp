// Each family's turns as its models write them, whole and cut everywhere.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "reply_tools.h"

namespace twostroke::reply {
namespace {

using Json = nlohmann::ordered_json;

const Json& weather_schema() {
  static const Json schema = Json::parse(R"({"type": "object", "properties": {
    "city": {"type": "string"}, "days": {"type": "integer"}, "exact": {"type": "boolean"}, "tags": {"type": "array"},
    "mixed": {"type": ["string", "null"]}}})");
  return schema;
}

ParseOptions with_tools() {
  ParseOptions options;
  options.tool_calls = true;
  options.tool_names = {"get", "set"};
  options.tool_parameters = {&weather_schema()};
  return options;
}

struct Turn {
  const char* format;
  const char* text;
  Reply reply;
};

void expect_all(const std::vector<Turn>& turns, const ParseOptions& options = with_tools()) {
  for (const Turn& turn : turns) {
    SCOPED_TRACE(std::string(turn.format) + ": " + turn.text);
    EXPECT_EQ(parse_in_every_way(parser_of_format(turn.format, options), turn.text), turn.reply);
  }
}

TEST(ReplyFormats, ReadOneCall) {
  const std::string args = R"({"city": "Oslo", "days": 3})";
  const Reply one{"", {{"get", args, ""}}, ""};
  const Reply led{"Let me see.", {{"get", args, ""}}, ""};
  const Reply with_id{"", {{"get", args, "a1b2c3d4e"}}, ""};
  expect_all({
      {"hermes", "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"city\": \"Oslo\", \"days\": 3}}\n</tool_call>",
       one},
      {"hermes",
       "Let me see.\n<tool_call>{\"name\":\"get\",\"arguments\":{\"city\": \"Oslo\", \"days\": 3}}</tool_call>", led},
      {"hermes", "<tool_call>{\"arguments\": {\"city\": \"Oslo\", \"days\": 3}, \"name\": \"get\"}</tool_call>", one},
      {"hermes", "<tool_call>{\"name\": \"get\", \"arguments\": \"{\\\"city\\\": \\\"Oslo\\\", \\\"days\\\": 3}\"}",
       one},
      {"qwen-xml",
       "Let me see.\n<tool_call>\n<function=get>\n<parameter=city>\nOslo\n</parameter>\n<parameter=days>\n3\n"
       "</parameter>\n</function>\n</tool_call>",
       led},
      {"qwen-xml", "<function=get><parameter=city>Oslo</parameter><parameter=days>3</parameter></function>", one},
      {"llama3", "{\"name\": \"get\", \"parameters\": {\"city\": \"Oslo\", \"days\": 3}}", one},
      {"llama3", " {\"type\": \"function\", \"name\": \"get\", \"parameters\": {\"city\": \"Oslo\", \"days\": 3}}",
       one},
      {"llama3", "<|python_tag|>{\"name\": \"get\", \"parameters\": {\"city\": \"Oslo\", \"days\": 3}}", one},
      {"llama3", "<|python_tag|>get.call(city=\"Oslo\", days=3)", one},
      {"functionary-v3.1", "<function=get>{\"city\": \"Oslo\", \"days\": 3}</function>", one},
      {"mistral", "[TOOL_CALLS][{\"name\": \"get\", \"arguments\": {\"city\": \"Oslo\", \"days\": 3}, \"id\": \"x\"}]",
       one},
      {"mistral",
       "[TOOL_CALLS] [{\"id\": \"a1b2c3d4e\", \"name\": \"get\", \"arguments\": {\"city\": \"Oslo\", \"days\": 3}}]",
       with_id},
      {"mistral-args", "[TOOL_CALLS]get[ARGS]{\"city\": \"Oslo\", \"days\": 3}", one},
      {"mistral-args", "Let me see.[TOOL_CALLS]get[ARGS]{\"city\": \"Oslo\", \"days\": 3}", led},
      {"mistral-args", "[TOOL_CALLS]get[CALL_ID]a1b2c3d4e[ARGS]{\"city\": \"Oslo\", \"days\": 3}", with_id},
      {"granite", "<|tool_call|>[{\"name\": \"get\", \"arguments\": {\"city\": \"Oslo\", \"days\": 3}}]", one},
      {"deepseek-r1",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get\n```json\n{\"city\": \"Oslo\", \"days\": "
       "3}\n```"
       "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       one},
      {"deepseek-v3.1",
       "Let me see.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get<｜tool▁sep｜>{\"city\": \"Oslo\", \"days\": 3}"
       "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       led},
      {"deepseek-v3.2",
       "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get\">\n<｜DSML｜parameter name=\"city\" string=\"true\">Oslo"
       "</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" "
       "string=\"false\">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
       "</｜DSML｜function_calls>",
       one},
      {"deepseek-v4",
       "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get\">\n<｜DSML｜parameter name=\"city\" string=\"true\">Oslo"
       "</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" "
       "string=\"false\">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
       "</｜DSML｜tool_calls>",
       one},
      {"kimi-k2",
       "Let me see.<|tool_calls_section_begin|><|tool_call_begin|>functions.get:0<|tool_call_argument_begin|>"
       "{\"city\": \"Oslo\", \"days\": 3}<|tool_call_end|><|tool_calls_section_end|>",
       {"Let me see.", {{"get", args, "functions.get:0"}}, ""}},
      {"glm",
       "<tool_call>get\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3"
       "</arg_value>\n</tool_call>",
       one},
      {"glm",
       "<tool_call>get<arg_key>city</arg_key><arg_value>Oslo</arg_value><arg_key>days</arg_key><arg_value>3</arg_value>"
       "</tool_call>",
       one},
      {"minimax-m1",
       "<tool_calls>\n{\"name\": \"get\", \"arguments\": {\"city\": \"Oslo\", \"days\": 3}}\n</tool_calls>", one},
      {"minimax-m2",
       "<minimax:tool_call>\n<invoke name=\"get\">\n<parameter name=\"city\">Oslo</parameter>\n<parameter "
       "name=\"days\">3"
       "</parameter>\n</invoke>\n</minimax:tool_call>",
       one},
      {"minimax-m3",
       "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"get\">]<]minimax[>[<city>Oslo]<]minimax[>[</city>"
       "]<]minimax[>[<days>3]<]minimax[>[</days>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
       one},
      {"minicpm5", "<function name=\"get\"><param name=\"city\">Oslo</param><param name=\"days\">3</param></function>",
       one},
      {"gemma4", "<|tool_call>call:get{city:<|\"|>Oslo<|\"|>,days:3}<tool_call|>", one},
      {"lfm2",
       "<|tool_call_start|>[get(city=\"Oslo\", days=3)]<|tool_call_end|>Let me see.",
       {"Let me see.", {{"get", args, ""}}, ""}},
      {"apertus", "<|tools_prefix|>[{\"get\": {\"city\": \"Oslo\", \"days\": 3}}]<|tools_suffix|>", one},
      {"cohere",
       "<|START_ACTION|>[\n    {\"tool_call_id\": \"a1b2c3d4e\", \"tool_name\": \"get\", \"parameters\": {\"city\": "
       "\"Oslo\", "
       "\"days\": 3}}\n]<|END_ACTION|>",
       one},
      {"nemotron", "<TOOLCALL>[{\"name\": \"get\", \"arguments\": {\"city\": \"Oslo\", \"days\": 3}}]</TOOLCALL>", one},
      {"gigachat3",
       "Let me see.<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"get\", \"arguments\": {\"city\": "
       "\"Oslo\", \"days\": "
       "3}}<|message_sep|>\n\n",
       led},
      {"hy3",
       "<tool_calls:opensource>\n<tool_call:opensource>get<tool_sep:opensource>\n<arg_key:opensource>city"
       "</arg_key:opensource>\n<arg_value:opensource>Oslo</arg_value:opensource>\n<arg_key:opensource>days"
       "</arg_key:opensource>\n<arg_value:opensource>3</arg_value:opensource>\n</tool_call:opensource>\n"
       "</tool_calls:opensource>",
       one},
      {"generic", "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"city\": \"Oslo\", \"days\": 3}}\n</tool_call>\n",
       one},
  });
}

TEST(ReplyFormats, ReadSeveralCallsWithReasoningAndContent) {
  const Reply two{"Both.", {{"get", R"({"city":"A"})", ""}, {"set", "{}", ""}}, "First this.\nThen that."};
  expect_all({
      {"hermes",
       "<think>\nFirst this.\nThen that.\n</think>\n\nBoth.\n<tool_call>\n{\"name\": \"get\", \"arguments\": "
       "{\"city\":\"A\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"set\"}\n</tool_call>\n",
       two},
      {"mistral",
       "<think>First this.\nThen that.</think>Both.\n[TOOL_CALLS][{\"name\": \"get\", \"arguments\": "
       "{\"city\":\"A\"}}, "
       "{\"name\": \"set\", \"arguments\": {}}]",
       two},
      {"mistral-args",
       "<think>First this.\nThen that.</think>Both.[TOOL_CALLS]get[ARGS]{\"city\":\"A\"}[TOOL_CALLS]set[ARGS]{}", two},
      {"llama3",
       "{\"name\": \"get\", \"parameters\": {\"city\":\"A\"}}; {\"name\": \"set\", \"parameters\": {}}",
       {"", two.calls, ""}},
      {"kimi-k2",
       "<think>First this.\nThen that.</think>Both.<|tool_calls_section_begin|><|tool_call_begin|>get"
       "<|tool_call_argument_begin|>{\"city\":\"A\"}<|tool_call_end|><|tool_call_begin|>set<|tool_call_argument_begin|>"
       "{}"
       "<|tool_call_end|><|tool_calls_section_end|>",
       {"Both.", {{"get", R"({"city":"A"})", "get"}, {"set", "{}", "set"}}, "First this.\nThen that."}},
      {"glm",
       "<think>First this.\nThen that.</think>Both.\n<tool_call>get<arg_key>city</arg_key><arg_value>A</arg_value>"
       "</tool_call><tool_call>set</tool_call>",
       {"Both.", {{"get", R"({"city": "A"})", ""}, {"set", "{}", ""}}, "First this.\nThen that."}},
      {"lfm2",
       "<|tool_call_start|>[get(city='A'), set()]<|tool_call_end|>",
       {"", {{"get", R"({"city": "A"})", ""}, {"set", "{}", ""}}, ""}},
      {"minimax-m1",
       "<tool_calls>\n{\"name\": \"get\", \"arguments\": {\"city\":\"A\"}}\n{\"name\": \"set\", \"arguments\": {}}\n"
       "</tool_calls>",
       {"", two.calls, ""}},
  });
}

TEST(ReplyFormats, TypeTaggedValuesByTheSchema) {
  const auto get = [](const std::string& parameters) {
    return "<tool_call>\n<function=get>\n" + parameters + "</function>\n</tool_call>";
  };
  const std::string text = get(
      "<parameter=city>\n5\n</parameter>\n<parameter=days>\n5\n</parameter>\n<parameter=exact>\nTrue\n</parameter>\n"
      "<parameter=tags>\n[\"a\", {\"b\": null}]\n</parameter>\n<parameter=mixed>\nnull\n</parameter>\n"
      "<parameter=other>\n\nline \"1\"\n</para\n\n</parameter>\n");
  const Reply reply = parse_in_every_way(parser_of_format("qwen-xml", with_tools()), text);
  ASSERT_EQ(reply.calls.size(), 1u);
  EXPECT_EQ(reply.calls[0].arguments,
            R"({"city": "5", "days": 5, "exact": true, "tags": ["a", {"b": null}], "mixed": null, )"
            R"("other": "\nline \"1\"\n</para\n"})");
}

TEST(ReplyFormats, ReadPythonsLiterals) {
  const std::string text =
      R"(<|tool_call_start|>[get(a='it\'s', b="\u00e9\n\x41", c=[1, -2.5e3, (None, True),], d={"k": {'x': False}}, e=1,)])"
      "<|tool_call_end|>";
  const Reply reply = parse_in_every_way(parser_of_format("lfm2", with_tools()), text);
  ASSERT_EQ(reply.calls.size(), 1u) << reply;
  EXPECT_EQ(reply.calls[0].arguments,
            R"({"a": "it's", "b": "é\nA", "c": [1, -2.5e3, [null, true]], "d": {"k": {"x": false}}, "e": 1})");
}

TEST(ReplyFormats, ReadGemmasObjects) {
  const std::string text =
      "<|tool_call>call:get{city:<|\"|>a \"b\" "
      "<|c<|\"|>,list:[1,<|\"|>x<|\"|>,{k:true}],none:null,empty:{}}<tool_call|>";
  const Reply reply = parse_in_every_way(parser_of_format("gemma4", with_tools()), text);
  ASSERT_EQ(reply.calls.size(), 1u) << reply;
  EXPECT_EQ(reply.calls[0].arguments,
            R"({"city": "a \"b\" <|c", "list": [1, "x", {"k": true}], "none": null, "empty": {}})");
}

TEST(ReplyFormats, ReadCharacterDataSections) {
  const std::string text =
      "<function name=\"get\"><param name=\"city\"><![CDATA[a </param> & <b>\n]]></param><param name=\"days\">7</param>"
      "</function>";
  const Reply reply = parse_in_every_way(parser_of_format("minicpm5", with_tools()), text);
  ASSERT_EQ(reply.calls.size(), 1u) << reply;
  EXPECT_EQ(reply.calls[0].arguments, R"({"city": "a </param> & <b>\n", "days": 7})");
}

TEST(Harmony, GivesEachChannelItsPlace) {
  ParseOptions options = with_tools();
  options.prompt_end = "<|start|>assistant";
  expect_all(
      {
          {"harmony",
           "<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>final<|message|>Hello.<|return|>",
           {"Hello.", {}, "Think."}},
          {"harmony",
           "<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>commentary to=functions.get "
           "<|constrain|>json<|message|>{\"city\":\"A\"}<|call|>",
           {"", {{"get", "{\"city\":\"A\"}", ""}}, "Think."}},
          {"harmony",
           " to=functions.get<|channel|>commentary <|constrain|>json<|message|>{\"city\":\"A\"}",
           {"", {{"get", "{\"city\":\"A\"}", ""}}, ""}},
          {"harmony",
           "<|channel|>commentary<|message|>I will look.<|end|><|start|>assistant<|channel|>commentary to=functions.get"
           "<|message|>{}<|call|>",
           {"I will look.", {{"get", "{}", ""}}, ""}},
          {"harmony",
           "<|channel|>commentary to=functions.unknown<|message|>{}<|call|>",
           {"<|channel|>commentary to=functions.unknown<|message|>{}", {}, ""}},
          {"harmony", "Plain text.", {"Plain text.", {}, ""}},
          {"harmony", "<|channel|>fin", {"", {}, ""}},
      },
      options);
}

TEST(Harmony, KeepsReasoningInTheContentWhereThatIsWanted) {
  ParseOptions options = with_tools();
  options.reasoning = false;
  expect_all({{"harmony",
               "<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>final<|message|>Hello.",
               {"<|channel|>analysis<|message|>Think.<|end|>Hello.", {}, ""}}},
             options);
}

TEST(Muse, GivesEachRecipientItsPlace) {
  ParseOptions options = with_tools();
  options.prompt_end = "<|start|>assistant";
  expect_all(
      {{"muse",
        " to=self<|message|>Think.<|eom|><|start|>assistant to=get<|message|><atem:function_calls>\n<atem:invoke "
        "name=\"get\">\n<atem:parameter name=\"city\">A</atem:parameter>\n</atem:invoke>\n</atem:function_calls><|eom|>"
        "<|start|>assistant to=set<|message|><atem:function_calls>\n<atem:invoke name=\"set\">\n</atem:invoke>\n"
        "</atem:function_calls><|eot|>",
        {"", {{"get", R"({"city": "A"})", ""}, {"set", "{}", ""}}, "Think."}},
       {"muse", " to=user<|message|>Hello.<|eot|>", {"Hello.", {}, ""}}},
      options);
}

}  // namespace
}  // namespace twostroke::reply
