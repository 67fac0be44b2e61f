// ErrorWindow: the last kErrorWindow errors of predictions, and which of them a given part stayed below.
//
// Thread-safety: one thread. Nothing allocates; adding one costs a binary search and a move of at most 256 bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace twostroke {

constexpr size_t kErrorWindow = 64;

class ErrorWindow {
 public:
  void add(double error) {
    const auto value = static_cast<float>(std::clamp(error, -kErrorBound, kErrorBound));
    const auto begin = sorted_.begin();
    auto end = begin + static_cast<ptrdiff_t>(held_);
    if (held_ == kErrorWindow) {
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
    place_ = (place_ + 1) % kErrorWindow;
  }

  // What this part of them, in [0, 1], stayed below; 0 before the first.
  double quantile(double part) const {
    if (held_ == 0) return 0;
    const auto place = static_cast<size_t>(part * static_cast<double>(held_));
    return static_cast<double>(sorted_[std::min<size_t>(place, held_ - 1)]);
  }

 private:
  static constexpr double kErrorBound = 1e6;  // so that a float holds it

  std::array<float, kErrorWindow> ring_{};
  std::array<float, kErrorWindow> sorted_{};  // the same, ascending
  uint32_t place_ = 0;
  uint32_t held_ = 0;
};

}  // namespace twostroke
