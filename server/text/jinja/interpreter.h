// Walks a template's syntax tree and writes its output. One per render.
#pragma once

#include <optional>
#include <vector>

#include "server/text/jinja/ast.h"
#include "server/text/jinja/runtime.h"
#include "server/text/jinja/scope.h"

namespace twostroke::jinja {

class Interpreter {
 public:
  // `globals` has the context's variables and the functions, by NameId. Both arguments outlive this.
  Interpreter(const Program& program, Runtime& runtime, std::vector<std::optional<Value>> globals);

  // The whole output. Throws Failure with a line. Called once.
  Text run();

  // Binds the arguments to the parameters, as Python does, and gives what the body prints. For macros and callers.
  Value invoke(const Signature& signature, Scope* closure, const Arguments& arguments);

 private:
  // How a statement ends.
  enum class Flow { kNext, kBreak, kContinue };

  Flow execute(const Body& body);
  Flow execute(const Stmt& statement);
  Flow execute(const DataStmt& statement);
  Flow execute(const OutputStmt& statement);
  Flow execute(const IfStmt& statement);
  Flow execute(const ForStmt& statement);
  Flow execute(const SetStmt& statement);
  Flow execute(const SetBlockStmt& statement);
  Flow execute(const FilterBlockStmt& statement);
  Flow execute(const MacroStmt& statement);
  Flow execute(const CallBlockStmt& statement);
  Flow execute(const WithStmt& statement);
  Flow execute(const ScopeStmt& statement);
  Flow execute(const BreakStmt&) { return Flow::kBreak; }
  Flow execute(const ContinueStmt&) { return Flow::kContinue; }

  // Hides what the context has under the names that the body sets first.
  void mask_names(const Body& body);
  // In a scope of its own, inside `parent`.
  Flow execute_scoped(const Body& body, Scope* parent);
  // What the body prints, as a value; `flow` tells how it ended.
  Value capture(const Body& body, Scope* parent, Flow& flow);
  void run_loop(const ForStmt& statement, const Value& items, Scope* outer, int depth);
  Value run_loop_deeper(const ForStmt& statement, const Value& items, Scope* outer, int depth);
  void bind_special(const Signature& signature, const Arguments& arguments, Arguments& rest);
  void assign(const Target& target, const Value& value);
  void unpack(const std::vector<Target>& targets, const Value& value);

  Value evaluate(const Expr& expr);
  Value evaluate_node(const Literal& node) { return node.value; }
  Value evaluate_node(const Name& node);
  Value evaluate_node(const ListExpr& node);
  Value evaluate_node(const TupleExpr& node);
  Value evaluate_node(const DictExpr& node);
  Value evaluate_node(const Unary& node);
  Value evaluate_node(const Binary& node);
  Value evaluate_node(const Logical& node);
  Value evaluate_node(const Compare& node);
  Value evaluate_node(const Concat& node);
  Value evaluate_node(const Conditional& node);
  Value evaluate_node(const GetAttribute& node);
  Value evaluate_node(const GetItem& node);
  Value evaluate_node(const GetSlice& node);
  Value evaluate_node(const Call& node);
  Value evaluate_node(const ApplyFilter& node);
  Value evaluate_node(const ApplyTest& node);
  std::vector<Value> evaluate_all(const std::vector<ExprPtr>& exprs);
  // `first` goes before the others where it is given.
  Arguments evaluate_arguments(const CallArguments& arguments, std::optional<Value> first = std::nullopt);
  Value call(const Call& node, Arguments arguments, const Value& callee);
  bool compare(CompareOperator operation, const Value& left, const Value& right);
  Value apply_block_filter(const Expr& filter, Value input);

  const Program& program_;
  Runtime& runtime_;
  const std::vector<std::optional<Value>> globals_;
  Scope* scope_;
  Builder* out_ = nullptr;
  std::optional<Value> block_text_;  // the input of the filter block being applied
  std::optional<NameId> loop_name_;
  std::optional<NameId> caller_name_;
  std::optional<NameId> kwargs_name_;
  std::optional<NameId> varargs_name_;
  int line_ = 1;
};

}  // namespace twostroke::jinja
