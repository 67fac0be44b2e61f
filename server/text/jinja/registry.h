// The filters and tests by name.
//
// To add one: write its function next to those of its kind (filters_*.cpp, predicates.cpp) and add it to the table
// there.
#pragma once

#include <string_view>

#include "server/text/jinja/runtime.h"
#include "server/text/jinja/value.h"

namespace twostroke::jinja {

// arguments.positional[0] is the value that the filter or test applies to.
using FilterFunction = Value (*)(Runtime& runtime, const Arguments& arguments);
using TestFunction = bool (*)(Runtime& runtime, const Arguments& arguments);

struct FilterEntry {
  std::string_view name;
  FilterFunction function;
};

// Null where there is none of this name. `from_json` is among them whether the dialect has it or not.
FilterFunction find_filter(std::string_view name);
TestFunction find_test(std::string_view name);

// Whether a template under this dialect may use it.
bool has_filter(const Dialect& dialect, std::string_view name);

// Look up by name and call, as `map('upper')` and `select('odd')` do; fail where there is none of this name.
Value call_filter(Runtime& runtime, const Value& name, const Arguments& arguments);
bool call_test(Runtime& runtime, const Value& name, const Arguments& arguments);

// The tables of the files filters_*.cpp.
FilterFunction find_text_filter(std::string_view name);
FilterFunction find_sequence_filter(std::string_view name);
FilterFunction find_selection_filter(std::string_view name);
FilterFunction find_value_filter(std::string_view name);
FilterFunction find_markup_filter(std::string_view name);

}  // namespace twostroke::jinja
