// SchemaWriter: from the shapes of a schema to expressions. Goals that hold others (items, properties) become rules,
// written one after the other from a queue, so that no schema, however it refers to itself, makes this recurse.
//
// Thread-safety: one user at a time. Builder and schema must outlive it.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/status.h"
#include "server/text/grammar/grammar_builder.h"
#include "server/text/grammar/json_expressions.h"
#include "server/text/grammar/json_schema.h"
#include "server/text/grammar/schema_reader.h"

namespace twostroke::grammar {

class SchemaWriter {
 public:
  SchemaWriter(GrammarBuilder& builder, const SchemaJson& schema, const JsonSchemaOptions& options)
      : builder_(builder), schema_(schema), options_(options), reader_(schema), json_(builder, options) {}

  Result<ExprId> write();  // once

 private:
  struct Member {
    ExprId pair;     // name and value
    ExprId another;  // with a comma before it; or nothing, where it is optional
    bool is_required;
  };
  // Some members in a row: where nothing has been written before, at least one; and where something has.
  struct Members {
    ExprId first;
    ExprId more;
    bool is_optional;  // all of them
  };

  // Nothing, in all of these: no value.
  std::optional<ExprId> goal(const Goal& goal);
  void shape(const Shape& shape, std::vector<ExprId>* alternatives);
  void values(const Shape& shape, std::vector<ExprId>* alternatives);
  std::optional<ExprId> number(const Shape& shape);
  std::optional<ExprId> string(const Shape& shape);
  std::optional<ExprId> array(const Shape& shape);
  std::optional<ExprId> object(const Shape& shape);

  // Items [begin, end) with a comma before each: all, or any number from the front but all.
  ExprId all_items(const std::vector<ExprId>& items, size_t begin, size_t end);
  std::optional<ExprId> fewer_items(const std::vector<ExprId>& items, size_t begin, size_t end);

  std::vector<std::string> names(const Shape& shape) const;
  std::optional<ExprId> other_members(const Shape& shape, const std::vector<std::string>& listed);
  Members members_of(const std::vector<Member>& members, size_t begin, size_t end);
  ExprId block_of(ExprId body, const std::vector<Member>& members);
  std::optional<ExprId> counted_members(const Shape& shape, const std::vector<Member>& members,
                                        std::optional<ExprId> other);
  ExprId choice(const std::vector<ExprId>& alternatives);
  ExprId optional(ExprId part);

  GrammarBuilder& builder_;
  const SchemaJson& schema_;
  JsonSchemaOptions options_;
  SchemaReader reader_;
  JsonExpressions json_;
  std::map<Goal, std::optional<ExprId>> written_;
  std::deque<std::pair<RuleId, Goal>> queue_;
  const SchemaJson* owner_ = nullptr;  // whose goal is being written, for messages
};

}  // namespace twostroke::grammar
