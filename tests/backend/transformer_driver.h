// TransformerDriver: runs sequences through a transformer by a plain schedule of its own, and keeps the logits. What
// the scheduler does with queues and budgets is not needed to test numbers.
//
// Thread-safety: one user at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/transformer.h"
#include "kernels/cpu/cpu_operators.h"

namespace twostroke {

// A sequence: its prompt, how many tokens to add, and what came of it.
struct Stream {
  std::vector<TokenId> tokens;             // the prompt; grows
  size_t output_count = 1;                 // tokens to add; the last is chosen but not computed
  std::vector<TokenId> forced;             // when not empty: the tokens to add, whatever the model would choose
  std::vector<TokenId> greedy;             // [output_count]: what the model would choose at each place
  std::vector<std::vector<float>> logits;  // [output_count][vocab]
};

class TransformerDriver {
 public:
  struct Options {
    DType kv_dtype = DType::kF16;
    ActivationType activations = ActivationType::kInt8;
    int32_t block_size = 16;
    int32_t block_count = 512;
    int32_t context_max = 2048;
    int32_t step_tokens_max = 2048;
    int32_t step_rows_max = 64;
  };

  // Loads `model_path`; a failure ends the program with its message.
  TransformerDriver(const std::string& model_path, Operators& operators, const Options& options);

  // Runs all streams to their end, together: each step has a row of every stream that still computes, one token of
  // those that are past their prompt and at most `chunk` tokens of the others, as far as step_tokens_max allows.
  void run(std::span<Stream> streams, size_t chunk);

  const ModelConfig& config() const { return config_; }
  Transformer& transformer() { return *transformer_; }

 private:
  const Options options_;
  Operators& operators_;
  ModelConfig config_;
  std::unique_ptr<Transformer> transformer_;
};

// A CPU operator set with its device.
class CpuSet {
 public:
  explicit CpuSet(int threads = 1, Isa isa = best_isa())
      : device_(threads), operators_(make_cpu_operators(device_, isa)) {}
  Operators& operators() { return *operators_; }

 private:
  CpuDevice device_;
  std::unique_ptr<Operators> operators_;
};

}  // namespace twostroke
