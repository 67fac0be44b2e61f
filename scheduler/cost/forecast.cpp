#include "scheduler/cost/forecast.h"

#include <algorithm>

namespace twostroke {
namespace {

// Sequences that must end before there is a slot, and blocks, for everything before the request and itself.
uint64_t ends_needed(const ForecastBasis& basis, const ForecastRequest& request) {
  const uint64_t sequences = uint64_t{request.sequences_before} + 1;
  const uint64_t slots = sequences > basis.slots_free ? sequences - basis.slots_free : 0;
  // Admission keeps one more block for each that runs, to grow into.
  const uint64_t blocks = request.blocks_before + request.own.blocks + request.sequences_before;
  if (blocks <= basis.blocks_room || basis.blocks_per_end == 0) return slots;
  const uint64_t missing = blocks - basis.blocks_room;
  return std::max(slots, (missing + basis.blocks_per_end - 1) / basis.blocks_per_end);
}

}  // namespace

ForecastRequest newcomer(const ForecastBasis& basis, int32_t priority, const PromptNeed& own) {
  ForecastRequest request{.tokens_before = basis.running_prefill_tokens, .own = own};
  for (uint32_t i = 0; i < basis.waiting_levels && basis.waiting[i].priority <= priority; ++i) {
    request.tokens_before += basis.waiting[i].tokens;
    request.blocks_before += basis.waiting[i].blocks;
    request.sequences_before += basis.waiting[i].sequences;
  }
  return request;
}

Forecast forecast(const ForecastBasis& basis, const ForecastRequest& request) {
  constexpr double kMax = 1e17;  // three years, well within TimeNs
  const double backlog = static_cast<double>(request.tokens_before) * basis.prefill_token_ns;
  const double ends = static_cast<double>(ends_needed(basis, request)) * static_cast<double>(basis.end_interval_ns);
  const double length = request.own.length;
  const double tokens = request.own.tokens;
  // Each of the last `tokens` positions attends to all before it.
  const double own = tokens * basis.prefill_token_ns + tokens * (length - tokens / 2) * basis.prefill_position_ns;
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
