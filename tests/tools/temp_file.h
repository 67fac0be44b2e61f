// TempFile: a file with given content that is removed again. For tests.
#pragma once

#include <string>
#include <string_view>

namespace twostroke {

class TempFile {
 public:
  explicit TempFile(std::string_view content = {});  // ends the program when the file cannot be written
  ~TempFile();
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;

  const std::string& path() const { return path_; }
  void write(std::string_view content);  // replaces the content

 private:
  std::string path_;
};

}  // namespace twostroke
