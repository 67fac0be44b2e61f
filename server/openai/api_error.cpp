#include "server/openai/api_error.h"

#include "server/http/error_body.h"

namespace twostroke::openai {

ApiError bad_field(std::string param, std::string message) {
  return {.message = std::move(message), .param = std::move(param), .code = "invalid_value"};
}

ApiError to_api_error(const Status& status) {
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
      error.retry_after_s = 1;
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
  return response;
}

}  // namespace twostroke::openai
