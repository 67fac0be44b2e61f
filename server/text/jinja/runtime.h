// Runtime: what every part of the interpreter needs while one template is rendered: the budget, the heap, and the ways
// to make values. One per render, on one thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/text/jinja/civil_time.h"
#include "server/text/jinja/failure.h"
#include "server/text/jinja/text.h"
#include "server/text/jinja/value.h"

namespace twostroke::jinja {

// The choices in which environments for chat templates differ.
struct Dialect {
  bool mutable_containers = false;  // list.append, dict.update, ...; off in transformers' immutable sandbox
  bool from_json = false;           // the filter from_json; transformers has none
};

class Runtime {
 public:
  Runtime(const Limits& limits, const Dialect& dialect, const CivilTime& now)
      : budget_(limits), heap_(budget_), dialect_(dialect), now_(now) {}
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  Budget& budget() { return budget_; }
  const Limits& limits() const { return budget_.limits(); }
  Heap& heap() { return heap_; }
  const Dialect& dialect() const { return dialect_; }
  const CivilTime& now() const { return now_; }

  Value string(Text text, bool markup = false);
  // A string that the interpreter itself writes: a number's digits, a name.
  Value string(std::string bytes) { return string(Text(std::move(bytes), true)); }
  // The names and values of keyword arguments as entries of a dict.
  void set_named(Dict& dict, const Arguments& arguments);
  Value list(std::vector<Value> items);
  Value tuple(std::vector<Value> items);
  Dict* dict() { return heap_.make<Dict>(); }
  // An iterator over items that are already there; `name` is Python's name of its type.
  Value iterator(std::string_view name, std::vector<Value> items);

 private:
  Budget budget_;  // outlives the heap
  Heap heap_;
  const Dialect dialect_;
  const CivilTime now_;
};

// Builds a string piece by piece within the limits: each append is checked before memory is taken.
class Builder {
 public:
  explicit Builder(Runtime& runtime) : Builder(runtime, 0) {}
  // With a limit of its own in place of string_bytes_max; 0 means string_bytes_max.
  Builder(Runtime& runtime, std::size_t bytes_max) : budget_(runtime.budget()), bytes_max_(bytes_max) {}
  ~Builder() { budget_.release(charged_bytes_); }
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  std::size_t size() const { return text_.size(); }
  Budget& budget() { return budget_; }

  void append(std::string_view bytes, bool trusted = true) {
    charge(bytes.size());
    text_.append(bytes, trusted);
  }
  void append(const Text& other) {
    charge(other.size());
    text_.append(other);
  }
  void append(const Text& other, std::size_t begin, std::size_t end) {
    charge(end > begin ? end - begin : 0);
    text_.append(other, begin, end);
  }
  // `count` times the same; a count below 1 appends nothing.
  void repeat(const Text& other, std::int64_t count);

  Text take() { return std::exchange(text_, Text()); }

 private:
  void charge(std::size_t bytes);

  Budget& budget_;
  const std::size_t bytes_max_;
  std::size_t charged_bytes_ = 0;
  Text text_;
};

// Names the parameters of a function, filter, test or method and hands out what it was called with; fails, as Python
// does, on too many arguments, on a name that is not a parameter and on a parameter given twice.
class Parameters {
 public:
  // `function` is for messages: "filter 'indent'". The arguments outlive this.
  Parameters(std::string_view function, const Arguments& arguments, std::initializer_list<std::string_view> names);

  // Null where the caller gave none.
  const Value* find(std::size_t index) const { return values_[index]; }
  // Fails where the caller gave none.
  const Value& require(std::size_t index) const;
  // `fallback` where the caller gave none; a wrong type fails.
  std::int64_t integer(std::size_t index, std::int64_t fallback) const;
  bool truth(std::size_t index, bool fallback) const;
  std::string_view function() const { return function_; }

 private:
  std::string function_;
  std::vector<std::string_view> names_;
  std::vector<const Value*> values_;
};

}  // namespace twostroke::jinja
