#include "server/openai/cache_salt.h"

#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

namespace twostroke::openai {

uint64_t tenant_salt(const http::Exchange& exchange) { return exchange.request().tenant; }

uint64_t cache_salt(uint64_t tenant, std::string_view own_salt) {
  if (tenant == 0 && own_salt.empty()) return 0;
  std::string text(sizeof(tenant), '\0');
  std::memcpy(text.data(), &tenant, sizeof(tenant));
  text += own_salt;
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  uint64_t salt = 0;
  std::memcpy(&salt, digest.data(), sizeof(salt));
  return std::max<uint64_t>(salt, 1);
}

}  // namespace twostroke::openai
