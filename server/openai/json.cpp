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

// What the library says, without its own error number in front and without the text at fault, which may be megabytes.
std::string reason_of(std::string_view what) {
  constexpr size_t kReasonBytesMax = 200;
  if (const size_t bracket = what.find("] "); bracket != std::string_view::npos) what.remove_prefix(bracket + 2);
  for (const std::string_view quote : {"; last read: ", " parsing '"}) what = what.substr(0, what.find(quote));
  return std::string(what.substr(0, kReasonBytesMax)) + ".";
}

bool has_nul(std::string_view text) { return text.find('\0') != std::string_view::npos; }

}  // namespace

std::optional<ApiError> check_content_headers(const http::HttpRequest& request) {
  const std::string_view encoding = request.header("Content-Encoding");
  if (!encoding.empty() && encoding != "identity") {
    return ApiError{.message = "The Content-Encoding is '" + std::string(encoding.substr(0, 100)) +
                               "': this server takes bodies that are not compressed."};
  }
  const std::string_view type = request.header("Content-Type");
  if (type.empty() && !request.header("Origin").empty()) {
    return ApiError{.message = "A request from a web page needs the Content-Type: application/json."};
  }
  if (type.empty() || is_json_content_type(type)) return std::nullopt;
  return ApiError{.message = "The Content-Type is '" + std::string(type.substr(0, 100)) +
                             "': send a JSON body with Content-Type: application/json."};
}

std::variant<Json, ApiError> parse_object(std::string_view text, std::string_view subject) {
  const std::string name(subject);
  if (text.empty()) return ApiError{.message = name + " is empty: send a JSON object."};
  JsonGuard guard(kJsonDepthMax);
  if (const Status cost = guard.check(text); !cost.ok()) return ApiError{.message = name + " " + cost.message() + "."};
  // The library takes a zero byte for the end of the text.
  if (has_nul(text)) return ApiError{.message = name + " is not valid JSON: it has a zero byte."};
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& error) {
    return ApiError{.message = name + " is not valid JSON: " + reason_of(error.what())};
  }
  if (!json.is_object()) return ApiError{.message = name + " must be a JSON object."};
  return json;
}

std::optional<Json> parse_inner_object(std::string_view text, JsonGuard& guard, Status& cost) {
  cost = guard.check(text);
  if (!cost.ok() || has_nul(text)) return std::nullopt;
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  return json;
}

std::string to_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string logprob_text(float logprob) {
  return to_text(Json(std::isfinite(logprob) ? static_cast<double>(logprob) : -9999.0));
}

}  // namespace twostroke::openai
