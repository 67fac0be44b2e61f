#include "server/text/jinja/numbers.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>

#include "server/text/jinja/failure.h"

namespace twostroke::jinja {
namespace {

std::string_view stripped(std::string_view text) {
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

bool is_alnum(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// Without the underscores that Python allows between digits; none where one stands elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      digits += text[i];
    } else if (i == 0 || i + 1 == text.size() || !is_alnum(text[i - 1]) || !is_alnum(text[i + 1])) {
      return std::nullopt;
    }
  }
  return digits;
}

// The base that a prefix such as 0x names; 0 where there is none.
int prefix_base(std::string_view digits) {
  if (digits.size() < 2 || digits[0] != '0') return 0;
  switch (digits[1]) {
    case 'x':
    case 'X':
      return 16;
    case 'o':
    case 'O':
      return 8;
    case 'b':
    case 'B':
      return 2;
    default:
      return 0;
  }
}

}  // namespace

std::optional<std::int64_t> parse_integer(std::string_view text, std::int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  text = stripped(text);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (const int prefixed = prefix_base(text); prefixed != 0 && (base == 0 || base == prefixed)) {
    base = prefixed;
    text.remove_prefix(2);
    if (text.starts_with('_')) text.remove_prefix(1);
  }
  const std::optional<std::string> digits = without_underscores(text);
  if (!digits || digits->empty() || !is_alnum(digits->front())) return std::nullopt;
  const std::string number = (negative ? "-" : "") + *digits;
  std::int64_t value = 0;
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), value, base == 0 ? 10 : static_cast<int>(base));
  if (error == std::errc::invalid_argument || end != number.data() + number.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range) fail("the integer " + number + " does not fit 64 bits");
  return value;
}

std::optional<double> parse_float(std::string_view text) {
  const std::optional<std::string> digits = without_underscores(stripped(text));
  if (!digits || digits->empty()) return std::nullopt;
  std::string lower = *digits;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::string bare = lower.substr(lower[0] == '-' || lower[0] == '+' ? 1 : 0);
  const bool word = bare == "inf" || bare == "infinity" || bare == "nan";
  // strtod also reads hexadecimal numbers, which Python's float() does not.
  if (!word && bare.find_first_not_of("0123456789.e+-") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(lower.c_str(), &end);
  if (end != lower.c_str() + lower.size()) return std::nullopt;
  return value;
}

std::int64_t truncate_to_integer(double number) {
  const double whole = std::trunc(number);
  if (std::isnan(number)) fail("cannot convert float NaN to integer");
  if (std::isinf(number)) fail("cannot convert float infinity to integer");
  if (whole < -9223372036854775808.0 || whole >= 9223372036854775808.0) fail("the number does not fit 64 bits");
  return static_cast<std::int64_t>(whole);
}

}  // namespace twostroke::jinja
