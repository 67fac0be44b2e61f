// The methods of Python's str, list, tuple and dict: `text.split(',')`, `mapping.items()`.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/text/jinja/runtime.h"
#include "server/text/jinja/value.h"

namespace twostroke::jinja {

using MethodFunction = Value (*)(Runtime& runtime, const Value& self, const Arguments& arguments);

struct MethodEntry {
  std::string_view name;
  MethodFunction function;
};

// The method `name` of `self`, bound to it; an undefined value that says so where the method changes a container and
// the dialect does not allow it; none where the type has no such method.
std::optional<Value> find_method(Runtime& runtime, const Value& self, std::string_view name);

// The tables, sorted by name; null where the name is not in it.
MethodFunction find_string_method(std::string_view name);
MethodFunction find_container_method(const Value& self, std::string_view name);
// Whether the method `name` of a list or dict changes it.
bool changes_container(const Value& self, std::string_view name);

// Python's dict.update with one argument: sets what a dict, or an iterable of pairs, holds.
void merge_into(Runtime& runtime, Dict& target, const Value& source);

}  // namespace twostroke::jinja
