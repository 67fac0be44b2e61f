// stories_to_gguf DIRECTORY OUTPUT: writes the model in DIRECTORY (stories260K.bin, tok512.bin) as a GGUF file.
#include <cstdio>
#include <fstream>

#include "tests/tools/stories_to_gguf.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: stories_to_gguf DIRECTORY OUTPUT\n");
    return 2;
  }
  const auto writer = twostroke::stories_to_gguf(argv[1]);
  if (!writer.ok()) {
    std::fprintf(stderr, "stories_to_gguf: %s\n", writer.status().message().c_str());
    return 1;
  }
  const std::string bytes = writer->bytes();
  std::ofstream file(argv[2], std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file.fail()) {
    std::fprintf(stderr, "stories_to_gguf: cannot write %s\n", argv[2]);
    return 1;
  }
  return 0;
}
