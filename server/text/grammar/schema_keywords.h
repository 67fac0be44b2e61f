// The keywords of JSON Schema that say something about a value. All others are annotations, or act through these
// ("then", "$defs", ...).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace twostroke::grammar {

enum class Keyword : uint8_t {
  kType,
  kEnum,
  kConst,
  kMinimum,
  kMaximum,
  kExclusiveMinimum,
  kExclusiveMaximum,
  kMultipleOf,
  kMinLength,
  kMaxLength,
  kPattern,
  kFormat,
  kItems,
  kPrefixItems,
  kAdditionalItems,
  kMinItems,
  kMaxItems,
  kUniqueItems,
  kUnevaluatedItems,
  kContains,
  kProperties,
  kPatternProperties,
  kAdditionalProperties,
  kUnevaluatedProperties,
  kPropertyNames,
  kRequired,
  kMinProperties,
  kMaxProperties,
  kDependentRequired,
  kDependentSchemas,
  kDependencies,
  kAllOf,
  kAnyOf,
  kOneOf,
  kNot,
  kIf,
  kRef,
  kDynamicRef,
  kId,
};

std::optional<Keyword> keyword_named(std::string_view name);

}  // namespace twostroke::grammar
