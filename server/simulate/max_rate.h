// find_max_rate: the highest rate of arrivals at which the targets are met.
//
// "Met" means that of all requests offered, at least `good_share_min` finished within every target (refused ones and
// those that are too long did not). From `start` the rate doubles or halves until one side is met and the other is
// not; then the interval is halved, in the logarithm, until its ends differ by `tolerance`. Each try is a simulation of
// the whole workload; one that has failed already is not run to its end.
//
// A short workload is served in part from an empty start, and flatters: what is found is a rate that so many requests
// survive. More requests make it sharper.
//
// Thread-safety: a call uses its arguments only.
#pragma once

#include <functional>

#include "server/simulate/simulation.h"

namespace twostroke::simulate {

constexpr double kRateMin = 1e-4;
constexpr double kRateMax = 1e5;

struct MaxRateOptions {
  double start = 1;
  double good_share_min = 0.99;
  double tolerance = 0.02;
};

struct MaxRate {
  double rate = 0;  // in the units of `start`: requests per second, or a trace's scale; 0: the targets are missed at
                    // every rate
  uint32_t tries = 0;
  SimulationResult result;  // at that rate
  double failed_rate = 0;   // the lowest rate tried at which the targets are missed
  SimulationResult failed;  // at that one; stopped where the trial has stopped
};

// Simulates the workload at a rate. It may stop once the targets are missed (SimulationOptions::misses_max).
using RateTrial = std::function<Result<SimulationResult>(double rate)>;

// Errors: those of `trial`; kUnsupported where kRateMax meets the targets.
Result<MaxRate> find_max_rate(const MaxRateOptions& options, const RateTrial& trial);

}  // namespace twostroke::simulate
