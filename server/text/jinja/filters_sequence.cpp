// Filters on lists, dicts and whatever else can be iterated.
#include <algorithm>
#include <string>

#include "server/text/jinja/access.h"
#include "server/text/jinja/arithmetic.h"
#include "server/text/jinja/compare.h"
#include "server/text/jinja/filter_table.h"
#include "server/text/jinja/iterators.h"
#include "server/text/jinja/print.h"
#include "server/text/jinja/sorting.h"
#include "server/text/jinja/strings.h"

namespace twostroke::jinja {
namespace {

// What items are compared by: a string without its case, unless the filter is asked to respect it.
Value comparison_key(Runtime& runtime, const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.is_string()) return value;
  return runtime.string(map_case(runtime, value.text(), CaseMapping::kLower));
}

Value path_or_none(const Parameters& parameters, std::size_t index) {
  return parameters.find(index) == nullptr ? Value() : *parameters.find(index);
}

Value filter_batch(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'batch'", arguments, {"value", "linecount", "fill_with"});
  parameters.require(1);
  const std::int64_t size = parameters.integer(1, 0);
  const Value fill = path_or_none(parameters, 2);
  std::vector<Value> batches;
  std::vector<Value> batch;
  for (Value& item : iterate(runtime, parameters.require(0))) {
    if (static_cast<std::int64_t>(batch.size()) == size) batches.push_back(runtime.list(std::exchange(batch, {})));
    batch.push_back(std::move(item));
  }
  if (!batch.empty()) {
    if (!fill.is_none() && size > 0) runtime.budget().check_room(static_cast<std::uint64_t>(size), sizeof(Value));
    while (!fill.is_none() && static_cast<std::int64_t>(batch.size()) < size) {
      runtime.budget().step();
      batch.push_back(fill);
    }
    batches.push_back(runtime.list(std::move(batch)));
  }
  return runtime.iterator("generator", std::move(batches));
}

Value filter_slice(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'slice'", arguments, {"value", "slices", "fill_with"});
  parameters.require(1);
  const std::int64_t slices = parameters.integer(1, 0);
  if (slices == 0) fail("integer division or modulo by zero");
  const Value fill = path_or_none(parameters, 2);
  const std::vector<Value> items = iterate(runtime, parameters.require(0));
  const auto count = static_cast<std::int64_t>(items.size());
  std::vector<Value> columns;
  if (slices > 0) runtime.budget().check_room(static_cast<std::uint64_t>(slices), sizeof(Value));
  std::int64_t begin = 0;
  for (std::int64_t i = 0; i < slices; ++i) {
    runtime.budget().step();
    const bool extra = i < count % slices;
    const std::int64_t end = begin + count / slices + (extra ? 1 : 0);
    std::vector<Value> column(items.begin() + begin, items.begin() + end);
    if (!fill.is_none() && !extra) column.push_back(fill);
    columns.push_back(runtime.list(std::move(column)));
    begin = end;
  }
  return runtime.iterator("generator", std::move(columns));
}

Value filter_length(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'length'", arguments, {"obj"});
  return Value::count(require_length(runtime, parameters.require(0)));
}

Value filter_dictsort(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'dictsort'", arguments, {"value", "case_sensitive", "by", "reverse"});
  const Value& value = parameters.require(0);
  if (value.is_undefined()) fail(*value.undefined().message);
  if (!value.is_dict()) fail("filter 'dictsort' needs a dict, not " + std::string(type_name(value)));
  const Value* const by = parameters.find(2);
  const std::string_view what = by == nullptr ? "key" : by->is_string() ? by->view() : "";
  if (what != "key" && what != "value") fail("You can only sort by either \"key\" or \"value\"");
  const bool case_sensitive = parameters.truth(1, false);
  std::vector<Value> items;
  std::vector<Value> keys;
  for (const auto& [key, item] : value.dict()->entries()) {
    items.push_back(runtime.tuple({key, item}));
    keys.push_back(comparison_key(runtime, what == "key" ? key : item, case_sensitive));
  }
  return runtime.list(sorted_by_keys(runtime, items, keys, parameters.truth(3, false)));
}

Value filter_first(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'first'", arguments, {"seq"});
  const Value& value = parameters.require(0);
  if (auto* const iterator = value.object_as<Iterator>()) {
    if (std::optional<Value> item = iterator->next()) return *std::move(item);
    return Value::undefined("No first item, sequence was empty.");
  }
  if (value.is_string() && !value.text().empty()) return get_item(runtime, value, std::int64_t{0});
  const std::vector<Value> items = iterate(runtime, value);
  return items.empty() ? Value::undefined("No first item, sequence was empty.") : items.front();
}

bool is_reversible(const Value& value) { return is_iterable(value) && value.object_as<Iterator>() == nullptr; }

Value filter_last(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'last'", arguments, {"seq"});
  const Value& value = parameters.require(0);
  if (!is_reversible(value)) {
    fail("'" + std::string(type_name(value)) + "' object is not reversible; make a list of it first");
  }
  if (value.is_string() && !value.text().empty()) return get_item(runtime, value, std::int64_t{-1});
  const std::vector<Value> items = iterate(runtime, value);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value filter_reverse(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'reverse'", arguments, {"value"});
  const Value& value = parameters.require(0);
  if (value.is_string()) return get_slice(runtime, value, {}, {}, std::int64_t{-1});
  if (!is_iterable(value)) fail("argument must be iterable");
  std::vector<Value> items = iterate(runtime, value);
  std::reverse(items.begin(), items.end());
  return is_reversible(value) ? runtime.iterator("list_reverseiterator", std::move(items))
                              : runtime.list(std::move(items));
}

Value filter_groupby(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'groupby'", arguments, {"value", "attribute", "default", "case_sensitive"});
  const Value& path = parameters.require(1);
  const bool case_sensitive = parameters.truth(3, false);
  const std::vector<Value> items = iterate(runtime, parameters.require(0));
  std::vector<Value> keys;
  for (const Value& item : items) {
    keys.push_back(comparison_key(runtime, get_path(runtime, item, path, parameters.find(2)), case_sensitive));
  }
  std::vector<Value> groups;
  std::vector<Value> group;
  const auto close = [&] {
    if (group.empty()) return;
    const Value grouper = get_path(runtime, group.front(), path, parameters.find(2));
    const Value tuple = runtime.tuple({grouper, runtime.list(std::exchange(group, {}))});
    tuple.tuple()->is_group = true;
    groups.push_back(tuple);
  };
  const std::vector<Value> sorted = sorted_by_keys(runtime, items, keys, false);
  const std::vector<Value> sorted_keys = sorted_by_keys(runtime, keys, keys, false);
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (i > 0 && !equal(runtime, sorted_keys[i], sorted_keys[i - 1])) close();
    group.push_back(sorted[i]);
  }
  close();
  return runtime.list(std::move(groups));
}

Value filter_items(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'items'", arguments, {"value"});
  const Value& value = parameters.require(0);
  std::vector<Value> items;
  if (!value.is_undefined() && !value.is_dict()) fail("Can only get item pairs from a mapping.");
  if (value.is_dict()) {
    for (const auto& [key, item] : value.dict()->entries()) items.push_back(runtime.tuple({key, item}));
  }
  return runtime.iterator("generator", std::move(items));
}

Value filter_join(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'join'", arguments, {"value", "d", "attribute"});
  const Text separator = parameters.find(1) == nullptr ? Text() : to_text(runtime, *parameters.find(1));
  const Value path = path_or_none(parameters, 2);
  Builder out(runtime);
  bool first = true;
  for (const Value& item : iterate(runtime, parameters.require(0))) {
    if (!first) out.append(separator);
    first = false;
    append_str(runtime, out, get_path(runtime, item, path));
  }
  return runtime.string(out.take());
}

Value filter_list(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'list'", arguments, {"value"});
  return runtime.list(iterate(runtime, parameters.require(0)));
}

template <bool largest>
Value extreme(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters(largest ? "filter 'max'" : "filter 'min'", arguments, {"value", "case_sensitive", "attribute"});
  const bool case_sensitive = parameters.truth(1, false);
  const Value path = path_or_none(parameters, 2);
  const std::vector<Value> items = iterate(runtime, parameters.require(0));
  if (items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  const auto key_of = [&](const Value& item) {
    return comparison_key(runtime, get_path(runtime, item, path), case_sensitive);
  };
  std::size_t best = 0;
  Value best_key = key_of(items[0]);
  for (std::size_t i = 1; i < items.size(); ++i) {
    Value key = key_of(items[i]);
    if (largest ? !less(runtime, best_key, key) : !less(runtime, key, best_key)) continue;
    best = i;
    best_key = std::move(key);
  }
  return items[best];
}

// The attributes "a,b.c" of an item, as a list to sort by.
Value sort_key(Runtime& runtime, const Value& item, const Value& paths, bool case_sensitive) {
  if (!paths.is_string()) return comparison_key(runtime, get_path(runtime, item, paths), case_sensitive);
  const Text comma(",", true);
  std::vector<Value> keys;
  for (Text& path : split(runtime, paths.text(), &comma, -1, Side::kLeft)) {
    keys.push_back(comparison_key(runtime, get_path(runtime, item, runtime.string(std::move(path))), case_sensitive));
  }
  return runtime.list(std::move(keys));
}

Value filter_sort(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'sort'", arguments, {"value", "reverse", "case_sensitive", "attribute"});
  const bool case_sensitive = parameters.truth(2, false);
  const Value paths = path_or_none(parameters, 3);
  const std::vector<Value> items = iterate(runtime, parameters.require(0));
  std::vector<Value> keys;
  keys.reserve(items.size());
  for (const Value& item : items) keys.push_back(sort_key(runtime, item, paths, case_sensitive));
  return runtime.list(sorted_by_keys(runtime, items, keys, parameters.truth(1, false)));
}

Value filter_sum(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'sum'", arguments, {"iterable", "attribute", "start"});
  const Value path = path_or_none(parameters, 1);
  Value sum = parameters.find(2) == nullptr ? Value(std::int64_t{0}) : *parameters.find(2);
  if (sum.is_string()) fail("sum() can't sum strings; use the filter 'join'");
  for (const Value& item : iterate(runtime, parameters.require(0))) {
    sum = apply(runtime, BinaryOperator::kAdd, sum, get_path(runtime, item, path));
  }
  return sum;
}

Value filter_unique(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'unique'", arguments, {"value", "case_sensitive", "attribute"});
  const bool case_sensitive = parameters.truth(1, false);
  const Value path = path_or_none(parameters, 2);
  Dict* const seen = runtime.dict();
  std::vector<Value> items;
  for (const Value& item : iterate(runtime, parameters.require(0))) {
    const Value key = comparison_key(runtime, get_path(runtime, item, path), case_sensitive);
    if (seen->find(runtime, key) != nullptr) continue;
    seen->set(runtime, key, true);
    items.push_back(item);
  }
  return runtime.iterator("generator", std::move(items));
}

constexpr FilterEntry kSequenceFilters[] = {
    {"batch", filter_batch},     {"count", filter_length}, {"dictsort", filter_dictsort}, {"first", filter_first},
    {"groupby", filter_groupby}, {"items", filter_items},  {"join", filter_join},         {"last", filter_last},
    {"length", filter_length},   {"list", filter_list},    {"max", extreme<true>},        {"min", extreme<false>},
    {"reverse", filter_reverse}, {"slice", filter_slice},  {"sort", filter_sort},         {"sum", filter_sum},
    {"unique", filter_unique},
};

}  // namespace

FilterFunction find_sequence_filter(std::string_view name) { return find_in_table(kSequenceFilters, name); }

}  // namespace twostroke::jinja
