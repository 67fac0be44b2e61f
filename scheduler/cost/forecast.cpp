#include "scheduler/cost/forecast.h"

#include <algorithm>

namespace twostroke {
namespace {

// Sequences that must end before there is a slot, and blocks, for everything before the request and itself.
uint64_t ends_needed(const ForecastBasis& basis, const ForecastRequest& request) {
  const uint64_t sequences = uint64_t{request.sequences_before} + 1;
  const uint64_t slots = sequences > basis.slots_free ? sequences - basis.slots_free : 0;
  const uint64_t blocks = (request.waiting_tokens_before + request.prompt_tokens) / basis.block_size + sequences;
  if (blocks <= basis.blocks_room || basis.blocks_per_end == 0) return slots;
  const uint64_t missing = blocks - basis.blocks_room;
  return std::max(slots, (missing + basis.blocks_per_end - 1) / basis.blocks_per_end);
}

}  // namespace

ForecastRequest newcomer(const ForecastBasis& basis, int32_t priority, uint32_t prompt_tokens) {
  ForecastRequest request{.tokens_before = basis.running_prefill_tokens, .prompt_tokens = prompt_tokens};
  for (uint32_t i = 0; i < basis.waiting_levels && basis.waiting[i].priority <= priority; ++i) {
    request.waiting_tokens_before += basis.waiting[i].tokens;
    request.sequences_before += basis.waiting[i].sequences;
  }
  request.tokens_before += request.waiting_tokens_before;
  return request;
}

Forecast forecast(const ForecastBasis& basis, const ForecastRequest& request) {
  constexpr double kMax = 1e17;  // three years, well within TimeNs
  const double backlog = static_cast<double>(request.tokens_before) * basis.prefill_token_ns;
  const double ends = static_cast<double>(ends_needed(basis, request)) * static_cast<double>(basis.end_interval_ns);
  const double prompt = request.prompt_tokens;
  const double own = prompt * basis.prefill_token_ns + prompt * prompt / 2 * basis.prefill_position_ns;
  const double start = static_cast<double>(basis.step_ns) + std::max(backlog, ends);
  return {.start_ns = static_cast<TimeNs>(std::min(start, kMax)),
          .first_token_ns = static_cast<TimeNs>(std::min(start + own, kMax))};
}

bool DeadlineGate::admits(TimeNs predicted_ns, TimeNs alone_ns, TimeNs objective_ns) {
  if (alone_ns > objective_ns) return false;
  const double bound = static_cast<double>(objective_ns) * (closed_ ? kReopen : 1);
  // One that would fail the stricter bound even alone must not wait for a load that can never be low enough.
  const bool admitted = static_cast<double>(predicted_ns) <= std::max(bound, static_cast<double>(alone_ns));
  closed_ = !admitted;
  return admitted;
}

}  // namespace twostroke
