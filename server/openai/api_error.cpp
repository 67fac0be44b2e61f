#include "server/openai/api_error.h"

#include <algorithm>

#include "server/http/error_body.h"

namespace twostroke::openai {
namespace {

constexpr const char* kObjectiveCode = "objective_unreachable";

}  // namespace

ApiError bad_field(std::string param, std::string message) {
  return {.message = std::move(message), .param = std::move(param), .code = "invalid_value"};
}

ApiError to_api_error(const Status& status, uint32_t retry_after_s) {
  ApiError error{.message = status.message()};
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kUnsupported:
      return error;
    case StatusCode::kNotFound:
      error.status = 404;
      return error;
    case StatusCode::kResourceExhausted:
      error.status = 429;
      error.type = "rate_limit_error";
      error.code = "rate_limit_exceeded";
      error.retry_after_s = static_cast<int>(std::max(retry_after_s, 1U));
      return error;
    case StatusCode::kDeadlineExceeded:
      error.status = 429;
      error.type = "rate_limit_error";
      error.param = "slo.ttft_ms";
      error.code = kObjectiveCode;
      error.retry_after_s = static_cast<int>(retry_after_s);
      return error;
    case StatusCode::kUnavailable:
      error.status = 503;
      error.type = "server_error";
      error.code = "unavailable";
      error.retry_after_s = 1;
      return error;
    default:
      error.status = 500;
      error.type = "server_error";
      error.code = "internal_error";
      return error;
  }
}

std::string_view refusal_reason(const ApiError& error) {
  if (error.status >= 500) return "unavailable";
  if (error.status != 429) return "invalid";
  if (error.code != kObjectiveCode) return "limit";
  return error.retry_after_s > 0 ? "objective" : "unattainable";
}

std::optional<ApiError> context_overflow(size_t prompt_tokens, int32_t context_max) {
  if (prompt_tokens < static_cast<size_t>(context_max)) return std::nullopt;
  return ApiError{.message = "This model's maximum context length is " + std::to_string(context_max) +
                             " tokens, and the prompt has at least " + std::to_string(prompt_tokens) +
                             ": shorten it, so that there is room for an answer.",
                  .code = "context_length_exceeded"};
}

ApiError answer_too_large(size_t bytes_max) {
  return {.message = "The answer has more than " + std::to_string(bytes_max) +
                     " bytes, which is more than this server gives at once: set 'stream', or ask for fewer "
                     "log-probabilities or choices."};
}

std::string error_json(const ApiError& error) {
  return http::error_body(error.message, error.type, error.param.value_or(""), error.code.value_or(""));
}

http::HttpResponse error_response(const ApiError& error) {
  http::HttpResponse response{.status = error.status, .body = error_json(error)};
  if (error.retry_after_s > 0) response.headers.emplace_back("Retry-After", std::to_string(error.retry_after_s));
  // OpenAI's clients retry every 429 by themselves, unless told otherwise.
  if (error.status == 429 && error.retry_after_s == 0) response.headers.emplace_back("x-should-retry", "false");
  return response;
}

}  // namespace twostroke::openai
