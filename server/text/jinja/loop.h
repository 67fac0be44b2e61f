// The variable `loop` of a for block, which is also what walks its items.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/text/jinja/runtime.h"
#include "server/text/jinja/value.h"

namespace twostroke::jinja {

class Loop : public Object {
 public:
  // Whether an item takes part (`for ... if`). Asked for each item only when the loop comes to it, because the body
  // may change the answer.
  using Condition = std::function<bool(const Value& item)>;
  // Renders the body for other items, one level deeper: what calling the loop does.
  using Recursion = std::function<Value(const Value& items, int depth)>;

  Loop(std::vector<Value> items, Condition condition, Recursion recursion, int depth)
      : items_(std::move(items)), condition_(std::move(condition)), recursion_(std::move(recursion)), depth_(depth) {}

  // Moves to the next item; null at the end.
  const Value* advance();

  std::string_view type_name() const override { return "LoopContext"; }
  Text description(Runtime&) override {
    return Text("<LoopContext " + std::to_string(index0_ + 1) + "/" + std::to_string(total()) + ">", true);
  }
  std::optional<std::size_t> length() const override { return items_.size(); }
  std::optional<Value> attribute(Runtime& runtime, std::string_view name) override;
  bool is_callable() const override { return true; }
  Value call(Runtime& runtime, Arguments arguments) override;

 private:
  std::optional<Value> pull();
  const std::optional<Value>& peek();
  std::int64_t total();
  Value cycle(const Arguments& arguments) const;
  Value changed(Runtime& runtime, const Arguments& arguments);

  std::vector<Value> items_;
  Condition condition_;        // empty: every item takes part
  const Recursion recursion_;  // empty where the loop is not recursive
  const int depth_;            // 0 for the outermost
  std::size_t position_ = 0;   // of the next item to look at
  std::optional<Value> ahead_;
  std::optional<Value> before_;
  std::optional<Value> current_;
  std::int64_t index0_ = -1;
  std::optional<std::int64_t> total_;
  std::optional<Value> last_changed_;
};

}  // namespace twostroke::jinja
