// The only place where JSON from clients is parsed. Order of keys is kept, since templates print it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>

#include "server/http/error_body.h"
#include "server/openai/api_error.h"

namespace twostroke::openai {

using Json = nlohmann::ordered_json;
using http::json_string;

// Arrays and objects in one another at most; deeper input is refused before it is parsed.
constexpr int kJsonDepthMax = 128;

// The object in a request's body, or the 400 that says why there is none (wrong Content-Type, not JSON, not an object,
// nested too deeply, invalid UTF-8).
std::variant<Json, ApiError> parse_body(const http::HttpRequest& request);

// A text as a JSON object, with the same checks.
std::variant<Json, ApiError> parse_object(std::string_view text);

// A log-probability as a JSON number: JSON has no infinity, so that impossible tokens get -9999, as vLLM writes them.
std::string logprob_text(float logprob);

// One line of JSON; bytes that are not UTF-8 become U+FFFD.
std::string to_text(const Json& json);

}  // namespace twostroke::openai
