#include "server/text/grammar/json_schema.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "server/text/grammar/json_expressions.h"
#include "server/text/grammar/schema_reader.h"
#include "server/text/grammar/schema_writer.h"

namespace twostroke::grammar {

namespace {

bool is_deeper_than(const SchemaJson& schema, int depth_max) {
  std::vector<std::pair<const SchemaJson*, int>> stack{{&schema, 0}};
  while (!stack.empty()) {
    const auto [at, depth] = stack.back();
    stack.pop_back();
    if (!at->is_structured()) continue;
    if (depth >= depth_max) return true;
    for (const auto& child : *at) stack.emplace_back(&child, depth + 1);
  }
  return false;
}

}  // namespace

Result<ExprId> json_schema_expression(GrammarBuilder& builder, const nlohmann::ordered_json& schema,
                                      const JsonSchemaOptions& options) {
  if (is_deeper_than(schema, kJsonSchemaDepthMax)) {
    return invalid_argument("the schema nests more than " + std::to_string(kJsonSchemaDepthMax) +
                            " arrays and objects; use '$ref' for what repeats");
  }
  return SchemaWriter(builder, schema, options).write();
}

Result<std::shared_ptr<const Grammar>> compile_json_schema(const nlohmann::ordered_json& schema,
                                                           const JsonSchemaOptions& options) {
  GrammarBuilder builder;
  const Result<ExprId> root = json_schema_expression(builder, schema, options);
  if (!root.ok()) return root.status();
  return builder.build(*root);
}

Result<bool> satisfies_json_schema(const nlohmann::ordered_json& schema, const nlohmann::ordered_json& value) {
  SchemaReader reader(schema);
  const bool satisfied = reader.accepts({Atom{&schema}}, value);
  if (reader.failed()) return reader.status();
  return satisfied;
}

Result<std::shared_ptr<const Grammar>> compile_json_object(const JsonSchemaOptions& options) {
  GrammarBuilder builder;
  return builder.build(JsonExpressions(builder, options).any_object());
}

}  // namespace twostroke::grammar
