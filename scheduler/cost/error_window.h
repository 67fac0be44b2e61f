// ErrorWindow: the last kSize errors of predictions, and what a given part of them stayed below.
//
// Thread-safety: one thread. Nothing allocates; adding one costs a binary search and a move of at most 4 kSize bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace twostroke {

template <size_t kSize>
class ErrorWindow {
 public:
  void add(double error) {
    const auto value = static_cast<float>(std::clamp(error, -kErrorBound, kErrorBound));
    const auto begin = sorted_.begin();
    auto end = begin + static_cast<ptrdiff_t>(held_);
    if (held_ == kSize) {
      const auto old = std::lower_bound(begin, end, ring_[place_]);
      std::move(old + 1, end, old);
      --end;
    } else {
      ++held_;
    }
    const auto at = std::upper_bound(begin, end, value);
    std::move_backward(at, end, end + 1);
    *at = value;
    ring_[place_] = value;
    place_ = (place_ + 1) % kSize;
  }

  // What this part of them, in [0, 1], stayed below; 0 before the first.
  double quantile(double part) const {
    if (held_ == 0) return 0;
    const auto place = static_cast<size_t>(part * static_cast<double>(held_));
    return static_cast<double>(sorted_[std::min<size_t>(place, held_ - 1)]);
  }

 private:
  static constexpr double kErrorBound = 1e18;  // so that a float holds it

  std::array<float, kSize> ring_{};
  std::array<float, kSize> sorted_{};  // the same, ascending
  uint32_t place_ = 0;
  uint32_t held_ = 0;
};

}  // namespace twostroke
