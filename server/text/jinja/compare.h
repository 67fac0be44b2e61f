// Python's ==, <, in, hash and truth of values.
#pragma once

#include <cstddef>

#include "server/text/jinja/runtime.h"
#include "server/text/jinja/value.h"

namespace twostroke::jinja {

bool is_true(const Value& value);

// Never fails for values of different types: they differ. Numbers are equal by value, True being 1.
bool equal(Runtime& runtime, const Value& left, const Value& right);

enum class Order { kLess, kLessOrEqual, kGreater, kGreaterOrEqual };

// `left order right`. Fails where Python has no order between the two.
bool in_order(Runtime& runtime, const Value& left, Order order, const Value& right);
inline bool less(Runtime& runtime, const Value& left, const Value& right) {
  return in_order(runtime, left, Order::kLess, right);
}

// `needle in haystack`.
bool contains(Runtime& runtime, const Value& haystack, const Value& needle);

// Equal values have equal hashes; lists and dicts have none, which fails.
std::size_t hash_value(Runtime& runtime, const Value& value);

}  // namespace twostroke::jinja
