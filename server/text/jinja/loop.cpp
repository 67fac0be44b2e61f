#include "server/text/jinja/loop.h"

#include "server/text/jinja/builtins.h"
#include "server/text/jinja/compare.h"

namespace twostroke::jinja {

std::optional<Value> Loop::pull() {
  while (position_ < items_.size()) {
    const Value& item = items_[position_++];
    if (!condition_ || condition_(item)) return item;
  }
  return std::nullopt;
}

const std::optional<Value>& Loop::peek() {
  if (!ahead_) ahead_ = pull();
  return ahead_;
}

const Value* Loop::advance() {
  std::optional<Value> item = ahead_ ? std::exchange(ahead_, std::nullopt) : pull();
  if (!item) return nullptr;
  ++index0_;
  before_ = std::exchange(current_, std::move(item));
  return &*current_;
}

// Knowing it settles the condition for all items at once.
std::int64_t Loop::total() {
  if (total_) return *total_;
  if (condition_) {
    std::vector<Value> rest;
    while (std::optional<Value> item = pull()) rest.push_back(*std::move(item));
    total_ = static_cast<std::int64_t>(rest.size()) + index0_ + 1 + (ahead_ ? 1 : 0);
    items_ = std::move(rest);
    position_ = 0;
    condition_ = nullptr;
  } else {
    total_ = static_cast<std::int64_t>(items_.size());
  }
  return *total_;
}

Value Loop::cycle(const Arguments& arguments) const {
  const std::vector<Value>& values = arguments.positional;
  if (values.empty()) fail("no items for cycling given");
  return values[static_cast<std::size_t>(index0_) % values.size()];
}

Value Loop::changed(Runtime& runtime, const Arguments& arguments) {
  Value values = runtime.tuple(arguments.positional);
  if (last_changed_ && equal(runtime, *last_changed_, values)) return false;
  last_changed_ = std::move(values);
  return true;
}

std::optional<Value> Loop::attribute(Runtime& runtime, std::string_view name) {
  if (name == "index0") return Value(index0_);
  if (name == "index") return Value(index0_ + 1);
  if (name == "first") return Value(index0_ == 0);
  if (name == "last") return Value(!peek());
  if (name == "length") return Value(total());
  if (name == "revindex") return Value(total() - index0_);
  if (name == "revindex0") return Value(total() - index0_ - 1);
  if (name == "depth") return Value(static_cast<std::int64_t>(depth_) + 1);
  if (name == "depth0") return Value(static_cast<std::int64_t>(depth_));
  if (name == "previtem") return index0_ == 0 ? Value::undefined("there is no previous item") : *before_;
  if (name == "nextitem") return peek() ? *peek() : Value::undefined("there is no next item");
  if (name != "cycle" && name != "changed") return std::nullopt;
  const bool cycles = name == "cycle";
  const auto method = [this, cycles](Runtime& caller, const Arguments& arguments) {
    return cycles ? cycle(arguments) : changed(caller, arguments);
  };
  return static_cast<Object*>(runtime.heap().make<Function>(name, method));
}

Value Loop::call(Runtime&, Arguments arguments) {
  Parameters parameters("loop()", arguments, {"iterable"});
  if (!recursion_) fail("The loop must have the 'recursive' marker to be called recursively.");
  return recursion_(parameters.require(0), depth_ + 1);
}

}  // namespace twostroke::jinja
