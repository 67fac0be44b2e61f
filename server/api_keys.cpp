#include "server/api_keys.h"

#include <sstream>

#include "server/model_files.h"

namespace twostroke {

Result<std::vector<std::string>> load_api_keys(const ServeConfig& config) {
  std::vector<std::string> keys = config.api_keys;
  if (config.api_key_file.empty()) return keys;
  const std::string where = "--api-key-file " + config.api_key_file;
  const Result<std::string> text = read_file(config.api_key_file, kApiKeyFileBytesMax);
  if (!text.ok()) return invalid_argument("--api-key-file: " + text.status().message());
  std::istringstream lines(*text);
  size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos || line[begin] == '#') continue;
    const std::string key = line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
    if (const Status status = check_api_key(key); !status.ok()) {
      return invalid_argument(where + ", line " + std::to_string(number) + ": " + status.message());
    }
    keys.push_back(key);
  }
  if (keys.size() == config.api_keys.size()) {
    return invalid_argument(where + " holds no key: write one on each line, or leave the flag out");
  }
  if (keys.size() > kApiKeysMax) return invalid_argument(where + ": at most " + std::to_string(kApiKeysMax) + " keys");
  return keys;
}

}  // namespace twostroke
