// One value laid out as a format asks for: what str.format and the operator % share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/text/jinja/runtime.h"
#include "server/text/jinja/value.h"

namespace twostroke::jinja {

constexpr std::int64_t kPrecisionMax = 1000;

// How one value is laid out; both notations are read into it.
struct Spec {
  Text fill = Text(" ", true);
  char align = 0;  // < > ^ =, or 0 for the type's own
  char sign = '-';
  bool has_sign = false;   // it was written
  bool alternate = false;  // #
  bool zeros = false;      // numbers are padded between sign and digits
  std::int64_t width = 0;
  char grouping = 0;  // , or _
  std::optional<std::int64_t> precision;
  char type = 0;
};

// The digits at `offset`, which moves behind them; none where there is no digit.
std::optional<std::int64_t> take_number(std::string_view text, std::size_t& offset);
inline bool is_one_of(char c, std::string_view set) { return set.find(c) != std::string_view::npos; }

Text format_integer(Runtime& runtime, std::int64_t number, const Spec& spec);
Text format_float(Runtime& runtime, double number, const Spec& spec);
Text format_text(Runtime& runtime, const Text& text, const Spec& spec);
Text format_character(Runtime& runtime, std::int64_t code, const Spec& spec);
// Python's ascii(): the repr, with escapes for all that is not ASCII.
Text to_ascii(Runtime& runtime, const Value& value);
// Python's format(value, spec).
Text format_value(Runtime& runtime, const Value& value, const Text& spec);

}  // namespace twostroke::jinja
