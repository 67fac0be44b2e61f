// The JSON texts of strings and numbers as Dfas.
//
// Thread-safety: pure functions and plain values.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kernels/status.h"
#include "server/text/grammar/dfa.h"
#include "server/text/grammar/dfa_operations.h"

namespace twostroke::grammar {

// Numbers are written with at most this many digits before the point and behind it, so that they keep their value in
// a double and end some time; with more only where a bound or `multipleOf` has more. Under a condition, a number with a
// fraction has at most 15 digits in all: conditions are about decimals, and hold for the doubles that readers make of
// them.
constexpr uint32_t kNumberDigits = 16;
// An exponent is at most 199, so that every number is within the range of a double.

// `value` of a JSON number as decimal digits: without an exponent, without needless zeros. As exact as the number was
// read: those that are no integers are the shortest text that reads back as the same double.
struct Decimal {
  bool negative = false;  // never for zero
  std::string whole;      // "0", or without leading zeros
  std::string fraction;   // without trailing zeros
  bool is_integer() const { return fraction.empty(); }
};
// Nothing: not a number, or one with more than 400 digits.
std::optional<Decimal> decimal_of(const nlohmann::ordered_json& number);

struct NumberBound {
  enum class Kind { kAtLeast, kMoreThan, kAtMost, kLessThan, kEqual };
  Kind kind;
  Decimal value;
};

bool holds(const NumberBound& bound, const Decimal& value);
bool is_multiple(const Decimal& value, const Decimal& divisor);  // false, too, for divisors of more than five digits

struct NumberSet {
  bool integers = true;   // numbers without a fraction, as JSON Schema means "integer"
  bool fractions = true;  // all others
  std::vector<NumberBound> bounds;
  std::vector<Decimal> multiples_of;      // positive
  std::vector<NumberBound> excluded;      // kEqual: not these values
  std::vector<Decimal> not_multiples_of;  // positive
};

// The texts of these numbers. Integers alone are written without point and exponent. Without any condition an exponent
// is allowed; with one, numbers are written in decimal notation, and zero without a sign.
// Errors: kInvalidArgument: a limit.
Result<Dfa> number_texts(const NumberSet& set);

// The JSON strings, quotes and all, whose decoded texts are those of `decoded` (a language of UTF-8 texts), in every
// spelling: characters as they are, short escapes, \uXXXX with surrogates in pairs only. Not minimal.
// Errors: kInvalidArgument: a limit.
Result<Dfa> string_texts(const Dfa& decoded);

// One character of a JSON string in every spelling.
const Dfa& string_character();

}  // namespace twostroke::grammar
