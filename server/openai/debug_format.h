// The answers of GET /debug/...: calls, requests and steps as JSON for people. Its fields are described in
// /openapi.json. Times are seconds, relative to now or to the request's arrival. Pure functions.
#pragma once

#include <optional>
#include <span>

#include "scheduler/explain.h"
#include "scheduler/journal/step_history.h"
#include "server/openai/json.h"
#include "server/openai/request_index.h"

namespace twostroke::openai {

// A call with all that is known of it. `explanations` are those of its parts that have not ended, in their order; one
// that is missing has ended just now.
Json debug_call(const RequestIndex::Call& call, std::span<const std::optional<RequestExplanation>> explanations,
                TimeNs now);

// A call in short: how many of its sequences do what, and what the first that waits is waiting for.
Json debug_call_summary(const RequestIndex::Call& call, std::span<const std::optional<RequestExplanation>> explanations,
                        TimeNs now);

Json debug_step(const StepRecord& step, TimeNs now);

}  // namespace twostroke::openai
