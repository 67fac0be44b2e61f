// Which values satisfy a shape, and which shapes have no value.
#include <algorithm>
#include <utility>

#include "server/text/grammar/code_point_set.h"
#include "server/text/grammar/dfa_operations.h"
#include "server/text/grammar/schema_reader.h"

namespace twostroke::grammar {

namespace {

constexpr int kNeverDepth = 3;  // how far into properties and items a contradiction is looked for
constexpr size_t kFewValues = 64;

uint64_t code_point_count(const std::string& text) {
  return static_cast<uint64_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

uint8_t type_bit(const SchemaJson& value) {
  switch (value.type()) {
    case SchemaJson::value_t::null:
      return kNullType;
    case SchemaJson::value_t::boolean:
      return value.get<bool>() ? kTrueType : kFalseType;
    case SchemaJson::value_t::string:
      return kStringType;
    case SchemaJson::value_t::array:
      return kArrayType;
    case SchemaJson::value_t::object:
      return kObjectType;
    default:
      break;
  }
  const auto number = decimal_of(value);
  return number && number->is_integer() ? kIntegerType : kFractionType;
}

std::string decimal_text(const Decimal& d) {
  return (d.negative ? "-" : "") + d.whole + (d.fraction.empty() ? "" : "." + d.fraction);
}

bool have_common(const std::set<std::string>& a, const std::set<std::string>& b) {
  return std::any_of(a.begin(), a.end(), [&](const auto& text) { return b.contains(text); });
}

bool contains_name(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::string canonical_text(const SchemaJson& value) {
  if (value.is_number()) {
    const auto number = decimal_of(value);
    return number ? decimal_text(*number) : value.dump();
  }
  if (value.is_array()) {
    std::string text = "[";
    for (const auto& item : value) text += canonical_text(item) + ",";
    return text + "]";
  }
  if (value.is_object()) {
    std::map<std::string, std::string> members;
    for (const auto& [name, member] : value.items()) members[name] = canonical_text(member);
    std::string text = "{";
    for (const auto& [name, member] : members) text += SchemaJson(name).dump() + ":" + member + ",";
    return text + "}";
  }
  return value.dump();
}

bool SchemaReader::accepts(const Goal& goal, const SchemaJson& value) {
  const Shapes alternatives = shapes(goal);
  return std::any_of(alternatives->begin(), alternatives->end(), [&](const Shape& s) { return fits(s, value); });
}

bool SchemaReader::fits(const Shape& shape, const SchemaJson& value) {
  if (!spend(1)) return false;
  const uint8_t type = type_bit(value);
  if ((shape.types & type) == 0) return false;
  if (shape.values) {
    const std::string text = canonical_text(value);
    const auto is_same = [&](const SchemaJson* listed) { return listed == &value || canonical_text(*listed) == text; };
    if (std::none_of(shape.values->begin(), shape.values->end(), is_same)) return false;
  }
  if ((type & kNumberTypes) != 0) {
    const auto number = decimal_of(value);
    return number && fits_number(shape, *number);
  }
  if (type == kStringType) return fits_string(shape, value.get_ref<const std::string&>());
  if (type == kArrayType) return fits_array(shape, value);
  if (type == kObjectType) return fits_object(shape, value);
  return true;
}

bool SchemaReader::fits_number(const Shape& shape, const Decimal& value) {
  const NumberSet& set = shape.numbers;
  return std::all_of(set.bounds.begin(), set.bounds.end(), [&](const auto& bound) { return holds(bound, value); }) &&
         std::none_of(set.excluded.begin(), set.excluded.end(),
                      [&](const auto& bound) { return holds(bound, value); }) &&
         std::all_of(set.multiples_of.begin(), set.multiples_of.end(),
                     [&](const auto& of) { return is_multiple(value, of); }) &&
         std::none_of(set.not_multiples_of.begin(), set.not_multiples_of.end(),
                      [&](const auto& of) { return is_multiple(value, of); });
}

bool SchemaReader::fits_string(const Shape& shape, const std::string& text) {
  const auto fits_rule = [&](const StringRule& rule) { return rule.texts->matches(text) != rule.negated; };
  return shape.length.contains(code_point_count(text)) && !contains_name(shape.excluded_strings, text) &&
         std::all_of(shape.strings.begin(), shape.strings.end(), fits_rule);
}

bool SchemaReader::fits_array(const Shape& shape, const SchemaJson& value) {
  if (!shape.items.contains(value.size())) return false;
  std::set<std::string> seen;
  for (size_t i = 0; i < value.size(); ++i) {
    if (shape.is_unique && !seen.insert(canonical_text(value[i])).second) return false;
    if (!accepts(item_goal(shape, i), value[i])) return false;
  }
  return true;
}

bool SchemaReader::fits_object(const Shape& shape, const SchemaJson& value) {
  const auto has = [&](const std::string& name) { return value.contains(name); };
  if (!shape.properties.contains(value.size()) || !std::all_of(shape.required.begin(), shape.required.end(), has) ||
      std::any_of(shape.forbidden.begin(), shape.forbidden.end(), has))
    return false;
  for (const auto& [name, member] : value.items()) {
    if (!shape.names.empty() && !accepts(shape.names, SchemaJson(name))) return false;
    if (!accepts(member_goal(shape, name), member)) return false;
  }
  return true;
}

bool SchemaReader::is_impossible(const Shape& shape, int depth) {
  uint8_t types = shape.types;
  const auto without = [&](uint8_t bits) { types &= static_cast<uint8_t>(~bits); };
  if (shape.values) {
    Shape others = shape;
    others.values.reset();
    return std::none_of(shape.values->begin(), shape.values->end(),
                        [&](const auto* value) { return fits(others, *value); });
  }
  if ((types & kNumberTypes) != 0 && !shape.bare_numbers()) {
    const Result<Dfa> texts = number_texts(numbers(shape));
    if (texts.ok() && texts->empty()) without(kNumberTypes);
  }
  if ((types & kStringType) != 0 && !shape.bare_strings()) {
    const bool is_empty = shape.length.min > shape.length.max ||
                          ((!shape.strings.empty() || !shape.excluded_strings.empty()) && strings(shape).empty());
    if (is_empty) without(kStringType);
  }
  if ((types & kArrayType) != 0) {
    bool is_empty = shape.items.min > shape.items.max;
    constexpr uint64_t kItemsLookedAt = 8;
    for (size_t i = 0; i < std::min(shape.items.min, kItemsLookedAt) && !is_empty; ++i)
      is_empty = is_never(item_goal(shape, i), depth + 1);
    if (is_empty) without(kArrayType);
  }
  if ((types & kObjectType) != 0) {
    const auto cannot_be = [&](const std::string& name) {
      return contains_name(shape.forbidden, name) || is_never(member_goal(shape, name), depth + 1) ||
             (!shape.names.empty() && !accepts(shape.names, SchemaJson(name)));
    };
    if (shape.properties.min > shape.properties.max ||
        std::any_of(shape.required.begin(), shape.required.end(), cannot_be))
      without(kObjectType);
  }
  return types == 0;
}

bool SchemaReader::is_never(const Goal& goal, int depth) {
  if (depth > kNeverDepth || goal.empty()) return false;
  const Shapes alternatives = shapes(goal);
  return std::all_of(alternatives->begin(), alternatives->end(),
                     [&](const Shape& s) { return is_impossible(s, depth); });
}

// Whether a schema might hold for a value of the draft, as far as it is known; where that cannot be said, it might.
bool SchemaReader::can_hold(const Draft& draft, const Atom& atom) {
  Draft with = draft;
  with.groups.clear();
  push(&with, {atom}, 0);
  std::vector<Shape> alternatives;
  expand(std::move(with), &alternatives);
  const bool is_impossible_now = std::all_of(alternatives.begin(), alternatives.end(),
                                             [&](const Shape& shape) { return is_impossible(shape, 0); });
  if (status_.code() == StatusCode::kUnsupported) {
    status_ = Status();
    return true;
  }
  return !is_impossible_now;
}

// The only values of a shape, where they are few.
std::optional<std::set<std::string>> SchemaReader::few_values(const Shape& shape) {
  if (!shape.values || shape.values->size() > kFewValues) return std::nullopt;
  std::set<std::string> texts;
  for (const SchemaJson* value : *shape.values) texts.insert(canonical_text(*value));
  return texts;
}

const std::optional<std::vector<SchemaReader::Discriminator>>& SchemaReader::discriminators(const SchemaJson& schema) {
  if (const auto known = discriminators_.find(&schema); known != discriminators_.end()) return known->second;
  std::vector<Discriminator> result;
  const Shapes alternatives = shapes({{&schema}});  // named: nobody else may hold it
  for (const Shape& shape : *alternatives) {
    Discriminator discriminator{shape.types, few_values(shape), {}};
    for (const auto& name : shape.required) {
      std::set<std::string> texts;
      bool is_fixed = true;
      const Shapes members = shapes(member_goal(shape, name));
      for (const Shape& member : *members) {
        const auto values = few_values(member);
        is_fixed = is_fixed && values;
        if (values) texts.insert(values->begin(), values->end());
      }
      if (is_fixed) discriminator.properties.emplace(name, std::move(texts));
    }
    result.push_back(std::move(discriminator));
  }
  auto& known = discriminators_[&schema];
  if (status_.code() == StatusCode::kUnsupported) {
    status_ = Status();  // told where the alternative itself is read
  } else {
    known = std::move(result);
  }
  return known;
}

bool SchemaReader::clearly_disjoint(const SchemaJson& a, const SchemaJson& b) {
  const auto is_disjoint = [](const Discriminator& left, const Discriminator& right) {
    const auto types = static_cast<uint8_t>(left.types & right.types);
    if (types == 0 || (left.values && right.values && !have_common(*left.values, *right.values))) return true;
    if (types != kObjectType) return false;
    return std::any_of(left.properties.begin(), left.properties.end(), [&](const auto& property) {
      const auto other = right.properties.find(property.first);
      return other != right.properties.end() && !have_common(property.second, other->second);
    });
  };
  const auto& left = discriminators(a);
  const auto& right = discriminators(b);
  if (!left || !right) return false;
  return std::all_of(left->begin(), left->end(), [&](const auto& l) {
    return std::all_of(right->begin(), right->end(), [&](const auto& r) { return is_disjoint(l, r); });
  });
}

}  // namespace twostroke::grammar
