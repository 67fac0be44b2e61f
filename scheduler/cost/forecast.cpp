#include "scheduler/cost/forecast.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace twostroke {
namespace {

// Sequences that must end or give way before there is a slot, and blocks, for everything before the request and itself.
uint64_t departures_needed(const ForecastBasis& basis, const ForecastRequest& request) {
  const uint64_t sequences = uint64_t{request.sequences_before} + 1;
  const uint64_t slots = sequences > basis.slots_free ? sequences - basis.slots_free : 0;
  // Admission keeps one more block for each that runs, to grow into.
  const uint64_t blocks = request.blocks_before + request.own.blocks + request.sequences_before;
  if (blocks <= basis.blocks_room || basis.blocks_per_end == 0) return slots;
  const uint64_t missing = blocks - basis.blocks_room;
  return std::max(slots, (missing + basis.blocks_per_end - 1) / basis.blocks_per_end);
}

// A step costs short_step_ns and what its tokens add to that, so full ones share it among step_tokens.
double own_ns(const PrefillPace& pace, double position_ns, const PromptNeed& need) {
  const double length = need.length;
  const double tokens = need.tokens;
  const double chunks = tokens / pace.step_tokens;
  // Each of the last `tokens` positions attends to all before it.
  return tokens * pace.token_ns + (std::ceil(chunks) - chunks) * pace.short_step_ns +
         tokens * (length - tokens / 2) * position_ns;
}

}  // namespace

void spare(PromptNeed& need, uint32_t tokens, uint32_t block_size) {
  const uint32_t found = std::min(tokens, need.length - 1) / block_size;  // blocks
  need.tokens = std::min(need.tokens, need.length - found * block_size);
  need.blocks = std::min(need.blocks, (need.length + block_size - 1) / block_size - found);
}

uint32_t gives_way_to(const ForecastBasis& basis, int32_t priority) {
  uint32_t sequences = 0;
  for (const RunningLevel& level : std::span(basis.running).first(basis.running_levels)) {
    if (level.priority > priority) sequences += level.sequences;
  }
  return sequences;
}

ForecastRequest newcomer(const ForecastBasis& basis, int32_t priority, const PromptNeed& own) {
  ForecastRequest request{
      .tokens_before = basis.running_prefill_tokens, .gives_way = gives_way_to(basis, priority), .own = own};
  for (uint32_t i = 0; i < basis.waiting_levels && basis.waiting[i].priority <= priority; ++i) {
    request.tokens_before += basis.waiting[i].tokens;
    request.blocks_before += basis.waiting[i].blocks;
    request.sequences_before += basis.waiting[i].sequences;
  }
  return request;
}

Forecast forecast(const ForecastBasis& basis, const ForecastRequest& request) {
  constexpr double kMax = 1e17;  // three years, well within TimeNs
  const double backlog = static_cast<double>(request.tokens_before) * basis.pace.token_ns;
  const uint64_t departures = departures_needed(basis, request);
  const uint64_t ends_needed = departures - std::min<uint64_t>(departures, request.gives_way);
  const double ends = static_cast<double>(ends_needed) * static_cast<double>(basis.end_interval_ns);
  const double start = static_cast<double>(basis.step_ns) + std::max(backlog, ends);
  const double own = own_ns(basis.pace, basis.prefill_position_ns, request.own);
  const double alone = own_ns(basis.pace_alone, basis.prefill_position_ns, request.own);
  return {.start_ns = static_cast<TimeNs>(std::min(start, kMax)),
          .first_token_ns = static_cast<TimeNs>(std::min(start + own, kMax)),
          .alone_ns = static_cast<TimeNs>(std::min(alone, kMax))};
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
