// VectorOperators: the fast CPU operators over a table of inner loops (vector_kernels.h). What is here is the same for
// every instruction set: how work is cut into tasks and blocked for the caches.
//
// How each operator keeps the rule that a row's bits depend on that row alone: every output element is one chain of
// additions in ascending order (of k, or of position in tiles that start at multiples of kTilePositions), and cutting
// the work never cuts a chain into parts that are added later.
//
// Thread-safety: as in operators.h.
#pragma once

#include <vector>

#include "kernels/cpu/operator_base.h"
#include "kernels/cpu/vector_kernels.h"

namespace twostroke {

class VectorOperators final : public CpuOperators {
 public:
  VectorOperators(CpuDevice& device, const VectorKernels& kernels)
      : CpuOperators(device), kernels_(kernels), attention_scratch_(static_cast<size_t>(device.pool().threads())) {}

  void rms_norm(Tensor out, Tensor in, Tensor scale, float epsilon) override;
  void matmul(Tensor out, Tensor in, const Weight& weight, bool accumulate) override;
  void rotate_and_store(Tensor q, Tensor k, Tensor v, Tensor inverse_frequency, const KvCache& cache, int32_t layer,
                        const StepRows& rows) override;
  void attention(Tensor out, Tensor q, const KvCache& cache, int32_t layer, const StepRows& rows) override;
  void silu_gate(Tensor out, Tensor gate, Tensor up) override;

 private:
  // Cosines and sines of the tokens of a step, in the form that VectorKernels::rotate takes. All layers of a step turn
  // by the same angles, so they are kept until positions or frequencies change.
  struct Angles {
    std::vector<int32_t> positions;
    std::vector<float> inverse_frequency;
    std::vector<float> cosine;  // [T, 2 * frequencies]
    std::vector<float> sine;    // likewise
  };

  // Some tokens of one row and one key/value head: they share every load of keys and values.
  struct AttentionTask {
    int32_t row = 0;
    int32_t token_begin = 0;  // within the row
    int32_t token_count = 0;
    int32_t kv_head = 0;
  };
  // Where the keys and values of some consecutive positions of one key/value head lie.
  struct PositionTile {
    int32_t count = 0;
    const void* keys[kTilePositions];
    const void* values[kTilePositions];
  };
  struct AttentionScratch {
    std::vector<float> queries;
    std::vector<float> keys;
    std::vector<float> values;
    std::vector<float> sums;
    std::vector<float> maxima;
    std::vector<float> weights;
  };

  template <typename Body>
  void run_over_rows(int64_t rows, int64_t row_elements, Body&& body);
  void matmul_few_rows(const Tensor& out, const Tensor& in, const Weight& weight, bool accumulate);
  void matmul_rows(const Tensor& out, const Tensor& in, const Weight& weight, bool accumulate);
  void multiply_panel(const PanelFormat& format, const std::byte* panel, const Tensor& in, float* sums);
  void update_angles(const Tensor& positions, const Tensor& inverse_frequency);
  void plan_attention(const StepRows& rows, int64_t heads_per_kv_head, int32_t kv_heads);
  static PositionTile find_positions(const KvCache& cache, int32_t layer, int32_t kv_head, const StepRows& rows,
                                     const RowSegment& segment, int32_t begin, int32_t end);
  void run_attention_task(const AttentionTask& task, AttentionScratch& scratch, const Tensor& out, const Tensor& q,
                          const KvCache& cache, int32_t layer, const StepRows& rows);

  const VectorKernels& kernels_;
  Angles angles_;
  std::vector<AttentionTask> attention_tasks_;
  std::vector<AttentionScratch> attention_scratch_;  // by thread
};

}  // namespace twostroke
