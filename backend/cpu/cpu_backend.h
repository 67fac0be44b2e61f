// CpuBackend: runs steps on this machine's processors. The default backend; it needs nothing but the model file.
//
// It joins the parts: a GGUF file, the transformer over the CPU's operator set, and samplers, one per thread, that
// share a step's rows (one row's drafts are sampled one after the other). submit() enqueues the step, which on this
// device runs it; wait() samples.
//
// Figures of info(), for phase accounting:
//   flops_per_token     2 * elements of all matrices of the layers
//   output_flops        2 * elements of the output matrix, which only tokens with logits reach
//   attention_flops_per_position  4 * layers * H * S: two products of one row each, with keys and with values
//   weight_bytes        the same matrices as they lie in memory
//   kv_bytes_per_token  2 * layers * G * bytes of a vector of S numbers, with its scale where it has one
//
// Thread-safety: as in backend.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/sampler.h"
#include "backend/transformer.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/cpu_operators.h"

namespace twostroke {

struct CpuBackendOptions {
  std::string model_path;          // a GGUF file
  int32_t threads = 0;             // 0: as many as this process may run on
  uint64_t kv_bytes = 1ull << 30;  // memory for KV blocks, taken as it is used; must hold context_max tokens
  int32_t block_count = 0;         // KV blocks; 0: as many as fit in kv_bytes
  int32_t block_size = 16;         // positions in a KV block
  DType kv_dtype = DType::kF16;    // kF32, kF16 or kI8
  ActivationType activations = ActivationType::kInt8;  // of products with coded weights
  int32_t context_max = 0;                             // tokens of a sequence at most; 0: the model's own limit
  int32_t step_tokens_max = 512;                       // tokens of a step at most
  int32_t step_rows_max = 64;                          // rows of a step at most
  int32_t step_drafts_max = 32;  // drafts of a step at most; each takes the memory of a row's logits. 0: none
  Isa isa = best_isa();          // the operator set
  bool measure_peaks = false;    // fills info()'s peaks: half a second and, meanwhile, as much memory as the KV blocks
                                 // may take (machine_peaks.h)
};

class CpuBackend final : public Backend {
 public:
  // Loads the model; `progress` may be empty. Errors: those of the model file (gguf.h, model_config.h);
  // kInvalidArgument for an option out of range or KV memory too small for one sequence, saying what to set, by the
  // option and by the server's flag; kResourceExhausted when memory or threads
  // cannot be had.
  static Result<std::unique_ptr<CpuBackend>> create(const CpuBackendOptions& options, const LoadProgress& progress);

  const BackendInfo& info() const override { return info_; }
  // CHECKs the plan against info(): the scheduler keeps to it.
  Status submit(const StepPlan& plan) override;
  Status wait(StepResult& result) override;

 private:
  explicit CpuBackend(int threads) : device_(threads) {}
  void sample_rows(const StepPlan& plan, StepResult& result);
  Status score_targets(const StepPlan& plan, StepResult& result);
  Status pool_rows(const StepPlan& plan, StepResult& result);

  BackendInfo info_;
  CpuDevice device_;
  std::unique_ptr<Operators> operators_;
  std::unique_ptr<Transformer> transformer_;
  std::vector<Sampler> samplers_;  // [threads]
  // Of the plan's rows that sample: its index, and which of the transformer's logits are the first of its own.
  struct SamplingRow {
    size_t row;
    size_t logits_begin;
  };
  std::vector<SamplingRow> sampling_rows_;

  // A token of a row behind which something beside a sample is wanted.
  struct TailToken {
    size_t row;
    uint32_t index;  // in the row
  };
  size_t next_slice(size_t begin, const StepPlan& plan);
  std::vector<TailToken> tail_;
  std::vector<int32_t> slice_;      // of tail_: indices into the plan's tokens
  std::vector<float> numbers_;      // [slice, V] logits or [slice, D] states; taken with the first that are wanted
  std::vector<uint8_t> unusable_;   // [slice]: its logits are not finite
  std::vector<double> sums_;        // [D]
  const StepPlan* plan_ = nullptr;  // the step in flight
};

}  // namespace twostroke
