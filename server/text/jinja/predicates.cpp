// The tests behind `is`.
#include <algorithm>
#include <iterator>
#include <string>

#include "server/text/jinja/access.h"
#include "server/text/jinja/arithmetic.h"
#include "server/text/jinja/compare.h"
#include "server/text/jinja/iterators.h"
#include "server/text/jinja/print.h"
#include "server/text/jinja/registry.h"
#include "server/text/jinja/strings.h"

namespace twostroke::jinja {
namespace {

const Value& only(const Arguments& arguments) { return Parameters("this test", arguments, {"value"}).require(0); }

std::pair<const Value&, const Value&> both(const Arguments& arguments) {
  Parameters parameters("this test", arguments, {"value", "other"});
  return {parameters.require(0), parameters.require(1)};
}

// Whether value % divisor == rest, as Python computes it.
bool has_remainder(Runtime& runtime, const Value& value, const Value& divisor, std::int64_t rest) {
  return equal(runtime, apply(runtime, BinaryOperator::kModulo, value, divisor), rest);
}

bool is_odd(Runtime& runtime, const Arguments& arguments) {
  return has_remainder(runtime, only(arguments), std::int64_t{2}, 1);
}
bool is_even(Runtime& runtime, const Arguments& arguments) {
  return has_remainder(runtime, only(arguments), std::int64_t{2}, 0);
}
bool is_divisible(Runtime& runtime, const Arguments& arguments) {
  const auto [value, divisor] = both(arguments);
  return has_remainder(runtime, value, divisor, 0);
}

bool is_defined(Runtime&, const Arguments& arguments) { return !only(arguments).is_undefined(); }
bool is_undefined(Runtime&, const Arguments& arguments) { return only(arguments).is_undefined(); }
bool is_none(Runtime&, const Arguments& arguments) { return only(arguments).is_none(); }
bool is_boolean(Runtime&, const Arguments& arguments) { return only(arguments).is_bool(); }
bool is_true_itself(Runtime&, const Arguments& arguments) {
  return only(arguments).is_bool() && only(arguments).boolean();
}
bool is_false_itself(Runtime&, const Arguments& arguments) {
  return only(arguments).is_bool() && !only(arguments).boolean();
}
bool is_integer(Runtime&, const Arguments& arguments) {
  return only(arguments).is_integer() && !only(arguments).is_bool();
}
bool is_float(Runtime&, const Arguments& arguments) { return only(arguments).is_float(); }
bool is_number(Runtime&, const Arguments& arguments) { return only(arguments).is_number(); }
bool is_string(Runtime&, const Arguments& arguments) { return only(arguments).is_string(); }
bool is_mapping(Runtime&, const Arguments& arguments) { return only(arguments).is_dict(); }
bool is_iterable_value(Runtime&, const Arguments& arguments) { return is_iterable(only(arguments)); }

// What has a length and items by position or key.
bool is_sequence(Runtime&, const Arguments& arguments) {
  const Value& value = only(arguments);
  if (value.is_object()) return value.object_as<Range>() != nullptr;
  return length_of(value).has_value();
}

bool is_callable(Runtime&, const Arguments& arguments) {
  const Value& value = only(arguments);
  return value.is_undefined() || (value.is_object() && value.object()->is_callable());
}

bool is_escaped(Runtime&, const Arguments& arguments) { return only(arguments).is_markup(); }

bool is_lower_case(Runtime& runtime, const Arguments& arguments) {
  return is_one_case(runtime, to_text(runtime, only(arguments)), false);
}
bool is_upper_case(Runtime& runtime, const Arguments& arguments) {
  return is_one_case(runtime, to_text(runtime, only(arguments)), true);
}

bool is_filter(Runtime& runtime, const Arguments& arguments) {
  const Value& name = only(arguments);
  return name.is_string() && has_filter(runtime.dialect(), name.view());
}
bool is_test(Runtime&, const Arguments& arguments) {
  const Value& name = only(arguments);
  return name.is_string() && find_test(name.view()) != nullptr;
}

bool is_same(Runtime&, const Arguments& arguments) {
  const auto [value, other] = both(arguments);
  return value.is_same(other);
}
bool is_in(Runtime& runtime, const Arguments& arguments) {
  const auto [value, sequence] = both(arguments);
  return contains(runtime, sequence, value);
}
bool is_equal(Runtime& runtime, const Arguments& arguments) {
  const auto [left, right] = both(arguments);
  return equal(runtime, left, right);
}
bool is_not_equal(Runtime& runtime, const Arguments& arguments) { return !is_equal(runtime, arguments); }
template <Order order>
bool is_in_order(Runtime& runtime, const Arguments& arguments) {
  const auto [left, right] = both(arguments);
  return in_order(runtime, left, order, right);
}

struct TestEntry {
  std::string_view name;
  TestFunction function;
};

constexpr TestEntry kTests[] = {
    {"!=", is_not_equal},
    {"<", is_in_order<Order::kLess>},
    {"<=", is_in_order<Order::kLessOrEqual>},
    {"==", is_equal},
    {">", is_in_order<Order::kGreater>},
    {">=", is_in_order<Order::kGreaterOrEqual>},
    {"boolean", is_boolean},
    {"callable", is_callable},
    {"defined", is_defined},
    {"divisibleby", is_divisible},
    {"eq", is_equal},
    {"equalto", is_equal},
    {"escaped", is_escaped},
    {"even", is_even},
    {"false", is_false_itself},
    {"filter", is_filter},
    {"float", is_float},
    {"ge", is_in_order<Order::kGreaterOrEqual>},
    {"greaterthan", is_in_order<Order::kGreater>},
    {"gt", is_in_order<Order::kGreater>},
    {"in", is_in},
    {"integer", is_integer},
    {"iterable", is_iterable_value},
    {"le", is_in_order<Order::kLessOrEqual>},
    {"lessthan", is_in_order<Order::kLess>},
    {"lower", is_lower_case},
    {"lt", is_in_order<Order::kLess>},
    {"mapping", is_mapping},
    {"ne", is_not_equal},
    {"none", is_none},
    {"number", is_number},
    {"odd", is_odd},
    {"sameas", is_same},
    {"sequence", is_sequence},
    {"string", is_string},
    {"test", is_test},
    {"true", is_true_itself},
    {"undefined", is_undefined},
    {"upper", is_upper_case},
};

}  // namespace

TestFunction find_test(std::string_view name) {
  const auto* const end = std::end(kTests);
  const auto* const found =
      std::find_if(std::begin(kTests), end, [&](const TestEntry& entry) { return entry.name == name; });
  return found == end ? nullptr : found->function;
}

}  // namespace twostroke::jinja
