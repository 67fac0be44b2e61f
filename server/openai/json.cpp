#include "server/openai/json.h"

#include <cctype>
#include <cmath>

namespace twostroke::openai {
namespace {

bool is_json_content_type(std::string_view value) {
  const std::string_view type = value.substr(0, value.find(';'));
  std::string lower;
  for (const char c : type) {
    if (c != ' ' && c != '\t') lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return lower == "application/json" || (lower.starts_with("application/") && lower.ends_with("+json"));
}

}  // namespace

std::variant<Json, ApiError> parse_body(std::string_view content_type, std::string_view body) {
  if (!content_type.empty() && !is_json_content_type(content_type)) {
    return ApiError{.message = "The Content-Type is '" + std::string(content_type.substr(0, 100)) +
                               "': send a JSON body with Content-Type: application/json."};
  }
  return parse_object(body);
}

std::variant<Json, ApiError> parse_object(std::string_view text) {
  if (text.empty()) return ApiError{.message = "The body is empty: send a JSON object."};
  JsonGuard guard(kJsonDepthMax);
  if (const Status cost = guard.check(text); !cost.ok()) {
    return ApiError{.message = "The JSON body " + cost.message() + "."};
  }
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& error) {
    // The library's message starts with its own error number in brackets, which tells a client nothing.
    const std::string_view what = error.what();
    const size_t bracket = what.find("] ");
    return ApiError{.message = "The body is not valid JSON: " +
                               std::string(bracket == std::string_view::npos ? what : what.substr(bracket + 2))};
  }
  if (!json.is_object()) return ApiError{.message = "The body must be a JSON object."};
  return json;
}

std::optional<Json> parse_inner_object(std::string_view text, JsonGuard& guard, Status& cost) {
  cost = guard.check(text);
  if (!cost.ok()) return std::nullopt;
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  return json;
}

std::string to_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string logprob_text(float logprob) {
  return to_text(Json(std::isfinite(logprob) ? static_cast<double>(logprob) : -9999.0));
}

}  // namespace twostroke::openai
