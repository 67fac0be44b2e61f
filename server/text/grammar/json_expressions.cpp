#include "server/text/grammar/json_expressions.h"

#include <nlohmann/json.hpp>

#include "server/text/grammar/dfa_operations.h"
#include "server/text/grammar/json_text.h"
#include "server/text/grammar/regex.h"

namespace twostroke::grammar {

namespace {

std::string printed(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

JsonExpressions::JsonExpressions(GrammarBuilder& builder, const JsonSchemaOptions& options) : builder_(builder) {
  const auto spaced = [&](const char* token) {
    const ExprId parts[] = {space_, builder_.literal(token), space_};
    return builder_.sequence(parts);
  };
  if (options.any_whitespace) {
    space_ = builder_.automaton(compile_regex("[ \\t\\r\\n]*", true).value());
    comma_ = spaced(",");
    colon_ = spaced(":");
  } else {
    space_ = builder_.empty();
    comma_ = builder_.literal(", ");
    colon_ = builder_.literal(": ");
  }
}

uint32_t JsonExpressions::repeat_bound(uint64_t max) {
  return max > GrammarLimits().repeat_max ? kUnbounded : static_cast<uint32_t>(max);
}

ExprId JsonExpressions::any_string() {
  if (!any_string_) any_string_ = builder_.automaton(string_texts(utf8_text()).value());
  return *any_string_;
}

ExprId JsonExpressions::any_number() {
  if (!any_number_) any_number_ = builder_.automaton(number_texts({}).value());
  return *any_number_;
}

ExprId JsonExpressions::any_value() {
  if (any_value_) return *any_value_;
  const RuleId rule = builder_.add_rule("any JSON value");
  any_value_ = builder_.reference(rule);
  const ExprId kinds[] = {
      any_string(), any_number(), builder_.literal("true"), builder_.literal("false"), builder_.literal("null"),
      any_object(), any_array()};
  builder_.define(rule, builder_.choice(kinds));
  return *any_value_;
}

ExprId JsonExpressions::any_object() {
  if (any_object_) return *any_object_;
  const ExprId one = member(any_string(), any_value());
  const ExprId members[] = {one, builder_.repeat(comma_and(one), 0, kUnbounded)};
  any_object_ = object(builder_.sequence(members), true);
  return *any_object_;
}

ExprId JsonExpressions::any_array() {
  if (any_array_) return *any_array_;
  const ExprId items[] = {any_value(), builder_.repeat(comma_and(any_value()), 0, kUnbounded)};
  any_array_ = array(builder_.sequence(items), true);
  return *any_array_;
}

ExprId JsonExpressions::string_of_length(uint64_t min, uint64_t max) {
  if (!character_) character_ = builder_.automaton(string_character());
  const ExprId quote = builder_.literal("\"");
  const ExprId parts[] = {quote, builder_.repeat(*character_, static_cast<uint32_t>(min), repeat_bound(max)), quote};
  return builder_.sequence(parts);
}

ExprId JsonExpressions::value(const nlohmann::ordered_json& value) {
  if (!value.is_structured()) return builder_.literal(printed(value));
  std::vector<ExprId> content;
  for (const auto& [key, item] : value.items()) {
    if (!content.empty()) content.push_back(comma_);
    const ExprId inside = this->value(item);  // as deep as the schema, which is bounded
    content.push_back(value.is_object() ? member(name(key), inside) : inside);
  }
  const std::optional<ExprId> all = content.empty() ? std::nullopt : std::optional(builder_.sequence(content));
  return value.is_object() ? object(all, content.empty()) : array(all, content.empty());
}

ExprId JsonExpressions::object(std::optional<ExprId> members, bool may_be_empty) {
  return enclosed("{", members, may_be_empty, "}");
}
ExprId JsonExpressions::array(std::optional<ExprId> items, bool may_be_empty) {
  return enclosed("[", items, may_be_empty, "]");
}

ExprId JsonExpressions::enclosed(const char* open, std::optional<ExprId> content, bool may_be_empty,
                                 const char* close) {
  std::vector<ExprId> alternatives;
  if (content) {
    const ExprId parts[] = {space_, *content, space_};
    alternatives.push_back(builder_.sequence(parts));
  }
  if (may_be_empty) alternatives.push_back(space_);
  const ExprId parts[] = {builder_.literal(open), builder_.choice(alternatives), builder_.literal(close)};
  return builder_.sequence(parts);
}

ExprId JsonExpressions::member(ExprId name, ExprId value) {
  const ExprId parts[] = {name, colon_, value};
  return builder_.sequence(parts);
}
ExprId JsonExpressions::name(const std::string& name) { return builder_.literal(printed(name)); }

ExprId JsonExpressions::comma_and(ExprId part) {
  const ExprId parts[] = {comma_, part};
  return builder_.sequence(parts);
}

}  // namespace twostroke::grammar
