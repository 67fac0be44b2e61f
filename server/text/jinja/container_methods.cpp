// The methods of Python's list, tuple and dict.
#include <algorithm>
#include <iterator>
#include <string>

#include "server/text/jinja/access.h"
#include "server/text/jinja/compare.h"
#include "server/text/jinja/iterators.h"
#include "server/text/jinja/methods.h"
#include "server/text/jinja/print.h"
#include "server/text/jinja/sorting.h"

namespace twostroke::jinja {
namespace {

// Lists and tuples.

Value index_of_item(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters parameters("index()", arguments, {"value"});
  const std::vector<Value>& items = *self.items();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (equal(runtime, items[i], parameters.require(0))) return Value::count(i);
  }
  fail(to_repr(runtime, parameters.require(0)).bytes() + " is not in " + std::string(type_name(self)));
}

Value count_item(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters parameters("count()", arguments, {"value"});
  const auto same = [&](const Value& item) { return equal(runtime, item, parameters.require(0)); };
  return static_cast<std::int64_t>(std::count_if(self.items()->begin(), self.items()->end(), same));
}

Value copy_list(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters("copy()", arguments, {});
  return runtime.list(iterate(runtime, self));
}

Value append(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters parameters("append()", arguments, {"object"});
  runtime.budget().allocate(sizeof(Value));
  self.list()->items.push_back(parameters.require(0));
  return {};
}

Value extend(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters parameters("extend()", arguments, {"iterable"});
  const std::vector<Value> more = iterate(runtime, parameters.require(0));
  runtime.budget().allocate(more.size() * sizeof(Value));
  self.list()->items.insert(self.list()->items.end(), more.begin(), more.end());
  return {};
}

Value insert(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters parameters("insert()", arguments, {"index", "object"});
  std::vector<Value>& items = self.list()->items;
  const auto count = static_cast<std::int64_t>(items.size());
  parameters.require(0);
  std::int64_t index = parameters.integer(0, 0);
  if (index < 0) index += count;
  runtime.budget().allocate(sizeof(Value));
  runtime.budget().step(count);
  items.insert(items.begin() + std::clamp<std::int64_t>(index, 0, count), parameters.require(1));
  return {};
}

Value pop_item(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters parameters("pop()", arguments, {"index"});
  std::vector<Value>& items = self.list()->items;
  const auto count = static_cast<std::int64_t>(items.size());
  if (items.empty()) fail("pop from empty list");
  std::int64_t index = parameters.integer(0, -1);
  if (index < 0) index += count;
  if (index < 0 || index >= count) fail("pop index out of range");
  runtime.budget().step(count - index);
  Value item = items[static_cast<std::size_t>(index)];
  items.erase(items.begin() + index);
  return item;
}

Value remove_item(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters parameters("remove()", arguments, {"value"});
  std::vector<Value>& items = self.list()->items;
  const auto same = [&](const Value& item) { return equal(runtime, item, parameters.require(0)); };
  const auto found = std::find_if(items.begin(), items.end(), same);
  if (found == items.end()) fail("list.remove(x): x not in list");
  items.erase(found);
  return {};
}

Value reverse_list(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters("reverse()", arguments, {});
  runtime.budget().step(static_cast<std::int64_t>(self.list()->items.size()));
  std::reverse(self.list()->items.begin(), self.list()->items.end());
  return {};
}

Value sort_list(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters parameters("sort()", arguments, {"reverse"});
  std::vector<Value>& items = self.list()->items;
  items = sorted_by_keys(runtime, items, items, parameters.truth(0, false));
  return {};
}

Value clear_list(Runtime&, const Value& self, const Arguments& arguments) {
  Parameters("clear()", arguments, {});
  self.list()->items.clear();
  return {};
}

// Dicts.

template <DictView::Part part>
Value view(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters("this method of dict", arguments, {});
  return static_cast<Object*>(runtime.heap().make<DictView>(self.dict(), part));
}

Value get(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters parameters("get()", arguments, {"key", "default"});
  const Value* const found = self.dict()->find(runtime, parameters.require(0));
  if (found != nullptr) return *found;
  return parameters.find(1) == nullptr ? Value() : *parameters.find(1);
}

Value copy_dict(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters("copy()", arguments, {});
  Dict* const copy = runtime.dict();
  for (const auto& [key, value] : self.dict()->entries()) copy->set(runtime, key, value);
  return copy;
}

Value pop_key(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters parameters("pop()", arguments, {"key", "default"});
  Dict& dict = *self.dict();
  const std::size_t index = dict.index_of(runtime, parameters.require(0));
  if (index == dict.size()) {
    if (parameters.find(1) != nullptr) return *parameters.find(1);
    fail("there is no key " + to_repr(runtime, parameters.require(0)).bytes() + " to pop");
  }
  Value value = dict.entries()[index].second;
  dict.erase(runtime, index);
  return value;
}

Value popitem(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters("popitem()", arguments, {});
  Dict& dict = *self.dict();
  if (dict.size() == 0) fail("popitem(): dictionary is empty");
  const Dict::Entry entry = dict.entries().back();
  dict.erase(runtime, dict.size() - 1);
  return runtime.tuple({entry.first, entry.second});
}

Value setdefault(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters parameters("setdefault()", arguments, {"key", "default"});
  if (const Value* found = self.dict()->find(runtime, parameters.require(0))) return *found;
  const Value value = parameters.find(1) == nullptr ? Value() : *parameters.find(1);
  self.dict()->set(runtime, parameters.require(0), value);
  return value;
}

Value update(Runtime& runtime, const Value& self, const Arguments& arguments) {
  if (arguments.positional.size() > 1) fail("update() takes at most 1 positional argument");
  if (!arguments.positional.empty()) merge_into(runtime, *self.dict(), arguments.positional.front());
  runtime.set_named(*self.dict(), arguments);
  return {};
}

Value clear_dict(Runtime&, const Value& self, const Arguments& arguments) {
  Parameters("clear()", arguments, {});
  self.dict()->clear();
  return {};
}

struct ContainerMethod {
  std::string_view name;
  MethodFunction function;
  bool changes;
};

constexpr ContainerMethod kTupleMethods[] = {{"count", count_item, false}, {"index", index_of_item, false}};

constexpr ContainerMethod kListMethods[] = {
    {"append", append, true},        {"clear", clear_list, true}, {"copy", copy_list, false},
    {"count", count_item, false},    {"extend", extend, true},    {"index", index_of_item, false},
    {"insert", insert, true},        {"pop", pop_item, true},     {"remove", remove_item, true},
    {"reverse", reverse_list, true}, {"sort", sort_list, true},
};

constexpr ContainerMethod kDictMethods[] = {
    {"clear", clear_dict, true},
    {"copy", copy_dict, false},
    {"get", get, false},
    {"items", view<DictView::Part::kItems>, false},
    {"keys", view<DictView::Part::kKeys>, false},
    {"pop", pop_key, true},
    {"popitem", popitem, true},
    {"setdefault", setdefault, true},
    {"update", update, true},
    {"values", view<DictView::Part::kValues>, false},
};

template <std::size_t count>
const ContainerMethod* find_in(const ContainerMethod (&table)[count], std::string_view name) {
  const auto* const end = std::end(table);
  const auto* const found =
      std::find_if(std::begin(table), end, [&](const ContainerMethod& method) { return method.name == name; });
  return found == end ? nullptr : found;
}

const ContainerMethod* find_entry(const Value& self, std::string_view name) {
  if (self.is_dict()) return find_in(kDictMethods, name);
  if (self.is_list()) return find_in(kListMethods, name);
  return self.is_tuple() ? find_in(kTupleMethods, name) : nullptr;
}

}  // namespace

MethodFunction find_container_method(const Value& self, std::string_view name) {
  const ContainerMethod* const found = find_entry(self, name);
  return found == nullptr ? nullptr : found->function;
}

bool changes_container(const Value& self, std::string_view name) {
  const ContainerMethod* const found = find_entry(self, name);
  return found != nullptr && found->changes;
}

void merge_into(Runtime& runtime, Dict& target, const Value& source) {
  if (source.is_dict()) {
    const std::vector<Dict::Entry> entries = source.dict()->entries();  // the target may be the source
    for (const auto& [key, value] : entries) target.set(runtime, key, value);
    return;
  }
  for (const Value& pair : iterate(runtime, source)) {
    const std::vector<Value> items = iterate(runtime, pair);
    if (items.size() != 2) fail("a dict is made of pairs, and one has " + std::to_string(items.size()) + " items");
    target.set(runtime, items[0], items[1]);
  }
}

}  // namespace twostroke::jinja
