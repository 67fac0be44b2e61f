#include "server/simulate/report.h"

#include <algorithm>

#include "server/simulate/load.h"

namespace twostroke::simulate {

Binding binding_of(const GroupResult& group) {
  const double busy = group.accounts.busy_seconds();
  if (busy <= 0) return {};
  // Whatever a step waits for: with requests that wait for blocks, more memory would let it carry more.
  if (const double share = group.kv_waiting_seconds / busy; share > 0.5) return {"KV memory", share};
  BoundSeconds bound = group.accounts.prefill.bound;
  bound += group.accounts.decode.bound;
  const Binding candidates[] = {{"arithmetic", bound.compute / busy},
                                {"memory bandwidth", bound.memory / busy},
                                {"the link between devices", bound.link / busy},
                                {"the overhead of steps", bound.overhead / busy}};
  return *std::ranges::max_element(candidates, {}, &Binding::share);
}

Miss mostly_missed(const SimulationResult& result) {
  const uint64_t refused = result.refused + result.too_long;
  if (refused > std::max(result.ttft_missed, result.tpot_missed)) return Miss::kRefusal;
  return result.tpot_missed > result.ttft_missed ? Miss::kTpot : Miss::kTtft;
}

std::optional<TokenPrice> token_price(const FleetReport& report) {
  const std::optional<double> per_hour = report.fleet.price_per_hour();
  const SimulationResult& result = report.result;
  if (!per_hour || result.good == 0 || result.output_tokens == 0) return std::nullopt;
  const double money = *per_hour * span_seconds(result) / 3600;
  const auto output = static_cast<double>(result.output_tokens);
  return TokenPrice{.output = money / output * 1e6,
                    .all = money / (output + static_cast<double>(result.prompt_tokens)) * 1e6};
}

}  // namespace twostroke::simulate
