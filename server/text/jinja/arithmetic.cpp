#include "server/text/jinja/arithmetic.h"

#include <cmath>
#include <limits>
#include <string>

#include "server/text/jinja/format.h"
#include "server/text/jinja/print.h"
#include "server/text/jinja/strings.h"

namespace twostroke::jinja {
namespace {

const char* sign_of(BinaryOperator operation) {
  switch (operation) {
    case BinaryOperator::kAdd:
      return "+";
    case BinaryOperator::kSubtract:
      return "-";
    case BinaryOperator::kMultiply:
      return "*";
    case BinaryOperator::kDivide:
      return "/";
    case BinaryOperator::kFloorDivide:
      return "//";
    case BinaryOperator::kModulo:
      return "%";
    case BinaryOperator::kPower:
      break;
  }
  return "** or pow()";
}

[[noreturn]] void fail_types(BinaryOperator operation, const Value& left, const Value& right) {
  const std::string left_type(type_name(left));
  const std::string right_type(type_name(right));
  if (operation == BinaryOperator::kAdd && (left.is_string() || left.items() != nullptr)) {
    fail("can only concatenate " + left_type + " (not \"" + right_type + "\") to " + left_type);
  }
  fail(std::string("unsupported operand type(s) for ") + sign_of(operation) + ": '" + left_type + "' and '" +
       right_type + "'");
}

[[noreturn]] void fail_overflow(BinaryOperator operation) {
  fail(std::string("the result of ") + sign_of(operation) + " does not fit a 64-bit integer");
}

std::int64_t floor_divide(std::int64_t left, std::int64_t right) {
  const std::int64_t quotient = left / right;
  return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

std::int64_t integer_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) fail_overflow(BinaryOperator::kPower);
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) fail_overflow(BinaryOperator::kPower);
  }
  return result;
}

Value apply_integers(BinaryOperator operation, std::int64_t left, std::int64_t right) {
  std::int64_t result = 0;
  bool overflow = false;
  switch (operation) {
    case BinaryOperator::kAdd:
      overflow = __builtin_add_overflow(left, right, &result);
      break;
    case BinaryOperator::kSubtract:
      overflow = __builtin_sub_overflow(left, right, &result);
      break;
    case BinaryOperator::kMultiply:
      overflow = __builtin_mul_overflow(left, right, &result);
      break;
    case BinaryOperator::kDivide:
      if (right == 0) fail("division by zero");
      // A long double holds both exactly, so that there is one rounding, as in Python.
      return static_cast<double>(static_cast<long double>(left) / static_cast<long double>(right));
    case BinaryOperator::kFloorDivide:
    case BinaryOperator::kModulo:
      if (right == 0) fail("integer division or modulo by zero");
      if (right == -1) {  // the one divisor that can overflow
        if (operation == BinaryOperator::kModulo) return std::int64_t{0};
        overflow = __builtin_sub_overflow(std::int64_t{0}, left, &result);
        break;
      }
      result = floor_divide(left, right);
      if (operation == BinaryOperator::kModulo) result = left - result * right;
      break;
    case BinaryOperator::kPower:
      if (right < 0) {
        if (left == 0) fail("0.0 cannot be raised to a negative power");
        return std::pow(static_cast<double>(left), static_cast<double>(right));
      }
      result = integer_power(left, right);
      break;
  }
  if (overflow) fail_overflow(operation);
  return result;
}

double float_modulo(double left, double right) {
  double rest = std::fmod(left, right);
  if (rest != 0.0) return (rest < 0) != (right < 0) ? rest + right : rest;
  return std::copysign(0.0, right);
}

// CPython's steps, which round where a quotient by itself would not.
double float_floor_divide(double left, double right) {
  const double rest = std::fmod(left, right);
  double quotient = (left - rest) / right;
  if (rest != 0.0 && (rest < 0) != (right < 0)) quotient -= 1.0;
  if (quotient == 0.0) return std::copysign(0.0, left / right);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1.0 : floor;
}

double float_power(double left, double right) {
  if (left == 0.0 && right < 0) fail("0.0 cannot be raised to a negative power");
  if (left < 0 && std::isfinite(left) && std::isfinite(right) && std::trunc(right) != right) {
    fail("a negative number to the power of a fraction is complex, which templates have not");
  }
  const double result = std::pow(left, right);
  if (std::isinf(result) && std::isfinite(left) && std::isfinite(right)) fail("the result of ** is too large");
  return result;
}

Value apply_floats(BinaryOperator operation, double left, double right) {
  const bool divides = operation == BinaryOperator::kDivide || operation == BinaryOperator::kFloorDivide ||
                       operation == BinaryOperator::kModulo;
  if (divides && right == 0.0) fail("float division by zero");
  switch (operation) {
    case BinaryOperator::kAdd:
      return left + right;
    case BinaryOperator::kSubtract:
      return left - right;
    case BinaryOperator::kMultiply:
      return left * right;
    case BinaryOperator::kDivide:
      return left / right;
    case BinaryOperator::kFloorDivide:
      return float_floor_divide(left, right);
    case BinaryOperator::kModulo:
      return float_modulo(left, right);
    case BinaryOperator::kPower:
      break;
  }
  return float_power(left, right);
}

Value concatenate_strings(Runtime& runtime, const Value& left, const Value& right) {
  const bool markup = left.is_markup() || right.is_markup();
  Builder out(runtime);
  for (const Value* part : {&left, &right}) {
    if (markup && !part->is_markup()) {
      append_escaped(out, part->text());
    } else {
      out.append(part->text());
    }
  }
  return runtime.string(out.take(), markup);
}

Value repeat(Runtime& runtime, const Value& sequence, std::int64_t count) {
  if (sequence.is_string()) {
    Builder out(runtime);
    out.repeat(sequence.text(), count);
    return runtime.string(out.take(), sequence.is_markup());
  }
  const std::vector<Value>& items = *sequence.items();
  std::vector<Value> result;
  if (count > 0 && !items.empty()) {
    runtime.budget().check_room(static_cast<std::uint64_t>(count), items.size() * sizeof(Value));
  }
  for (std::int64_t i = 0; i < count && !items.empty(); ++i) {
    runtime.budget().step(static_cast<std::int64_t>(items.size()));
    result.insert(result.end(), items.begin(), items.end());
  }
  return sequence.is_tuple() ? runtime.tuple(std::move(result)) : runtime.list(std::move(result));
}

Value concatenate_items(Runtime& runtime, const Value& left, const Value& right) {
  std::vector<Value> items = *left.items();
  items.insert(items.end(), right.items()->begin(), right.items()->end());
  runtime.budget().step(static_cast<std::int64_t>(items.size()));
  return left.is_tuple() ? runtime.tuple(std::move(items)) : runtime.list(std::move(items));
}

bool is_repeatable(const Value& value) { return value.is_string() || value.items() != nullptr; }

void require_number(const Value& value, const char* sign) {
  if (value.is_undefined()) fail(*value.undefined().message);
  if (!value.is_number()) {
    fail(std::string("bad operand type for unary ") + sign + ": '" + std::string(type_name(value)) + "'");
  }
}

}  // namespace

Value apply(Runtime& runtime, BinaryOperator operation, const Value& left, const Value& right) {
  if (operation == BinaryOperator::kModulo && left.is_string()) {
    return runtime.string(format_percent(runtime, left.text(), right), left.is_markup());
  }
  if (left.is_undefined()) fail(*left.undefined().message);
  if (right.is_undefined()) fail(*right.undefined().message);
  if (left.is_integer() && right.is_integer()) return apply_integers(operation, left.integer(), right.integer());
  if (left.is_number() && right.is_number()) return apply_floats(operation, left.number(), right.number());
  if (operation == BinaryOperator::kAdd) {
    if (left.is_string() && right.is_string()) return concatenate_strings(runtime, left, right);
    const bool same = (left.is_list() && right.is_list()) || (left.is_tuple() && right.is_tuple());
    if (same) return concatenate_items(runtime, left, right);
  }
  if (operation == BinaryOperator::kMultiply) {
    if (is_repeatable(left) && right.is_integer()) return repeat(runtime, left, right.integer());
    if (left.is_integer() && is_repeatable(right)) return repeat(runtime, right, left.integer());
  }
  fail_types(operation, left, right);
}

Value negative(const Value& value) {
  require_number(value, "-");
  if (value.is_float()) return -value.number();
  if (value.integer() == std::numeric_limits<std::int64_t>::min()) fail_overflow(BinaryOperator::kSubtract);
  return -value.integer();
}

Value positive(const Value& value) {
  require_number(value, "+");
  if (value.is_float()) return value.number();
  return value.integer();
}

}  // namespace twostroke::jinja
