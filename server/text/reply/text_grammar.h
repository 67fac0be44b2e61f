// Plain texts in a grammar: what may stand between markers that end it, and satisfies a schema of strings.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "kernels/status.h"
#include "server/text/grammar/grammar_builder.h"

namespace twostroke::reply {

// Any value satisfies the schema: it says nothing but what things are called.
bool says_nothing(const nlohmann::ordered_json& schema);

// Texts (not JSON: as they are) that hold none of the markers and, as strings, satisfy the schema. Errors: as
// grammar::json_schema_expression.
Result<grammar::ExprId> text_without(grammar::GrammarBuilder& builder, const std::vector<std::string>& markers,
                                     const nlohmann::ordered_json& schema);

// Texts that hold none of the markers; one that begins with '{' has none of the names, which are letters, digits, '_',
// '-' and '.', as a JSON string.
Result<grammar::ExprId> text_that_is_no_object_with(grammar::GrammarBuilder& builder,
                                                    const std::vector<std::string>& markers,
                                                    const std::vector<std::string>& names);

}  // namespace twostroke::reply
