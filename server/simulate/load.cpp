#include "server/simulate/load.h"

#include <algorithm>

namespace twostroke::simulate {

double tail_seconds(const SimulationResult& result) { return std::max(0.0, result.seconds - result.arrival_seconds); }

double lone_tail_seconds(const SimulationResult& result) {
  return std::max(0.0, result.lone_seconds - result.arrival_seconds);
}

Load load_of(const SimulationResult& result) {
  if (result.none_fits()) return Load::kNoneFits;
  const auto refused = static_cast<double>(result.refused);
  if (result.finished == 0 || refused > kEqualWithin * static_cast<double>(result.offered)) return Load::kFallsBehind;
  const double tail = tail_seconds(result);
  const double lone_tail = lone_tail_seconds(result);
  if (tail > kLoneTailsMax * lone_tail && tail - lone_tail > kBacklogMax * result.arrival_seconds) {
    return Load::kFallsBehind;
  }
  return tail <= result.arrival_seconds ? Load::kKeepsUp : Load::kTooShort;
}

double span_seconds(const SimulationResult& result) {
  return load_of(result) == Load::kKeepsUp ? result.arrival_seconds : result.seconds;
}

}  // namespace twostroke::simulate
