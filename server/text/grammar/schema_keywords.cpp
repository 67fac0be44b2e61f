// What each keyword of JSON Schema says about a shape.
#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "server/text/grammar/dfa_operations.h"
#include "server/text/grammar/regex.h"
#include "server/text/grammar/schema_keywords.h"
#include "server/text/grammar/schema_reader.h"
#include "server/text/grammar/string_format.h"

namespace twostroke::grammar {

namespace {

struct TypeName {
  std::string_view name;
  uint8_t bits;
};
constexpr TypeName kTypeNames[] = {
    {"null", kNullType},       {"boolean", kTrueType | kFalseType},
    {"integer", kIntegerType}, {"number", kNumberTypes},
    {"string", kStringType},   {"array", kArrayType},
    {"object", kObjectType},
};

// Formats of numbers: OpenAPI's, and those that schemars writes.
struct NumberFormat {
  std::string_view name;
  std::optional<int64_t> min;
  std::optional<uint64_t> max;
};
constexpr NumberFormat kNumberFormats[] = {
    {"int8", INT8_MIN, INT8_MAX},
    {"int16", INT16_MIN, INT16_MAX},
    {"int32", INT32_MIN, INT32_MAX},
    {"int64", INT64_MIN, INT64_MAX},
    {"uint8", 0, UINT8_MAX},
    {"uint16", 0, UINT16_MAX},
    {"uint32", 0, UINT32_MAX},
    {"uint64", 0, UINT64_MAX},
    {"int", std::nullopt, std::nullopt},
    {"uint", 0, std::nullopt},
    {"float", std::nullopt, std::nullopt},
    {"double", std::nullopt, std::nullopt},
};

std::string percent_decoded(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto is_hex = [&](size_t at) {
      return at < text.size() && std::isxdigit(static_cast<unsigned char>(text[at]));
    };
    if (text[i] == '%' && is_hex(i + 1) && is_hex(i + 2)) {
      result += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
      i += 2;
    } else {
      result += text[i];
    }
  }
  return result;
}

// Null: leads nowhere. RFC 6901.
const SchemaJson* follow_pointer(const SchemaJson& root, std::string_view pointer) {
  const SchemaJson* at = &root;
  while (!pointer.empty()) {
    if (pointer[0] != '/') return nullptr;
    const size_t end = std::min(pointer.find('/', 1), pointer.size());
    std::string name;
    for (size_t i = 1; i < end; ++i) {
      const bool is_escape = pointer[i] == '~' && i + 1 < end;
      if (is_escape) ++i;
      name += !is_escape ? pointer[i] : pointer[i] == '1' ? '/' : '~';
    }
    pointer.remove_prefix(end);
    if (at->is_object()) {
      const auto found = at->find(name);
      if (found == at->end()) return nullptr;
      at = &*found;
    } else if (at->is_array()) {
      const bool is_index = !name.empty() && name.size() < 8 && std::all_of(name.begin(), name.end(), ::isdigit);
      if (!is_index || std::stoul(name) >= at->size()) return nullptr;
      at = &(*at)[std::stoul(name)];
    } else {
      return nullptr;
    }
  }
  return at;
}

}  // namespace

std::optional<Keyword> keyword_named(std::string_view name) {
  static const std::unordered_map<std::string_view, Keyword> kKeywords = {
      {"type", Keyword::kType},
      {"enum", Keyword::kEnum},
      {"const", Keyword::kConst},
      {"minimum", Keyword::kMinimum},
      {"maximum", Keyword::kMaximum},
      {"exclusiveMinimum", Keyword::kExclusiveMinimum},
      {"exclusiveMaximum", Keyword::kExclusiveMaximum},
      {"multipleOf", Keyword::kMultipleOf},
      {"minLength", Keyword::kMinLength},
      {"maxLength", Keyword::kMaxLength},
      {"pattern", Keyword::kPattern},
      {"format", Keyword::kFormat},
      {"items", Keyword::kItems},
      {"prefixItems", Keyword::kPrefixItems},
      {"additionalItems", Keyword::kAdditionalItems},
      {"minItems", Keyword::kMinItems},
      {"maxItems", Keyword::kMaxItems},
      {"uniqueItems", Keyword::kUniqueItems},
      {"unevaluatedItems", Keyword::kUnevaluatedItems},
      {"contains", Keyword::kContains},
      {"properties", Keyword::kProperties},
      {"patternProperties", Keyword::kPatternProperties},
      {"additionalProperties", Keyword::kAdditionalProperties},
      {"unevaluatedProperties", Keyword::kUnevaluatedProperties},
      {"propertyNames", Keyword::kPropertyNames},
      {"required", Keyword::kRequired},
      {"minProperties", Keyword::kMinProperties},
      {"maxProperties", Keyword::kMaxProperties},
      {"dependentRequired", Keyword::kDependentRequired},
      {"dependentSchemas", Keyword::kDependentSchemas},
      {"dependencies", Keyword::kDependencies},
      {"allOf", Keyword::kAllOf},
      {"anyOf", Keyword::kAnyOf},
      {"oneOf", Keyword::kOneOf},
      {"not", Keyword::kNot},
      {"if", Keyword::kIf},
      {"$ref", Keyword::kRef},
      {"$dynamicRef", Keyword::kDynamicRef},
      {"$recursiveRef", Keyword::kDynamicRef},
      {"$id", Keyword::kId},
  };
  const auto found = kKeywords.find(name);
  return found == kKeywords.end() ? std::nullopt : std::optional(found->second);
}

void SchemaReader::apply(const Atom& atom, uint32_t chain, Draft* draft) {
  const SchemaJson& schema = *atom.schema;
  if (schema.is_boolean()) {
    if (!schema.get<bool>()) draft->shape.types = 0;
    return;
  }
  if (!schema.is_object()) {
    fail(&schema, "a schema is an object or a boolean");
    return;
  }
  for (const auto& [keyword, value] : schema.items()) {
    apply_keyword(schema, keyword, value, chain, draft);
    if (failed()) return;
  }
  apply_array_keywords(schema, chain, &draft->shape);
  apply_object_keywords(schema, chain, &draft->shape);
}

void SchemaReader::apply_keyword(const SchemaJson& schema, const std::string& name, const SchemaJson& value,
                                 uint32_t chain, Draft* draft) {
  const auto keyword = keyword_named(name);
  if (!keyword) return;  // an annotation, or unknown, which the standard treats alike
  Shape& shape = draft->shape;
  const auto narrow_min = [&](CountBounds* bounds) { bounds->min = std::max(bounds->min, count(schema, name, value)); };
  const auto narrow_max = [&](CountBounds* bounds) { bounds->max = std::min(bounds->max, count(schema, name, value)); };
  switch (*keyword) {
    case Keyword::kType:
      shape.types &= types_of(schema, value);
      shape.is_typed = true;
      break;
    case Keyword::kEnum:
      if (!value.is_array()) return fail(&schema, "'enum' is a list");
      apply_values(value, true, &shape);
      break;
    case Keyword::kConst:
      apply_values(value, false, &shape);
      break;

    case Keyword::kMinimum:
    case Keyword::kMaximum:
    case Keyword::kExclusiveMinimum:
    case Keyword::kExclusiveMaximum:
      shape.mentioned |= kNumberTypes;
      if (const auto bound = number_bound(schema, name, value)) shape.numbers.bounds.push_back(*bound);
      break;
    case Keyword::kMultipleOf:
      shape.mentioned |= kNumberTypes;
      if (const auto of = divisor(schema, value)) shape.numbers.multiples_of.push_back(*of);
      break;

    case Keyword::kMinLength:
      shape.mentioned |= kStringType;
      narrow_min(&shape.length);
      break;
    case Keyword::kMaxLength:
      shape.mentioned |= kStringType;
      narrow_max(&shape.length);
      break;
    case Keyword::kPattern:
      shape.mentioned |= kStringType;
      if (!value.is_string()) return fail(&schema, "'pattern' is a text");
      shape.strings.push_back({pattern(schema, name, value.get<std::string>())});
      break;
    case Keyword::kFormat:
      apply_format(schema, value, &shape);
      break;

    case Keyword::kMinItems:
      shape.mentioned |= kArrayType;
      narrow_min(&shape.items);
      break;
    case Keyword::kMaxItems:
      shape.mentioned |= kArrayType;
      narrow_max(&shape.items);
      break;
    case Keyword::kUniqueItems:
      if (!value.is_boolean()) return fail(&schema, "'uniqueItems' is true or false");
      if (!value.get<bool>()) break;
      shape.mentioned |= kArrayType;
      shape.is_unique = true;
      break;
    case Keyword::kContains:
      return refuse(&schema, "'contains'");

    case Keyword::kPropertyNames:
      shape.mentioned |= kObjectType;
      shape.names.push_back({&value});
      break;
    case Keyword::kRequired:
      shape.mentioned |= kObjectType;
      for (auto& required : name_list(schema, name, value)) shape.required.push_back(std::move(required));
      break;
    case Keyword::kMinProperties:
      shape.mentioned |= kObjectType;
      narrow_min(&shape.properties);
      break;
    case Keyword::kMaxProperties:
      shape.mentioned |= kObjectType;
      narrow_max(&shape.properties);
      break;
    case Keyword::kDependentRequired:
    case Keyword::kDependentSchemas:
    case Keyword::kDependencies:
      apply_dependencies(schema, value, chain, draft);
      break;

    case Keyword::kAllOf:
      push(draft, schema_list(schema, name, value), chain);
      break;
    case Keyword::kAnyOf: {
      Group group{&schema, chain, {}, {}};
      for (const Atom& atom : schema_list(schema, name, value)) group.alternatives.push_back({{atom}, {}});
      add_group(draft, std::move(group));
      break;
    }
    case Keyword::kOneOf:
      apply_one_of(schema, value, chain, draft);
      break;
    case Keyword::kNot:
      push(draft, {{&value, Demand::kFails}}, chain);
      break;
    case Keyword::kIf:
      apply_condition(schema, chain, draft);
      break;
    case Keyword::kRef: {
      const SchemaJson* target = resolve(schema, value);
      if (target == nullptr) return;
      if (in_chain(target, chain))
        return fail(&schema, "a '$ref' that leads back to itself and says nothing on its way");
      push(draft, {{target}}, chain);
      break;
    }
    case Keyword::kDynamicRef:
      return refuse(&schema, "'" + name + "'");
    case Keyword::kId:
      if (&schema != &root_ && value.is_string() && !value.get_ref<const std::string&>().starts_with('#'))
        return refuse(&schema, "'$id' below the root");
      break;

    case Keyword::kItems:
    case Keyword::kPrefixItems:
    case Keyword::kAdditionalItems:
    case Keyword::kUnevaluatedItems:
    case Keyword::kProperties:
    case Keyword::kPatternProperties:
    case Keyword::kAdditionalProperties:
    case Keyword::kUnevaluatedProperties:
      break;  // together, after the others
  }
}

uint8_t SchemaReader::types_of(const SchemaJson& schema, const SchemaJson& value) {
  const auto bits_of = [&](const SchemaJson& name) -> uint8_t {
    const auto* const known = std::find_if(std::begin(kTypeNames), std::end(kTypeNames), [&](const TypeName& t) {
      return name.is_string() && name.get_ref<const std::string&>() == t.name;
    });
    if (known != std::end(kTypeNames)) return known->bits;
    fail(&schema, "'type' is one or some of null, boolean, integer, number, string, array and object, not " +
                      name.dump(-1, ' ', false, SchemaJson::error_handler_t::replace).substr(0, 50));
    return 0;
  };
  if (!value.is_array()) return bits_of(value);
  uint8_t bits = 0;
  for (const auto& name : value) bits |= bits_of(name);
  return bits;
}

void SchemaReader::apply_values(const SchemaJson& values, bool is_list, Shape* shape) {
  std::vector<const SchemaJson*> listed;
  if (is_list)
    for (const auto& value : values) listed.push_back(&value);
  else
    listed.push_back(&values);
  spend(listed.size());
  shape->is_typed = true;
  std::set<std::string> allowed;
  const bool is_narrowed = shape->values.has_value();
  if (is_narrowed)
    for (const SchemaJson* value : *shape->values) allowed.insert(canonical_text(*value));
  std::set<std::string> seen;
  std::vector<const SchemaJson*> kept;
  for (const SchemaJson* value : listed) {
    const std::string text = canonical_text(*value);
    if ((!is_narrowed || allowed.contains(text)) && seen.insert(text).second) kept.push_back(value);
  }
  if (kept.empty()) shape->types = 0;
  shape->values = std::move(kept);
}

std::optional<NumberBound> SchemaReader::number_bound(const SchemaJson& schema, const std::string& keyword,
                                                      const SchemaJson& value) {
  const bool is_minimum = keyword == "minimum" || keyword == "exclusiveMinimum";
  bool is_exclusive = keyword.starts_with("exclusive");
  if (is_exclusive && value.is_boolean()) return std::nullopt;  // draft 4: it belongs to the other keyword
  if (const auto old = schema.find(is_minimum ? "exclusiveMinimum" : "exclusiveMaximum");
      !is_exclusive && old != schema.end())
    is_exclusive = old->is_boolean() && old->get<bool>();
  const auto decimal = decimal_of(value);
  if (!decimal) {
    fail(&schema, "'" + keyword + "' is a number of at most 400 digits");
    return std::nullopt;
  }
  using Kind = NumberBound::Kind;
  const Kind kind =
      is_minimum ? (is_exclusive ? Kind::kMoreThan : Kind::kAtLeast) : (is_exclusive ? Kind::kLessThan : Kind::kAtMost);
  return NumberBound{kind, *decimal};
}

std::optional<Decimal> SchemaReader::divisor(const SchemaJson& schema, const SchemaJson& value) {
  const auto decimal = decimal_of(value);
  const bool is_positive = decimal && !decimal->negative && (decimal->whole != "0" || !decimal->fraction.empty());
  if (is_positive) return decimal;
  fail(&schema, "'multipleOf' is a number above 0");
  return std::nullopt;
}

uint64_t SchemaReader::count(const SchemaJson& schema, const std::string& keyword, const SchemaJson& value) {
  const auto decimal = decimal_of(value);
  if (!decimal || decimal->negative || !decimal->is_integer()) {
    fail(&schema, "'" + keyword + "' is a whole number, 0 or more");
    return 0;
  }
  constexpr size_t kDigitsMax = 18;
  return decimal->whole.size() > kDigitsMax ? kNoBound : std::stoull(decimal->whole);
}

std::vector<std::string> SchemaReader::name_list(const SchemaJson& schema, const std::string& keyword,
                                                 const SchemaJson& value) {
  std::vector<std::string> names;
  const bool is_list =
      value.is_array() && std::all_of(value.begin(), value.end(), [](const auto& v) { return v.is_string(); });
  if (!is_list)
    fail(&schema, "'" + keyword + "' is a list of names");
  else
    for (const auto& name : value) names.push_back(name.get<std::string>());
  return names;
}

std::vector<Atom> SchemaReader::schema_list(const SchemaJson& schema, const std::string& keyword,
                                            const SchemaJson& value) {
  std::vector<Atom> atoms;
  if (!value.is_array() || value.empty()) fail(&schema, "'" + keyword + "' is a list of schemas");
  if (value.is_array())
    for (const auto& item : value) atoms.push_back({&item});
  return atoms;
}

std::shared_ptr<const Dfa> SchemaReader::pattern(const SchemaJson& schema, const std::string& keyword,
                                                 const std::string& text) {
  auto& known = patterns_[text];
  if (known) return known;
  Result<Dfa> dfa = compile_regex(text, false);
  if (!dfa.ok() && !failed()) {
    fail(&schema, "'" + keyword + "' " + dfa.status().message());
    status_ = Status(dfa.status().code(), status_.message());
  }
  known = std::make_shared<const Dfa>(dfa.ok() ? *std::move(dfa) : Dfa{});
  spend(known->state_count() / 100);
  return known;
}

void SchemaReader::apply_format(const SchemaJson& schema, const SchemaJson& value, Shape* shape) {
  if (!value.is_string()) return fail(&schema, "'format' is a text");
  const std::string& name = value.get_ref<const std::string&>();
  if (const Dfa* texts = string_format(name)) {
    shape->mentioned |= kStringType;
    const auto for_ever = [](const Dfa* dfa) { return std::shared_ptr<const Dfa>(std::shared_ptr<const Dfa>(), dfa); };
    const CountableFormat countable = countable_string_format(name);
    shape->strings.push_back({for_ever(texts), false, for_ever(countable.texts), countable.length_max});
    return;
  }
  const auto* const known = std::find_if(std::begin(kNumberFormats), std::end(kNumberFormats),
                                         [&](const NumberFormat& f) { return name == f.name; });
  if (known == std::end(kNumberFormats)) return refuse(&schema, "'format' \"" + name.substr(0, 50) + "\"");
  shape->mentioned |= kNumberTypes;
  if (known->min) shape->numbers.bounds.push_back({NumberBound::Kind::kAtLeast, *decimal_of(SchemaJson(*known->min))});
  if (known->max) shape->numbers.bounds.push_back({NumberBound::Kind::kAtMost, *decimal_of(SchemaJson(*known->max))});
}

void SchemaReader::apply_array_keywords(const SchemaJson& schema, uint32_t chain, Shape* shape) {
  const auto items = schema.find("items");
  const auto prefix = schema.find("prefixItems");
  const auto additional = schema.find("additionalItems");
  const auto unevaluated = schema.find("unevaluatedItems");
  const auto end = schema.end();
  if (items == end && prefix == end && unevaluated == end) return;
  shape->mentioned |= kArrayType;
  ArrayPart part;
  part.chain = chain;
  if (prefix != end) part.prefix = schema_list(schema, "prefixItems", *prefix);
  if (items != end && items->is_array()) {  // as it was before 2020-12
    for (const auto& item : *items) part.prefix.push_back({&item});
    if (additional != end) part.rest = Atom{&*additional};
  } else if (items != end) {
    part.rest = Atom{&*items};
  }
  if (items != end || prefix != end) shape->arrays.push_back(std::move(part));
  if (unevaluated == end) return;
  if (shape->unevaluated_items) return refuse(&schema, "a second 'unevaluatedItems' for the same value");
  shape->unevaluated_items = Unevaluated{{&*unevaluated}, chain};
}

void SchemaReader::apply_object_keywords(const SchemaJson& schema, uint32_t chain, Shape* shape) {
  const auto properties = schema.find("properties");
  const auto patterns = schema.find("patternProperties");
  const auto additional = schema.find("additionalProperties");
  const auto unevaluated = schema.find("unevaluatedProperties");
  const auto end = schema.end();
  if (properties == end && patterns == end && additional == end && unevaluated == end) return;
  shape->mentioned |= kObjectType;
  ObjectPart part;
  part.chain = chain;
  if (properties != end) {
    if (!properties->is_object()) return fail(&schema, "'properties' is an object of schemas");
    part.properties = &*properties;
  }
  if (patterns != end) {
    if (!patterns->is_object()) return fail(&schema, "'patternProperties' is an object of schemas");
    for (const auto& [text, value] : patterns->items())
      part.patterns.emplace_back(pattern(schema, "patternProperties", text), Atom{&value});
  }
  if (additional != end) part.additional = Atom{&*additional};
  if (properties != end || patterns != end || additional != end) shape->objects.push_back(std::move(part));
  if (unevaluated == end) return;
  if (shape->unevaluated_properties) return refuse(&schema, "a second 'unevaluatedProperties' for the same value");
  shape->unevaluated_properties = Unevaluated{{&*unevaluated}, chain};
}

void SchemaReader::apply_condition(const SchemaJson& schema, uint32_t chain, Draft* draft) {
  const auto then = schema.find("then");
  const auto otherwise = schema.find("else");
  if (then == schema.end() && otherwise == schema.end()) return;
  const SchemaJson* const condition = &schema["if"];
  Group group{&schema, chain, {}, {}};
  group.alternatives.push_back({{{condition}}, {}});
  if (then != schema.end()) group.alternatives.back().atoms.push_back({&*then});
  group.alternatives.push_back({{{condition, Demand::kFails}}, {}});
  if (otherwise != schema.end()) group.alternatives.back().atoms.push_back({&*otherwise});
  add_group(draft, std::move(group));
}

// `dependentRequired`, `dependentSchemas`, and `dependencies`, which was both.
void SchemaReader::apply_dependencies(const SchemaJson& schema, const SchemaJson& value, uint32_t chain, Draft* draft) {
  if (!value.is_object()) return fail(&schema, "dependencies are an object, by the name of a property");
  draft->shape.mentioned |= kObjectType;
  for (const auto& [name, demanded] : value.items()) {
    Group group{&schema, chain, {}, {}};
    group.alternatives.push_back({{}, [name = name](Shape& shape) { shape.forbidden.push_back(name); }});
    if (demanded.is_array()) {
      std::vector<std::string> all = name_list(schema, name, demanded);
      all.push_back(name);
      group.alternatives.push_back(
          {{}, [all](Shape& shape) { shape.required.insert(shape.required.end(), all.begin(), all.end()); }});
    } else {
      group.alternatives.push_back({{{&demanded}}, [name = name](Shape& shape) { shape.required.push_back(name); }});
    }
    add_group(draft, std::move(group));
  }
}

void SchemaReader::apply_one_of(const SchemaJson& schema, const SchemaJson& alternatives, uint32_t chain,
                                Draft* draft) {
  const std::vector<Atom> atoms = schema_list(schema, "oneOf", alternatives);
  Group group{&schema, chain, {}, {}};
  for (const Atom& atom : atoms) {
    Alternative alternative{{atom}, {}};
    for (const Atom& other : atoms) {
      if (&other == &atom) continue;
      if (!spend(1)) return;
      if (!clearly_disjoint(*atom.schema, *other.schema))
        alternative.atoms.push_back({other.schema, Demand::kFailsKnowably});
    }
    group.alternatives.push_back(std::move(alternative));
  }
  add_group(draft, std::move(group));
}

const SchemaJson* SchemaReader::resolve(const SchemaJson& schema, const SchemaJson& reference) {
  if (!reference.is_string()) {
    fail(&schema, "'$ref' is a text");
    return nullptr;
  }
  std::string text = reference.get<std::string>();
  const std::string shown = "'$ref' \"" + text.substr(0, 100) + "\"";
  if (const auto id = root_.find("$id"); root_.is_object() && id != root_.end() && id->is_string()) {
    std::string_view base = id->get_ref<const std::string&>();
    if (base.ends_with('#')) base.remove_suffix(1);
    if (!base.empty() && text.starts_with(base) && (text.size() == base.size() || text[base.size()] == '#'))
      text = text.size() == base.size() ? "#" : text.substr(base.size());
  }
  if (!text.starts_with('#')) {
    refuse(&schema, shown + " to another document");
    return nullptr;
  }
  text = percent_decoded(text.substr(1));
  const SchemaJson* target = text.empty() || text[0] == '/' ? follow_pointer(root_, text) : find_anchor(text);
  if (target == nullptr) fail(&schema, shown + " leads nowhere");
  return target;
}

const SchemaJson* SchemaReader::find_anchor(std::string_view name) const {
  std::vector<const SchemaJson*> stack{&root_};
  while (!stack.empty()) {
    const SchemaJson* at = stack.back();
    stack.pop_back();
    if (!at->is_structured()) continue;
    if (at->is_object()) {
      const auto anchor = at->find("$anchor");
      if (anchor != at->end() && anchor->is_string() && anchor->get_ref<const std::string&>() == name) return at;
      const auto id = at->find("$id");  // as it was before 2019-09
      if (id != at->end() && id->is_string() && id->get_ref<const std::string&>() == "#" + std::string(name)) return at;
    }
    for (const auto& child : *at) stack.push_back(&child);
  }
  return nullptr;
}

}  // namespace twostroke::grammar
