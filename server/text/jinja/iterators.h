// The objects that loops run over besides lists, tuples, dicts and strings: iterators, dict views and ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/text/jinja/value.h"

namespace twostroke::jinja {

// What `map`, `select`, `items`, ... give: it can be iterated once and has no length. Its items are computed when it
// is made, not when they are asked for as in Python, so that a failure shows where it happens.
struct Iterator : Object {
  Iterator(std::string_view name, std::vector<Value> items) : name_(name), items_(std::move(items)) {}

  std::string_view type_name() const override { return name_; }
  Text description(Runtime&) override { return Text("<" + std::string(name_) + " object>", true); }
  bool is_iterable() const override { return true; }
  std::vector<Value> iterate(Runtime& runtime) override;
  // Takes the next item off; none at the end.
  std::optional<Value> next();

 private:
  std::string_view name_;
  std::vector<Value> items_;
  std::size_t position_ = 0;
};

// dict.keys(), .values() and .items(): they see later changes of the dict.
struct DictView : Object {
  enum class Part { kKeys, kValues, kItems };
  DictView(Dict* dict, Part part) : dict_(dict), part_(part) {}

  std::string_view type_name() const override;
  Text description(Runtime& runtime) override;
  std::optional<std::size_t> length() const override { return dict_->size(); }
  bool is_iterable() const override { return true; }
  std::vector<Value> iterate(Runtime& runtime) override;

 private:
  Dict* const dict_;
  const Part part_;
};

// range(start, stop, step); never longer than range_items_max.
struct Range : Object {
  Range(std::int64_t start, std::int64_t stop, std::int64_t step);

  // Fails where it would be longer than range_items_max, or step is 0.
  static Range* make(Runtime& runtime, std::int64_t start, std::int64_t stop, std::int64_t step);

  std::string_view type_name() const override { return "range"; }
  Text description(Runtime& runtime) override;
  std::optional<std::size_t> length() const override { return count_; }
  bool is_iterable() const override { return true; }
  std::vector<Value> iterate(Runtime& runtime) override;
  std::optional<Value> item(Runtime& runtime, const Value& key) override;
  // Requires index < length().
  std::int64_t at(std::size_t index) const { return start_ + static_cast<std::int64_t>(index) * step_; }

  friend bool operator==(const Range& left, const Range& right);

 private:
  std::int64_t start_;
  std::int64_t stop_;
  std::int64_t step_;
  std::size_t count_;
};

}  // namespace twostroke::jinja
