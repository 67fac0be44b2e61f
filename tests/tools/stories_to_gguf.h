// Converts a model in llama2.c's format to GGUF.
//
// The input (https://github.com/karpathy/llama2.c, version 0 of its format): MODEL.bin is seven int32 {dim, hidden_dim,
// n_layers, n_heads, n_kv_heads, vocab_size (negative: a separate classifier), seq_len}, then f32 weights: token
// embedding; for all layers at once attention norm, Wq, Wk, Wv, Wo, feed-forward norm, W1 (gate), W2 (down), W3 (up);
// final norm; two tables of rotation angles, which are not needed; the classifier where it is separate. Matrices are
// [outputs, inputs] row-major, as in GGUF. TOKENIZER.bin is an int32 longest length, then for each token its f32
// score, int32 length and bytes.
//
// llama2.c rotates the neighbours (2i, 2i + 1) of a head, which is GGUF's convention for this architecture too, so that
// Wq and Wk are taken as they are.
#pragma once

#include <string>

#include "kernels/status.h"
#include "tests/tools/gguf_writer.h"

namespace twostroke {

// Reads `directory`/stories260K.bin and `directory`/tok512.bin. The result holds F32 tensors and a SentencePiece-style
// tokenizer. Errors: kNotFound, kInvalidArgument (a size that does not fit the header).
Result<GgufWriter> stories_to_gguf(const std::string& directory);

}  // namespace twostroke
