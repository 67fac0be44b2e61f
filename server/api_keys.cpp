#include "server/api_keys.h"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "server/http/access.h"
#include "server/model_files.h"

namespace twostroke {
namespace {

Status check_key_name(const std::string& name) {
  const bool plain = std::ranges::all_of(
      name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.'; });
  if (name.size() <= kApiKeyNameBytesMax && plain) return {};
  return invalid_argument("a key's name has up to " + std::to_string(kApiKeyNameBytesMax) +
                          " letters, digits, '_', '-' and '.'");
}

// "KEY" or "KEY NAME", without blanks around.
Result<ApiKey> read_key_line(const std::string& line) {
  const size_t end = std::min(line.find_first_of(" \t"), line.size());
  ApiKey key{.key = line.substr(0, end), .name = {}};
  if (end < line.size()) key.name = line.substr(line.find_first_not_of(" \t", end));
  if (Status status = check_api_key(key.key); !status.ok()) return status;
  if (Status status = check_key_name(key.name); !status.ok()) return status;
  return key;
}

}  // namespace

Result<std::vector<ApiKey>> load_api_keys(const ServeConfig& config) {
  std::vector<ApiKey> keys;
  for (const std::string& key : config.api_keys) keys.push_back({.key = key, .name = {}});
  if (config.api_key_file.empty()) return keys;
  const std::string where = "--api-key-file " + config.api_key_file;
  const Result<std::string> text = read_file(config.api_key_file, kApiKeyFileBytesMax);
  if (!text.ok()) return invalid_argument("--api-key-file: " + text.status().message());
  std::istringstream lines(*text);
  size_t number = 0;
  bool any = false;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos || line[begin] == '#') continue;
    Result<ApiKey> key = read_key_line(line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1));
    if (!key.ok()) {
      return invalid_argument(where + ", line " + std::to_string(number) + ": " + key.status().message());
    }
    any = true;
    // A key is one tenant, with one name and one weight.
    const auto same = std::ranges::find(keys, key->key, &ApiKey::key);
    if (same == keys.end()) {
      keys.push_back(*std::move(key));
    } else if (same->name.empty() || key->name.empty()) {
      same->name += key->name;
    } else if (same->name != key->name) {
      return invalid_argument(where + ", line " + std::to_string(number) + ": this key has the name '" + same->name +
                              "' already");
    }
    if (keys.size() > kApiKeysMax)
      return invalid_argument(where + ": at most " + std::to_string(kApiKeysMax) + " keys");
  }
  if (!any) return invalid_argument(where + " holds no key: write one on each line, or leave the flag out");
  return keys;
}

Result<openai::Tenants> load_tenants(const ServeConfig& config, const std::vector<ApiKey>& keys) {
  openai::Tenants tenants;
  for (const std::string& text : config.tenant_weights) {
    const Result<TenantWeight> weight = parse_tenant_weight(text);
    if (!weight.ok()) return weight.status();
    bool found = keys.empty();
    if (keys.empty()) tenants.set_weight(openai::Tenants::id_of(0, weight->name), weight->weight);
    for (const ApiKey& key : keys) {
      if (key.name != weight->name) continue;
      found = true;
      tenants.set_weight(http::AccessPolicy::tenant_of(key.key), weight->weight);
    }
    if (!found) {
      return invalid_argument("--tenant-weight " + text + ": no key has the name '" + weight->name +
                              "'; in the file of --api-key-file write it behind its key, after a blank");
    }
  }
  return tenants;
}

}  // namespace twostroke
