#include "server/text/jinja/registry.h"

#include <string>

namespace twostroke::jinja {

FilterFunction find_filter(std::string_view name) {
  for (const auto find :
       {find_text_filter, find_sequence_filter, find_selection_filter, find_value_filter, find_markup_filter}) {
    if (const FilterFunction function = find(name)) return function;
  }
  return nullptr;
}

bool has_filter(const Dialect& dialect, std::string_view name) {
  return (name != "from_json" || dialect.from_json) && find_filter(name) != nullptr;
}

Value call_filter(Runtime& runtime, const Value& name, const Arguments& arguments) {
  if (!name.is_string() || !has_filter(runtime.dialect(), name.view())) {
    fail("No filter named '" + std::string(name.is_string() ? name.view() : type_name(name)) + "'.");
  }
  return find_filter(name.view())(runtime, arguments);
}

bool call_test(Runtime& runtime, const Value& name, const Arguments& arguments) {
  const TestFunction function = name.is_string() ? find_test(name.view()) : nullptr;
  if (function == nullptr) {
    fail("No test named '" + std::string(name.is_string() ? name.view() : type_name(name)) + "'.");
  }
  return function(runtime, arguments);
}

}  // namespace twostroke::jinja
