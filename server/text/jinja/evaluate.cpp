// Expressions.
#include <string>
#include <utility>

#include "server/text/jinja/access.h"
#include "server/text/jinja/arithmetic.h"
#include "server/text/jinja/compare.h"
#include "server/text/jinja/interpreter.h"
#include "server/text/jinja/print.h"

namespace twostroke::jinja {

Value Interpreter::evaluate(const Expr& expr) {
  runtime_.budget().step();
  line_ = expr.line;
  if (const auto* literal = std::get_if<Literal>(&expr.node)) return literal->value;
  if (const auto* name = std::get_if<Name>(&expr.node)) return evaluate_node(*name);
  const Budget::Level level(runtime_.budget());
  return std::visit([this](const auto& node) { return evaluate_node(node); }, expr.node);
}

Value Interpreter::evaluate_node(const Name& node) {
  if (const Value* value = scope_->find(node.id)) return *value;
  if (const std::optional<Value>& value = globals_[node.id]) return *value;
  return Value::undefined("'" + program_.names[node.id] + "' is undefined");
}

std::vector<Value> Interpreter::evaluate_all(const std::vector<ExprPtr>& exprs) {
  std::vector<Value> values;
  values.reserve(exprs.size());
  for (const ExprPtr& expr : exprs) values.push_back(evaluate(*expr));
  return values;
}

Value Interpreter::evaluate_node(const ListExpr& node) { return runtime_.list(evaluate_all(node.items)); }
Value Interpreter::evaluate_node(const TupleExpr& node) { return runtime_.tuple(evaluate_all(node.items)); }

Value Interpreter::evaluate_node(const DictExpr& node) {
  Dict* const dict = runtime_.dict();
  for (const auto& [key_expr, value_expr] : node.entries) {
    Value key = evaluate(*key_expr);
    dict->set(runtime_, std::move(key), evaluate(*value_expr));
  }
  return dict;
}

Value Interpreter::evaluate_node(const Unary& node) {
  const Value operand = evaluate(*node.operand);
  switch (node.operation) {
    case UnaryOperator::kNot:
      return !is_true(operand);
    case UnaryOperator::kNegative:
      return negative(operand);
    case UnaryOperator::kPositive:
      break;
  }
  return positive(operand);
}

Value Interpreter::evaluate_node(const Binary& node) {
  const Value left = evaluate(*node.left);
  return apply(runtime_, node.operation, left, evaluate(*node.right));
}

Value Interpreter::evaluate_node(const Logical& node) {
  Value left = evaluate(*node.left);
  return is_true(left) == node.is_and ? evaluate(*node.right) : left;
}

bool Interpreter::compare(CompareOperator operation, const Value& left, const Value& right) {
  switch (operation) {
    case CompareOperator::kEqual:
      return equal(runtime_, left, right);
    case CompareOperator::kNotEqual:
      return !equal(runtime_, left, right);
    case CompareOperator::kLess:
      return in_order(runtime_, left, Order::kLess, right);
    case CompareOperator::kLessOrEqual:
      return in_order(runtime_, left, Order::kLessOrEqual, right);
    case CompareOperator::kGreater:
      return in_order(runtime_, left, Order::kGreater, right);
    case CompareOperator::kGreaterOrEqual:
      return in_order(runtime_, left, Order::kGreaterOrEqual, right);
    case CompareOperator::kIn:
      return contains(runtime_, right, left);
    case CompareOperator::kNotIn:
      break;
  }
  return !contains(runtime_, right, left);
}

Value Interpreter::evaluate_node(const Compare& node) {
  Value left = evaluate(*node.first);
  for (const auto& [operation, operand] : node.rest) {
    Value right = evaluate(*operand);
    if (!compare(operation, left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::evaluate_node(const Concat& node) {
  Builder out(runtime_);
  for (const ExprPtr& part : node.parts) append_str(runtime_, out, evaluate(*part));
  return runtime_.string(out.take());
}

Value Interpreter::evaluate_node(const Conditional& node) {
  if (is_true(evaluate(*node.test))) return evaluate(*node.value);
  if (node.otherwise != nullptr) return evaluate(*node.otherwise);
  return Value::undefined("the inline if-expression evaluated to false and no else section was defined.");
}

Value Interpreter::evaluate_node(const GetAttribute& node) {
  return get_attribute(runtime_, evaluate(*node.object), node.name);
}

Value Interpreter::evaluate_node(const GetItem& node) {
  const Value object = evaluate(*node.object);
  return get_item(runtime_, object, evaluate(*node.key));
}

Value Interpreter::evaluate_node(const GetSlice& node) {
  const Value object = evaluate(*node.object);
  const Value start = node.start == nullptr ? Value() : evaluate(*node.start);
  const Value stop = node.stop == nullptr ? Value() : evaluate(*node.stop);
  return get_slice(runtime_, object, start, stop, node.step == nullptr ? Value() : evaluate(*node.step));
}

Arguments Interpreter::evaluate_arguments(const CallArguments& arguments, std::optional<Value> first) {
  Arguments values;
  if (first) values.positional.push_back(*std::move(first));
  for (const ExprPtr& expr : arguments.positional) values.positional.push_back(evaluate(*expr));
  for (const auto& [name, expr] : arguments.named) values.named.emplace_back(name, evaluate(*expr));
  if (arguments.star != nullptr) {
    for (Value& item : iterate(runtime_, evaluate(*arguments.star))) values.positional.push_back(std::move(item));
  }
  if (arguments.star_star != nullptr) {
    const Value mapping = evaluate(*arguments.star_star);
    if (!mapping.is_dict()) fail("argument after ** must be a mapping, not " + std::string(type_name(mapping)));
    for (const auto& [key, value] : mapping.dict()->entries()) {
      if (!key.is_string()) fail("keywords must be strings");
      values.names_trusted = values.names_trusted && key.text().all_trusted();
      values.named.emplace_back(key.view(), value);
    }
  }
  return values;
}

Value Interpreter::call(const Call& node, Arguments arguments, const Value& callee) {
  line_ = node.callee->line;
  if (callee.is_undefined()) fail(*callee.undefined().message);
  if (!callee.is_object()) fail("'" + std::string(type_name(callee)) + "' object is not callable");
  return callee.object()->call(runtime_, std::move(arguments));
}

Value Interpreter::evaluate_node(const Call& node) {
  const Value callee = evaluate(*node.callee);
  return call(node, evaluate_arguments(node.arguments), callee);
}

Value Interpreter::evaluate_node(const ApplyFilter& node) {
  Value input = node.input == nullptr ? *std::exchange(block_text_, std::nullopt) : evaluate(*node.input);
  const Arguments arguments = evaluate_arguments(node.arguments, std::move(input));
  if (node.function == nullptr || !has_filter(runtime_.dialect(), node.name)) {
    fail("No filter named '" + node.name + "' found.");
  }
  return node.function(runtime_, arguments);
}

Value Interpreter::apply_block_filter(const Expr& filter, Value input) {
  block_text_ = std::move(input);
  return evaluate(filter);
}

Value Interpreter::evaluate_node(const ApplyTest& node) {
  const Arguments arguments = evaluate_arguments(node.arguments, evaluate(*node.input));
  if (node.function == nullptr) fail("No test named '" + node.name + "' found.");
  return node.function(runtime_, arguments);
}

}  // namespace twostroke::jinja
