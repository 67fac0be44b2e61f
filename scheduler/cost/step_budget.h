// How many prefill tokens a step takes beside its decodes, and why.
//
// With an objective for the time between tokens: the most whose predicted step, context included, still meets it after
// a margin for what the model does not foresee: what 99 of 100 of the last mixed steps overran their prediction by at
// most (CostModel::overrun_ns; the objective is for nearly every token, and a prediction is for the middle). Never
// fewer than kPrefillFloorTokens: where even those miss the objective, prefill goes on slowly rather than not at all.
//
// Without one: what fills the step to the machine's ridge, or to the size from which on larger steps are hardly more
// efficient, whichever is more (CostModel::ridge_tokens, worthwhile_tokens). Decodes count towards it; prefill gets a
// quarter of it at least, so that many decodes do not starve it.
//
// A chunk size given by the operator (SchedulerLimits::max_chunk_tokens) stands in the place of the latter. It bounds
// each row by itself, as ever; the objective, where there is one, bounds the step's sum besides.
//
// Where nothing decodes nobody waits for a next token, and the step is filled.
//
// Pure functions. Thread-safety: thread-safe.
#pragma once

#include <cstdint>

#include "scheduler/cost/cost_model.h"
#include "scheduler/cost/step_shape.h"
#include "scheduler/time.h"

namespace twostroke {

constexpr uint32_t kPrefillFloorTokens = 4;
constexpr double kOverrunQuantile = 0.99;
constexpr double kOverrunPartMax = 0.5;  // of the objective

enum class ChunkReason : uint8_t {
  kNothingDecodes,  // the whole step
  kStepTokens,      // all that the step can carry is within the objective, or worthwhile
  kObjective,       // more would miss the objective
  kFloor,           // this may miss the objective, or its share of the step
  kRidge,           // more would not be worthwhile
  kFixed,           // by max_chunk_tokens
};
constexpr size_t kChunkReasons = 6;
const char* chunk_reason_name(ChunkReason reason);  // "objective", ...: for metrics and explanations

struct StepBudget {
  uint32_t prefill_tokens = 0;  // of the whole step, all rows together
  ChunkReason reason = ChunkReason::kNothingDecodes;
  friend bool operator==(const StepBudget&, const StepBudget&) = default;
};

struct StepBudgetInput {
  StepShape decodes;             // the step as planned so far
  uint32_t step_tokens_max = 0;  // that it may carry, decodes included; at least those
  uint32_t position = 0;         // in its sequence, of the first token of the chunk
  TimeNs objective_ns = 0;       // the tightest of what decodes; 0: none
  bool fixed = false;            // the operator has chosen the chunk size
};

// What a step may be predicted to take so that it meets the objective in spite of that margin.
double objective_limit_ns(const CostModel& costs, TimeNs objective_ns);

StepBudget decide_budget(const CostModel& costs, const StepBudgetInput& input);

// `decodes` with a chunk of so many tokens from `position` on, the last of which samples.
StepShape with_chunk(const StepShape& decodes, uint32_t tokens, uint32_t position);

}  // namespace twostroke
