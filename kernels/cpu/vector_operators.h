// VectorOperators: the fast CPU operators over a table of inner loops (vector_kernels.h). What is here is the same for
// every instruction set: how work is cut into tasks and blocked for the caches.
//
// How each operator keeps the rule that a row's bits depend on that row alone: every output element is one chain of
// additions in ascending order of k, and cutting the work never cuts a chain into parts that are added later. Attention
// has parts that are added later, at fixed positions (vector_attention.cpp).
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
      : CpuOperators(device),
        kernels_(kernels),
        row_scratch_(static_cast<size_t>(device.pool().threads())),
        half_scratch_(static_cast<size_t>(device.pool().threads())),
        attention_scratch_(static_cast<size_t>(device.pool().threads())) {}

  void quantise(const Activations& activations) override;
  void rms_norm(const Activations& out, Tensor in, Tensor scale, float epsilon) override;
  void matmul(Tensor out, const Activations& in, const Weight& weight, bool accumulate) override;
  void rotate_and_store(Tensor q, Tensor k, Tensor v, Tensor inverse_frequency, const KvCache& cache, int32_t layer,
                        const StepRows& rows) override;
  void attention(Tensor out, Tensor q, const KvCache& cache, int32_t layer, const StepRows& rows) override;
  void silu_gate(const Activations& out, Tensor gate, Tensor up) override;

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
  struct AttentionUnit {
    int32_t row = 0;
    int32_t token_begin = 0;  // within the row
    int32_t token_count = 0;
    int32_t kv_head = 0;
    int32_t context = 0;     // positions that the last token sees
    int32_t spans = 0;       // of those
    bool split = false;      // among several tasks
    int32_t spans_left = 0;  // of a split unit: not done yet
    size_t parts_begin = 0;  // of a split unit: its spans' parts in attention_parts_
  };
  struct AttentionTask {
    size_t unit = 0;
    int32_t span_begin = 0;
    int32_t span_end = 0;
    int64_t cost = 0;
  };
  struct AttentionPart {
    float* sums;     // [rows, padded_size]
    float* maxima;   // [rows]
    float* weights;  // [rows]
  };
  struct AttentionCall {
    const Tensor& out;
    const Tensor& q;
    const KvCache& cache;
    int32_t layer;
    const StepRows& rows;
    int32_t heads;  // query heads of a key/value head
    int32_t padded_size;
  };
  struct AttentionScratch {
    std::vector<float> queries;
    std::vector<float> keys;
    std::vector<float> values;
    std::vector<float> total;
    std::vector<float> part;
    std::vector<std::byte> gathered;  // of blocks that are not whole slices
  };

  template <typename Body>
  void run_over_rows(int64_t rows, int64_t row_elements, Body&& body);
  template <typename Compute>
  void make_activations(const Activations& out, Compute&& compute);
  void matmul_codes(const Tensor& out, const Int8Rows& in, const Weight& weight, bool accumulate);
  void matmul_few_rows(const Tensor& out, const Tensor& in, const Weight& weight, bool accumulate);
  void matmul_rows(const Tensor& out, const Tensor& in, const Weight& weight, bool accumulate);
  void multiply_panel(const PanelFormat& format, const std::byte* panel, const Tensor& in, float* sums);
  void update_angles(const Tensor& positions, const Tensor& inverse_frequency);
  void plan_attention(const StepRows& rows, int32_t heads, const KvCache& cache);
  void run_attention_task(const AttentionCall& call, const AttentionTask& task, AttentionScratch& scratch);
  void attend_span(const AttentionCall& call, const AttentionUnit& unit, int32_t span, const AttentionPart& part,
                   AttentionScratch& scratch);
  void fold_part(const AttentionCall& call, int32_t rows, const AttentionPart& part, const AttentionPart& total);
  static size_t part_floats(int32_t rows, int32_t head_size);
  static AttentionPart part_at(float* memory, int32_t rows, int32_t padded_size);
  static PositionTile find_tile(const AttentionCall& call, const AttentionUnit& unit, int32_t base, int32_t count);
  static PositionTile gather_tile(const AttentionCall& call, const AttentionUnit& unit, int32_t base, int32_t count,
                                  AttentionScratch& scratch);
  static void prefetch_tile(const PositionTile& tile, const KvCache& cache);

  const VectorKernels& kernels_;
  Angles angles_;
  std::vector<std::vector<float>> row_scratch_;      // by thread
  std::vector<std::vector<uint16_t>> half_scratch_;  // by thread: a key and a value as halves
  std::vector<AttentionUnit> attention_units_;
  std::vector<AttentionTask> attention_tasks_;
  std::vector<float> attention_parts_;               // of split units
  std::vector<AttentionScratch> attention_scratch_;  // by thread
};

}  // namespace twostroke
