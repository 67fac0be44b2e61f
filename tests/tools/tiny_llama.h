// A small random model of the llama architecture as a GGUF file, for tests that need a whole valid model of a given
// shape and weight type, and that may edit it before they take its bytes.
#pragma once

#include <cstdint>

#include "tests/tools/gguf_writer.h"

namespace twostroke {

struct TinyLlama {
  uint32_t layers = 2;
  uint32_t embedding_size = 64;
  uint32_t feed_forward_size = 96;
  uint32_t heads = 4;
  uint32_t kv_heads = 2;
  uint32_t head_size = 16;
  uint32_t vocab_size = 64;
  uint32_t context_length = 256;
  bool tied_output = true;
  // Of the matrices; norms are F32. Rows must be whole blocks: sizes are multiples of 32, or of 256 for the K types.
  // Random bytes with a small positive scale for a quantised type, so that the values are sane whatever it is.
  GgufType matrix_type = GgufType::kF32;
  uint64_t seed = 1;
};

// The model without a tokenizer. Equal arguments give equal bytes.
GgufWriter tiny_llama(const TinyLlama& shape);

}  // namespace twostroke
