// Filters that apply another filter or a test to each item: map, select, reject, selectattr, rejectattr.
#include <algorithm>
#include <string>

#include "server/text/jinja/access.h"
#include "server/text/jinja/compare.h"
#include "server/text/jinja/filter_table.h"

namespace twostroke::jinja {
namespace {

// The arguments behind the first `used`, with room in front for the item they go with.
Arguments arguments_behind(const Arguments& arguments, std::size_t used) {
  Arguments rest;
  rest.positional.emplace_back();
  const auto& given = arguments.positional;
  rest.positional.insert(rest.positional.end(),
                         given.begin() + static_cast<std::ptrdiff_t>(std::min(used, given.size())), given.end());
  rest.named = arguments.named;
  rest.names_trusted = arguments.names_trusted;
  return rest;
}

Value filter_map(Runtime& runtime, const Arguments& arguments) {
  const Value& sequence = arguments.positional.front();
  if (!is_true(sequence)) return runtime.iterator("generator", {});
  const auto named = [&](std::string_view wanted) -> const Value* {
    for (const auto& [name, value] : arguments.named) {
      if (name == wanted) return &value;
    }
    return nullptr;
  };
  std::vector<Value> results;
  const Value* const attribute = named("attribute");
  if (arguments.positional.size() == 1 && attribute != nullptr) {
    for (const auto& argument : arguments.named) {
      if (argument.first != "attribute" && argument.first != "default") {
        fail("filter 'map' got an unexpected keyword argument '" + argument.first + "'");
      }
    }
    for (const Value& item : iterate(runtime, sequence)) {
      results.push_back(get_path(runtime, item, *attribute, named("default")));
    }
    return runtime.iterator("generator", std::move(results));
  }
  if (arguments.positional.size() < 2) fail("map requires a filter argument");
  Arguments call = arguments_behind(arguments, 2);
  for (const Value& item : iterate(runtime, sequence)) {
    call.positional.front() = item;
    results.push_back(call_filter(runtime, arguments.positional[1], call));
  }
  return runtime.iterator("generator", std::move(results));
}

// Keeps the items for which the test, or without one their truth, is `wanted`; by_attribute: of the attribute that the
// first argument names.
template <bool wanted, bool by_attribute>
Value select(Runtime& runtime, const Arguments& arguments) {
  const Value& sequence = arguments.positional.front();
  if (!is_true(sequence)) return runtime.iterator("generator", {});
  const std::size_t test = by_attribute ? 2 : 1;
  if (by_attribute && arguments.positional.size() < 2) fail("Missing parameter for attribute name");
  Arguments call = arguments_behind(arguments, test + 1);
  const bool has_test = arguments.positional.size() > test;
  std::vector<Value> kept;
  for (const Value& item : iterate(runtime, sequence)) {
    const Value tested = by_attribute ? get_path(runtime, item, arguments.positional[1]) : item;
    bool holds = false;
    if (has_test) {
      call.positional.front() = tested;
      holds = call_test(runtime, arguments.positional[test], call);
    } else {
      holds = is_true(tested);
    }
    if (holds == wanted) kept.push_back(item);
  }
  return runtime.iterator("generator", std::move(kept));
}

constexpr FilterEntry kSelectionFilters[] = {
    {"map", filter_map},
    {"reject", select<false, false>},
    {"rejectattr", select<false, true>},
    {"select", select<true, false>},
    {"selectattr", select<true, true>},
};

}  // namespace

FilterFunction find_selection_filter(std::string_view name) { return find_in_table(kSelectionFilters, name); }

}  // namespace twostroke::jinja
