// CpuOperators: what the CPU's operator sets share. The operators that only move data are written here; the checks of
// shapes of all operators are, too, so that every set refuses the same mistakes.
//
// Thread-safety: as in operators.h.
#pragma once

#include <cstddef>

#include "kernels/cpu/cpu_device.h"
#include "kernels/operators.h"

namespace twostroke {

class CpuOperators : public Operators {
 public:
  explicit CpuOperators(CpuDevice& device) : device_(device) {}

  Device& device() override { return device_; }
  size_t weight_bytes(const WeightShape& shape) const override;
  void store_weight(const Weight& weight, const HostWeightRows& rows) override;
  size_t int8_row_bytes(int64_t k) const override;
  void embed(Tensor out, const Weight& table, Tensor tokens) override;
  void gather_rows(Tensor out, Tensor in, Tensor indices) override;
  void copy_blocks(const KvCache& cache, Tensor pairs) override;

 protected:
  WorkerPool& pool() { return device_.pool(); }

 private:
  CpuDevice& device_;
};

// The pointer behind a tensor's row. On this device an address is a pointer.
template <typename T>
T* row_pointer(const Tensor& tensor, int64_t row) {
  return reinterpret_cast<T*>(tensor.data.value) + row * tensor.stride;
}
inline std::byte* bytes_at(DeviceAddress address) { return reinterpret_cast<std::byte*>(address.value); }

// CHECKs of the shapes that operators.h states.
void check_quantise(const Activations& activations);
void check_rms_norm(const Activations& out, const Tensor& in, const Tensor& scale);
void check_matmul(const Tensor& out, const Activations& in, const Weight& weight);
void check_rotate_and_store(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& inverse_frequency,
                            const KvCache& cache, int32_t layer, const StepRows& rows);
void check_attention(const Tensor& out, const Tensor& q, const KvCache& cache, int32_t layer, const StepRows& rows);
void check_silu_gate(const Activations& out, const Tensor& gate, const Tensor& up);

// Whether the product reads the int8 form.
bool reads_int8(const Activations& in, const Weight& weight);

// The block of a row's position, CHECKed to lie in the cache.
int32_t block_of(const KvCache& cache, const StepRows& rows, const RowSegment& segment, int32_t position);

}  // namespace twostroke
