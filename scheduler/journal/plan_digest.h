// Digests of what a step decided and of what came of it, by which a replay is held against its journal.
//
// Equal inputs give equal digests on every machine of the same byte order; different ones almost never do. Not meant
// against anybody who wants two to collide. Cost: about 0.1 ns a byte of the plan's arrays, some nanoseconds a row.
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <span>

#include "backend/step.h"
#include "scheduler/event.h"
#include "scheduler/scheduler.h"

namespace twostroke {

// Everything that a backend sees of the plan, history and masks' bits aside (those follow from the tokens), and the
// counts, and what prefill might take.
uint64_t digest_of(const StepPlan& plan, const StepCounts& counts, const StepBudget& budget);

// What happened to which sequence or request, with its token, reason, error code, times and sums.
uint64_t digest_of(std::span<const Event> events);

}  // namespace twostroke
