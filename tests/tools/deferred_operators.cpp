#include "tests/tools/deferred_operators.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/cpu_operators.h"

namespace twostroke {
namespace {

bool same(const RowSegment& a, const RowSegment& b) {
  return a.token_begin == b.token_begin && a.token_count == b.token_count && a.position == b.position &&
         a.block_begin == b.block_begin;
}

class DeferredOperators final : public Operators {
 public:
  DeferredOperators(DeferredDevice& device, Isa isa)
      : device_(device), inner_(make_cpu_operators(device.inner(), isa)) {}

  Device& device() override { return device_; }

  size_t weight_bytes(const WeightShape& shape) const override { return inner_->weight_bytes(shape); }

  void store_weight(const Weight& weight, const HostWeightRows& rows) override {
    inner_->store_weight(resolve(weight), rows);
  }

  void embed(Tensor out, const Weight& table, Tensor tokens) override {
    device_.enqueue([=, this] { inner_->embed(resolve(out), resolve(table), resolve(tokens)); });
  }

  size_t int8_row_bytes(int64_t k) const override { return inner_->int8_row_bytes(k); }

  void quantise(const Activations& activations) override {
    device_.enqueue([=, this] { inner_->quantise(resolve(activations)); });
  }

  void rms_norm(const Activations& out, Tensor in, Tensor scale, float epsilon) override {
    device_.enqueue([=, this] { inner_->rms_norm(resolve(out), resolve(in), resolve(scale), epsilon); });
  }

  void matmul(Tensor out, const Activations& in, const Weight& weight, bool accumulate) override {
    device_.enqueue([=, this] { inner_->matmul(resolve(out), resolve(in), resolve(weight), accumulate); });
  }

  void rotate_and_store(Tensor q, Tensor k, Tensor v, Tensor inverse_frequency, const KvCache& cache, int32_t layer,
                        const StepRows& rows) override {
    device_.enqueue([=, this, before = segments_of(rows)] {
      inner_->rotate_and_store(resolve(q), resolve(k), resolve(v), resolve(inverse_frequency), resolve(cache), layer,
                               resolve(rows, before));
    });
  }

  void attention(Tensor out, Tensor q, const KvCache& cache, int32_t layer, const StepRows& rows) override {
    device_.enqueue([=, this, before = segments_of(rows)] {
      inner_->attention(resolve(out), resolve(q), resolve(cache), layer, resolve(rows, before));
    });
  }

  void silu_gate(const Activations& out, Tensor gate, Tensor up) override {
    device_.enqueue([=, this] { inner_->silu_gate(resolve(out), resolve(gate), resolve(up)); });
  }

  void gather_rows(Tensor out, Tensor in, Tensor indices) override {
    device_.enqueue([=, this] { inner_->gather_rows(resolve(out), resolve(in), resolve(indices)); });
  }

  void copy_blocks(const KvCache& cache, Tensor pairs) override {
    device_.enqueue([=, this] { inner_->copy_blocks(resolve(cache), resolve(pairs)); });
  }

 private:
  static std::vector<RowSegment> segments_of(const StepRows& rows) {
    return {rows.segments.begin(), rows.segments.end()};
  }

  Tensor resolve(Tensor tensor) const {
    if (tensor.rows > 0 && tensor.cols > 0) {
      const auto elements = static_cast<size_t>((tensor.rows - 1) * tensor.stride + tensor.cols);
      tensor.data = device_.resolve(tensor.data, elements * dtype_bytes(tensor.dtype));
    }
    return tensor;
  }

  Activations resolve(Activations activations) const {
    if (activations.has_f32()) activations.f32 = resolve(activations.f32);
    if (activations.has_int8() && activations.int8.rows > 0) {
      activations.int8.data = device_.resolve(activations.int8.data,
                                              static_cast<size_t>(activations.int8.rows) * activations.int8.row_bytes);
    }
    return activations;
  }

  Weight resolve(Weight weight) const {
    weight.data = device_.resolve(weight.data, inner_->weight_bytes(weight.shape));
    return weight;
  }

  KvCache resolve(KvCache cache) const {
    cache.data = device_.resolve(cache.data, cache.bytes());
    return cache;
  }

  StepRows resolve(StepRows rows, const std::vector<RowSegment>& before) const {
    CHECK(std::ranges::equal(rows.segments, before, same), "the rows' segments changed before wait()");
    rows.segments_device = resolve(rows.segments_device);
    rows.block_tables = resolve(rows.block_tables);
    rows.positions = resolve(rows.positions);
    rows.row_of_token = resolve(rows.row_of_token);
    return rows;
  }

  DeferredDevice& device_;
  std::unique_ptr<Operators> inner_;
};

}  // namespace

std::unique_ptr<Operators> make_deferred_operators(DeferredDevice& device, Isa isa) {
  return std::make_unique<DeferredOperators>(device, isa);
}

}  // namespace twostroke
