#include "server/text/reply/reply_format.h"

#include "server/text/reply/json_scanner.h"

namespace twostroke::reply {
namespace {

CallShape object_call(std::string open, std::string close) {
  CallShape shape;
  shape.call_open = std::move(open);
  shape.call_close = std::move(close);
  return shape;
}

CallShape object_array(std::string open, std::string close) {
  CallShape shape;
  shape.section_open = std::move(open);
  shape.section_close = std::move(close);
  shape.array = true;
  shape.separator = ", ";
  return shape;
}

CallShape named_call(std::string open, std::string name_close, std::string close) {
  CallShape shape;
  shape.body = CallBody::kNamed;
  shape.call_open = std::move(open);
  shape.name_close = std::move(name_close);
  shape.call_close = std::move(close);
  return shape;
}

CallShape tagged_call(std::string open, std::string name_close, Tags tags, std::string close) {
  CallShape shape = named_call(std::move(open), std::move(name_close), std::move(close));
  shape.arguments = ArgumentsStyle::kTagged;
  shape.tags = std::move(tags);
  return shape;
}

CallShape in_section(CallShape shape, std::string open, std::string separator, std::string close) {
  shape.section_open = std::move(open);
  shape.separator = std::move(separator);
  shape.section_close = std::move(close);
  return shape;
}

CallShape hermes_call() { return object_call("<tool_call>\n", "\n</tool_call>"); }

CallShape qwen_xml_call() {
  Tags tags{"\n<parameter=", ">", "</parameter>"};
  tags.newline_around = true;
  return tagged_call("<tool_call>\n<function=", ">", tags, "\n</function>\n</tool_call>");
}

CallShape glm_call() {
  return tagged_call("<tool_call>", "", {"<arg_key>", "</arg_key>\r<arg_value>", "</arg_value>"}, "</tool_call>");
}

// A format of one shape.
ReplyFormat format(std::string name, std::vector<std::string> signature, std::vector<CallShape> shapes) {
  ReplyFormat made;
  made.name = std::move(name);
  made.signature = std::move(signature);
  made.shapes = std::move(shapes);
  return made;
}

// https://cookbook.openai.com/articles/openai-harmony
ReplyFormat harmony() {
  ReplyFormat made = format("harmony", {"<|channel|>", "<|message|>", "analysis"}, {});
  made.headers = {
      HeaderStyle::kHarmony, {"<|start|>", "<|channel|>"}, "<|message|>", {"<|end|>", "<|call|>", "<|return|>"}};
  made.extra_stops = {"<|call|>"};
  made.reasoning = {"<|channel|>analysis<|message|>", "<|end|>"};
  return made;
}

ReplyFormat muse() {
  ReplyFormat made =
      format("muse", {"<atem:function_calls>", "<atem:invoke"},
             {in_section(tagged_call("<atem:invoke name=\"", "\">",
                                     {"\n<atem:parameter name=\"", "\">", "</atem:parameter>"}, "\n</atem:invoke>"),
                         "<atem:function_calls>\n", "\n", "\n</atem:function_calls>")});
  made.headers = {HeaderStyle::kRecipient, {"<|start|>"}, "<|message|>", {"<|eom|>", "<|eot|>"}};
  made.reasoning = {" to=self<|message|>", "<|eom|>"};
  return made;
}

CallShape dsml_call(const std::string& section) {
  Tags tags{"\n<｜DSML｜parameter name=\"", "\" string=\"", "</｜DSML｜parameter>"};
  tags.string_attribute = true;
  return in_section(tagged_call("<｜DSML｜invoke name=\"", "\">", tags, "\n</｜DSML｜invoke>"),
                    "<｜DSML｜" + section + ">\n", "\n", "\n</｜DSML｜" + section + ">");
}

CallShape minimax_m3_call() {
  const std::string space = "]<]minimax[>[";
  Tags tags{space + "<", ">", space + "</"};
  tags.key_in_close = true;
  return in_section(tagged_call(space + "<invoke name=\"", "\">", tags, space + "</invoke>"), space + "<tool_call>\n",
                    "\n", "\n" + space + "</tool_call>");
}

std::vector<ReplyFormat> make_formats() {
  std::vector<ReplyFormat> formats;
  formats.push_back(harmony());
  formats.push_back(muse());
  formats.push_back(format("deepseek-v3.2", {"<｜DSML｜function_calls>"}, {dsml_call("function_calls")}));
  // V4's marker is written in parts by some templates.
  formats.push_back(format("deepseek-v4", {"<｜DSML｜tool_calls>"}, {dsml_call("tool_calls")}));

  formats.push_back(format(
      "deepseek-r1", {"<｜tool▁call▁begin｜>", "```json"},
      {in_section(named_call("<｜tool▁call▁begin｜>function<｜tool▁sep｜>", "\n```json\n", "\n```<｜tool▁call▁end｜>"),
                  "<｜tool▁calls▁begin｜>", "\n", "<｜tool▁calls▁end｜>")}));
  formats.push_back(format("deepseek-v3.1", {"<｜tool▁call▁begin｜>", "<｜tool▁sep｜>"},
                           {in_section(named_call("<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"),
                                       "<｜tool▁calls▁begin｜>", "", "<｜tool▁calls▁end｜>")}));

  CallShape kimi = named_call("<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>");
  kimi.name_prefix = "functions.";
  kimi.numbered = true;
  formats.push_back(format("kimi-k2", {"<|tool_calls_section_begin|>", "<|tool_call_argument_begin|>"},
                           {in_section(kimi, "<|tool_calls_section_begin|>", "", "<|tool_calls_section_end|>")}));
  formats.back().calls_end_reasoning = true;

  formats.push_back(format("minimax-m3", {"]<]minimax[>[", "<invoke name="}, {minimax_m3_call()}));
  Tags invoke_tags{"\n<parameter name=\"", "\">", "</parameter>"};
  formats.push_back(format("minimax-m2", {"<minimax:tool_call>", "<invoke name="},
                           {in_section(tagged_call("<invoke name=\"", "\">", invoke_tags, "\n</invoke>"),
                                       "<minimax:tool_call>\n", "\n", "\n</minimax:tool_call>")}));
  formats.push_back(format("minimax-m1", {"<tool_calls>", "</tool_calls>", "\"name\""},
                           {in_section(object_call("", ""), "<tool_calls>\n", "\n", "\n</tool_calls>")}));

  Tags hy_tags{"<arg_key:opensource>", "</arg_key:opensource>\n<arg_value:opensource>", "</arg_value:opensource>\n"};
  formats.push_back(format(
      "hy3", {"<tool_call:opensource>", "<tool_sep:opensource>"},
      {in_section(tagged_call("<tool_call:opensource>", "<tool_sep:opensource>\n", hy_tags, "</tool_call:opensource>"),
                  "<tool_calls:opensource>\n", "\n", "\n</tool_calls:opensource>")}));

  Tags param_tags{"<param name=\"", "\">", "</param>"};
  param_tags.cdata = true;
  formats.push_back(format("minicpm5", {"<function name=\"", "<param name=\""},
                           {tagged_call("<function name=\"", "\">", param_tags, "</function>")}));

  CallShape gemma = named_call("<|tool_call>call:", "", "<tool_call|>");
  gemma.arguments = ArgumentsStyle::kBare;
  formats.push_back(format("gemma4", {"<|tool_call>", "<tool_call|>"}, {gemma}));
  formats.back().extra_stops = {"<|tool_response>"};

  CallShape apertus = object_array("<|tools_prefix|>", "<|tools_suffix|>");
  apertus.body = CallBody::kKeyed;
  formats.push_back(format("apertus", {"<|tools_prefix|>", "<|tools_suffix|>"}, {apertus}));

  CallShape cohere = object_array("<|START_ACTION|>", "<|END_ACTION|>");
  cohere.name_keys = {"tool_name", "name"};
  cohere.arguments_keys = {"parameters", "arguments"};
  cohere.id_keys = {};  // its ids count calls, anew in each turn: no use to a client
  formats.push_back(format("cohere", {"<|START_ACTION|>", "<|END_ACTION|>"}, {cohere}));
  formats.back().dropped = {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"};

  formats.push_back(format(
      "gigachat3", {"function call<|role_sep|>"},
      {in_section(object_call("", ""), "<|message_sep|>\n\nfunction call<|role_sep|>\n", "", "<|message_sep|>")}));
  formats.back().shapes.front().single = true;

  formats.push_back(format("nemotron", {"<TOOLCALL>", "</TOOLCALL>"}, {object_array("<TOOLCALL>", "</TOOLCALL>")}));

  CallShape mistral = named_call("[TOOL_CALLS]", "[ARGS]", "");
  mistral.id_open = "[CALL_ID]";
  formats.push_back(format("mistral-args", {"[TOOL_CALLS]", "[ARGS]"}, {mistral, object_array("[TOOL_CALLS]", "")}));
  formats.push_back(format("mistral", {"[TOOL_CALLS]"}, {object_array("[TOOL_CALLS]", ""), mistral}));

  CallShape lfm = named_call("", "", "");
  lfm.arguments = ArgumentsStyle::kPython;
  lfm.array = true;
  formats.push_back(
      format("lfm2", {"List of tools: "}, {in_section(lfm, "<|tool_call_start|>", ", ", "<|tool_call_end|>")}));

  // Functionary: <function=name>{...}</function>. Its cousin with <parameter=...> is Qwen's.
  formats.push_back(format("qwen-xml", {"<function=", "<parameter="}, {qwen_xml_call(), hermes_call()}));
  Tags bare_parameter{"\n<parameter=", ">", "</parameter>"};
  bare_parameter.newline_around = true;
  formats.back().shapes.push_back(tagged_call("<function=", ">", bare_parameter, "\n</function>"));
  formats.push_back(
      format("functionary-v3.1", {"<function=", "</function>"}, {named_call("<function=", ">", "</function>")}));

  formats.push_back(format("glm", {"<tool_call>", "<arg_key>"}, {glm_call(), hermes_call()}));

  // Granite 3 lists its calls behind one marker; granite 4 writes as hermes does.
  formats.push_back(format("granite", {"<|tool_call|>"}, {object_array("<|tool_call|>", "")}));
  formats.push_back(format("hermes", {"<tool_call>", "</tool_call>"}, {hermes_call(), qwen_xml_call()}));

  // https://www.llama.com/docs/model-cards-and-prompt-formats/llama3_1
  CallShape llama = in_section(object_call("", ""), "", "; ", "");
  llama.at_start = true;
  llama.arguments_keys = {"parameters", "arguments"};
  CallShape llama_tagged = llama;
  llama_tagged.at_start = false;
  llama_tagged.section_open = "<|python_tag|>";
  CallShape llama_python = named_call("<|python_tag|>", "", "");
  llama_python.arguments = ArgumentsStyle::kPython;
  llama_python.name_suffix = ".call";
  formats.push_back(format("llama3", {"{\"name\": ", "\"parameters\": "}, {llama, llama_tagged, llama_python}));
  return formats;
}

}  // namespace

std::span<const ReplyFormat> known_formats() {
  static const std::vector<ReplyFormat> formats = make_formats();
  return formats;
}

std::span<const Reasoning> known_reasoning() {
  static const std::vector<Reasoning> pairs = {
      {"<think>", "</think>"},
      {"[THINK]", "[/THINK]"},
      {"<|START_THINKING|>", "<|END_THINKING|>"},
      {"<mm:think>", "</mm:think>"},
      {"<think:opensource>", "</think:opensource>"},
      {"<|channel>thought\n", "<channel|>"},
      {"<|inner_prefix|>", "<|inner_suffix|>"},
      {"<seed:think>", "</seed:think>"},
  };
  return pairs;
}

const ReplyFormat& generic_format() {
  static const ReplyFormat generic = format("generic", {}, {hermes_call()});
  return generic;
}

std::vector<std::string> pattern_pieces(std::string_view pattern) {
  std::vector<std::string> pieces;
  bool within = false;
  for (const char byte : pattern) {
    if (is_space(byte)) {
      within = false;
      continue;
    }
    if (!within) pieces.emplace_back();
    pieces.back() += byte;
    within = true;
  }
  return pieces;
}

std::vector<std::string> CallShape::opening() const {
  return pattern_pieces(section_open + (array ? "\r[\r" : "\r") + call_open);
}

std::vector<std::string> CallShape::continuing() const { return pattern_pieces(separator + "\r" + call_open); }

std::vector<std::string> CallShape::ending() const { return pattern_pieces((array ? "]\r" : "") + section_close); }

std::string pattern_text(std::string_view pattern) {
  std::string text(pattern);
  std::erase(text, '\r');
  return text;
}

}  // namespace twostroke::reply
