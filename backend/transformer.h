// Transformer: the Llama family's forward pass, written once over an operator set.
//
// enqueue() turns a step into operators on the device's queue: all rows, decodes and prefill chunks alike, go through
// one pass as a single matrix of T tokens. Only what will be sampled goes through the output product. Nothing here
// reads or writes device memory: a GPU, or a test whose memory the host cannot touch, runs this very code.
//
// Which tensors there are, and the formulas, is in model_config.h; the shapes of a step:
//   hidden [T, D] -> query, key, value [T, H*S + 2*G*S] -> attended [T, H*S] -> hidden -> gate, up [T, 2*F] -> hidden
//   -> of the M tokens that are sampled behind [M, D] -> logits [M, V]
// The last line is taken again for prompt tokens that are scored or pooled, M of them at a time: so these need no more
// device memory than sampling does, whatever a prompt's length.
//
// Ownership: owns the weights, the KV cache, the activations, and the host memory that copies use; the operator set
// and its device must outlive it. Thread-safety: step thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/gguf.h"
#include "backend/model_config.h"
#include "backend/model_weights.h"
#include "backend/step.h"
#include "kernels/operators.h"
#include "kernels/status.h"

namespace twostroke {

// What the memory is sized for. All at least 1, but for step_drafts_max.
struct TransformerLimits {
  int32_t block_size = 16;                             // positions in a KV block
  int32_t block_count = 1;                             // KV blocks
  DType kv_dtype = DType::kF16;                        // kF32, kF16 or kI8
  ActivationType activations = ActivationType::kInt8;  // of products with coded weights
  int32_t context_max = 1;                             // tokens of a sequence
  int32_t step_tokens_max = 512;                       // tokens of a step
  int32_t step_rows_max = 64;                          // rows of a step
  int32_t step_drafts_max = 0;                         // drafts of a step; 0: its rows have none
};

// Bytes of KV memory that `tokens` tokens take.
size_t kv_bytes(const ModelConfig& config, DType kv_dtype, int64_t tokens);

class Transformer {
 public:
  // Loads the weights and allocates everything else. `config` was read from `file`, which may go afterwards.
  // Errors: those of ModelWeights::load(), and kResourceExhausted naming what did not fit.
  static Result<std::unique_ptr<Transformer>> load(const GgufFile& file, const ModelConfig& config,
                                                   Operators& operators, const TransformerLimits& limits,
                                                   int load_threads, const LoadProgress& progress);

  // Enqueues the step. `plan` stays unchanged until the device's wait(); only then may the next step be enqueued.
  // Requires a plan within the limits, whose tables cover every position that it names (CHECKed).
  void enqueue(const StepPlan& plan);

  // The logits [count, V] behind tokens that are sampled behind, from the `first` of them on: in the order of rows, of
  // each sampling row the last token that is no draft, and its drafts. Valid from the device's wait() to the next
  // enqueue().
  std::span<const float> logits(size_t first, size_t count) const;

  // The end of the pass for more tokens of the step than those that sample: prompt tokens whose logits or states
  // (behind the last norm) are wanted. Enqueue them a slice at a time, each after the device's wait() for what was
  // before, until the next enqueue(). `tokens` are indices into plan.tokens, 1 to tail_tokens_max() of them, in rows
  // with targets or pooling; `logits` is [tokens, V], `states` [tokens, D]; all of it is used until the device's next
  // wait(). The same bits come out as for a token that samples.
  void enqueue_logits(std::span<const int32_t> tokens, std::span<float> logits);
  void enqueue_states(std::span<const int32_t> tokens, std::span<float> states);
  size_t tail_tokens_max() const { return static_cast<size_t>(buffers_.sampled_tokens.cols); }

  const ModelWeights& weights() const { return weights_; }

 private:
  // Activations, and the step's description in device memory. Sized for the limits; a step uses the first rows.
  struct Buffers {
    Tensor hidden;            // [T, D] f32
    Tensor normed;            // [T, D] f32
    Tensor query_key_value;   // [T, H*S + 2*G*S] f32
    Tensor attended;          // [T, H*S] f32
    Tensor gate_up;           // [T, 2*F] f32
    Tensor int8;              // [T, int8_row_bytes / 4 of the widest]: the quantised input of the next product
    Tensor sampled_hidden;    // [M, D] f32
    Tensor sampled_attended;  // [M, H*S] f32
    Tensor logits;            // [M, V] f32
    Tensor tokens;            // [1, T] i32
    Tensor positions;         // [1, T] i32
    Tensor row_of_token;      // [1, T] i32
    Tensor segments;          // [R, 4] i32
    Tensor block_tables;      // [1, R * blocks of a sequence] i32
    Tensor sampled_tokens;    // [1, M] i32: indices of the tokens that are sampled behind
    Tensor copies;            // [blocks, 2] i32
  };

  Transformer(const ModelConfig& config, Operators& operators, const TransformerLimits& limits);
  Status allocate();
  void describe(const StepPlan& plan);
  StepRows upload_rows(const StepPlan& plan);
  void copy_blocks(const StepPlan& plan);
  void enqueue_layers(const StepPlan& plan, const StepRows& rows);
  void enqueue_feed_forward(const LayerWeights& layer, Tensor hidden);
  Tensor enqueue_tail(std::span<const int32_t> tokens);
  void enqueue_attention_output(const LayerWeights& layer, Tensor hidden, Tensor attended);
  void enqueue_output(Tensor hidden, std::span<float> logits);
  Tensor upload(Tensor target, const void* source, int64_t rows, int64_t cols);
  Activations input_of(const StackedWeight& weight, Tensor f32) const;
  void multiply(Tensor out, const Activations& in, const StackedWeight& weight, bool accumulate);

  const ModelConfig config_;
  const TransformerLimits limits_;
  Operators& operators_;
  ModelWeights weights_;
  DeviceMemory cache_memory_;
  KvCache cache_;
  DeviceMemory buffer_memory_;
  Buffers buffers_;

  // The step in flight, on the host.
  std::vector<int32_t> positions_;       // [T]
  std::vector<int32_t> row_of_token_;    // [T]
  std::vector<RowSegment> segments_;     // [R]
  std::vector<int32_t> sampled_tokens_;  // [M]
  int64_t tail_tokens_ = 0;              // T of a step some of whose rows have targets or pool; 0 otherwise
  std::unique_ptr<float[]> logits_;      // [M, V]; not touched before use, as the device's memory
};

}  // namespace twostroke
