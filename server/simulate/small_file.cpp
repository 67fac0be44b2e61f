#include "server/simulate/small_file.h"

#include <fstream>

namespace twostroke::simulate {

Result<std::string> read_small_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return not_found("'" + path + "' cannot be opened; does it exist, and may this user read it?");
  std::string text(kSmallFileBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return invalid_argument("'" + path + "' cannot be read; is it a file?");
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kSmallFileBytesMax) {
    return invalid_argument("'" + path + "' is larger than the " + std::to_string(kSmallFileBytesMax) +
                            " bytes that such a file may have");
  }
  return text;
}

}  // namespace twostroke::simulate
