// The functions that every template has: range, dict, namespace, cycler, joiner, raise_exception, strftime_now.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "server/text/jinja/runtime.h"
#include "server/text/jinja/value.h"

namespace twostroke::jinja {

// None where there is no function of this name. Variables of the context hide functions, as in Jinja2.
std::optional<Value> make_builtin(Runtime& runtime, std::string_view name);

// A function of the interpreter as a value.
struct Function : Object {
  using Body = std::function<Value(Runtime& runtime, const Arguments& arguments)>;
  Function(std::string_view name, Body body) : name_(name), body_(std::move(body)) {}

  std::string_view type_name() const override { return "function"; }
  Text description(Runtime&) override { return Text("<function " + name_ + ">", true); }
  bool is_callable() const override { return true; }
  Value call(Runtime& runtime, Arguments arguments) override { return body_(runtime, arguments); }

 private:
  const std::string name_;
  Body body_;
};

// What `namespace(...)` gives: the one kind of value whose attributes `set` can change, from any block.
struct Namespace : Object {
  explicit Namespace(Dict* attributes) : attributes_(attributes) {}

  std::string_view type_name() const override { return "Namespace"; }
  Text description(Runtime& runtime) override;
  std::optional<Value> attribute(Runtime& runtime, std::string_view name) override;
  void set(Runtime& runtime, const std::string& name, Value value);

 private:
  Dict* const attributes_;
};

}  // namespace twostroke::jinja
