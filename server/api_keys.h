// The API keys that the configuration names, and the weights of their tenants.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "kernels/status.h"
#include "server/openai/tenants.h"

namespace twostroke {

constexpr size_t kApiKeyFileBytesMax = 1 << 20;
constexpr size_t kApiKeyNameBytesMax = 64;

struct ApiKey {
  std::string key;
  std::string name;  // what operators call it, where a secret has no place; "": none
};

// Those of --api-key and of --api-key-file: on each line a key, and behind it, after blanks, a name if it is to have
// one. Blanks around are dropped, empty lines and lines that begin with '#' are passed over. Errors: the file cannot be
// read, has no key (an empty file must not open the server to everybody), one that check_api_key() refuses, a name of
// other than letters, digits, '_', '-', '.', or more than kApiKeysMax keys.
Result<std::vector<ApiKey>> load_api_keys(const ServeConfig& config);

// The weights of --tenant-weight: of the keys of a name, or, where the server has no keys, of a `user`. Errors: no key
// has that name.
Result<openai::Tenants> load_tenants(const ServeConfig& config, const std::vector<ApiKey>& keys);

}  // namespace twostroke
