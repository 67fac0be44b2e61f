// The only place where JSON from clients is parsed. Order of keys is kept, since templates print it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "server/http/error_body.h"
#include "server/http/message.h"
#include "server/openai/api_error.h"
#include "server/text/jinja/json_guard.h"

namespace twostroke::openai {

using Json = nlohmann::ordered_json;
using http::append_json_string;
using http::json_string;

// Arrays and objects in one another at most; deeper input is refused before it is parsed.
constexpr int kJsonDepthMax = 128;

// The 400 for a body that its header does not call JSON.
//
// Without a Content-Type a body is taken for JSON, unless a web page sent it (the request has an Origin): browsers let
// every page send a body without a type to every server, unasked (a "simple request",
// https://fetch.spec.whatwg.org/#cors-safelisted-request-header), and ask first only where it is application/json.
std::optional<ApiError> check_content_headers(const http::HttpRequest& request);

// The object in a text, or the 400 that says why there is none (not JSON, not an object, too costly by JsonGuard's
// measure, invalid UTF-8). `subject` is what the message calls the text.
std::variant<Json, ApiError> parse_object(std::string_view text, std::string_view subject = "The body");

// The object in a string of a body, if that is what the string holds. `cost` says why when the text was too costly to
// look. `guard` is the request's.
std::optional<Json> parse_inner_object(std::string_view text, JsonGuard& guard, Status& cost);

// A log-probability as a JSON number: JSON has no infinity, so that impossible tokens get -9999, as vLLM writes them.
std::string logprob_text(float logprob);

// One line of JSON; bytes that are not UTF-8 become U+FFFD.
std::string to_text(const Json& json);

}  // namespace twostroke::openai
