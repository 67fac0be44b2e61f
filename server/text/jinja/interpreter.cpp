// Statements, scopes, loops and macros. Expressions are in evaluate.cpp.
#include "server/text/jinja/interpreter.h"

#include <algorithm>
#include <string>
#include <utility>

#include "server/text/jinja/access.h"
#include "server/text/jinja/builtins.h"
#include "server/text/jinja/compare.h"
#include "server/text/jinja/loop.h"
#include "server/text/jinja/macro.h"
#include "server/text/jinja/override.h"
#include "server/text/jinja/print.h"

namespace twostroke::jinja {
namespace {

std::optional<NameId> find_name(const Program& program, std::string_view name) {
  const auto found = std::find(program.names.begin(), program.names.end(), name);
  if (found == program.names.end()) return std::nullopt;
  return static_cast<NameId>(found - program.names.begin());
}

}  // namespace

Interpreter::Interpreter(const Program& program, Runtime& runtime, std::vector<std::optional<Value>> globals)
    : program_(program),
      runtime_(runtime),
      globals_(std::move(globals)),
      scope_(runtime.heap().make<Scope>(nullptr)),
      loop_name_(find_name(program, "loop")),
      caller_name_(find_name(program, "caller")),
      kwargs_name_(find_name(program, "kwargs")),
      varargs_name_(find_name(program, "varargs")) {}

Text Interpreter::run() {
  Builder out(runtime_, runtime_.limits().output_bytes_max);
  const Override<Builder*> output(out_, &out);
  try {
    mask_names(program_.body);
    execute(program_.body);
  } catch (Failure& failure) {
    if (failure.line == 0) failure.line = line_;
    throw;
  }
  return out.take();
}

Interpreter::Flow Interpreter::execute(const Body& body) {
  for (const Stmt& statement : body.statements) {
    const Flow flow = execute(statement);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const Stmt& statement) {
  const Budget::Level level(runtime_.budget());
  runtime_.budget().step();
  line_ = statement.line;
  return std::visit([this](const auto& node) { return execute(node); }, statement.node);
}

Interpreter::Flow Interpreter::execute(const DataStmt& statement) {
  out_->append(statement.text.text());
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const OutputStmt& statement) {
  append_str(runtime_, *out_, evaluate(*statement.value));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const IfStmt& statement) {
  for (const auto& [test, body] : statement.branches) {
    if (is_true(evaluate(*test))) return execute(body);
  }
  return execute(statement.otherwise);
}

void Interpreter::mask_names(const Body& body) {
  for (const NameId name : body.masked) {
    if (globals_[name]) scope_->set(name, Value::undefined("'" + program_.names[name] + "' is undefined"));
  }
}

Interpreter::Flow Interpreter::execute_scoped(const Body& body, Scope* parent) {
  const Override<Scope*> inside(scope_, runtime_.heap().make<Scope>(parent));
  mask_names(body);
  return execute(body);
}

Value Interpreter::capture(const Body& body, Scope* parent, Flow& flow) {
  Builder out(runtime_);
  const Override<Builder*> output(out_, &out);
  flow = execute_scoped(body, parent);
  return runtime_.string(out.take());
}

Interpreter::Flow Interpreter::execute(const ForStmt& statement) {
  run_loop(statement, evaluate(*statement.iterable), scope_, 0);
  return Flow::kNext;
}

void Interpreter::run_loop(const ForStmt& statement, const Value& items, Scope* outer, int depth) {
  Loop::Condition condition;
  if (statement.condition != nullptr) {
    condition = [this, &statement, outer](const Value& item) {
      const Override<Scope*> inside(scope_, runtime_.heap().make<Scope>(outer));
      assign(statement.target, item);
      return is_true(evaluate(*statement.condition));
    };
  }
  Loop::Recursion recursion;
  if (statement.recursive) {
    recursion = [this, &statement, outer](const Value& children, int level) {
      return run_loop_deeper(statement, children, outer, level);
    };
  }
  Loop* const loop =
      runtime_.heap().make<Loop>(iterate(runtime_, items), std::move(condition), std::move(recursion), depth);
  Scope* scope = runtime_.heap().make<Scope>(outer);
  bool body_ended = false;  // Jinja's `else` runs where no round reached the body's end
  while (const Value* item = loop->advance()) {
    runtime_.budget().step();
    if (scope->is_captured()) {
      scope = runtime_.heap().make<Scope>(outer);
    } else {
      scope->clear();
    }
    const Override<Scope*> inside(scope_, scope);
    assign(statement.target, *item);
    if (loop_name_) scope_->set(*loop_name_, static_cast<Object*>(loop));
    mask_names(statement.body);
    const Flow flow = execute(statement.body);
    if (flow == Flow::kBreak) break;
    body_ended = body_ended || flow == Flow::kNext;
  }
  if (!body_ended && !statement.otherwise.statements.empty()) execute_scoped(statement.otherwise, outer);
}

Value Interpreter::run_loop_deeper(const ForStmt& statement, const Value& items, Scope* outer, int depth) {
  const Budget::Level level(runtime_.budget());
  Builder out(runtime_);
  const Override<Builder*> output(out_, &out);
  const int line = line_;
  run_loop(statement, items, outer, depth);
  line_ = line;  // a failure leaves it where it is
  return runtime_.string(out.take());
}

Interpreter::Flow Interpreter::execute(const SetStmt& statement) {
  assign(statement.target, evaluate(*statement.value));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const SetBlockStmt& statement) {
  Flow flow = Flow::kNext;
  Value text = capture(statement.body, scope_, flow);
  if (flow != Flow::kNext) return flow;
  if (statement.filter != nullptr) text = apply_block_filter(*statement.filter, std::move(text));
  assign(statement.target, text);
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const FilterBlockStmt& statement) {
  Flow flow = Flow::kNext;
  Value text = capture(statement.body, scope_, flow);
  if (flow == Flow::kNext) {
    append_str(runtime_, *out_, apply_block_filter(*statement.filter, std::move(text)));
  }
  return flow;
}

Interpreter::Flow Interpreter::execute(const MacroStmt& statement) {
  scope_->capture();
  Object* const macro = runtime_.heap().make<Macro>(*this, statement.signature, scope_);
  scope_->set(statement.id, macro);
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const CallBlockStmt& statement) {
  scope_->capture();
  Object* const caller = runtime_.heap().make<Macro>(*this, statement.caller, scope_);
  const Call& node = std::get<Call>(statement.call->node);
  const Value callee = evaluate(*node.callee);
  Arguments arguments = evaluate_arguments(node.arguments);
  arguments.named.emplace_back("caller", caller);
  append_str(runtime_, *out_, call(node, std::move(arguments), callee));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const WithStmt& statement) {
  std::vector<Value> values;
  for (const auto& variable : statement.variables) values.push_back(evaluate(*variable.second));
  const Override<Scope*> inside(scope_, runtime_.heap().make<Scope>(scope_));
  for (std::size_t i = 0; i < values.size(); ++i) assign(statement.variables[i].first, values[i]);
  mask_names(statement.body);
  return execute(statement.body);
}

Interpreter::Flow Interpreter::execute(const ScopeStmt& statement) { return execute_scoped(statement.body, scope_); }

void Interpreter::assign(const Target& target, const Value& value) {
  if (const auto* name = std::get_if<NameId>(&target.place)) return scope_->set(*name, value);
  if (const auto* targets = std::get_if<std::vector<Target>>(&target.place)) return unpack(*targets, value);
  const auto& attribute = std::get<Target::Attribute>(target.place);
  const Value object = evaluate_node(Name{attribute.object});
  auto* const space = object.object_as<Namespace>();
  if (space == nullptr) fail("cannot assign attribute on non-namespace object");
  space->set(runtime_, attribute.name, value);
}

void Interpreter::unpack(const std::vector<Target>& targets, const Value& value) {
  if (!is_iterable(value)) fail("cannot unpack non-iterable " + std::string(type_name(value)) + " object");
  const std::vector<Value> items = iterate(runtime_, value);
  if (items.size() < targets.size()) {
    fail("not enough values to unpack (expected " + std::to_string(targets.size()) + ", got " +
         std::to_string(items.size()) + ")");
  }
  if (items.size() > targets.size()) {
    fail("too many values to unpack (expected " + std::to_string(targets.size()) + ")");
  }
  for (std::size_t i = 0; i < targets.size(); ++i) assign(targets[i], items[i]);
}

Value Interpreter::invoke(const Signature& signature, Scope* closure, const Arguments& arguments) {
  const Budget::Level level(runtime_.budget());
  const int line = line_;
  const Override<Scope*> inside(scope_, runtime_.heap().make<Scope>(closure));
  Arguments rest = arguments;  // what no parameter has taken
  for (std::size_t i = 0; i < signature.parameters.size(); ++i) {
    const Signature::Parameter& parameter = signature.parameters[i];
    if (i < arguments.positional.size()) {
      scope_->set(parameter.id, arguments.positional[i]);
      continue;
    }
    const auto named = std::find_if(rest.named.begin(), rest.named.end(),
                                    [&](const auto& argument) { return argument.first == parameter.name; });
    if (named != rest.named.end()) {
      scope_->set(parameter.id, std::move(named->second));
      rest.named.erase(named);
    } else if (parameter.fallback != nullptr) {
      scope_->set(parameter.id, evaluate(*parameter.fallback));
    } else {
      scope_->set(parameter.id, Value::undefined("parameter '" + parameter.name + "' was not provided"));
    }
  }
  const std::size_t taken = std::min(signature.parameters.size(), rest.positional.size());
  rest.positional.erase(rest.positional.begin(), rest.positional.begin() + static_cast<std::ptrdiff_t>(taken));
  bind_special(signature, arguments, rest);
  Flow flow = Flow::kNext;
  Value text = capture(signature.body, scope_, flow);
  line_ = line;  // a failure leaves it where it is
  return text;
}

// caller, kwargs and varargs, where the body names them; what is left over otherwise is an error.
void Interpreter::bind_special(const Signature& signature, const Arguments& arguments, Arguments& rest) {
  const bool own_caller = std::any_of(signature.parameters.begin(), signature.parameters.end(),
                                      [](const auto& parameter) { return parameter.name == "caller"; });
  if (signature.uses_caller && !own_caller) {
    const auto given = std::find_if(rest.named.begin(), rest.named.end(),
                                    [](const auto& argument) { return argument.first == "caller"; });
    if (given == rest.named.end()) {
      scope_->set(*caller_name_, Value::undefined("No caller defined"));
    } else {
      scope_->set(*caller_name_, std::move(given->second));
      rest.named.erase(given);
    }
  }
  if (signature.uses_kwargs) {
    Dict* const kwargs = runtime_.dict();
    runtime_.set_named(*kwargs, rest);
    scope_->set(*kwargs_name_, kwargs);
  } else if (!rest.named.empty()) {
    fail("macro '" + signature.name + "' takes no keyword argument '" + rest.named.front().first + "'");
  }
  if (signature.uses_varargs) {
    scope_->set(*varargs_name_, runtime_.tuple(std::move(rest.positional)));
  } else if (!rest.positional.empty()) {
    fail("macro '" + signature.name + "' takes not more than " + std::to_string(signature.parameters.size()) +
         " argument(s), and " + std::to_string(arguments.positional.size()) + " are given");
  }
}

}  // namespace twostroke::jinja
