// What a request asks to be promised: the field `slo` ({"ttft_ms", "tpot_ms"}), or the headers x-slo-ttft-ms and
// x-slo-tpot-ms, by which routers of the Kubernetes Gateway API Inference Extension pass them on. Where both name the
// same objective the field holds.
#pragma once

#include <optional>

#include "scheduler/request.h"
#include "server/http/message.h"
#include "server/openai/field_reader.h"

namespace twostroke::openai {

constexpr double kObjectiveMsMax = 86'400'000;  // a day

// The field; none of its numbers, or null: no objective. Fails `fields` for what is no number above 0.
Objectives read_objectives(FieldReader& fields);

// Fills in from the headers what the field left open. An error is a 400 that names the header: one that is no number
// above 0, or is there twice with different values.
std::optional<ApiError> add_header_objectives(const http::HttpRequest& request, Objectives& objectives);

// Of an endpoint that gives no tokens: a 400 that names the header where one of them is there.
std::optional<ApiError> refuse_header_objectives(const http::HttpRequest& request);

}  // namespace twostroke::openai
