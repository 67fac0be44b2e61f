// The salt of the prefix cache: whose prompts may share what was computed for their beginnings.
//
// Without API keys and without `cache_salt` in the request everybody shares (salt 0). With keys each key has a cache of
// its own, and within it each `cache_salt`: what one tenant has asked cannot be told from another's times to the first
// token, whatever salt is guessed. The users of one key share its cache, since an operator chose to give them one key,
// and `user` is whatever a client writes; who wants them apart sends a `cache_salt` for each.
#pragma once

#include <cstdint>
#include <string_view>

#include "server/http/exchange.h"

namespace twostroke::openai {

// A number for the API key of the request; 0 when the server has no keys. Gives nothing of the key away.
uint64_t tenant_salt(const http::Exchange& exchange);

// Of a tenant and a request's own `cache_salt` ("" without one), for Request::cache_salt: the beginning of a SHA-256 of
// both, and 0 for neither. Pure.
uint64_t cache_salt(uint64_t tenant, std::string_view own_salt);

}  // namespace twostroke::openai
