// Python's int() and float() of strings.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace twostroke::jinja {

// None where the text is no integer in this base (0: as its prefix says). Fails where it does not fit 64 bits.
std::optional<std::int64_t> parse_integer(std::string_view text, std::int64_t base);

// None where the text is no number. "inf" and "nan" are.
std::optional<double> parse_float(std::string_view text);

// The whole part of a finite number. Fails where it does not fit 64 bits.
std::int64_t truncate_to_integer(double number);

}  // namespace twostroke::jinja
