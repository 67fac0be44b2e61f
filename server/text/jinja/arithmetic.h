// Python's arithmetic: + - * / // % ** and the signs, on numbers, strings and sequences. Integers are 64 bits wide;
// a result that does not fit fails instead of growing as Python's would.
#pragma once

#include "server/text/jinja/runtime.h"
#include "server/text/jinja/value.h"

namespace twostroke::jinja {

enum class BinaryOperator { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };

Value apply(Runtime& runtime, BinaryOperator operation, const Value& left, const Value& right);
Value negative(const Value& value);
Value positive(const Value& value);

}  // namespace twostroke::jinja
