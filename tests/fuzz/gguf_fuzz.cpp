// A model file, and everything that the server reads from it before it computes: tokenizer, configuration, tensors.
#include <cstdint>

#include "backend/model_config.h"
#include "kernels/check.h"
#include "server/text/tokenizer.h"
#include "tests/tools/gguf_writer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace twostroke;
  const auto file = open_gguf_bytes({reinterpret_cast<const char*>(data), size});
  if (!file.ok()) {
    CHECK(!file.status().message().empty());
    return 0;
  }
  unsigned sum = 0;
  for (const GgufTensor& tensor : (*file)->tensors()) {
    CHECK((*file)->find_tensor(tensor.name) == &tensor);
    for (const std::byte byte : tensor.data) sum += std::to_integer<unsigned>(byte);  // all of it can be read
  }
  [[maybe_unused]] const volatile unsigned kept = sum;  // so that the reads stay
  if (const auto tokenizer = Tokenizer::from_gguf(**file); tokenizer.ok()) {
    for (const TokenId id : (*tokenizer)->encode("Hello <s> wörld", {.add_special = true, .parse_special = true})) {
      CHECK(id >= 0 && id < (*tokenizer)->vocab_size());
      static_cast<void>((*tokenizer)->piece(id, true));
    }
  }
  if (const auto config = ModelConfig::from_gguf(**file); config.ok()) {
    static_cast<void>(ModelTensors::from_gguf(**file, *config));
  }
  return 0;
}
