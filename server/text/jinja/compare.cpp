#include "server/text/jinja/compare.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "server/text/jinja/iterators.h"
#include "server/text/jinja/utf8.h"

namespace twostroke::jinja {
namespace {

// A long double holds every int64 and every double, so that 2**63 - 1 and 2.0**63 differ, as in Python.
long double exact(const Value& number) {
  return number.is_float() ? static_cast<long double>(number.number()) : static_cast<long double>(number.integer());
}

bool equal_items(Runtime& runtime, const std::vector<Value>& left, const std::vector<Value>& right) {
  if (left.size() != right.size()) return false;
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (!equal(runtime, left[i], right[i])) return false;
  }
  return true;
}

bool equal_dicts(Runtime& runtime, const Dict& left, const Dict& right) {
  if (left.size() != right.size()) return false;
  for (const auto& [key, value] : left.entries()) {
    const Value* const other = right.find(runtime, key);
    if (other == nullptr || !equal(runtime, value, *other)) return false;
  }
  return true;
}

[[noreturn]] void fail_order(const Value& left, const Value& right, const char* sign) {
  if (left.is_undefined()) fail(*left.undefined().message);
  if (right.is_undefined()) fail(*right.undefined().message);
  fail(std::string("'") + sign + "' not supported between instances of '" + std::string(type_name(left)) + "' and '" +
       std::string(type_name(right)) + "'");
}

// Where both are of a type with an order: compares them by `compare(left, right)`, which is also what decides between
// the first items of two sequences that differ.
template <typename Compare>
bool ordered(Runtime& runtime, const Value& left, const Value& right, const char* sign, Compare compare) {
  Budget::Level level(runtime.budget());
  runtime.budget().step();
  if (left.is_number() && right.is_number()) return compare(exact(left), exact(right));
  if (left.is_string() && right.is_string()) {
    runtime.budget().step_bytes(std::min(left.text().size(), right.text().size()));
    return compare(left.view().compare(right.view()), 0);  // byte order is character order in UTF-8
  }
  const bool same_kind = (left.is_list() && right.is_list()) || (left.is_tuple() && right.is_tuple());
  if (!same_kind) fail_order(left, right, sign);
  const std::vector<Value>& first = *left.items();
  const std::vector<Value>& second = *right.items();
  for (std::size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
    if (!equal(runtime, first[i], second[i])) return ordered(runtime, first[i], second[i], sign, compare);
  }
  return compare(first.size(), second.size());
}

}  // namespace

bool is_true(const Value& value) {
  if (value.is_none() || value.is_undefined()) return false;
  if (value.is_integer()) return value.integer() != 0;
  if (value.is_float()) return value.number() != 0.0;
  if (value.is_string()) return !value.text().empty();
  if (const std::vector<Value>* items = value.items()) return !items->empty();
  if (value.is_dict()) return value.dict()->size() != 0;
  return value.object()->length().value_or(1) != 0;
}

bool equal(Runtime& runtime, const Value& left, const Value& right) {
  Budget::Level level(runtime.budget());
  runtime.budget().step();
  if (left.is_number() && right.is_number()) return exact(left) == exact(right);
  if (left.is_string() && right.is_string()) {
    runtime.budget().step_bytes(std::min(left.text().size(), right.text().size()));
    return left.view() == right.view();
  }
  if (left.is_none() || right.is_none()) return left.is_none() && right.is_none();
  if (left.is_undefined() || right.is_undefined()) return left.is_undefined() && right.is_undefined();
  if (left.is_list() && right.is_list()) return equal_items(runtime, left.list()->items, right.list()->items);
  if (left.is_tuple() && right.is_tuple()) return equal_items(runtime, left.tuple()->items, right.tuple()->items);
  if (left.is_dict() && right.is_dict()) return equal_dicts(runtime, *left.dict(), *right.dict());
  const auto* const range = left.object_as<Range>();
  const auto* const other_range = right.object_as<Range>();
  if (range != nullptr && other_range != nullptr) return *range == *other_range;
  return left.is_object() && right.is_object() && left.object() == right.object();
}

bool in_order(Runtime& runtime, const Value& left, Order order, const Value& right) {
  switch (order) {
    case Order::kLess:
      return ordered(runtime, left, right, "<", [](const auto& a, const auto& b) { return a < b; });
    case Order::kLessOrEqual:
      return ordered(runtime, left, right, "<=", [](const auto& a, const auto& b) { return a <= b; });
    case Order::kGreater:
      return ordered(runtime, left, right, ">", [](const auto& a, const auto& b) { return a > b; });
    case Order::kGreaterOrEqual:
      break;
  }
  return ordered(runtime, left, right, ">=", [](const auto& a, const auto& b) { return a >= b; });
}

bool contains(Runtime& runtime, const Value& haystack, const Value& needle) {
  if (haystack.is_string()) {
    if (!needle.is_string()) {
      fail("'in <string>' requires string as left operand, not " + std::string(type_name(needle)));
    }
    runtime.budget().step_bytes(haystack.text().size());
    return utf8::find(haystack.view(), needle.view()) != std::string_view::npos;
  }
  if (haystack.is_undefined()) return false;
  if (haystack.is_dict()) return haystack.dict()->find(runtime, needle) != nullptr;
  if (const std::vector<Value>* items = haystack.items()) {
    for (const Value& item : *items) {
      if (equal(runtime, item, needle)) return true;
    }
    return false;
  }
  if (!haystack.is_object() || !haystack.object()->is_iterable()) {
    fail("argument of type '" + std::string(type_name(haystack)) + "' is not iterable");
  }
  for (const Value& item : haystack.object()->iterate(runtime)) {
    if (equal(runtime, item, needle)) return true;
  }
  return false;
}

std::size_t hash_value(Runtime& runtime, const Value& value) {
  Budget::Level level(runtime.budget());
  runtime.budget().step();
  if (value.is_string()) {
    runtime.budget().step_bytes(value.text().size());
    return std::hash<std::string_view>{}(value.view());
  }
  if (value.is_integer()) return std::hash<std::int64_t>{}(value.integer());
  if (value.is_float()) {
    const double number = value.number();
    // Within int64's range a whole number hashes like the integer that it equals.
    if (std::trunc(number) == number && std::abs(number) < 9.2e18) {
      return std::hash<std::int64_t>{}(static_cast<std::int64_t>(number));
    }
    return std::hash<double>{}(number);
  }
  if (value.is_tuple()) {
    std::size_t hash = 0x9E3779B97F4A7C15u;
    for (const Value& item : value.tuple()->items) hash = hash * 31 + hash_value(runtime, item);
    return hash;
  }
  if (value.is_list() || value.is_dict()) fail("unhashable type: '" + std::string(type_name(value)) + "'");
  if (value.is_object()) return std::hash<const void*>{}(value.object());
  return value.is_none() ? 0x5F3759DF : 0x2545F491;
}

}  // namespace twostroke::jinja
