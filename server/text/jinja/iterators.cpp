#include "server/text/jinja/iterators.h"

#include "server/text/jinja/print.h"
#include "server/text/jinja/runtime.h"

namespace twostroke::jinja {
namespace {

// How many items range(start, stop, step) has; step is not 0.
std::uint64_t range_count(std::int64_t start, std::int64_t stop, std::int64_t step) {
  if (step > 0 ? start >= stop : start <= stop) return 0;
  // In unsigned arithmetic the distance of any two int64 is right, and so is the size of the smallest step.
  const std::uint64_t distance = step > 0 ? static_cast<std::uint64_t>(stop) - static_cast<std::uint64_t>(start)
                                          : static_cast<std::uint64_t>(start) - static_cast<std::uint64_t>(stop);
  const std::uint64_t stride = step > 0 ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
  return (distance - 1) / stride + 1;
}

}  // namespace

std::vector<Value> Iterator::iterate(Runtime& runtime) {
  runtime.budget().step(static_cast<std::int64_t>(items_.size() - position_));
  std::vector<Value> rest(items_.begin() + static_cast<std::ptrdiff_t>(position_), items_.end());
  position_ = items_.size();
  return rest;
}

std::optional<Value> Iterator::next() {
  if (position_ == items_.size()) return std::nullopt;
  return items_[position_++];
}

std::string_view DictView::type_name() const {
  switch (part_) {
    case Part::kKeys:
      return "dict_keys";
    case Part::kValues:
      return "dict_values";
    case Part::kItems:
      break;
  }
  return "dict_items";
}

Text DictView::description(Runtime& runtime) {
  Builder out(runtime);
  out.append(type_name());
  out.append("(");
  append_repr(runtime, out, runtime.list(iterate(runtime)));
  out.append(")");
  return out.take();
}

std::vector<Value> DictView::iterate(Runtime& runtime) {
  runtime.budget().step(static_cast<std::int64_t>(dict_->size()));
  std::vector<Value> items;
  items.reserve(dict_->size());
  for (const auto& [key, value] : dict_->entries()) {
    switch (part_) {
      case Part::kKeys:
        items.push_back(key);
        break;
      case Part::kValues:
        items.push_back(value);
        break;
      case Part::kItems:
        items.push_back(runtime.tuple({key, value}));
        break;
    }
  }
  return items;
}

Range::Range(std::int64_t start, std::int64_t stop, std::int64_t step)
    : start_(start), stop_(stop), step_(step), count_(range_count(start, stop, step)) {}

Range* Range::make(Runtime& runtime, std::int64_t start, std::int64_t stop, std::int64_t step) {
  if (step == 0) fail("range() arg 3 must not be zero");
  if (range_count(start, stop, step) > static_cast<std::uint64_t>(runtime.limits().range_items_max)) {
    fail("range() of more than " + std::to_string(runtime.limits().range_items_max) + " items");
  }
  return runtime.heap().make<Range>(start, stop, step);
}

Text Range::description(Runtime&) {
  std::string text = "range(" + std::to_string(start_) + ", " + std::to_string(stop_);
  if (step_ != 1) text += ", " + std::to_string(step_);
  return Text(text + ")", true);
}

std::vector<Value> Range::iterate(Runtime& runtime) {
  runtime.budget().step(static_cast<std::int64_t>(count_));
  std::vector<Value> items;
  items.reserve(count_);
  for (std::size_t i = 0; i < count_; ++i) items.emplace_back(at(i));
  return items;
}

std::optional<Value> Range::item(Runtime&, const Value& key) {
  if (!key.is_integer()) return std::nullopt;
  const std::int64_t count = static_cast<std::int64_t>(count_);
  const std::int64_t index = key.integer() < 0 ? key.integer() + count : key.integer();
  if (index < 0 || index >= count) return std::nullopt;
  return Value(at(static_cast<std::size_t>(index)));
}

bool operator==(const Range& left, const Range& right) {
  if (left.count_ != right.count_) return false;
  if (left.count_ == 0) return true;
  return left.start_ == right.start_ && (left.count_ == 1 || left.step_ == right.step_);
}

}  // namespace twostroke::jinja
