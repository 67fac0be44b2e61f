// Value: what a template's expressions are made of. Python's types as far as templates see them.
//
// Ownership: strings are shared and immutable (they hold no values, so counting references is enough). Everything that
// can hold values lives in the render's Heap until the render ends, because a template can make them hold each other;
// a Value only points there. Literals in a parsed template are strings, numbers, True, False and None, never heap
// values, so a parsed template outlives its renders. Values are not thread-safe, except that the strings of a parsed
// template may be shared by renders on several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "server/text/jinja/failure.h"
#include "server/text/jinja/text.h"

namespace twostroke::jinja {

class Runtime;
class Value;
struct List;
struct Tuple;
struct Dict;
struct Object;

struct None {};

// What an expression gives that has no value: printing it prints nothing, most other uses fail with `message`.
struct Undefined {
  std::shared_ptr<const std::string> message;
};

struct String {
  Text text;
  bool is_markup = false;  // what `|safe` and `|escape` give: HTML that must not be escaped again
  Budget* budget = nullptr;
  std::size_t cost_bytes = 0;

  String(Text contents, bool markup) : text(std::move(contents)), is_markup(markup) {}
  ~String() {
    if (budget != nullptr) budget->release(cost_bytes);
  }
  String(const String&) = delete;
  String& operator=(const String&) = delete;
};

class Value {
 public:
  Value() : data_(None{}) {}
  Value(bool value) : data_(value) {}                                      // NOLINT: as a literal reads
  Value(std::int64_t value) : data_(value) {}                              // NOLINT
  Value(double value) : data_(value) {}                                    // NOLINT
  Value(Undefined value) : data_(std::move(value)) {}                      // NOLINT
  Value(std::shared_ptr<const String> value) : data_(std::move(value)) {}  // NOLINT
  Value(List* value) : data_(value) {}                                     // NOLINT
  Value(Tuple* value) : data_(value) {}                                    // NOLINT
  Value(Dict* value) : data_(value) {}                                     // NOLINT
  Value(Object* value) : data_(value) {}                                   // NOLINT
  static Value count(std::size_t value) { return static_cast<std::int64_t>(value); }
  // A string of the template itself, outside any render's budget.
  static Value literal(std::string bytes) {
    return std::shared_ptr<const String>(std::make_shared<String>(Text(std::move(bytes), true), false));
  }
  // Python's value of an expression that has none; `message` says why, where somebody uses it.
  static Value undefined(std::string message) {
    return Undefined{std::make_shared<const std::string>(std::move(message))};
  }

  bool is_none() const { return std::holds_alternative<None>(data_); }
  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_float() const { return std::holds_alternative<double>(data_); }
  bool is_string() const { return std::holds_alternative<std::shared_ptr<const String>>(data_); }
  bool is_markup() const { return is_string() && string().is_markup; }
  bool is_list() const { return std::holds_alternative<List*>(data_); }
  bool is_tuple() const { return std::holds_alternative<Tuple*>(data_); }
  bool is_dict() const { return std::holds_alternative<Dict*>(data_); }
  bool is_object() const { return std::holds_alternative<Object*>(data_); }
  // As Python's isinstance(value, int): True and False are integers.
  bool is_integer() const { return std::holds_alternative<std::int64_t>(data_) || is_bool(); }
  bool is_number() const { return is_integer() || is_float(); }

  // Each requires that the value is of that kind.
  const Undefined& undefined() const { return std::get<Undefined>(data_); }
  bool boolean() const { return std::get<bool>(data_); }
  std::int64_t integer() const { return is_bool() ? boolean() : std::get<std::int64_t>(data_); }
  double number() const { return is_float() ? std::get<double>(data_) : static_cast<double>(integer()); }
  const String& string() const { return *std::get<std::shared_ptr<const String>>(data_); }
  const Text& text() const { return string().text; }
  std::string_view view() const { return string().text.view(); }
  List* list() const { return std::get<List*>(data_); }
  Tuple* tuple() const { return std::get<Tuple*>(data_); }
  Dict* dict() const { return std::get<Dict*>(data_); }
  Object* object() const { return std::get<Object*>(data_); }
  // The items of a list or a tuple; null for anything else.
  const std::vector<Value>* items() const;
  template <typename T>
  T* object_as() const {
    return is_object() ? dynamic_cast<T*>(object()) : nullptr;
  }

  // As Python's `is`: the same object, or the same None, True, False, number.
  bool is_same(const Value& other) const;

 private:
  std::variant<None, Undefined, bool, std::int64_t, double, std::shared_ptr<const String>, List*, Tuple*, Dict*,
               Object*>
      data_;
};

// What a function, filter or test is called with. For filters and tests positional[0] is the value they apply to.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
  bool names_trusted = true;  // false where `**` brought in names that are not the template's own
};

// Whatever lives in a Heap.
struct HeapNode {
  HeapNode() = default;
  HeapNode(const HeapNode&) = delete;
  HeapNode& operator=(const HeapNode&) = delete;
  virtual ~HeapNode() = default;
};

struct List : HeapNode {
  std::vector<Value> items;
};

struct Tuple : HeapNode {
  std::vector<Value> items;
  bool is_group = false;  // of `groupby`: its two items are also the attributes `grouper` and `list`
};

// Keeps insertion order. Keys are hashable values; 1, 1.0 and True are the same key, as in Python.
struct Dict : HeapNode {
 public:
  using Entry = std::pair<Value, Value>;
  const std::vector<Entry>& entries() const { return entries_; }
  std::size_t size() const { return entries_.size(); }

  // Null where the key is absent. Fails where the key is not hashable.
  const Value* find(Runtime& runtime, const Value& key) const;
  const Value* find(std::string_view key) const;
  // Adds the key, or replaces its value and keeps its place.
  void set(Runtime& runtime, Value key, Value value);
  // Requires index < size().
  void erase(Runtime& runtime, std::size_t index);
  // size() where the key is absent.
  std::size_t index_of(Runtime& runtime, const Value& key) const;
  void clear();

 private:
  std::vector<Entry> entries_;
  std::unordered_multimap<std::size_t, std::size_t> index_;  // hash to position
};

// Values of the rarer kinds: functions, macros, namespaces, loops, iterators. They answer for themselves.
struct Object : HeapNode {
  // Python's name of the type, for messages.
  virtual std::string_view type_name() const = 0;
  // What printing it prints.
  virtual Text description(Runtime&) { return Text("<" + std::string(type_name()) + ">", true); }
  virtual bool is_callable() const { return false; }
  virtual Value call(Runtime& runtime, Arguments arguments);
  virtual std::optional<Value> attribute(Runtime&, std::string_view) { return std::nullopt; }
  virtual std::optional<Value> item(Runtime&, const Value&) { return std::nullopt; }
  // Python's len(); none where the type has no length.
  virtual std::optional<std::size_t> length() const { return std::nullopt; }
  virtual bool is_iterable() const { return false; }
  // The items that iterating gives; an iterator is used up by it. Only called where is_iterable().
  virtual std::vector<Value> iterate(Runtime&) { return {}; }
};

// Owns every List, Tuple, Dict and Object of one render.
class Heap {
 public:
  explicit Heap(Budget& budget) : budget_(budget) {}

  template <typename T, typename... Args>
  T* make(Args&&... args) {
    budget_.allocate(sizeof(T) + sizeof(void*));
    auto node = std::make_unique<T>(std::forward<Args>(args)...);
    T* const pointer = node.get();
    nodes_.push_back(std::move(node));
    return pointer;
  }

 private:
  Budget& budget_;
  std::vector<std::unique_ptr<HeapNode>> nodes_;
};

// Python's name of a value's type: "str", "list", "NoneType", "Undefined", ...
std::string_view type_name(const Value& value);

}  // namespace twostroke::jinja
