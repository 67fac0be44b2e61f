// Comparison: which of several fleets is the best, and which the cheapest.
//
// At their highest rates (--find-max-rate) it is the one of the highest. At one rate, of those that answer enough
// requests well (Report::good_share_min) and do not fall behind (load.h):
//   - one is the best;
//   - of several none is, as they do the same work;
//   - where there is none, the best gives the most good answers per second.
// Thread-safety: plain functions.
#pragma once

#include <optional>
#include <vector>

#include "server/simulate/load.h"
#include "server/simulate/report.h"

namespace twostroke::simulate {

// Fleets by their places in the report.
struct Comparison {
  std::optional<size_t> best;  // nullopt: of several none is, or all give nothing
  double times_the_next = 0;   // what the best gives; 0: the next gives nothing, or not less
  // Where there is no best: those that are of one worth, two at least, or none.
  std::vector<size_t> equals;
  bool keep_up = false;    // they are of one worth as they keep up, else as they differ by `within` at most
  bool too_short = false;  // likewise, but the run is too short to tell
  double within = 0;       // as a share
  // For a million output tokens, of `equals` that keep up, or of all at their highest rates; nullopt: not all of those
  // have prices, or two cost the same.
  std::optional<size_t> cheapest;
  std::vector<size_t> unpriced;  // of those, what has no price, where another fleet has one
  double next_price = 0;         // of the next, as TokenPrice::output
};
Comparison compare(const Report& report);

// Good answers per second, or the highest rate.
double worth_of(const FleetReport& fleet);

}  // namespace twostroke::simulate
