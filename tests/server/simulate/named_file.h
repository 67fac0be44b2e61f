// NamedFile: a temporary file whose name ends as readers want it. For tests.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "tests/tools/temp_file.h"

namespace twostroke::simulate {

class NamedFile {
 public:
  NamedFile(std::string_view content, const std::string& ending) {
    TempFile file(content);
    path_ = file.path() + ending;
    std::rename(file.path().c_str(), path_.c_str());
  }
  ~NamedFile() { std::remove(path_.c_str()); }
  NamedFile(const NamedFile&) = delete;
  NamedFile& operator=(const NamedFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace twostroke::simulate
