// ScalarOperators: the reference set. Every operator as its formula reads; sums, softmax and angles in double.
//
// Thread-safety: as in operators.h.
#pragma once

#include "kernels/cpu/operator_base.h"

namespace twostroke {

class ScalarOperators final : public CpuOperators {
 public:
  using CpuOperators::CpuOperators;

  void quantise(const Activations& activations) override;
  void rms_norm(const Activations& out, Tensor in, Tensor scale, float epsilon) override;
  void matmul(Tensor out, const Activations& in, const Weight& weight, bool accumulate) override;
  void rotate_and_store(Tensor q, Tensor k, Tensor v, Tensor inverse_frequency, const KvCache& cache, int32_t layer,
                        const StepRows& rows) override;
  void attention(Tensor out, Tensor q, const KvCache& cache, int32_t layer, const StepRows& rows) override;
  void silu_gate(const Activations& out, Tensor gate, Tensor up) override;
};

}  // namespace twostroke
