#include "server/simulate/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/check.h"

namespace twostroke::simulate {

size_t Histogram::bucket_of(uint64_t value) {
  if (value < (1u << kBits)) return value;
  const int exponent =
      static_cast<int>(std::bit_width(value)) - 1 - kBits;  // the value's upper kBits + 1 bits are kept
  return (static_cast<size_t>(exponent + 1) << kBits) + ((value >> exponent) & ((1u << kBits) - 1));
}

double Histogram::middle_of(size_t bucket) {
  if (bucket < (1u << kBits)) return static_cast<double>(bucket);
  const int exponent = static_cast<int>(bucket >> kBits) - 1;
  const double low = static_cast<double>((bucket & ((1u << kBits) - 1)) + (1u << kBits));
  return std::ldexp(low + 0.5, exponent);
}

void Histogram::add(TimeNs value) {
  CHECK(value >= 0, "a duration is not negative");
  ++buckets_[bucket_of(static_cast<uint64_t>(value))];
  min_ = count_ == 0 ? value : std::min(min_, value);
  max_ = std::max(max_, value);
  ++count_;
  sum_ += static_cast<double>(value);
}

double Histogram::mean_seconds() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_) * 1e-9; }

double Histogram::quantile_seconds(double q) const {
  if (count_ == 0) return 0;
  const double wanted = std::max(1.0, std::ceil(q * static_cast<double>(count_)));
  double seen = 0;
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    seen += static_cast<double>(buckets_[bucket]);
    if (seen < wanted) continue;
    return std::clamp(middle_of(bucket), static_cast<double>(min_), static_cast<double>(max_)) * 1e-9;
  }
  return max_seconds();
}

}  // namespace twostroke::simulate
