#include "server/http/access.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cstring>

#include "kernels/check.h"
#include "server/http/ascii.h"

namespace twostroke::http {
namespace {

// The key in "Bearer KEY", or "".
std::string_view bearer_key(std::string_view authorization) {
  constexpr std::string_view kScheme = "Bearer ";
  if (!starts_with_ignoring_case(authorization, kScheme)) return {};
  authorization.remove_prefix(kScheme.size());
  const size_t begin = authorization.find_first_not_of(' ');
  return begin == std::string_view::npos ? std::string_view() : authorization.substr(begin);
}

}  // namespace

AccessPolicy::AccessPolicy(const std::vector<std::string>& keys, std::vector<std::string> origins)
    : origins_(std::move(origins)), any_origin_(std::find(origins_.begin(), origins_.end(), "*") != origins_.end()) {
  for (const std::string& key : keys) {
    CHECK(!key.empty(), "an API key is not empty");
    keys_.push_back(digest(key));
  }
}

AccessPolicy::Digest AccessPolicy::digest(std::string_view text) {
  Digest result{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), result.data());
  return result;
}

std::optional<uint64_t> AccessPolicy::tenant_of_key(std::string_view key) const {
  const Digest asked = digest(key);
  bool known = false;
  for (const Digest& own : keys_) known |= CRYPTO_memcmp(own.data(), asked.data(), own.size()) == 0;
  if (!known || key.empty()) return std::nullopt;
  return tenant_of(key);
}

uint64_t AccessPolicy::tenant_of(std::string_view key) {
  const Digest whole = digest(key);
  uint64_t tenant = 0;
  std::memcpy(&tenant, whole.data(), sizeof(tenant));
  return std::max<uint64_t>(tenant, 1);
}

std::optional<uint64_t> AccessPolicy::tenant(const HttpRequest& request) const {
  if (!needs_key()) return 0;
  const auto by_bearer = tenant_of_key(bearer_key(request.header("Authorization")));
  const auto by_header = tenant_of_key(request.header("X-Api-Key"));
  return by_bearer ? by_bearer : by_header;
}

std::string AccessPolicy::allowed(std::string_view origin) const {
  if (origin.empty()) return "";
  if (any_origin_) return "*";
  const bool listed = std::find(origins_.begin(), origins_.end(), origin) != origins_.end();
  return listed ? std::string(origin) : "";
}

Headers AccessPolicy::headers(std::string_view origin) const {
  Headers headers;
  if (origins_.empty()) return headers;
  // Caches must not hand one origin's answer to another; where all get the same, there is nothing to tell apart.
  if (!any_origin_) headers.emplace_back("Vary", "Origin");
  const std::string value = allowed(origin);
  if (value.empty()) return headers;
  headers.emplace_back("Access-Control-Allow-Origin", value);
  headers.emplace_back("Access-Control-Expose-Headers", "X-Request-Id, Request-Id, Retry-After");
  return headers;
}

Headers AccessPolicy::preflight_headers(const HttpRequest& request, const std::string& allow) const {
  Headers headers = {{"Allow", allow}};
  if (allowed(request.header("Origin")).empty() || request.header("Access-Control-Request-Method").empty()) {
    return headers;
  }
  headers.emplace_back("Access-Control-Allow-Methods", allow);
  // Clients add headers of their own (X-Stainless-Lang, Anthropic-Version, ...), none of which matters here.
  const std::string_view asked = request.header("Access-Control-Request-Headers");
  if (!asked.empty()) headers.emplace_back("Access-Control-Allow-Headers", std::string(asked));
  headers.emplace_back("Access-Control-Max-Age", "600");
  return headers;
}

HttpError missing_key_error() {
  return {.status = 401,
          .message =
              "The request has no valid API key: send 'Authorization: Bearer KEY' or 'X-Api-Key: KEY' with a key of "
              "this server.",
          .code = "invalid_api_key",
          .headers = {{"WWW-Authenticate", "Bearer"}}};
}

}  // namespace twostroke::http
