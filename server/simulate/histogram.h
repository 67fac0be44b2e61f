// Histogram: many durations in little memory. Buckets grow by 1/128 of their bound, so that a quantile is right within
// 0.4%; count, sum, least and greatest are exact. 60 KB, whatever comes. Thread-safety: one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "scheduler/time.h"

namespace twostroke::simulate {

class Histogram {
 public:
  void add(TimeNs value);  // >= 0
  uint64_t count() const { return count_; }
  double mean_seconds() const;              // 0 when empty
  double quantile_seconds(double q) const;  // the smallest bucket with q of all values at or below it; 0 when empty
  double max_seconds() const { return to_seconds(max_); }

 private:
  // Values below 2^7 have a bucket each; each power of two above is cut into 2^7.
  static constexpr int kBits = 7;
  static size_t bucket_of(uint64_t value);
  static double middle_of(size_t bucket);

  std::array<uint64_t, (64 - kBits + 1) << kBits> buckets_{};
  uint64_t count_ = 0;
  double sum_ = 0;
  TimeNs min_ = 0;
  TimeNs max_ = 0;
};

}  // namespace twostroke::simulate
