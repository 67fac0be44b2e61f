// ModelWeights: a model's tensors in a device's memory, in the operator set's own arrangement.
//
// Loading reads the file a slab of rows at a time: transcode (transcode.h), hand over (Operators::store_weight),
// forget, the file's pages too. Peak memory is the packed weights plus one slab for each loading thread. Tensors of one
// layout that read the same input are stacked into one weight (query, key and value; gate and up), so that a layer
// needs four products, not seven. A tied output shares the embedding's weight.
//
// Ownership: owns the device memory; the operator set and its device must outlive it. The file may go after load().
// Thread-safety: immutable after load().
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "backend/gguf.h"
#include "backend/model_config.h"
#include "kernels/operators.h"
#include "kernels/status.h"

namespace twostroke {

// Called from the loading thread with bytes of the file that are done, and their total.
using LoadProgress = std::function<void(uint64_t bytes_done, uint64_t bytes_total)>;

// One matrix from k inputs to the outputs of several tensors side by side. Tensors of equal layout share a weight, so
// that there is one part as a rule, and more only where a file mixes formats.
struct StackedWeight {
  std::vector<Weight> parts;
};

struct LayerWeights {
  Tensor attention_norm;           // [1, D] f32
  StackedWeight query_key_value;   // D -> H*S + G*S + G*S
  StackedWeight attention_output;  // H*S -> D
  Tensor feed_forward_norm;        // [1, D] f32
  StackedWeight gate_up;           // D -> F + F
  StackedWeight down;              // F -> D
};

class ModelWeights {
 public:
  // `config` was read from `file`. `threads` >= 1 load at once. Errors: those of ModelTensors::from_gguf();
  // kInvalidArgument for a tensor with infinities or NaNs, but for a token embedding that is not the output matrix,
  // too; kResourceExhausted when the device has too little memory.
  static Result<ModelWeights> load(const GgufFile& file, const ModelConfig& config, Operators& operators, int threads,
                                   const LoadProgress& progress);

  Weight token_embedding;  // V x D, a table
  std::vector<LayerWeights> layers;
  Tensor output_norm;        // [1, D] f32
  StackedWeight output;      // D -> V
  Tensor inverse_frequency;  // [1, rope_size / 2] f32

  // What one step costs: elements of the layers' matrices, with which every token is multiplied, and of the output's,
  // which only tokens with logits reach; and bytes of all weights that a step reads in full (an embedding table that is
  // only looked up is neither).
  double layer_elements = 0;
  double output_elements = 0;
  double step_bytes = 0;

 private:
  class Loader;
  DeviceMemory memory_;
};

}  // namespace twostroke
