// A macro, or the `caller` of a call block, as a value.
#pragma once

#include <string>
#include <string_view>

#include "server/text/jinja/interpreter.h"

namespace twostroke::jinja {

struct Macro : Object {
  // All three outlive it.
  Macro(Interpreter& interpreter, const Signature& signature, Scope* closure)
      : interpreter_(interpreter), signature_(signature), closure_(closure) {}

  std::string_view type_name() const override { return "Macro"; }
  Text description(Runtime&) override { return Text("<Macro '" + signature_.name + "'>", true); }
  bool is_callable() const override { return true; }
  Value call(Runtime&, Arguments arguments) override { return interpreter_.invoke(signature_, closure_, arguments); }
  std::optional<Value> attribute(Runtime& runtime, std::string_view name) override {
    if (name == "name") return runtime.string(signature_.name);
    if (name == "caller") return Value(signature_.uses_caller);
    if (name == "catch_kwargs") return Value(signature_.uses_kwargs);
    if (name == "catch_varargs") return Value(signature_.uses_varargs);
    if (name != "arguments") return std::nullopt;
    std::vector<Value> names;
    for (const Signature::Parameter& parameter : signature_.parameters) names.push_back(runtime.string(parameter.name));
    return runtime.tuple(std::move(names));
  }

 private:
  Interpreter& interpreter_;
  const Signature& signature_;
  Scope* const closure_;
};

}  // namespace twostroke::jinja
