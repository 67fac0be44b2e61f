#include "server/text/reply/call_grammar.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "server/text/grammar/dfa_operations.h"
#include "server/text/grammar/grammar_builder.h"
#include "server/text/grammar/json_schema.h"
#include "server/text/reply/format_parser.h"
#include "server/text/reply/json_scanner.h"
#include "server/text/reply/text_grammar.h"

namespace twostroke::reply {
namespace {

using Json = nlohmann::ordered_json;
using grammar::ExprId;
using grammar::GrammarBuilder;
using Demanded = ToolDemand::Tool;

constexpr uint32_t kMessagesBeforeMax = 16;  // of reasoning and content, before the one that ends a turn

// One argument of a tool whose form is not JSON.
struct Argument {
  std::string key;
  bool required = false;
  Json schema;  // with the definitions that it may refer to
};

bool is_plain_name(const std::string& name) {
  return !name.empty() && name.size() <= kNameBytesMax && std::all_of(name.begin(), name.end(), [](char byte) {
    return static_cast<unsigned char>(byte) > 0x20 &&
           std::string_view("<>[]{}()\"'`,;:=\\/").find(byte) == std::string_view::npos;
  });
}

Result<std::vector<Argument>> list_arguments(const Demanded& tool) {
  std::vector<Argument> arguments;
  if (tool.parameters == nullptr || !tool.parameters->is_object()) return arguments;
  const Json& schema = *tool.parameters;
  const std::string place = "tool \"" + tool.name + "\": ";
  static const std::vector<std::string> kKnown = {
      "type",     "properties", "required",  "additionalProperties",  "$defs",     "definitions", "$schema",
      "$id",      "$comment",   "title",     "description",           "default",   "examples",    "strict",
      "nullable", "readOnly",   "writeOnly", "unevaluatedProperties", "deprecated"};
  for (const auto& [keyword, value] : schema.items()) {
    if (std::find(kKnown.begin(), kKnown.end(), keyword) == kKnown.end()) {
      return unsupported(place + "'" + keyword +
                         "' of the parameters as a whole is not supported where a model writes " +
                         "its arguments one by one");
    }
  }
  Json definitions = Json::object();
  for (const char* keyword : {"$defs", "definitions"}) {
    if (schema.contains(keyword)) definitions[keyword] = schema.at(keyword);
  }
  const auto add = [&](const std::string& key, const Json& value) {
    Argument argument{key, false, value};
    if (argument.schema.is_object()) {
      for (const auto& [keyword, held] : definitions.items()) {
        if (!argument.schema.contains(keyword)) argument.schema[keyword] = held;
      }
    }
    arguments.push_back(std::move(argument));
  };
  if (const auto properties = schema.find("properties"); properties != schema.end() && properties->is_object()) {
    for (const auto& [key, value] : properties->items()) add(key, value);
  }
  if (const auto required = schema.find("required"); required != schema.end() && required->is_array()) {
    for (const Json& key : *required) {
      if (!key.is_string()) return invalid_argument(place + "required: not a list of strings");
      const auto same = [&](const Argument& argument) { return argument.key == key.get<std::string>(); };
      if (std::none_of(arguments.begin(), arguments.end(), same)) {
        const auto additional = schema.find("additionalProperties");
        add(key.get<std::string>(), additional == schema.end() ? Json(true) : *additional);
      }
      std::find_if(arguments.begin(), arguments.end(), same)->required = true;
    }
  }
  for (const Argument& argument : arguments) {
    if (!is_plain_name(argument.key)) {
      return unsupported(place + "the name of the parameter \"" + argument.key +
                         "\" cannot be written in this model's calls");
    }
  }
  return arguments;
}

class CallGrammar {
 public:
  CallGrammar(const ReplyFormat& format, const ToolDemand& demand, const Tokenizer& tokenizer)
      : format_(format), demand_(demand), tokenizer_(tokenizer) {}

  Result<std::shared_ptr<const grammar::Grammar>> build();

 private:
  ExprId sequence(std::initializer_list<ExprId> parts) { return builder_.sequence(std::vector<ExprId>(parts)); }
  ExprId choice(const std::vector<ExprId>& alternatives) { return builder_.choice(alternatives); }
  ExprId optional(ExprId part) { return builder_.repeat(part, 0, 1); }
  ExprId text(std::string_view pattern);
  ExprId reasoning_text();  // any that nothing in it ends

  ExprId reasoning(const PromptEnd& prompt);
  ExprId turn();
  ExprId header_turn(const PromptEnd& prompt);
  ExprId header_call();
  std::vector<std::string> content_ends() const;
  ExprId content();
  ExprId content_in_place_of_calls();
  ExprId optional_turn();
  ExprId optional_header_turn(const PromptEnd& prompt);
  ExprId calls(const CallShape& shape, const std::vector<ExprId>& bodies_first,
               const std::vector<ExprId>& bodies_later);
  ExprId body(const CallShape& shape, const Demanded& tool, bool first);
  ExprId arguments(const CallShape& shape, const Demanded& tool);
  ExprId json_arguments(const Demanded& tool);
  ExprId any_tagged_arguments(const CallShape& shape);
  ExprId listed_arguments(const CallShape& shape, const Demanded& tool);
  ExprId tagged_argument(const Tags& tags, const Argument& argument, const std::string& place);
  ExprId tagged_value(const Tags& tags, const std::string& close, const Argument& argument, const std::string& place);
  ExprId literal_argument(ArgumentsStyle style, const Argument& argument, const std::string& place);
  ExprId json_value(const Json& schema, const std::string& place);
  ExprId take(Result<ExprId> made, const std::string& place);
  ExprId fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
    return builder_.empty();
  }

  const ReplyFormat& format_;
  const ToolDemand& demand_;
  const Tokenizer& tokenizer_;
  GrammarBuilder builder_;
  Status status_;  // the first error
};

ExprId CallGrammar::take(Result<ExprId> made, const std::string& place) {
  if (made.ok()) return *made;
  return fail({made.status().code(), place + made.status().message()});
}

ExprId CallGrammar::text(std::string_view pattern) {
  std::vector<ExprId> parts;
  for (const MarkedPiece& piece : split_control_tokens(pattern_text(pattern), tokenizer_)) {
    parts.push_back(piece.token >= 0 ? builder_.control_token(piece.token) : builder_.literal(piece.text));
  }
  return parts.empty() ? builder_.empty() : builder_.sequence(parts);
}

ExprId CallGrammar::reasoning_text() {
  std::vector<std::string> ends = format_.headers.open;
  ends.push_back(format_.reasoning.close);
  if (format_.calls_end_reasoning) {
    for (const CallShape& shape : format_.shapes) ends.push_back(shape.opening().front());
  }
  // Those that are control tokens, too: the parser sees no difference where they are spelled out.
  return take(text_without(builder_, ends, Json::object()), "");
}

ExprId CallGrammar::reasoning(const PromptEnd& prompt) {
  const Reasoning& marks = format_.reasoning;
  if (marks.close.empty() || prompt.closed_reasoning) return builder_.empty();
  const ExprId rest = sequence({reasoning_text(), text(marks.close), builder_.repeat(builder_.literal("\n"), 0, 2)});
  if (prompt.start == TurnStart::kReasoning) return rest;
  return optional(sequence({text(marks.open), rest}));
}

ExprId CallGrammar::json_value(const Json& schema, const std::string& place) {
  grammar::JsonSchemaOptions options;
  options.any_whitespace = false;
  options.ignore_unique_items = false;  // refused, never dropped
  return take(grammar::json_schema_expression(builder_, schema, options), place);
}

ExprId CallGrammar::json_arguments(const Demanded& tool) {
  static const Json kAny = {{"type", "object"}};
  static const Json kNone = {{"type", "object"}, {"properties", Json::object()}, {"additionalProperties", false}};
  const std::string place = "tool \"" + tool.name + "\": ";
  if (!tool.strict) return take(grammar::json_schema_expression(builder_, kAny), place);
  if (tool.parameters == nullptr) return json_value(kNone, place);
  Json schema = *tool.parameters;
  if (schema.is_object()) {
    // Arguments are an object, whatever else the schema would allow.
    const auto type = schema.find("type");
    const bool is_object = type == schema.end() || *type == "object" ||
                           (type->is_array() && std::find(type->begin(), type->end(), "object") != type->end());
    if (!is_object)
      return fail(
          invalid_argument(place + "its parameters must be of the type \"object\", not " + type->dump().substr(0, 60)));
    schema["type"] = "object";
  }
  return json_value(schema, place);
}

ExprId CallGrammar::tagged_value(const Tags& tags, const std::string& close, const Argument& argument,
                                 const std::string& place) {
  const TypeSet types = schema_types(argument.schema, argument.schema);
  const bool is_text = types == kStringType || says_nothing(argument.schema);
  std::vector<std::string> markers = {close};
  if (tags.cdata) markers.emplace_back("<![CDATA[");
  const ExprId value =
      is_text ? take(text_without(builder_, markers, argument.schema), place) : json_value(argument.schema, place);
  if (!tags.string_attribute) return value;
  return sequence({builder_.literal(is_text ? "true\">" : "false\">"), value});
}

ExprId CallGrammar::tagged_argument(const Tags& tags, const Argument& argument, const std::string& place) {
  std::string close = pattern_text(tags.value_close);
  if (tags.key_in_close) close += argument.key + ">";
  // The value must not hold what the parser takes for its end.
  const std::string end = pattern_pieces(close).front();
  const ExprId line_feed = tags.newline_around ? builder_.literal("\n") : builder_.empty();
  return sequence({text(tags.key_open + argument.key + tags.key_close), line_feed,
                   tagged_value(tags, end, argument, place), line_feed, text(close)});
}

ExprId CallGrammar::literal_argument(ArgumentsStyle style, const Argument& argument, const std::string& place) {
  const bool python = style == ArgumentsStyle::kPython;
  const ExprId key = builder_.literal(argument.key + (python ? "=" : ":"));
  constexpr std::string_view kQuote = "<|\"|>";
  if (!python && schema_types(argument.schema, argument.schema) == kStringType) {
    const ExprId value = take(text_without(builder_, {std::string(kQuote)}, argument.schema), place);
    return sequence({key, text(kQuote), value, text(kQuote)});
  }
  const Json any = {{"type", {"string", "number", "boolean", "null", "array", "object"}}};
  return sequence({key, json_value(says_nothing(argument.schema) ? any : argument.schema, place)});
}

ExprId CallGrammar::listed_arguments(const CallShape& shape, const Demanded& tool) {
  const Result<std::vector<Argument>> listed = list_arguments(tool);
  if (!listed.ok()) return fail(listed.status());
  const std::string separator = shape.arguments == ArgumentsStyle::kPython ? ", "
                                : shape.arguments == ArgumentsStyle::kBare ? ","
                                                                           : "";
  // What may come from an argument on, where one was written and where none was.
  ExprId behind = builder_.empty();
  ExprId first = builder_.empty();
  for (auto argument = listed->rbegin(); argument != listed->rend(); ++argument) {
    const std::string place = "tool \"" + tool.name + "\": properties." + argument->key + ": ";
    const ExprId one = shape.arguments == ArgumentsStyle::kTagged ? tagged_argument(shape.tags, *argument, place)
                                                                  : literal_argument(shape.arguments, *argument, place);
    const ExprId next = sequence({builder_.literal(separator), one, behind});
    const ExprId begun = sequence({one, behind});
    behind = argument->required ? next : choice({next, behind});
    first = argument->required ? begun : choice({begun, first});
  }
  return first;
}

// Whatever stands before the call's end.
ExprId CallGrammar::any_tagged_arguments(const CallShape& shape) {
  std::vector<std::string> ends = pattern_pieces(shape.call_close);
  if (!ends.empty()) ends.resize(1);
  return take(text_without(builder_, ends, Json::object()), "");
}

ExprId CallGrammar::arguments(const CallShape& shape, const Demanded& tool) {
  switch (shape.arguments) {
    case ArgumentsStyle::kJson:
      return json_arguments(tool);
    case ArgumentsStyle::kTagged:
      return tool.strict ? listed_arguments(shape, tool) : any_tagged_arguments(shape);
    case ArgumentsStyle::kPython:
      return sequence({builder_.literal("("), listed_arguments(shape, tool), builder_.literal(")")});
    case ArgumentsStyle::kBare:
      break;
  }
  return sequence({builder_.literal("{"), listed_arguments(shape, tool), builder_.literal("}")});
}

ExprId CallGrammar::body(const CallShape& shape, const Demanded& tool, bool first) {
  switch (shape.body) {
    case CallBody::kObject:
      return sequence({builder_.literal("{" + json_quoted(shape.name_keys.front()) + ": " + json_quoted(tool.name) +
                                        ", " + json_quoted(shape.arguments_keys.front()) + ": "),
                       arguments(shape, tool), builder_.literal("}")});
    case CallBody::kKeyed:
      return sequence(
          {builder_.literal("{" + json_quoted(tool.name) + ": "), arguments(shape, tool), builder_.literal("}")});
    case CallBody::kNamed:
      break;
  }
  if (!is_plain_name(tool.name)) {
    return fail(unsupported("tool \"" + tool.name + "\": this name cannot be written in this model's calls"));
  }
  ExprId number = builder_.empty();
  if (shape.numbered) {
    const grammar::CodePointRange digits{U'0', U'9'};
    number =
        sequence({builder_.literal(":"),
                  first ? builder_.literal("0") : builder_.repeat(builder_.code_point(std::span(&digits, 1)), 1, 3)});
  }
  return sequence({builder_.literal(shape.name_prefix + tool.name + shape.name_suffix), number, text(shape.name_close),
                   arguments(shape, tool)});
}

ExprId CallGrammar::calls(const CallShape& shape, const std::vector<ExprId>& bodies_first,
                          const std::vector<ExprId>& bodies_later) {
  const auto call = [&](const std::vector<ExprId>& bodies) {
    return sequence({text(shape.call_open), choice(bodies), text(shape.call_close)});
  };
  const std::string bracket_open = shape.array ? "[" : "";
  const std::string bracket_close = shape.array ? "]" : "";
  ExprId more = builder_.empty();
  if (demand_.parallel && !shape.single) {
    // Without a section, calls follow each other as they follow content.
    const std::string separator = shape.has_section() ? shape.separator : format_.lead.empty() ? "" : "\n";
    more = builder_.repeat(sequence({text(separator), call(bodies_later)}), 0, kCallsMax - 1);
  }
  return sequence(
      {text(shape.section_open + bracket_open), call(bodies_first), more, text(bracket_close + shape.section_close)});
}

ExprId CallGrammar::turn() {
  const CallShape& shape = format_.shapes.front();
  std::vector<ExprId> first;
  std::vector<ExprId> later;
  for (const Demanded& tool : demand_.tools) {
    first.push_back(body(shape, tool, true));
    later.push_back(shape.numbered ? body(shape, tool, false) : first.back());
  }
  return calls(shape, first, later);
}

// A message that calls, its header first.
ExprId CallGrammar::header_call() {
  std::vector<ExprId> messages;
  for (const Demanded& tool : demand_.tools) {
    if (!is_plain_name(tool.name)) {
      return fail(unsupported("tool \"" + tool.name + "\": this name cannot be written in this model's calls"));
    }
    if (format_.headers.style == HeaderStyle::kHarmony) {
      messages.push_back(
          sequence({text("<|channel|>commentary to=functions." + tool.name + " <|constrain|>json<|message|>"),
                    json_arguments(tool)}));
    } else {
      const CallShape& shape = format_.shapes.front();
      messages.push_back(sequence({text(" to=" + tool.name + "<|message|>" + shape.section_open + shape.call_open),
                                   body(shape, tool, true), text(shape.call_close + shape.section_close)}));
    }
  }
  return choice(messages);
}

// A message for each call; reasoning is a message before them.
ExprId CallGrammar::header_turn(const PromptEnd& prompt) {
  const bool harmony = format_.headers.style == HeaderStyle::kHarmony;
  const std::string next = harmony ? "<|start|>assistant" : "<|eom|><|start|>assistant";
  const ExprId call = header_call();
  ExprId turn = call;
  // Harmony's turns end with their call.
  if (demand_.parallel && !harmony) {
    turn = sequence({call, builder_.repeat(sequence({text(next), call}), 0, kCallsMax - 1)});
  }
  const std::string& close = format_.reasoning.close;
  const ExprId thought = sequence({reasoning_text(), text(close), text("<|start|>assistant")});
  if (prompt.start == TurnStart::kReasoning) return sequence({thought, turn});
  if (prompt.start == TurnStart::kContent) return sequence({text(next), turn});
  return sequence({optional(sequence({text(format_.reasoning.open), thought})), turn});
}

// What begins a call or a message.
std::vector<std::string> CallGrammar::content_ends() const {
  std::vector<std::string> markers = format_.headers.open;
  markers.insert(markers.end(), format_.headers.end.begin(), format_.headers.end.end());
  for (const CallShape& shape : format_.shapes) {
    const std::vector<std::string> opening = shape.opening();
    if (!opening.empty()) markers.push_back(opening.front());
  }
  return markers;
}

// Text in which no call begins, and the control tokens that stand around content.
ExprId CallGrammar::content() {
  const ExprId plain = take(text_without(builder_, content_ends(), Json::object()), "");
  std::vector<ExprId> dropped;
  for (const std::string& marker : format_.dropped) {
    if (split_control_tokens(marker, tokenizer_).front().token >= 0) dropped.push_back(text(marker));
  }
  if (dropped.empty()) return plain;
  return sequence({plain, builder_.repeat(sequence({choice(dropped), plain}), 0, grammar::kUnbounded)});
}

// Where an object at the start of the turn may be a call: one with a strict function's name must be.
ExprId CallGrammar::content_in_place_of_calls() {
  std::vector<std::string> names;
  for (const Demanded& tool : demand_.tools) {
    if (tool.strict) names.push_back(tool.name);
  }
  return take(text_that_is_no_object_with(builder_, content_ends(), names), "");
}

ExprId CallGrammar::optional_turn() {
  const ExprId calls = turn();
  if (demand_.content != nullptr) return choice({json_value(*demand_.content, "the content: "), calls});
  if (format_.shapes.front().at_start) return choice({content_in_place_of_calls(), calls});
  return sequence({content(), optional(sequence({calls, content()}))});
}

// Messages of reasoning and of content, and then one more of content, or one that calls.
ExprId CallGrammar::optional_header_turn(const PromptEnd& prompt) {
  const bool harmony = format_.headers.style == HeaderStyle::kHarmony;
  const std::string next = harmony ? "<|end|><|start|>assistant" : "<|eom|><|start|>assistant";
  const std::string& close = format_.reasoning.close;
  const ExprId said = content();
  const ExprId thought = sequence({reasoning_text(), text(close), text("<|start|>assistant")});
  const ExprId before[] = {
      sequence({text(format_.reasoning.open), thought}),
      sequence({text(harmony ? "<|channel|>commentary<|message|>" : " to=user<|message|>"), said, text(next)})};
  const ExprId last = demand_.content != nullptr ? json_value(*demand_.content, "the content: ") : said;
  ExprId turn =
      choice({header_call(), sequence({text(harmony ? "<|channel|>final<|message|>" : " to=user<|message|>"), last})});
  turn = sequence({builder_.repeat(builder_.choice(before), 0, kMessagesBeforeMax), turn});
  if (prompt.start == TurnStart::kReasoning) return sequence({thought, turn});
  if (prompt.start == TurnStart::kContent) return sequence({last, optional(sequence({text(next), turn}))});
  return turn;
}

Result<std::shared_ptr<const grammar::Grammar>> CallGrammar::build() {
  if (demand_.tools.empty()) return invalid_argument("a call is demanded, but there is no tool that may be called");
  const PromptEnd prompt = read_prompt_end(format_, demand_.prompt_end);
  const bool has_headers = format_.headers.style != HeaderStyle::kNone;
  const ExprId root = has_headers ? demand_.optional ? optional_header_turn(prompt) : header_turn(prompt)
                                  : sequence({reasoning(prompt), demand_.optional ? optional_turn() : turn()});
  if (!status_.ok()) return status_;
  return builder_.build(root);
}

}  // namespace

std::vector<MarkedPiece> split_control_tokens(std::string_view text, const Tokenizer& tokenizer) {
  constexpr size_t kTokenBytesMax = 64;
  std::vector<MarkedPiece> pieces;
  for (size_t begin = 0; begin < text.size();) {
    TokenId token = -1;
    size_t size = std::min(text.size() - begin, kTokenBytesMax);
    for (; size > 1; --size) {
      const TokenId found = tokenizer.find(text.substr(begin, size));
      if (found < 0 || !tokenizer.is_control(found)) continue;
      token = found;
      break;
    }
    if (token >= 0) {
      pieces.push_back({token, std::string(text.substr(begin, size))});
      begin += size;
      continue;
    }
    if (pieces.empty() || pieces.back().token >= 0) pieces.push_back({});
    pieces.back().text += text[begin++];
  }
  return pieces;
}

Result<std::shared_ptr<const grammar::Grammar>> make_call_grammar(const ReplyFormat& format, const ToolDemand& demand,
                                                                  const Tokenizer& tokenizer) {
  return CallGrammar(format, demand, tokenizer).build();
}

}  // namespace twostroke::reply
