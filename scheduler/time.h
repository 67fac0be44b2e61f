// TimeNs: a moment, in nanoseconds of some steady clock whose zero means nothing. The scheduler is given the time and
// never asks for it, so that a simulation can run it at any speed.
#pragma once

#include "kernels/clock.h"

namespace twostroke {

constexpr TimeNs kMillisecondNs = 1'000'000;
constexpr TimeNs kSecondNs = 1'000'000'000;

constexpr double to_seconds(TimeNs duration_ns) { return static_cast<double>(duration_ns) * 1e-9; }

}  // namespace twostroke
