#include "server/openai/tenants.h"

#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

namespace twostroke::openai {

uint64_t Tenants::id_of(uint64_t key_tenant, std::string_view user) {
  if (key_tenant != 0 || user.empty()) return key_tenant;
  const std::string text = "user " + std::string(user);
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  uint64_t id = 0;
  std::memcpy(&id, digest.data(), sizeof(id));
  return std::max<uint64_t>(id, 1);
}

void Tenants::mark(Request& request, uint64_t tenant) const {
  request.tenant = tenant;
  const auto found = weights_.find(tenant);
  if (found != weights_.end()) request.tenant_weight = found->second;
}

}  // namespace twostroke::openai
