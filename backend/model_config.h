// ModelConfig and ModelTensors: what a model file says about its transformer, checked.
//
// One architecture is known: "llama" as converters write it for Llama 2 and 3, Mistral, SmolLM2 and their relatives.
// For a token's hidden state x [D], every layer computes
//
//   x += Wo attention(rotate(Wq norm(x)), rotate(Wk norm(x)), Wv norm(x))
//   x += Wdown (silu(Wgate norm(x)) * Wup norm(x))
//
// and at the end logits = Wout norm(x). norm is RMSNorm (arXiv:1910.07467); the gated feed-forward is SwiGLU
// (arXiv:2002.05202); query heads share key and value heads in groups (arXiv:2305.13245).
//
// Rotation (RoFormer, arXiv:2104.09864): pair i of a head turns by position * inverse_frequency[i], with
//   inverse_frequency[i] = base^(-2i / rope_size) / factor / divisor[i].
// `factor` is linear position interpolation (arXiv:2306.15595), 1 without it. `divisor` is the file's tensor
// `rope_freqs.weight`, in which converters store the frequency-dependent scaling of Llama 3.1 and later
// ("llama3" in the models' own config.json: high frequencies unchanged, low ones divided by the scaling factor, smooth
// in between); 1 without it.
// A pair is the neighbours (2i, 2i + 1): GGUF files of this architecture hold Wq and Wk with their rows permuted for
// that, where the original checkpoints pair (i, i + rope_size / 2).
//
// What would change the result and is not computed here is refused by name: mixture of experts, biases, other RoPE
// scalings, encoders, adapters, split files, and any tensor that is not listed below.
//
// Notation: D embedding_size, F feed_forward_size, H heads, G kv_heads, S head_size, V vocab_size.
// Thread-safety: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/gguf.h"
#include "kernels/status.h"

namespace twostroke {

struct ModelConfig {
  std::string architecture;              // "llama"
  std::string name;                      // general.name; may be empty
  int32_t layers = 0;                    // 1 to 1,024
  int32_t embedding_size = 0;            // D, 1 to 131,072
  int32_t feed_forward_size = 0;         // F, 1 to 1,048,576
  int32_t heads = 0;                     // H, 1 to 4,096
  int32_t kv_heads = 0;                  // G, divides H
  int32_t head_size = 0;                 // S, 1 to 1,024, of keys and of values; H * S need not be D
  int32_t rope_size = 0;                 // elements of a head that are rotated: even, 2 to S
  int32_t vocab_size = 0;                // V, rows of the token embedding, 1 to 16,777,216
  int32_t context_length = 0;            // tokens of a sequence at most; 1 to 1,073,741,824
  float norm_epsilon = 0;                // of every RMSNorm; in (0, 1)
  bool tied_output = false;              // the output matrix is the token embedding
  std::vector<float> inverse_frequency;  // [rope_size / 2], radians per position, scaling included
  std::vector<std::string> notices;      // for the operator's log: what was adapted, and why

  // Reads and checks the configuration in `file`.
  // Errors: kUnsupported (a kind of model that is not computed here, named), kInvalidArgument (a missing, mistyped or
  // impossible value, named).
  static Result<ModelConfig> from_gguf(const GgufFile& file);
};

// The tensors of one layer. Dimensions as in the file, contiguous one first: {inputs, outputs} of a matrix.
struct LayerTensors {
  const GgufTensor* attention_norm = nullptr;     // blk.N.attn_norm.weight      {D}
  const GgufTensor* query = nullptr;              // blk.N.attn_q.weight         {D, H * S}
  const GgufTensor* key = nullptr;                // blk.N.attn_k.weight         {D, G * S}
  const GgufTensor* value = nullptr;              // blk.N.attn_v.weight         {D, G * S}
  const GgufTensor* attention_output = nullptr;   // blk.N.attn_output.weight    {H * S, D}
  const GgufTensor* feed_forward_norm = nullptr;  // blk.N.ffn_norm.weight       {D}
  const GgufTensor* gate = nullptr;               // blk.N.ffn_gate.weight       {D, F}
  const GgufTensor* up = nullptr;                 // blk.N.ffn_up.weight         {D, F}
  const GgufTensor* down = nullptr;               // blk.N.ffn_down.weight       {F, D}
};

// All tensors of a model; borrowed from the file, which must outlive it. Norms are F32, F16 or BF16; matrices are of
// any type that GgufFile accepts.
struct ModelTensors {
  const GgufTensor* token_embedding = nullptr;  // token_embd.weight   {D, V}
  std::vector<LayerTensors> layers;
  const GgufTensor* output_norm = nullptr;  // output_norm.weight  {D}
  const GgufTensor* output = nullptr;       // output.weight {D, V}; the token embedding where the output is tied

  // Finds every tensor and checks its shape and type. `config` was read from the same file.
  // Errors: kInvalidArgument (missing, or of a wrong shape or type; named), kUnsupported (a tensor that is not listed
  // here, named: leaving it out would give wrong answers).
  static Result<ModelTensors> from_gguf(const GgufFile& file, const ModelConfig& config);
};

}  // namespace twostroke
