// What it means that a schema does not hold: one of its keywords does not. Each keyword gives alternatives of its own.
#include <algorithm>
#include <utility>

#include "server/text/grammar/schema_keywords.h"
#include "server/text/grammar/schema_reader.h"

namespace twostroke::grammar {

namespace {

void narrow_types(Shape* shape, uint8_t types) {
  shape->types &= types;
  shape->is_typed = true;
}

NumberBound::Kind opposite(NumberBound::Kind kind) {
  switch (kind) {
    case NumberBound::Kind::kAtLeast:
      return NumberBound::Kind::kLessThan;
    case NumberBound::Kind::kMoreThan:
      return NumberBound::Kind::kAtMost;
    case NumberBound::Kind::kAtMost:
      return NumberBound::Kind::kMoreThan;
    case NumberBound::Kind::kLessThan:
      return NumberBound::Kind::kAtLeast;
    case NumberBound::Kind::kEqual:
      break;
  }
  return kind;
}

// Scalars only.
void exclude(Shape* shape, const SchemaJson& value) {
  switch (value.type()) {
    case SchemaJson::value_t::null:
      shape->types &= static_cast<uint8_t>(~kNullType);
      break;
    case SchemaJson::value_t::boolean:
      shape->types &= static_cast<uint8_t>(~(value.get<bool>() ? kTrueType : kFalseType));
      break;
    case SchemaJson::value_t::string:
      shape->excluded_strings.push_back(value.get<std::string>());
      break;
    default:
      if (const auto number = decimal_of(value))
        shape->numbers.excluded.push_back({NumberBound::Kind::kEqual, *number});
      break;
  }
}

// An array whose item at `index` is there and does not satisfy a schema.
std::function<void(Shape&)> item_fails(size_t index, const Atom& atom) {
  return [index, atom](Shape& shape) {
    static const SchemaJson kAnything = true;
    narrow_types(&shape, kArrayType);
    shape.items.min = std::max<uint64_t>(shape.items.min, index + 1);
    ArrayPart part;
    part.prefix.assign(index, {&kAnything});
    part.prefix.push_back(atom);
    shape.arrays.push_back(std::move(part));
  };
}

}  // namespace

std::vector<SchemaReader::Alternative> SchemaReader::negation(const Atom& atom) {
  const SchemaJson& schema = *atom.schema;
  std::vector<Alternative> alternatives;
  if (schema.is_boolean()) {
    if (!schema.get<bool>()) alternatives.push_back({});
    return alternatives;
  }
  if (!schema.is_object()) {
    fail(&schema, "a schema is an object or a boolean");
    return alternatives;
  }
  Status refused;
  for (const auto& [keyword, value] : schema.items()) {
    negate_keyword(schema, keyword, value, atom.demand, &alternatives);
    if (status_.code() != StatusCode::kUnsupported) continue;
    refused = std::exchange(status_, Status());
    if (atom.demand == Demand::kFails) break;
    has_left_out_ = true;
  }
  if (!refused.ok() && (atom.demand == Demand::kFails || alternatives.empty())) status_ = refused;
  return alternatives;
}

// Whether some way to fail can be said; it has no effect. No, where a schema leads back to itself, or too far.
bool SchemaReader::can_negate(const Atom& atom) {
  constexpr int kDepthMax = 30;
  const auto [known, is_new] = negatable_.try_emplace(atom, false);
  if (!is_new) return known->second;
  if (negation_depth_ >= kDepthMax || failed()) return false;
  ++negation_depth_;
  const std::vector<Alternative> alternatives = negation(atom);
  bool result = !failed();
  if (status_.code() == StatusCode::kUnsupported) status_ = Status();
  result = result && std::any_of(alternatives.begin(), alternatives.end(), [&](const Alternative& alternative) {
             return std::all_of(alternative.atoms.begin(), alternative.atoms.end(),
                                [&](const Atom& part) { return part.demand == Demand::kHolds || can_negate(part); });
           });
  --negation_depth_;
  negatable_[atom] = result;
  return result;
}

void SchemaReader::negate_keyword(const SchemaJson& schema, const std::string& name, const SchemaJson& value,
                                  Demand demand, std::vector<Alternative>* alternatives) {
  const auto keyword = keyword_named(name);
  if (!keyword) return;
  const auto add = [&](std::function<void(Shape&)> narrow) { alternatives->push_back({{}, std::move(narrow)}); };
  // Fewer than a minimum, more than a maximum.
  const auto add_count = [&](uint8_t type, CountBounds Shape::*bounds, bool is_minimum) {
    const uint64_t limit = count(schema, name, value);
    if (is_minimum && limit == 0) return;
    add([=](Shape& shape) {
      narrow_types(&shape, type);
      CountBounds& own = shape.*bounds;
      if (is_minimum)
        own.max = std::min(own.max, limit - 1);
      else
        own.min = std::max(own.min, limit == kNoBound ? limit : limit + 1);
    });
  };
  switch (*keyword) {
    case Keyword::kType: {
      const auto others = static_cast<uint8_t>(~types_of(schema, value));
      if (others != 0) add([others](Shape& shape) { narrow_types(&shape, others); });
      return;
    }
    case Keyword::kEnum:
    case Keyword::kConst: {
      const bool is_list = *keyword == Keyword::kEnum;
      std::vector<const SchemaJson*> values;
      if (is_list && value.is_array())
        for (const auto& item : value) values.push_back(&item);
      else
        values.push_back(&value);
      for (const SchemaJson* item : values)
        if (item->is_structured()) return refuse(&schema, "the negation of '" + name + "' with an array or an object");
      add([values](Shape& shape) {
        shape.is_typed = true;
        for (const SchemaJson* item : values) exclude(&shape, *item);
      });
      return;
    }

    case Keyword::kMinimum:
    case Keyword::kMaximum:
    case Keyword::kExclusiveMinimum:
    case Keyword::kExclusiveMaximum:
      if (auto bound = number_bound(schema, name, value)) {
        bound->kind = opposite(bound->kind);
        add([bound = *bound](Shape& shape) {
          narrow_types(&shape, kNumberTypes);
          shape.numbers.bounds.push_back(bound);
        });
      }
      return;
    case Keyword::kMultipleOf:
      if (const auto of = divisor(schema, value)) {
        add([of = *of](Shape& shape) {
          narrow_types(&shape, kNumberTypes);
          shape.numbers.not_multiples_of.push_back(of);
        });
      }
      return;

    case Keyword::kMinLength:
      return add_count(kStringType, &Shape::length, true);
    case Keyword::kMaxLength:
      return add_count(kStringType, &Shape::length, false);
    case Keyword::kMinItems:
      return add_count(kArrayType, &Shape::items, true);
    case Keyword::kMaxItems:
      return add_count(kArrayType, &Shape::items, false);
    case Keyword::kMinProperties:
      return add_count(kObjectType, &Shape::properties, true);
    case Keyword::kMaxProperties:
      return add_count(kObjectType, &Shape::properties, false);
    case Keyword::kPattern:
      if (!value.is_string()) return fail(&schema, "'pattern' is a text");
      add([texts = pattern(schema, name, value.get<std::string>())](Shape& shape) {
        narrow_types(&shape, kStringType);
        shape.strings.push_back({texts, true});
      });
      return;

    case Keyword::kRequired:
      for (const auto& required : name_list(schema, name, value)) {
        add([required](Shape& shape) {
          narrow_types(&shape, kObjectType);
          shape.forbidden.push_back(required);
        });
      }
      return;
    case Keyword::kProperties:
      if (!value.is_object()) return fail(&schema, "'properties' is an object of schemas");
      for (const auto& [property, property_schema] : value.items()) {
        if (property_schema.is_boolean() && property_schema.get<bool>()) continue;
        if (demand == Demand::kFailsKnowably && !can_negate({&property_schema, demand})) {
          has_left_out_ = true;
          continue;
        }
        add([property = property, atom = Atom{&property_schema, demand}](Shape& shape) {
          narrow_types(&shape, kObjectType);
          shape.required.push_back(property);
          shape.extra.emplace_back(property, atom);
        });
      }
      return;

    case Keyword::kAllOf:
      for (const Atom& atom : schema_list(schema, name, value)) alternatives->push_back({{{atom.schema, demand}}, {}});
      return;
    case Keyword::kAnyOf: {
      Alternative none;
      for (const Atom& atom : schema_list(schema, name, value)) none.atoms.push_back({atom.schema, demand});
      alternatives->push_back(std::move(none));
      return;
    }
    case Keyword::kNot:
      alternatives->push_back({{{&value}}, {}});
      return;
    case Keyword::kIf: {
      const auto add_branch = [&](const char* branch, Demand condition) {
        const auto found = schema.find(branch);
        if (found != schema.end()) alternatives->push_back({{{&value, condition}, {&*found, demand}}, {}});
      };
      add_branch("then", Demand::kHolds);
      add_branch("else", Demand::kFails);
      return;
    }
    case Keyword::kRef:
      if (const SchemaJson* target = resolve(schema, value)) alternatives->push_back({{{target, demand}}, {}});
      return;

    case Keyword::kUniqueItems:
      if (value.is_boolean() && !value.get<bool>()) return;
      return refuse(&schema, "the negation of '" + name + "'");
    case Keyword::kPrefixItems: {
      const std::vector<Atom> items = schema_list(schema, name, value);
      for (size_t i = 0; i < items.size(); ++i) {
        const Atom item{items[i].schema, demand};
        if (demand == Demand::kFails || can_negate(item))
          add(item_fails(i, item));
        else
          has_left_out_ = true;
      }
      return;
    }
    case Keyword::kItems:
      if (value.is_boolean() && value.get<bool>()) return;
      // Some item behind the prefix fails. That it is the first one is not all there is, but tells most arrays apart.
      if (demand == Demand::kFailsKnowably && !value.is_array() && can_negate({&value, demand})) {
        const auto prefix = schema.find("prefixItems");
        add(item_fails(prefix != schema.end() && prefix->is_array() ? prefix->size() : 0, {&value, demand}));
        has_left_out_ = true;
        return;
      }
      return refuse(&schema, "the negation of '" + name + "'");
    case Keyword::kAdditionalProperties:
      if (value.is_boolean() && value.get<bool>()) return;
      return refuse(&schema, "the negation of '" + name + "'");
    case Keyword::kId:
      return;
    default:
      return refuse(&schema, "the negation of '" + name + "'");
  }
}

}  // namespace twostroke::grammar
