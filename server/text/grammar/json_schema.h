// JSON Schema (draft 2020-12, with what drafts 4 to 7 spell otherwise) as grammars of JSON texts that satisfy it.
//
// Every text of such a grammar satisfies its schema; keywords that a grammar cannot hold a text to are refused by name,
// but for `uniqueItems` (an option). The reverse is not promised. A grammar leaves out, so that there is one way to
// write most values:
// - properties in another order than they are listed in (required ones that are listed nowhere come behind, then
//   additional ones); properties of a schema come before those of what it includes by allOf, $ref, anyOf, ...;
// - additional properties, where a schema lists some with `properties` or `patternProperties`, and says nothing about
//   others with `additionalProperties`, as callers who list properties mean it;
// - values of types that a schema without `type`, `enum` or `const` has no keyword for: {"minLength": 1} is a string.
//   One that says nothing at all stands for any value, and at the root for any object;
// - numbers with more than 16 digits before or behind the point, where no bound has more; integers as 1.0 or 1e2;
//   numbers under a condition with an exponent, or as -0;
// - names of listed properties, and `enum` and `const`, in other spellings than the usual one;
// - strings with a pattern or a format that are longer than a few hundred or thousand characters, where `maxLength` is
//   more than an automaton can count; and with `maxLength`, URIs with an IP address in brackets;
// - objects that reach `minProperties` by more than one additional property, whose names might repeat;
// - values for which more than one alternative of a `oneOf`, or of an `anyOf` beneath `unevaluatedProperties`, is hard
//   to tell from the others.
//
// Supported: type, enum, const; minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf (a number of up to
// five digits), of integers and decimals alike; minLength, maxLength, pattern, format (string_format.h; and int, uint,
// int8 to int64, uint8 to uint64, float, double); items, prefixItems, additionalItems, unevaluatedItems, minItems,
// maxItems, uniqueItems; properties, required, additionalProperties, patternProperties, unevaluatedProperties,
// propertyNames, minProperties, maxProperties, dependentRequired, dependentSchemas, dependencies; allOf, anyOf, oneOf,
// not, if, then, else; $ref within the document, $defs, definitions, $anchor, $id at the root. Where a keyword's
// negation is needed (not, if, and oneOf whose alternatives overlap), some are refused: items, additionalProperties,
// patternProperties and so on. Refused: contains, $dynamicRef, $recursiveRef, $id below the root, $ref to other
// documents, formats that are not known, minProperties that additional properties would have to fill (their names might
// repeat). All other words are annotations, as the standard has it; so are `title`, `description` and `default`.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "kernels/status.h"
#include "server/text/grammar/grammar.h"
#include "server/text/grammar/grammar_builder.h"

namespace twostroke::grammar {

// Arrays and objects in one another in a schema.
constexpr int kJsonSchemaDepthMax = 200;

struct JsonSchemaOptions {
  // JSON's insignificant white space between any two tokens, but not before or behind the whole. false: one way to
  // print, with a space behind ':' and ','.
  bool any_whitespace = true;
  // No grammar can see that two items are equal. true: `uniqueItems` is accepted all the same, and texts are not held
  // to it (the command `grammar`); false: it is refused (requests).
  bool ignore_unique_items = true;
};

// Errors: kUnsupported names the keyword and its place ("properties.age: 'contains' is not supported"); such a schema
// is never compiled without the keyword. kInvalidArgument: not a schema (a type that does not exist, a $ref to
// nowhere), one that no value satisfies, or a limit.
Result<std::shared_ptr<const Grammar>> compile_json_schema(const nlohmann::ordered_json& schema,
                                                           const JsonSchemaOptions& options = {});
// The same as an expression within a larger grammar (a tool call's arguments).
Result<ExprId> json_schema_expression(GrammarBuilder& builder, const nlohmann::ordered_json& schema,
                                      const JsonSchemaOptions& options = {});
// Whether a value satisfies a schema that compiles, exactly: `uniqueItems` too, to which no grammar holds a text. As
// deep as the value, whose depth the caller bounds. Errors as above.
Result<bool> satisfies_json_schema(const nlohmann::ordered_json& schema, const nlohmann::ordered_json& value);
// Any JSON object: response_format json_object.
Result<std::shared_ptr<const Grammar>> compile_json_object(const JsonSchemaOptions& options = {});

}  // namespace twostroke::grammar
