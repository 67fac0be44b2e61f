// The API keys that the configuration names.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "kernels/status.h"

namespace twostroke {

constexpr size_t kApiKeyFileBytesMax = 1 << 20;

// Those of --api-key and of --api-key-file: one key on each line, blanks around it are dropped, empty lines and lines
// that begin with '#' are passed over. Errors: the file cannot be read, has no key (an empty file must not open the
// server to everybody), one that check_api_key() refuses, or more than kApiKeysMax.
Result<std::vector<std::string>> load_api_keys(const ServeConfig& config);

}  // namespace twostroke
