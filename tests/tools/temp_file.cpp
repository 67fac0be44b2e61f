#include "tests/tools/temp_file.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "kernels/check.h"

namespace twostroke {

TempFile::TempFile(std::string_view content)
    : path_((std::filesystem::temp_directory_path() / "twostroke-test-XXXXXX").string()) {
  const int fd = mkstemp(path_.data());
  CHECK(fd >= 0, "cannot create " + path_);
  ::close(fd);
  write(content);
}

TempFile::~TempFile() { ::unlink(path_.c_str()); }

void TempFile::write(std::string_view content) {
  std::ofstream file(path_, std::ios::binary | std::ios::trunc);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  CHECK(!file.fail(), "cannot write " + path_);
}

}  // namespace twostroke
