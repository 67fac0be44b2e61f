// Tenants: whom a request is served for, where service is shared fairly (--order fair), and with what weight.
//
// The API key, where the server has keys: a client cannot pass for another. Without keys the body's `user`, which
// clients choose freely: that keeps apart those who mean well. With neither all are one tenant. The prefix cache goes
// by key and `cache_salt` (cache_salt.h), never by `user`: who wants the users of one key apart there sends a salt.
//
// Thread-safety: weights are set before the server starts; then thread-safe.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "scheduler/request.h"

namespace twostroke::openai {

class Tenants {
 public:
  // `key_tenant`: of the API key, as tenant_salt() says; 0 without keys. Users are hashed (SHA-256), so that no name is
  // kept. Pure.
  static uint64_t id_of(uint64_t key_tenant, std::string_view user);

  void set_weight(uint64_t tenant, double weight) { weights_[tenant] = weight; }
  void mark(Request& request, uint64_t tenant) const;

 private:
  std::unordered_map<uint64_t, double> weights_;  // of those that do not weigh 1
};

}  // namespace twostroke::openai
