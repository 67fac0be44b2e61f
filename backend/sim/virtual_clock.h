// VirtualClock: time that passes only when told to. SimBackend advances it by what a step would have taken.
//
// Thread-safety: thread-safe.
#pragma once

#include <atomic>

#include "kernels/clock.h"

namespace twostroke {

class VirtualClock final : public Clock {
 public:
  explicit VirtualClock(TimeNs start = 0) : now_(start) {}
  TimeNs now() override { return now_.load(std::memory_order_acquire); }
  void advance(TimeNs duration_ns) { now_.fetch_add(duration_ns, std::memory_order_acq_rel); }

 private:
  std::atomic<TimeNs> now_;
};

}  // namespace twostroke
