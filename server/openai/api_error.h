// ApiError: what a client did wrong or what went wrong for it, in the shape that OpenAI clients read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/status.h"
#include "server/http/message.h"

namespace twostroke::openai {

struct ApiError {
  int status = 400;
  std::string message;
  std::string type = "invalid_request_error";
  std::optional<std::string> param;  // the field at fault, when there is one
  std::optional<std::string> code;   // "context_length_exceeded", "model_not_found", ...
  int retry_after_s = 0;             // > 0: a Retry-After header; 0 of a 429: clients are told not to try again
};

// 400, naming the field.
ApiError bad_field(std::string param, std::string message);

// The HTTP meaning of a Status from below: invalid 400, unsupported 400, not found 404, exhausted 429 with Retry-After,
// an objective for the first token that cannot be met 429 too, with Retry-After unless that is 0, unavailable 503 with
// Retry-After, everything else 500.
ApiError to_api_error(const Status& status, uint32_t retry_after_s = 1);

// Why a request was refused, for metrics: "invalid" (the client's mistake), "limit" (of the queue or another),
// "objective" (its first token would be late), "unattainable" (its first token would be late even with the machine to
// itself), "unavailable".
std::string_view refusal_reason(const ApiError& error);

// The 400 for a prompt that leaves no room for an answer, in the words and with the code by which clients recognise it
// (LiteLLM reads the message, openai the code); nothing for one that fits. `prompt_tokens` may be a lower bound.
std::optional<ApiError> context_overflow(size_t prompt_tokens, int32_t context_max);

// The 400 for an answer that has grown beyond what is given at once.
ApiError answer_too_large(size_t bytes_max);

// {"error": {"message", "type", "param", "code"}}: all four keys, always.
std::string error_json(const ApiError& error);
http::HttpResponse error_response(const ApiError& error);

}  // namespace twostroke::openai
