// Load: whether a fleet keeps up with what arrives.
//
// A run ends when its last request has its answer. What is drained behind the last arrival says how long an answer
// takes, not how many requests a fleet bears: of two fleets that do all that arrives, the one of the quicker answers
// would seem to do more per second, and the more so the shorter the run. So it is looked at first whether a fleet keeps
// up. Its tail is the time from the last arrival to the last end; its lone tail is what that would be if each request
// had a machine to itself. The fleet
//   - falls behind where more than kEqualWithin of requests find the queue full, or where the tail is longer than
//     kLoneTailsMax lone tails, and by more than kBacklogMax of the time of arrivals: a queue has built up;
//   - else it keeps up where the tail is no longer than the time of arrivals;
//   - else the run is too short to tell.
// The two numbers are estimates of ours. Of an L40S below nine tenths of what it bears the tail was 1.0 to 1.8 lone
// ones, in runs of 60 to 5,000 requests; a quarter beyond that it was 2.7 and more, in runs much longer than the tail.
// Where lone tails are short, one at its limit has a tail of some more, which is little beside the run.
//
// Rates (goodput, throughput, price) are over the time of arrivals where the fleet keeps up, and over the whole run
// otherwise.
//
// Thread-safety: plain functions.
#pragma once

#include "server/simulate/simulation.h"

namespace twostroke::simulate {

constexpr double kLoneTailsMax = 2;
constexpr double kBacklogMax = 0.05;
// Results that differ by less are of one worth: another seed may turn them round.
constexpr double kEqualWithin = 0.01;

// kNoneFits: all requests are too long for the machines, so there is nothing to judge.
enum class Load { kKeepsUp, kFallsBehind, kTooShort, kNoneFits };
Load load_of(const SimulationResult& result);

double tail_seconds(const SimulationResult& result);
double lone_tail_seconds(const SimulationResult& result);

// What rates are over, as said above. 0: nothing has finished.
double span_seconds(const SimulationResult& result);

}  // namespace twostroke::simulate
