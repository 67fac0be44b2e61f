// ReadAhead: the bytes that have arrived on a connection and were not consumed yet. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

#include "kernels/check.h"

namespace twostroke::http {

class ReadAhead {
 public:
  std::string_view bytes() const { return {data_.get() + begin_, size()}; }
  size_t size() const { return end_ - begin_; }
  bool empty() const { return begin_ == end_; }

  // Room for 1 to `count_max` further bytes (count_max > 0); write into it, then commit() how many there were. Grows
  // in powers of two, so that a connection holds about as much as its client sends.
  std::span<char> prepare(size_t count_max) {
    if (end_ == capacity_) make_room();
    return {data_.get() + end_, std::min(count_max, capacity_ - end_)};
  }
  void commit(size_t count) {
    CHECK(count <= capacity_ - end_);
    end_ += count;
  }

  void consume(size_t count) {
    CHECK(count <= size());
    begin_ += count;
    if (begin_ == end_) begin_ = end_ = 0;
  }

  // Gives the memory back: idle connections, of which there may be thousands, hold none.
  void clear() { *this = ReadAhead(); }

 private:
  static constexpr size_t kCapacityMin = 4096;

  void make_room() {
    const size_t kept = size();
    if (kept <= capacity_ / 2 && capacity_ > 0) {
      std::memmove(data_.get(), data_.get() + begin_, kept);
    } else {
      const size_t grown = std::max(kCapacityMin, capacity_ * 2);
      std::unique_ptr<char[]> data(new char[grown]);
      if (kept > 0) std::memcpy(data.get(), data_.get() + begin_, kept);
      data_ = std::move(data);
      capacity_ = grown;
    }
    begin_ = 0;
    end_ = kept;
  }

  std::unique_ptr<char[]> data_;
  size_t capacity_ = 0;
  size_t begin_ = 0;  // [begin_, end_) of data_ is unread
  size_t end_ = 0;
};

}  // namespace twostroke::http
