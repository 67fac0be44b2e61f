#include "server/simulate/lengths.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <vector>

namespace twostroke::simulate {
namespace {

std::vector<std::string> split_at_colons(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ':') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::optional<double> parse_positive(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value > 0) || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

std::optional<uint32_t> parse_length(const std::string& text) {
  const std::optional<double> value = parse_positive(text);
  if (!value || *value != std::floor(*value) || *value > kLengthMax) return std::nullopt;
  return static_cast<uint32_t>(*value);
}

}  // namespace

uint32_t Lengths::draw(Random& random) const {
  if (kind == Kind::kFixed) return low;
  if (kind == Kind::kUniform) return low + static_cast<uint32_t>(random.unit() * (high - low + 1.0));
  const double drawn = std::round(median * std::exp(sigma * random.normal()));
  return static_cast<uint32_t>(std::clamp(drawn, 1.0, static_cast<double>(high)));
}

Result<Lengths> parse_lengths(const std::string& text) {
  const Status wrong =
      invalid_argument("'" + text +
                       "' is no length: write 512, uniform:LOW:HIGH, or lognormal:MEDIAN:SIGMA[:MAX], in "
                       "whole tokens from 1 to " +
                       std::to_string(kLengthMax));
  const std::vector<std::string> parts = split_at_colons(text);
  Lengths lengths;
  if (parts.size() == 1) {
    const std::optional<uint32_t> length = parse_length(parts[0]);
    if (!length) return wrong;
    lengths.low = lengths.high = *length;
    return lengths;
  }
  if (parts[0] == "uniform" && parts.size() == 3) {
    const std::optional<uint32_t> low = parse_length(parts[1]);
    const std::optional<uint32_t> high = parse_length(parts[2]);
    if (!low || !high || *low > *high) return wrong;
    lengths.kind = Lengths::Kind::kUniform;
    lengths.low = *low;
    lengths.high = *high;
    return lengths;
  }
  if (parts[0] == "lognormal" && (parts.size() == 3 || parts.size() == 4)) {
    const std::optional<uint32_t> median = parse_length(parts[1]);
    const std::optional<double> sigma = parse_positive(parts[2]);
    const std::optional<uint32_t> high = parts.size() == 4 ? parse_length(parts[3]) : kLengthMax;
    if (!median || !sigma || *sigma > 10 || !high) return wrong;
    lengths.kind = Lengths::Kind::kLognormal;
    lengths.high = *high;
    lengths.median = *median;
    lengths.sigma = *sigma;
    return lengths;
  }
  return wrong;
}

}  // namespace twostroke::simulate
