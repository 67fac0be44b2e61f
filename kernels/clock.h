// Clock: where whoever needs the time gets it from, so that a test can give its own (backend/sim/virtual_clock.h).
#pragma once

#include <cstdint>

namespace twostroke {

using TimeNs = int64_t;  // a moment, in nanoseconds of some steady clock whose zero means nothing; also a duration

// Thread-safety: now() may be called from any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimeNs now() = 0;
};

// The machine's steady clock.
Clock& steady_clock();

}  // namespace twostroke
