// How the interpreter gives up, and the budget that makes it do so.
//
// Every operation of a template may fail (a missing attribute, a wrong type, a limit), at any depth of evaluation.
// Inside this directory such a failure is thrown as a Failure; Template::parse and Template::render catch it and
// return a Status, so that none leaves the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "kernels/status.h"
#include "server/text/jinja/limits.h"

namespace twostroke::jinja {

struct Failure {
  StatusCode code = StatusCode::kInvalidArgument;
  std::string message;
  int line = 0;  // of the template, from 1; 0 until somebody who knows it fills it in
};

[[noreturn]] inline void fail(std::string message) { throw Failure{StatusCode::kInvalidArgument, std::move(message)}; }
[[noreturn]] inline void fail_at(int line, std::string message) {
  throw Failure{StatusCode::kInvalidArgument, std::move(message), line};
}
[[noreturn]] inline void fail_unsupported(std::string message) {
  throw Failure{StatusCode::kUnsupported, std::move(message)};
}

// Steps, memory and depth that one render has used. Not thread-safe: one per render.
class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  const Limits& limits() const { return limits_; }

  void step(std::int64_t count = 1) {
    steps_ += count;
    if (steps_ > limits_.steps_max)
      fail("the template takes more than " + std::to_string(limits_.steps_max) + " steps");
  }
  // The steps of an operation that reads or writes so many bytes.
  void step_bytes(std::size_t bytes) { step(1 + static_cast<std::int64_t>(bytes / 64)); }

  void allocate(std::size_t bytes) {
    if (bytes > limits_.memory_bytes_max - memory_bytes_) fail_memory();
    memory_bytes_ += bytes;
  }
  // Fails where so many things of this size would be too much, before a loop begins to make them.
  void check_room(std::uint64_t count, std::size_t bytes_each) const {
    if (count > (limits_.memory_bytes_max - memory_bytes_) / bytes_each) fail_memory();
  }
  void release(std::size_t bytes) noexcept { memory_bytes_ -= bytes; }

  // Fails where a string of so many bytes is over the limit. Called before the string is made.
  void check_string(std::size_t bytes) const {
    if (bytes > limits_.string_bytes_max) {
      fail("the template makes a string of more than " + std::to_string(limits_.string_bytes_max) + " bytes");
    }
  }

  // One level of nesting for as long as it lives.
  class Level {
   public:
    explicit Level(Budget& budget) : budget_(budget) {
      if (budget_.depth_ >= budget_.limits_.depth_max) {
        fail("the template or a value in it nests deeper than " + std::to_string(budget_.limits_.depth_max) +
             " levels");
      }
      ++budget_.depth_;
    }
    ~Level() { --budget_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Budget& budget_;
  };

 private:
  [[noreturn]] void fail_memory() const {
    fail("the template's values need more than " + std::to_string(limits_.memory_bytes_max) + " bytes of memory");
  }

  const Limits limits_;
  std::int64_t steps_ = 0;
  std::size_t memory_bytes_ = 0;
  int depth_ = 0;
};

}  // namespace twostroke::jinja
