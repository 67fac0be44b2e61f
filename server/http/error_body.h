// Error answers in the shape that OpenAI clients read:
//   {"error":{"message":"...","type":"...","param":null,"code":null}}
// and HttpError, what such an answer says, for paths whose clients read another shape. Thread-safe.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "server/http/message.h"

namespace twostroke::http {

inline constexpr std::string_view kInvalidRequestError = "invalid_request_error";
inline constexpr std::string_view kServerError = "server_error";

// `text` as a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD, so the answer is always valid JSON,
// whatever a client sent.
std::string json_string(std::string_view text);
void append_json_string(std::string& out, std::string_view text);

// The body alone, for an error event within a stream. An empty `param` or `code` becomes null.
std::string error_body(std::string_view message, std::string_view type, std::string_view param, std::string_view code);

HttpResponse error_response(int status, std::string_view message, std::string_view type, std::string_view param = {},
                            std::string_view code = {});

// What the server itself says in place of a handler.
struct HttpError {
  int status = 500;
  std::string message;
  std::string code;
  Headers headers = {};  // beside those that every answer has

  std::string_view type() const { return status < 500 ? kInvalidRequestError : kServerError; }
};

// Writes an error for the clients of some paths. `request_id` is the request's.
using ErrorShape = std::function<HttpResponse(const HttpError& error, const std::string& request_id)>;

// OpenAI's shape.
HttpResponse error_response(const HttpError& error);

}  // namespace twostroke::http
