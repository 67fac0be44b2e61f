#include "server/simulate/small_file.h"

#include <filesystem>
#include <fstream>

namespace twostroke::simulate {

Status check_regular_file(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status found = std::filesystem::status(path, error);
  if (error || !std::filesystem::exists(found)) {
    return not_found("'" + path + "' cannot be opened; does it exist, and may this user read it?");
  }
  if (std::filesystem::is_regular_file(found)) return {};
  return invalid_argument("'" + path + "' is no regular file: give one, not a folder, pipe or device");
}

Result<std::string> read_small_file(const std::string& path) {
  if (Status status = check_regular_file(path); !status.ok()) return status;
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
