// ModelShape: what the cost of a dense transformer follows from; Model: those numbers with its weights.
//
// The shapes by name are those of the models' own config.json, as published with their weights on Hugging Face (Llama:
// meta-llama, Qwen: Qwen, Mistral: mistralai, SmolLM2: HuggingFaceTB); biases and norms are left out, less than a
// thousandth of a model. With D embedding, F feed-forward, H heads, G KV heads of size S, V vocabulary:
//
//   parameters of a layer = 2 * D * H * S + 2 * D * G * S + 3 * D * F      Wq and Wo, Wk and Wv, gate, up and down
//   flops per token       = 2 * layers * that                              a multiply and an add for each
//   flops per logits      = 2 * D * V
//   flops of attention    = 4 * layers * H * S for each position that a token attends to
//   bytes per step        = those of the layers and of the output matrix, each read once
//   KV bytes per token    = 2 * layers * G * S * bytes of a number
//
// Weights of fewer bits are read as such and multiplied in FP16: they save bandwidth and memory, not arithmetic.
// Mixture of experts and sliding windows are not described by these numbers.
//
// Thread-safety: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kernels/status.h"

namespace twostroke::simulate {

struct ModelShape {
  std::string name;
  int32_t layers = 0;
  int32_t embedding_size = 0;     // D
  int32_t feed_forward_size = 0;  // F
  int32_t heads = 0;              // H
  int32_t kv_heads = 0;           // G
  int32_t head_size = 0;          // S
  int32_t vocab_size = 0;         // V
  int32_t context_length = 0;
  bool tied_output = false;  // the output matrix is the token embedding

  double layer_parameters() const;   // of all layers together
  double output_parameters() const;  // of the output matrix
  double parameters() const;         // of all, the embedding too, counted once where it is tied
};

struct Model {
  ModelShape shape;
  std::string weights;    // how they are stored: "f16", or "as in the file"
  double step_bytes = 0;  // of weights that a step reads
  double held_bytes = 0;  // of weights in memory
  double kv_bytes_per_token = 0;
};

std::span<const ModelShape> model_shapes();

// The stored size of a number: f32, f16, bf16, fp8, and in GGUF's blocks q8 (34 bytes for 32 weights) and q4 (18).
// nullopt: there is no such type.
std::optional<double> weight_bytes(std::string_view type);
constexpr const char* kWeightTypes = "f32, f16, bf16, fp8, q8, q4";
std::optional<double> kv_bytes(std::string_view type);
constexpr const char* kKvTypes = "f32, f16, fp8";

// A model by name (in any case), or the shape in a file: a GGUF file, whose weights are taken as they are stored there
// unless `weights` says otherwise, or a config.json as Hugging Face has them. `weights` "" is f16 where the file says
// nothing.
// Errors: kNotFound with the names that there are, kInvalidArgument and kUnsupported for files and types.
Result<Model> find_model(const std::string& name, const std::string& weights, const std::string& kv_type);

// The shape in a config.json of Hugging Face; `source` names it in errors.
Result<ModelShape> parse_model_config(std::string_view json, const std::string& source);

}  // namespace twostroke::simulate
