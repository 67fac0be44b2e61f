// ProgressBar: how far a long run has come, on one line of a terminal, redrawn in place. Nothing appears in the first
// second, nor where it is off. Thread-safety: one thread.
#pragma once

#include <chrono>
#include <iosfwd>
#include <string>

namespace twostroke::simulate {

class ProgressBar {
 public:
  ProgressBar(std::ostream& out, bool on);
  void begin(std::string what);
  void show(double progress);  // 0 to 1; draws a few times a second at most
  void clear();

 private:
  using Time = std::chrono::steady_clock::time_point;
  std::ostream& out_;
  const bool on_;
  std::string what_;
  Time next_;
  bool drawn_ = false;
};

}  // namespace twostroke::simulate
