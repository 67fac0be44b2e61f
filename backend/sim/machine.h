// What a step would cost on a machine that is not there: a roofline (Williams, Waterman, Patterson: Roofline, CACM
// 2009).
//
// For a step of T tokens, whose row i covers c_i positions when it is done (its context), and whose tokens attend to A
// positions in all (a token at position p attends to p + 1):
//
//   flops   = T * flops_per_token + L * output_flops + A * attention_flops_per_position
//             where L of the tokens need logits: those that are sampled behind, drafts included, and prompt tokens that
//             are scored
//   bytes   = weight_bytes + kv_bytes_per_token * (sum of c_i + T)       weights once; KV read once per row, and
//   written
//           + kv_bytes_per_token * block_size * 2 * block copies         a copied block is read and written
//   seconds = step_overhead + max(flops / (peak_flops * compute_efficiency),
//                                 bytes / (peak_bytes_per_second * memory_efficiency))
//
// So decodes cost little arithmetic and one pass over the weights, and prefill chunks ride along almost free of charge
// until the step reaches the machine's ridge: what the engine's planning is about. So do drafts.
#pragma once

#include <cstdint>
#include <string>

#include "backend/backend.h"
#include "kernels/clock.h"
#include "kernels/status.h"

namespace twostroke {

struct SimMachine {
  std::string name = "sim";
  double peak_flops = 1e12;             // FLOP/s
  double peak_bytes_per_second = 1e11;  // of the memory that holds weights and KV
  double compute_efficiency = 0.6;      // (0, 1]: what part of each peak a real kernel reaches
  double memory_efficiency = 0.8;
  TimeNs step_overhead_ns = 20'000;  // launches, synchronisation, sampling

  // OK, or which number is impossible.
  Status validate() const;
};

// What a step does, in the roofline's terms.
struct StepWork {
  uint64_t tokens = 0;              // T
  uint64_t logit_tokens = 0;        // L
  uint64_t context = 0;             // sum of c_i
  uint64_t attended_positions = 0;  // A
  uint64_t block_copies = 0;

  static StepWork of(const StepPlan& plan);
};

struct StepCost {
  double compute_seconds = 0;
  double memory_seconds = 0;
  TimeNs total_ns = 0;  // overhead and the greater of both
};

// `info` gives the model's costs (flops_per_token to kv_bytes_per_token) and block_size.
StepCost step_cost(const SimMachine& machine, const BackendInfo& info, const StepWork& work);

}  // namespace twostroke
