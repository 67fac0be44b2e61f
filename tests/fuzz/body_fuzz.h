// What every parser of a request's body promises: a request, or a refusal that can be sent.
#pragma once

#include <string_view>
#include <variant>

#include "kernels/check.h"
#include "server/openai/api_error.h"
#include "server/openai/json.h"

namespace twostroke::openai {

inline void check_refusal(const ApiError& error) {
  CHECK(error.status >= 400 && error.status < 500);
  const Json sent = Json::parse(error_json(error));
  CHECK(!sent["error"]["message"].get<std::string>().empty());
}

// Reads `text` as a client's body with `parse`; the request, if it is one.
template <typename Request>
std::optional<Request> read_body(std::string_view text,
                                 std::variant<Request, ApiError> (*parse)(const Json&, int32_t vocab_size)) {
  auto body = parse_object(text);
  if (const auto* error = std::get_if<ApiError>(&body)) {
    check_refusal(*error);
    return std::nullopt;
  }
  auto request = parse(std::get<Json>(body), /*vocab_size=*/1000);
  if (const auto* error = std::get_if<ApiError>(&request)) {
    check_refusal(*error);
    return std::nullopt;
  }
  return std::get<Request>(std::move(request));
}

}  // namespace twostroke::openai
