// Simulated time has an end, so that numbers of any size convert to it and the sum of a few of them is still a time.
#pragma once

#include "scheduler/time.h"

namespace twostroke::simulate {

constexpr TimeNs kSimulatedTimeMax = TimeNs{1} << 61;  // 73 years

// In nanoseconds; kSimulatedTimeMax for what is beyond it, or no number.
inline TimeNs simulated_time(double nanoseconds) {
  return nanoseconds < static_cast<double>(kSimulatedTimeMax) ? static_cast<TimeNs>(nanoseconds) : kSimulatedTimeMax;
}

}  // namespace twostroke::simulate
