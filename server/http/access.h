// AccessPolicy: who may ask, and which web pages may read the answers.
//
// Keys: with at least one, every route but the open ones (RouteAccess::kOpen) needs `Authorization: Bearer KEY` or
// `X-Api-Key: KEY`; where a request has both, either will do. Keys are compared by their SHA-256 digests in constant
// time, each of them every time, so that no answer's timing tells how much of a key was right. OPTIONS needs no key: a
// browser cannot send one with a preflight.
//
// Origins (CORS, https://fetch.spec.whatwg.org/#http-cors-protocol): an origin of the list is named back to the
// browser, any other gets no Access-Control header at all. "*" in the list lets every page read. Credentials (cookies)
// are never allowed: a key travels in a header of its own.
//
// Thread-safety: immutable after construction.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/error_body.h"

namespace twostroke::http {

class AccessPolicy {
 public:
  AccessPolicy() = default;  // no keys: everybody may ask; no origins: no page of another origin may read
  // Keys are not empty; origins are as browsers write them ("https://example.org"), or "*".
  AccessPolicy(const std::vector<std::string>& keys, std::vector<std::string> origins);

  bool needs_key() const { return !keys_.empty(); }

  // The tenant that a request's key stands for: a number that tells keys apart and gives nothing of them away, never 0.
  // 0 when no key is needed; nothing when the request may not go on.
  std::optional<uint64_t> tenant(const HttpRequest& request) const;

  // The same number, of a key by itself.
  static uint64_t tenant_of(std::string_view key);

  // What every answer to a request with this Origin ("" without one) carries.
  Headers headers(std::string_view origin) const;
  // The same for the answer to an OPTIONS request of a path that takes the methods of `allow`.
  Headers preflight_headers(const HttpRequest& request, const std::string& allow) const;

 private:
  using Digest = std::array<uint8_t, 32>;

  static Digest digest(std::string_view text);
  std::optional<uint64_t> tenant_of_key(std::string_view key) const;
  // What Access-Control-Allow-Origin says to it, or "".
  std::string allowed(std::string_view origin) const;

  std::vector<Digest> keys_;
  std::vector<std::string> origins_;
  bool any_origin_ = false;
};

// The 401: names the headers that take a key.
HttpError missing_key_error();

}  // namespace twostroke::http
