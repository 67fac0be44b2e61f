// BodyBudget: how many bytes of bodies all requests hold together, and the limit of it. One body's limit is no bound:
// thousands of clients may send one each, all but its last byte.
#pragma once

#include <atomic>
#include <cstddef>

namespace twostroke::http {

// Thread-safe.
class BodyBudget {
 public:
  explicit BodyBudget(size_t bytes_max) : bytes_max_(bytes_max) {}

  // False, and nothing is taken: there is no room for so many more.
  bool take(size_t bytes) {
    size_t held = held_.load(std::memory_order_relaxed);
    do {
      if (bytes > bytes_max_ - held) return false;
    } while (!held_.compare_exchange_weak(held, held + bytes, std::memory_order_relaxed));
    return true;
  }
  void give_back(size_t bytes) { held_.fetch_sub(bytes, std::memory_order_relaxed); }

  size_t held() const { return held_.load(std::memory_order_relaxed); }

 private:
  const size_t bytes_max_;
  std::atomic<size_t> held_{0};  // at most bytes_max_
};

// What one request has of it, until the share ends. One user at a time; the budget outlives it.
class BodyShare {
 public:
  explicit BodyShare(BodyBudget& budget) : budget_(budget) {}
  ~BodyShare() { budget_.give_back(bytes_); }
  BodyShare(const BodyShare&) = delete;
  BodyShare& operator=(const BodyShare&) = delete;

  // False: there is no room, and the share stays as it was.
  bool grow_to(size_t bytes) {
    if (bytes <= bytes_) return true;
    if (!budget_.take(bytes - bytes_)) return false;
    bytes_ = bytes;
    return true;
  }

 private:
  BodyBudget& budget_;
  size_t bytes_ = 0;
};

}  // namespace twostroke::http
