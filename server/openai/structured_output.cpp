#include "server/openai/structured_output.h"

#include <algorithm>

#include "server/text/grammar/gbnf.h"
#include "server/text/grammar/grammar_builder.h"
#include "server/text/grammar/json_schema.h"
#include "server/text/grammar/regex.h"

namespace twostroke::openai {
namespace {

// One way of white space, which costs fewer tokens; and what cannot be held to is refused, never dropped.
constexpr grammar::JsonSchemaOptions kJsonOptions{.any_whitespace = false, .ignore_unique_items = false};

const Json* present(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

// {"type": "text" | "json_object" | "json_schema", "json_schema": {"schema": ...}}. `strict` or not, the schema holds.
std::shared_ptr<OutputConstraint> read_response_format(FieldReader& fields, const Json& format) {
  constexpr const char* kParam = "response_format";
  const Json* type = format.is_object() ? present(format, "type") : nullptr;
  if (type == nullptr || (*type != "text" && *type != "json_object" && *type != "json_schema")) {
    fields.fail(kParam,
                "'response_format' must be an object of the type \"text\", \"json_object\" or \"json_schema\".");
    return nullptr;
  }
  if (*type == "text") return nullptr;
  auto constraint = std::make_shared<OutputConstraint>(
      OutputConstraint{.kind = OutputConstraint::Kind::kJsonObject, .param = kParam});
  if (*type == "json_object") return constraint;
  const Json* outer = present(format, "json_schema");
  const Json* schema = outer != nullptr && outer->is_object() ? present(*outer, "schema") : nullptr;
  if (schema == nullptr || !schema->is_object()) {
    fields.fail(kParam,
                "'response_format' of the type \"json_schema\" needs the schema, an object, in "
                "'response_format.json_schema.schema'.");
    return nullptr;
  }
  constraint->kind = OutputConstraint::Kind::kJsonSchema;
  constraint->schema = *schema;
  return constraint;
}

// A schema as an object, true or false, or as the JSON text of one.
bool read_json(FieldReader& fields, const Json& value, OutputConstraint& constraint) {
  constraint.kind = OutputConstraint::Kind::kJsonSchema;
  constraint.schema = value;
  if (value.is_string()) {
    const std::string& text = value.get_ref<const std::string&>();
    constexpr std::string_view kSubject = "The text in 'structured_outputs.json'";
    auto parsed = text.size() <= kGrammarBytesMax ? parse_object(text, kSubject)
                                                  : ApiError{.message = std::string(kSubject) + " has more than " +
                                                                        std::to_string(kGrammarBytesMax) + " bytes."};
    if (const auto* error = std::get_if<ApiError>(&parsed)) {
      fields.fail("structured_outputs.json", error->message);
      return false;
    }
    constraint.schema = std::get<Json>(std::move(parsed));
  }
  if (constraint.schema.is_object() || constraint.schema.is_boolean()) return true;
  fields.fail("structured_outputs.json", "'structured_outputs.json' must be a schema: an object, or its text.");
  return false;
}

bool read_text(FieldReader& fields, const std::string& name, const Json& value, OutputConstraint& constraint) {
  constraint.kind = name == "regex" ? OutputConstraint::Kind::kRegex : OutputConstraint::Kind::kGbnf;
  const std::string param = "structured_outputs." + name;
  if (!value.is_string() || value.get_ref<const std::string&>().empty() ||
      value.get_ref<const std::string&>().size() > kGrammarBytesMax) {
    fields.fail(param, "'" + param + "' must be a string of 1 to " + std::to_string(kGrammarBytesMax) + " bytes.");
    return false;
  }
  constraint.text = value.get<std::string>();
  return true;
}

bool read_choice(FieldReader& fields, const Json& value, OutputConstraint& constraint) {
  constraint.kind = OutputConstraint::Kind::kChoice;
  const bool strings = value.is_array() && !value.empty() && value.size() <= kChoiceStringsMax &&
                       std::all_of(value.begin(), value.end(), [](const Json& item) {
                         return item.is_string() && !item.get_ref<const std::string&>().empty() &&
                                item.get_ref<const std::string&>().size() <= kGrammarBytesMax;
                       });
  if (!strings) {
    fields.fail("structured_outputs.choice", "'structured_outputs.choice' must be an array of 1 to " +
                                                 std::to_string(kChoiceStringsMax) + " strings, none of them empty.");
    return false;
  }
  constraint.choices = value.get<std::vector<std::string>>();
  return true;
}

std::shared_ptr<OutputConstraint> read_structured_outputs(FieldReader& fields, const Json& value) {
  constexpr const char* kParam = "structured_outputs";
  constexpr const char* kShape =
      "'structured_outputs' must be an object with exactly one of 'json', 'regex', 'choice' and 'grammar'.";
  if (!value.is_object()) {
    fields.fail(kParam, kShape);
    return nullptr;
  }
  auto constraint = std::make_shared<OutputConstraint>(OutputConstraint{.param = kParam});
  size_t count = 0;
  for (const auto& [name, inner] : value.items()) {
    if (inner.is_null() || (inner.is_boolean() && !inner.get<bool>() && name != "json")) continue;
    bool ok = true;
    if (name == "json") {
      ok = read_json(fields, inner, *constraint);
    } else if (name == "regex" || name == "grammar") {
      ok = read_text(fields, name, inner, *constraint);
    } else if (name == "choice") {
      ok = read_choice(fields, inner, *constraint);
    } else if (name == "disable_any_whitespace") {
      continue;  // white space is never free here
    } else {
      fields.fail(kParam, "'structured_outputs." + name.substr(0, 40) + "' is not supported by this server.");
      return nullptr;
    }
    if (!ok) return nullptr;
    ++count;
  }
  if (count != 1) {
    fields.fail(kParam, kShape);
    return nullptr;
  }
  return constraint;
}

GrammarCache::Compiled compile_choices(const std::vector<std::string>& choices) {
  grammar::GrammarBuilder builder;
  std::vector<grammar::ExprId> alternatives;
  for (const std::string& choice : choices) alternatives.push_back(builder.literal(choice));
  return builder.build(builder.choice(alternatives));
}

bool is_json(const OutputConstraint& constraint) {
  return constraint.kind == OutputConstraint::Kind::kJsonObject ||
         constraint.kind == OutputConstraint::Kind::kJsonSchema;
}

// Names what the constraint is made of: kind, then source.
std::string cache_key(const OutputConstraint& constraint) {
  switch (constraint.kind) {
    case OutputConstraint::Kind::kJsonObject:
      return "o";
    case OutputConstraint::Kind::kJsonSchema:
      return "s" + to_text(constraint.schema);
    case OutputConstraint::Kind::kRegex:
      return "r" + constraint.text;
    case OutputConstraint::Kind::kChoice:
      return "c" + to_text(Json(constraint.choices));
    case OutputConstraint::Kind::kGbnf:
      break;
  }
  return "g" + constraint.text;
}

}  // namespace

std::shared_ptr<const OutputConstraint> read_output_constraint(FieldReader& fields) {
  std::shared_ptr<OutputConstraint> constraint;
  if (const Json* format = fields.find("response_format")) constraint = read_response_format(fields, *format);
  const Json* structured = fields.find("structured_outputs");
  if (structured == nullptr) return constraint;
  if (constraint != nullptr) {
    fields.fail("structured_outputs", "'structured_outputs' and 'response_format' cannot both say what the text is.");
    return nullptr;
  }
  return read_structured_outputs(fields, *structured);
}

GrammarCache::Compiled compile_constraint(const OutputConstraint& constraint, GrammarCache& cache) {
  return cache.get(cache_key(constraint), [&]() -> GrammarCache::Compiled {
    switch (constraint.kind) {
      case OutputConstraint::Kind::kJsonObject:
        return grammar::compile_json_object(kJsonOptions);
      case OutputConstraint::Kind::kJsonSchema:
        return grammar::compile_json_schema(constraint.schema, kJsonOptions);
      case OutputConstraint::Kind::kRegex:
        return grammar::compile_regex_grammar(constraint.text);
      case OutputConstraint::Kind::kChoice:
        return compile_choices(constraint.choices);
      case OutputConstraint::Kind::kGbnf:
        break;
    }
    return grammar::compile_gbnf(constraint.text);
  });
}

bool constrains_calls(const ToolOptions& tools, const OutputConstraint* constraint) {
  if (tools.choice != ToolOptions::Choice::kAuto || tools.callable.empty()) return false;
  if (constraint != nullptr) return is_json(*constraint);
  return std::any_of(tools.callable.begin(), tools.callable.end(),
                     [](const ToolOptions::Function& function) { return function.strict; });
}

GrammarCache::Compiled compile_tool_demand(const ToolOptions& tools, const OutputConstraint* constraint,
                                           const std::string& prompt_end, const reply::ReplySyntax& syntax,
                                           GrammarCache& cache) {
  static const Json kAnyObject = {{"type", "object"}};
  reply::ToolDemand demand{.parallel = tools.parallel, .prompt_end = prompt_end};
  demand.optional = tools.choice == ToolOptions::Choice::kAuto;
  if (demand.optional && constraint != nullptr) {
    demand.content = constraint->kind == OutputConstraint::Kind::kJsonSchema ? &constraint->schema : &kAnyObject;
  }
  Json key = {std::string(syntax.name()), tools.parallel, prompt_end, demand.optional,
              demand.content == nullptr ? Json() : *demand.content};
  for (const ToolOptions::Function& function : tools.callable) {
    // Calls that are demanded are valid, strict or not.
    const bool strict = function.strict || !demand.optional;
    demand.tools.push_back({function.name, function.parameters.is_null() ? nullptr : &function.parameters, strict});
    key.push_back(function.name);
    key.push_back(strict ? function.parameters : Json(false));
  }
  return cache.get("t" + to_text(key), [&] { return syntax.demand_grammar(demand); });
}

}  // namespace twostroke::openai
