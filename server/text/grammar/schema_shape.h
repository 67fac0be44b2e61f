// What a JSON Schema says about a value, sorted by the value's type: the step between schemas and grammars.
//
// A Goal is a set of schemas that must (or must not) hold for one value. SchemaReader turns it into Shapes, of which
// one has to fit: allOf, $ref and the like are merged, anyOf, oneOf, if and not have become alternatives. The schemas
// of items and properties stay goals, so that a recursive schema is a finite thing.
//
// Thread-safety: plain values.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/text/grammar/dfa.h"
#include "server/text/grammar/json_text.h"

namespace twostroke::grammar {

using SchemaJson = nlohmann::ordered_json;

enum class Demand : uint8_t {
  kHolds,
  kFails,
  kFailsKnowably,  // fails, and where that cannot be said exactly, in one of the ways that can be
};

struct Atom {
  const SchemaJson* schema = nullptr;
  Demand demand = Demand::kHolds;
  auto operator<=>(const Atom&) const = default;
};
using Goal = std::vector<Atom>;  // all of them; in the order in which they were met, which orders properties

// Types of values as bits. Integers are numbers without a fraction, as JSON Schema means it; other numbers are
// fractions.
enum TypeBits : uint8_t {
  kNullType = 1,
  kTrueType = 2,
  kFalseType = 4,
  kIntegerType = 8,
  kFractionType = 16,
  kStringType = 32,
  kArrayType = 64,
  kObjectType = 128,
  kNumberTypes = kIntegerType | kFractionType,
  kAllTypes = 255,
};

constexpr uint64_t kNoBound = std::numeric_limits<uint64_t>::max();

struct CountBounds {
  uint64_t min = 0;
  uint64_t max = kNoBound;
  bool is_bare() const { return min == 0 && max == kNoBound; }
  bool contains(uint64_t count) const { return count >= min && count <= max; }
};

struct StringRule {
  std::shared_ptr<const Dfa> texts;  // decoded
  bool negated = false;
  // In few states, for where lengths are bounded: texts of which those up to a length are most of `texts`; or null.
  std::shared_ptr<const Dfa> countable;
  uint64_t countable_length_max = kNoBound;
};

// Of one schema: `items` and `prefixItems`.
struct ArrayPart {
  std::vector<Atom> prefix;
  std::optional<Atom> rest;
  uint32_t chain = 0;  // SchemaReader's
};

// Of one schema: `properties`, `patternProperties`, `additionalProperties`.
struct ObjectPart {
  const SchemaJson* properties = nullptr;  // an object, or null
  std::vector<std::pair<std::shared_ptr<const Dfa>, Atom>> patterns;
  std::optional<Atom> additional;
  uint32_t chain = 0;  // SchemaReader's
};

// `unevaluatedItems`, `unevaluatedProperties`.
struct Unevaluated {
  Atom atom;
  uint32_t chain = 0;
};

// A value fits when it has one of the types, is one of `values` if there are any, and all that is said about its type
// is so.
struct Shape {
  uint8_t types = kAllTypes;
  bool is_typed = false;  // by `type`, `enum` or `const`, or their negation
  uint8_t mentioned = 0;  // types that have a keyword of their own
  std::optional<std::vector<const SchemaJson*>> values;

  NumberSet numbers;  // its `integers` and `fractions` are set where it is used

  CountBounds length;  // in code points
  std::vector<StringRule> strings;
  std::vector<std::string> excluded_strings;

  std::vector<ArrayPart> arrays;
  CountBounds items;
  bool is_unique = false;
  std::optional<Unevaluated> unevaluated_items;

  std::vector<ObjectPart> objects;
  std::vector<std::string> required;
  std::vector<std::string> forbidden;
  std::vector<std::pair<std::string, Atom>> extra;  // more about these properties
  Goal names;                                       // `propertyNames`
  CountBounds properties;
  std::optional<Unevaluated> unevaluated_properties;

  // The types that are meant: where none is named, those that have keywords.
  uint8_t meant_types() const { return !is_typed && mentioned != 0 ? types & mentioned : types; }
  bool bare_numbers() const {
    return numbers.bounds.empty() && numbers.excluded.empty() && numbers.multiples_of.empty() &&
           numbers.not_multiples_of.empty();
  }
  bool bare_strings() const { return length.is_bare() && strings.empty() && excluded_strings.empty(); }
  bool bare_arrays() const { return arrays.empty() && items.is_bare() && !is_unique && !unevaluated_items; }
  bool bare_objects() const {
    return objects.empty() && required.empty() && forbidden.empty() && extra.empty() && names.empty() &&
           properties.is_bare() && !unevaluated_properties;
  }
  bool is_bare() const {  // nothing is said
    return types == kAllTypes && !is_typed && mentioned == 0 && !values && bare_numbers() && bare_strings() &&
           bare_arrays() && bare_objects();
  }
};

// What the members of an object fall into.
struct KeyClass {
  Dfa names;  // decoded
  Goal goal;
};

// A text that is the same for equal values: members sorted, numbers as decimals.
std::string canonical_text(const SchemaJson& value);

}  // namespace twostroke::grammar
