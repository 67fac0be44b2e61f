#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "server/text/grammar/json_text.h"
#include "server/text/grammar/regex.h"

namespace twostroke::grammar {

namespace {

constexpr size_t kDecimalDigitsMax = 400;
constexpr size_t kDoubleDigits = 15;
constexpr DfaLimits kNumberLimits{20'000};  // states; what a divisor of four digits takes
constexpr std::string_view kNumberBytes = "-.0123456789";

bool is_decimal_digit(unsigned char byte) { return byte >= '0' && byte <= '9'; }

// How what has been read compares with a bound's magnitude, in the order of the values.
enum class Relation : uint64_t { kLess, kEqual, kGreater };

// Reads "-12.50" and compares its value with a bound. State: whether there is a sign, whether the point has come, how
// many digits of this part have been read (no more than the bound has, and one), and the relation of what was read.
class BoundMachine {
 public:
  explicit BoundMachine(const NumberBound& bound) : bound_(bound) {}

  Result<Dfa> dfa() const {
    return explore(
        pack({}), separate_classes(kNumberBytes), [this](uint64_t s, unsigned char byte) { return step(s, byte); },
        [this](uint64_t s) { return accepts(unpack(s)); });
  }

 private:
  struct State {
    bool negative = false;
    bool in_fraction = false;
    uint64_t digits = 0;
    Relation relation = Relation::kEqual;
  };
  static uint64_t pack(const State& s) {
    return static_cast<uint64_t>(s.negative) | static_cast<uint64_t>(s.in_fraction) << 1 |
           static_cast<uint64_t>(s.relation) << 2 | s.digits << 4;
  }
  static State unpack(uint64_t s) { return {(s & 1) != 0, (s & 2) != 0, s >> 4, static_cast<Relation>(s >> 2 & 3)}; }

  const std::string& part(const State& s) const { return s.in_fraction ? bound_.value.fraction : bound_.value.whole; }

  std::optional<uint64_t> step(uint64_t packed, unsigned char byte) const {
    State s = unpack(packed);
    if (byte == '-') {
      if (s.negative || s.digits != 0) return std::nullopt;
      s.negative = true;
      return pack(s);
    }
    if (byte == '.') {
      if (s.in_fraction || s.digits == 0) return std::nullopt;
      s = {s.negative, true, 0, whole_relation(s)};
      return pack(s);
    }
    if (!is_decimal_digit(byte)) return std::nullopt;
    const std::string& digits = part(s);
    const unsigned char expected = s.digits < digits.size() ? static_cast<unsigned char>(digits[s.digits]) : '0';
    if (s.relation == Relation::kEqual && (s.digits < digits.size() || s.in_fraction))
      s.relation = byte < expected ? Relation::kLess : byte > expected ? Relation::kGreater : Relation::kEqual;
    s.digits = std::min<uint64_t>(s.digits + 1, digits.size() + 1);
    if (s.in_fraction && s.relation != Relation::kEqual) s.digits = 1;  // the rest makes no difference
    return pack(s);
  }

  // Of the digits before the point: more digits are more.
  Relation whole_relation(const State& s) const {
    const size_t size = bound_.value.whole.size();
    return s.digits < size ? Relation::kLess : s.digits > size ? Relation::kGreater : s.relation;
  }

  bool accepts(const State& s) const {
    if (s.digits == 0) return false;
    Relation relation = s.in_fraction ? s.relation : whole_relation(s);
    const size_t fraction_read = s.in_fraction ? s.digits : 0;
    if (relation == Relation::kEqual && fraction_read < bound_.value.fraction.size()) relation = Relation::kLess;
    // From magnitudes to values.
    if (s.negative != bound_.value.negative)
      relation = s.negative ? Relation::kLess : Relation::kGreater;
    else if (s.negative && relation != Relation::kEqual)
      relation = relation == Relation::kLess ? Relation::kGreater : Relation::kLess;
    switch (bound_.kind) {
      case NumberBound::Kind::kAtLeast:
        return relation != Relation::kLess;
      case NumberBound::Kind::kMoreThan:
        return relation == Relation::kGreater;
      case NumberBound::Kind::kAtMost:
        return relation != Relation::kGreater;
      case NumberBound::Kind::kLessThan:
        return relation == Relation::kLess;
      case NumberBound::Kind::kEqual:
        return relation == Relation::kEqual;
    }
    return false;
  }

  const NumberBound& bound_;
};

// Numbers that keep to one of the bounds, at least one. Halves are united, so that no large automaton meets each small
// one.
Result<Dfa> union_of(std::span<const NumberBound> bounds) {
  std::vector<Dfa> parts;
  for (const NumberBound& bound : bounds) {
    Result<Dfa> part = BoundMachine(bound).dfa();
    if (!part.ok()) return part;
    parts.push_back(*std::move(part));
  }
  while (parts.size() > 1) {
    std::vector<Dfa> pairs;
    for (size_t i = 0; i + 1 < parts.size(); i += 2) {
      Result<Dfa> both = combine(parts[i], parts[i + 1], DfaOperation::kUnion, kNumberLimits);
      if (!both.ok()) return both;
      pairs.push_back(*std::move(both));
    }
    if (parts.size() % 2 == 1) pairs.push_back(std::move(parts.back()));
    parts = std::move(pairs);
  }
  return std::move(parts.front());
}

// Texts whose value is a multiple of `divisor`: with k digits behind its point it is p / 10^k, and a text is a multiple
// when its digits, with k of them behind the point, are a multiple of p. State: the remainder, and digits behind the
// point (k + 1: none but zeros may follow).
Result<Dfa> multiples(const Decimal& divisor) {
  const uint64_t places = divisor.fraction.size();
  const std::string digits = divisor.whole + divisor.fraction;
  constexpr uint64_t kDivisorMax = 100'000;
  uint64_t p = 0;
  for (const char c : digits) {
    p = p * 10 + static_cast<uint64_t>(c - '0');
    if (p > kDivisorMax) return automaton_too_large(kNumberLimits);
  }
  enum : uint64_t { kStart, kAfterSign, kWhole, kPoint, kFraction };
  struct State {
    uint64_t phase, read, remainder;
  };
  const auto pack = [](State s) { return s.phase | s.read << 3 | s.remainder << 16; };
  const auto unpack = [](uint64_t s) { return State{s & 7, s >> 3 & 0x1FFF, s >> 16}; };
  const auto step = [&](uint64_t packed, unsigned char byte) -> std::optional<uint64_t> {
    State s = unpack(packed);
    if (byte == '-') return s.phase == kStart ? std::optional(pack({kAfterSign, 0, 0})) : std::nullopt;
    if (byte == '.') return s.phase == kWhole ? std::optional(pack({kPoint, 0, s.remainder})) : std::nullopt;
    if (!is_decimal_digit(byte)) return std::nullopt;
    const bool in_fraction = s.phase == kPoint || s.phase == kFraction;
    s.phase = in_fraction ? kFraction : kWhole;
    if (in_fraction && s.read == places) return byte == '0' ? std::optional(pack(s)) : std::nullopt;
    if (in_fraction) ++s.read;
    s.remainder = (s.remainder * 10 + (byte - '0')) % p;
    return pack(s);
  };
  const auto accepts = [&](uint64_t packed) {
    State s = unpack(packed);
    if (s.phase != kWhole && s.phase != kFraction) return false;
    for (; s.read < places; ++s.read) s.remainder = s.remainder * 10 % p;
    return s.remainder == 0;
  };
  Result<Dfa> dfa = explore(pack({kStart, 0, 0}), separate_classes(kNumberBytes), step, accepts, kNumberLimits);
  return dfa.ok() ? Result<Dfa>(minimize(*dfa)) : dfa;
}

// The notation alone. `known_digits`: of the numbers in the conditions.
Result<Dfa> notation(const NumberSet& set, size_t whole_digits, size_t fraction_digits, size_t known_digits) {
  const auto up_to = [](size_t digits) { return "{0," + std::to_string(digits - 1) + "}"; };
  const std::string natural = "[1-9][0-9]" + up_to(whole_digits);
  const std::string fraction = "\\.[0-9]{1," + std::to_string(fraction_digits) + "}";
  const std::string integer = "0|-?" + natural;
  if (!set.fractions) return compile_regex(integer, true);
  // Zero has no sign, however many digits it has.
  Result<Dfa> signs = compile_regex("-?(?:0|" + natural + ")(?:" + fraction + ")?", true);
  Result<Dfa> minus_zero = compile_regex("-0(?:\\.0*)?", true);
  // With a fraction, no more digits in all than a double tells apart.
  const std::string digits_max = std::to_string(std::max(kDoubleDigits, known_digits) + 1);
  Result<Dfa> exact = compile_regex("-?(?:[0-9]+|[0-9.]{3," + digits_max + "})", true);
  Result<Dfa> all =
      combine(*combine(*signs, *exact, DfaOperation::kIntersection), *minus_zero, DfaOperation::kDifference);
  if (set.integers) return all;
  return combine(*all, *compile_regex("-?[0-9]+(?:\\.0*)?", true), DfaOperation::kDifference);
}

}  // namespace

std::optional<Decimal> decimal_of(const nlohmann::ordered_json& number) {
  if (!number.is_number()) return std::nullopt;
  std::string text = number.dump();  // "-12", "0.5", "1e-07", "1.5e+22"
  Decimal result;
  if (text.starts_with('-')) {
    result.negative = true;
    text.erase(0, 1);
  }
  int exponent = 0;
  if (const size_t e = text.find('e'); e != std::string::npos) {
    exponent = std::stoi(text.substr(e + 1));
    text.resize(e);
  }
  const size_t point = std::min(text.find('.'), text.size());
  std::string digits = text.substr(0, point);
  if (point < text.size()) digits += text.substr(point + 1);
  int whole = static_cast<int>(point) + exponent;  // digits before the point
  constexpr int kMax = static_cast<int>(kDecimalDigitsMax);
  if (whole > kMax || static_cast<int>(digits.size()) - whole > kMax) return std::nullopt;
  if (whole < 0) {
    digits.insert(0, static_cast<size_t>(-whole), '0');
    whole = 0;
  }
  if (digits.size() < static_cast<size_t>(whole)) digits.append(static_cast<size_t>(whole) - digits.size(), '0');
  result.whole = digits.substr(0, static_cast<size_t>(whole));
  result.fraction = digits.substr(static_cast<size_t>(whole));
  result.whole.erase(0, std::min(result.whole.find_first_not_of('0'), result.whole.size()));
  if (result.whole.empty()) result.whole = "0";
  result.fraction.erase(result.fraction.find_last_not_of('0') + 1);
  if (result.whole == "0" && result.fraction.empty()) result.negative = false;
  return result;
}

bool holds(const NumberBound& bound, const Decimal& value) {
  const auto magnitude = [](const Decimal& a, const Decimal& b) -> int {
    if (a.whole.size() != b.whole.size()) return a.whole.size() < b.whole.size() ? -1 : 1;
    const int order = a.whole.compare(b.whole);
    return order != 0 ? order : a.fraction.compare(b.fraction);  // without trailing zeros, as text compares them
  };
  const Decimal& other = bound.value;
  int order = 0;
  if (value.negative != other.negative)
    order = value.negative ? -1 : 1;
  else
    order = value.negative ? magnitude(other, value) : magnitude(value, other);
  switch (bound.kind) {
    case NumberBound::Kind::kAtLeast:
      return order >= 0;
    case NumberBound::Kind::kMoreThan:
      return order > 0;
    case NumberBound::Kind::kAtMost:
      return order <= 0;
    case NumberBound::Kind::kLessThan:
      return order < 0;
    case NumberBound::Kind::kEqual:
      return order == 0;
  }
  return false;
}

bool is_multiple(const Decimal& value, const Decimal& divisor) {
  const Result<Dfa> texts = multiples(divisor);
  return texts.ok() && texts->matches(value.whole + (value.fraction.empty() ? "" : "." + value.fraction));
}

Result<Dfa> number_texts(const NumberSet& set) {
  const bool is_bare =
      set.bounds.empty() && set.multiples_of.empty() && set.excluded.empty() && set.not_multiples_of.empty();
  if (is_bare && set.integers && set.fractions) {
    const std::string digits = std::to_string(kNumberDigits);
    return compile_regex("-?(?:0|[1-9][0-9]{0," + std::to_string(kNumberDigits - 1) + "})(?:\\.[0-9]{1," + digits +
                             "})?(?:[eE][-+]?(?:1[0-9]{2}|[0-9]{1,2}))?",
                         true);
  }
  size_t whole_digits = kNumberDigits;
  size_t fraction_digits = kNumberDigits;
  size_t known_digits = 0;
  const auto allow = [&](const Decimal& value) {
    known_digits = std::max(known_digits, value.whole.size() + value.fraction.size());
    whole_digits = std::max(whole_digits, value.whole.size());
    fraction_digits = std::max(fraction_digits, value.fraction.size());
  };
  for (const auto& bound : set.bounds) allow(bound.value);
  for (const auto& divisor : set.multiples_of) allow(divisor);

  Result<Dfa> texts = notation(set, whole_digits, fraction_digits, known_digits);
  const auto narrow = [&](const Result<Dfa>& by, DfaOperation operation) {
    if (!texts.ok()) return;
    texts = by.ok() ? combine(*texts, *by, operation, kNumberLimits) : by;
  };
  for (const auto& bound : set.bounds) narrow(BoundMachine(bound).dfa(), DfaOperation::kIntersection);
  if (!set.excluded.empty()) narrow(union_of(set.excluded), DfaOperation::kDifference);
  for (const auto& divisor : set.multiples_of) narrow(multiples(divisor), DfaOperation::kIntersection);
  for (const auto& divisor : set.not_multiples_of) narrow(multiples(divisor), DfaOperation::kDifference);
  return texts;
}

}  // namespace twostroke::grammar
