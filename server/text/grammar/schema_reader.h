// SchemaReader: from goals to shapes (schema_shape.h).
//
// The first error stays: every function then returns something harmless, and status() tells. So do limits: of
// alternatives, of schemas that apply to one value in a chain, and of all work together.
// Thread-safety: one user at a time. The schema must outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kernels/status.h"
#include "server/text/grammar/schema_shape.h"

namespace twostroke::grammar {

class SchemaReader {
 public:
  explicit SchemaReader(const SchemaJson& root) : root_(root) {}

  const Status& status() const { return status_; }
  bool failed() const { return !status_.ok(); }
  // "properties.age: " and `message`; `schema` is part of the root.
  void fail(const SchemaJson* schema, const std::string& message);
  void refuse(const SchemaJson* schema, const std::string& what);

  // Whether alternatives were left out because it cannot be said exactly when they hold (Demand::kFailsKnowably).
  bool has_left_out() const { return has_left_out_; }

  // The alternatives for a goal; none: nothing satisfies it. Those that can be seen to have no value are left out.
  using Shapes = std::shared_ptr<const std::vector<Shape>>;
  Shapes shapes(const Goal& goal);

  // Whether a value satisfies a goal, exactly.
  bool accepts(const Goal& goal, const SchemaJson& value);
  bool fits(const Shape& shape, const SchemaJson& value);

  // What holds for one item, for one member, for any name that is not listed.
  Goal item_goal(const Shape& shape, size_t index) const;
  Goal member_goal(const Shape& shape, const std::string& name) const;
  Goal other_member_goal(const Shape& shape) const;  // a name that no list and no pattern knows
  std::vector<KeyClass> key_classes(const Shape& shape, const std::vector<std::string>& listed);

  // The strings of a shape, decoded; only what is said about strings matters.
  Dfa strings(const Shape& shape);
  static NumberSet numbers(const Shape& shape);

 private:
  struct Pending {
    Atom atom;
    uint32_t chain;
  };
  struct Alternative {
    std::vector<Atom> atoms;
    std::function<void(Shape&)> narrow;
  };
  struct Group {
    const SchemaJson* owner = nullptr;
    uint32_t chain = 0;
    std::vector<Alternative> alternatives;
    std::optional<Atom> negated;  // its alternatives are made when its turn comes
  };
  // One alternative while it is put together.
  struct Draft {
    Shape shape;
    std::vector<Pending> pending;  // the next one last
    std::vector<std::shared_ptr<const Group>> groups;
    std::set<Atom> applied;
    uint32_t depth = 0;
  };
  // What tells an alternative of oneOf from others at a glance: its types, its values, those of its properties.
  struct Discriminator {
    uint8_t types = 0;
    std::optional<std::set<std::string>> values;
    std::map<std::string, std::set<std::string>> properties;  // required ones with few values
  };
  // Which schema led to which: ancestors of what applies to one value.
  struct Chain {
    const SchemaJson* schema;
    uint32_t parent;
    uint32_t depth;
    bool negated = false;  // not a schema, but what the failing of one demands
  };

  bool spend(uint64_t work);
  void check_unevaluated(const Shape& shape);
  uint32_t add_chain(const SchemaJson* schema, uint32_t parent);
  bool in_chain(const SchemaJson* schema, uint32_t chain) const;

  void expand(Draft draft, std::vector<Shape>* result);
  void expand_group(const Draft& draft, const Group& group, std::vector<Shape>* result);
  void push(Draft* draft, const std::vector<Atom>& atoms, uint32_t chain);
  void add_group(Draft* draft, Group group);

  // schema_keywords.cpp
  void apply(const Atom& atom, uint32_t chain, Draft* draft);
  void apply_keyword(const SchemaJson& schema, const std::string& keyword, const SchemaJson& value, uint32_t chain,
                     Draft* draft);
  uint8_t types_of(const SchemaJson& schema, const SchemaJson& value);
  void apply_values(const SchemaJson& values, bool is_list, Shape* shape);
  void apply_array_keywords(const SchemaJson& schema, uint32_t chain, Shape* shape);
  void apply_object_keywords(const SchemaJson& schema, uint32_t chain, Shape* shape);
  void apply_one_of(const SchemaJson& schema, const SchemaJson& alternatives, uint32_t chain, Draft* draft);
  void apply_condition(const SchemaJson& schema, uint32_t chain, Draft* draft);
  void apply_dependencies(const SchemaJson& schema, const SchemaJson& value, uint32_t chain, Draft* draft);
  std::vector<Atom> schema_list(const SchemaJson& schema, const std::string& keyword, const SchemaJson& value);
  std::optional<NumberBound> number_bound(const SchemaJson& schema, const std::string& keyword,
                                          const SchemaJson& value);
  std::optional<Decimal> divisor(const SchemaJson& schema, const SchemaJson& value);
  uint64_t count(const SchemaJson& schema, const std::string& keyword, const SchemaJson& value);
  std::vector<std::string> name_list(const SchemaJson& schema, const std::string& keyword, const SchemaJson& value);
  std::shared_ptr<const Dfa> pattern(const SchemaJson& schema, const std::string& keyword, const std::string& text);
  void apply_format(const SchemaJson& schema, const SchemaJson& value, Shape* shape);
  const SchemaJson* resolve(const SchemaJson& schema, const SchemaJson& reference);
  const SchemaJson* find_anchor(std::string_view name) const;

  // schema_negation.cpp
  std::vector<Alternative> negation(const Atom& atom);
  bool can_negate(const Atom& atom);
  void negate_keyword(const SchemaJson& schema, const std::string& keyword, const SchemaJson& value, Demand demand,
                      std::vector<Alternative>* alternatives);

  static Result<Dfa> strings_of_any_length(const Shape& shape, bool countable);

  // schema_values.cpp
  bool clearly_disjoint(const SchemaJson& a, const SchemaJson& b);
  const std::optional<std::vector<Discriminator>>& discriminators(const SchemaJson& schema);
  std::optional<std::set<std::string>> few_values(const Shape& shape);
  bool is_impossible(const Shape& shape, int depth);
  bool is_never(const Goal& goal, int depth);
  bool can_hold(const Draft& draft, const Atom& atom);
  static bool fits_number(const Shape& shape, const Decimal& value);
  bool fits_string(const Shape& shape, const std::string& text);
  bool fits_array(const Shape& shape, const SchemaJson& value);
  bool fits_object(const Shape& shape, const SchemaJson& value);

  const SchemaJson& root_;
  Status status_;
  uint64_t work_ = 0;
  std::vector<Chain> chains_{{nullptr, 0, 0}};  // 0: no schema
  std::map<Goal, Shapes> shapes_;
  std::map<Atom, bool> negatable_;
  int negation_depth_ = 0;
  bool has_left_out_ = false;
  std::unordered_map<std::string, std::shared_ptr<const Dfa>> patterns_;
  // One for each of a schema's shapes; none for what is not supported.
  std::map<const SchemaJson*, std::optional<std::vector<Discriminator>>> discriminators_;
};

}  // namespace twostroke::grammar
