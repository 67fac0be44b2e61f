// The parts that all JSON grammars are put together from.
//
// Thread-safety: one user at a time, with its builder.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/text/grammar/grammar_builder.h"
#include "server/text/grammar/json_schema.h"

namespace twostroke::grammar {

class JsonExpressions {
 public:
  JsonExpressions(GrammarBuilder& builder, const JsonSchemaOptions& options);

  // A bound for GrammarBuilder::repeat(). What is beyond its limit becomes no bound: texts that long are never written.
  static uint32_t repeat_bound(uint64_t max);

  // Any value of a kind.
  ExprId any_value();
  ExprId any_object();
  ExprId any_array();
  ExprId any_string();
  ExprId any_number();

  // A string of `min` to `max` code points.
  ExprId string_of_length(uint64_t min, uint64_t max);
  // Exactly this value; scalars and names in the usual spelling.
  ExprId value(const nlohmann::ordered_json& value);
  ExprId object(std::optional<ExprId> members, bool may_be_empty);  // members with the commas between them
  ExprId array(std::optional<ExprId> items, bool may_be_empty);
  ExprId member(ExprId name, ExprId value);
  ExprId name(const std::string& name);
  ExprId comma_and(ExprId part);

 private:
  ExprId enclosed(const char* open, std::optional<ExprId> content, bool may_be_empty, const char* close);

  GrammarBuilder& builder_;
  ExprId space_;
  ExprId comma_;
  ExprId colon_;
  std::optional<ExprId> any_value_, any_object_, any_array_, any_string_, any_number_, character_;
};

}  // namespace twostroke::grammar
