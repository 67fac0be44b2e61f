#include "server/simulate/max_rate.h"

#include <cmath>

namespace twostroke::simulate {
Result<MaxRate> find_max_rate(const MaxRateOptions& options, const RateTrial& trial) {
  MaxRate best;
  uint32_t tries = 0;
  // Whether the rate meets the targets. Of those that do, and of those that do not, the last is the nearest: kept.
  const auto meets = [&](double rate) -> Result<bool> {
    ++tries;
    Result<SimulationResult> result = trial(rate);
    if (!result.ok()) return result.status();
    if (result->stopped || result->offered == 0 || result->good_share() < options.good_share_min) {
      best.failed_rate = rate;
      best.failed = std::move(*result);
      return false;
    }
    best.rate = rate;
    best.result = std::move(*result);
    return true;
  };

  double rate = options.start;
  Result<bool> met = meets(rate);
  if (!met.ok()) return met.status();
  const bool up = *met;
  double low = up ? rate : 0;
  double high = up ? 0 : rate;
  while (low == 0 || high == 0) {
    rate *= up ? 2 : 0.5;
    if (rate > kRateMax) {
      return unsupported(
          "no highest rate was found: the targets are met at every rate; simulate more requests, or give "
          "tighter --ttft-ms and --tpot-ms");
    }
    if (rate < kRateMin) break;
    met = meets(rate);
    if (!met.ok()) return met.status();
    (*met ? low : high) = rate;
  }
  while (low > 0 && high / low > 1 + options.tolerance) {
    rate = std::sqrt(low * high);
    met = meets(rate);
    if (!met.ok()) return met.status();
    (*met ? low : high) = rate;
  }
  best.tries = tries;
  return best;
}

}  // namespace twostroke::simulate
