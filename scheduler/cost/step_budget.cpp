#include "scheduler/cost/step_budget.h"

#include <algorithm>

namespace twostroke {
namespace {

StepBudget within_objective(const CostModel& costs, const StepBudgetInput& input, uint32_t tokens_left) {
  const double limit_ns = objective_limit_ns(costs, input.objective_ns);
  uint32_t low = 0;
  uint32_t high = tokens_left;
  while (low < high) {
    const uint32_t middle = low + (high - low + 1) / 2;
    if (costs.predict_ns(with_chunk(input.decodes, middle, input.position)) <= limit_ns) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  if (low == tokens_left) return {low, ChunkReason::kStepTokens};
  if (low < kPrefillFloorTokens) return {std::min(kPrefillFloorTokens, tokens_left), ChunkReason::kFloor};
  return {low, ChunkReason::kObjective};
}

StepBudget worthwhile(const CostModel& costs, const StepBudgetInput& input, uint32_t tokens_left) {
  const uint32_t step = std::max(costs.ridge_tokens(input.decodes, input.step_tokens_max),
                                 costs.worthwhile_tokens(input.step_tokens_max));
  const uint32_t decodes = input.decodes.tokens();
  const uint32_t least = std::max(kPrefillFloorTokens, step / 4);
  const uint32_t wanted = step > decodes ? step - decodes : 0;
  if (std::max(wanted, least) >= tokens_left) return {tokens_left, ChunkReason::kStepTokens};
  return wanted < least ? StepBudget{least, ChunkReason::kFloor} : StepBudget{wanted, ChunkReason::kRidge};
}

}  // namespace

const char* chunk_reason_name(ChunkReason reason) {
  switch (reason) {
    case ChunkReason::kNothingDecodes:
      return "nothing_decodes";
    case ChunkReason::kStepTokens:
      return "step_tokens";
    case ChunkReason::kObjective:
      return "objective";
    case ChunkReason::kFloor:
      return "floor";
    case ChunkReason::kRidge:
      return "ridge";
    case ChunkReason::kFixed:
      return "fixed";
  }
  return "unknown";
}

StepShape with_chunk(const StepShape& decodes, uint32_t tokens, uint32_t position) {
  StepShape shape = decodes;
  if (tokens == 0) return shape;
  ++shape.prefill_rows;
  ++shape.logit_tokens;
  shape.prefill_tokens += tokens;
  shape.prefill_context += (2 * uint64_t{position} + tokens + 1) * tokens / 2;
  shape.prefill_positions += uint64_t{position} + tokens;
  return shape;
}

double objective_limit_ns(const CostModel& costs, TimeNs objective_ns) {
  const auto objective = static_cast<double>(objective_ns);
  return objective - std::clamp(costs.overrun_ns(kOverrunQuantile), 0.0, kOverrunPartMax * objective);
}

StepBudget decide_budget(const CostModel& costs, const StepBudgetInput& input) {
  const uint32_t decodes = input.decodes.tokens();
  const uint32_t tokens_left = input.step_tokens_max > decodes ? input.step_tokens_max - decodes : 0;
  if (decodes == 0) return {tokens_left, ChunkReason::kNothingDecodes};
  if (input.objective_ns > 0) return within_objective(costs, input, tokens_left);
  if (input.fixed) return {tokens_left, ChunkReason::kFixed};
  return worthwhile(costs, input, tokens_left);
}

}  // namespace twostroke
