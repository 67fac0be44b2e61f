// Backend: whatever can execute a step. It owns the weights and the KV memory; it knows no queues, policies or text.
//
// This is the C++ face of the step-level seam. A third party plugs in below it through the C ABI in plugin.h, which
// load_plugin() (plugin_backend.h) wraps in this class. In-tree: cpu/ and sim/.
//
// Protocol: submit() starts a step and may return before it has run; wait() blocks until that step is done. Exactly one
// step is in flight at a time, and blocks that a step touches are not reused before its wait() returned.
// Masks: a row's mask has its place and size at submit(); its bits are there when wait() is called, not before, so that
// they can be computed while the step runs. A backend reads them in wait() only. One that needs them at submit() leaves
// BackendInfo::late_masks false and gets them then.
// Thread-safety: submit() and wait() from one thread at a time (a calibration's, then the step thread); info() from any.
// Errors: a row that cannot be sampled has a status of its own in the result. A Status other than OK from submit() or
// wait() means that the whole step is lost: the engine fails that step's requests. kUnavailable means that the backend
// is dead for good; every other code means that the next step may be tried.
#pragma once

#include <cstdint>
#include <string>

#include "backend/step.h"
#include "kernels/status.h"

namespace twostroke {

struct BackendInfo {
  std::string name;  // "cpu (avx2, 2 threads)"
  int32_t vocab_size = 0;
  int32_t context_max = 0;      // tokens of one sequence, prompt and output together
  int32_t block_size = 0;       // positions in a KV block
  int32_t block_count = 0;      // KV blocks that exist
  int32_t step_tokens_max = 0;  // tokens that one step may carry
  int32_t step_rows_max = 0;    // rows that one step may carry
  // The model's cost, for phase accounting; 0 where a backend does not know.
  double flops_per_token = 0;  // of the layers' matrix products, attention aside
  double output_flops = 0;     // of the output product, for each token whose logits are needed (StepCounts)
  double attention_flops_per_position = 0;  // of one token, for each position that it attends to, all layers together:
                                            // scores and weighted values, 4 * layers * heads * head size
  double weight_bytes = 0;                  // read once per step
  double kv_bytes_per_token = 0;            // written for each token, read for each token of context
  // What the machine can do at most, measured or known; 0: unknown. Utilisation is a share of these.
  double peak_flops = 0;             // FLOP/s of the arithmetic that its matrix products use
  double peak_bytes_per_second = 0;  // read from the memory that holds weights and KV
  // What it can do beyond sampling. Requests that need what is missing are refused.
  int32_t embedding_size = 0;   // numbers of a hidden state; 0: rows cannot pool
  bool scores_targets = false;  // rows may have targets, and the rank of sampled tokens is known
  bool late_masks = false;      // masks may be filled until wait() is called
  int32_t step_drafts_max = 0;  // drafts that the rows of one step may carry, all together; 0: rows have none
  bool imports_kv = false;      // rows may come with keys and values that were computed elsewhere (Row::imported)
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const BackendInfo& info() const = 0;
  // `plan` stays unchanged until wait() returns.
  virtual Status submit(const StepPlan& plan) = 0;
  // Fills `result` (its memory is reused from step to step).
  virtual Status wait(StepResult& result) = 0;
};

}  // namespace twostroke
