#include "server/text/jinja/methods.h"

namespace twostroke::jinja {
namespace {

struct BoundMethod : Object {
  BoundMethod(Value self, std::string_view name, MethodFunction function)
      : self_(std::move(self)), name_(name), function_(function) {}

  std::string_view type_name() const override { return "builtin_function_or_method"; }
  Text description(Runtime&) override {
    return Text("<built-in method " + name_ + " of " + std::string(jinja::type_name(self_)) + " object>", true);
  }
  bool is_callable() const override { return true; }
  Value call(Runtime& runtime, Arguments arguments) override { return function_(runtime, self_, arguments); }

 private:
  const Value self_;
  const std::string name_;
  const MethodFunction function_;
};

}  // namespace

std::optional<Value> find_method(Runtime& runtime, const Value& self, std::string_view name) {
  const MethodFunction function = self.is_string() ? find_string_method(name) : find_container_method(self, name);
  if (function == nullptr) return std::nullopt;
  if (!runtime.dialect().mutable_containers && changes_container(self, name)) {
    return Value::undefined("access to attribute '" + std::string(name) + "' of '" + std::string(type_name(self)) +
                            "' object is unsafe.");
  }
  return static_cast<Object*>(runtime.heap().make<BoundMethod>(self, name, function));
}

}  // namespace twostroke::jinja
