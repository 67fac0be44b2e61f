// JSON Schema (draft 2020-12) as grammars of the JSON texts that satisfy it.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "kernels/status.h"
#include "server/text/grammar/grammar.h"
#include "server/text/grammar/grammar_builder.h"

namespace twostroke::grammar {

struct JsonSchemaOptions {
  bool any_whitespace = false;  // JSON's insignificant white space, bounded in length, wherever JSON allows it;
                                // false: one way to print, with a space behind ':' and ','
};

// Errors: kUnsupported names the keyword and its place ("properties.age: 'multipleOf' is not supported"); such a schema
// is never compiled without the keyword. kInvalidArgument: not a schema (a type that does not exist, bounds that leave
// nothing, a $ref to nowhere), or a limit.
Result<std::shared_ptr<const Grammar>> compile_json_schema(const nlohmann::ordered_json& schema,
                                                           const JsonSchemaOptions& options = {});
// The same as an expression within a larger grammar (a tool call's arguments).
Result<ExprId> json_schema_expression(GrammarBuilder& builder, const nlohmann::ordered_json& schema,
                                      const JsonSchemaOptions& options = {});
// Any JSON object: response_format json_object.
Result<std::shared_ptr<const Grammar>> compile_json_object(const JsonSchemaOptions& options = {});

}  // namespace twostroke::grammar
