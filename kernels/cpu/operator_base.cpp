#include "kernels/cpu/operator_base.h"

#include <cstring>

#include "kernels/cpu/int8_rows.h"
#include "kernels/cpu/packed_weight.h"

namespace twostroke {
namespace {

void check_tensor(const Tensor& tensor, DType dtype) {
  CHECK(tensor.dtype == dtype && tensor.rows >= 0 && tensor.cols >= 0 && tensor.stride >= tensor.cols);
}

void check_list(const Tensor& tensor) {
  check_tensor(tensor, DType::kI32);
  CHECK(tensor.rows == 1, "a list of integers is one row");
}

void check_same_shape(const Tensor& a, const Tensor& b) { CHECK(a.rows == b.rows && a.cols == b.cols); }

// Some form of [rows, k].
void check_activations(const Activations& activations, int64_t rows, int64_t k) {
  CHECK(activations.has_f32() || activations.has_int8(), "activations in some form");
  if (activations.has_f32()) {
    check_tensor(activations.f32, DType::kF32);
    CHECK(activations.f32.rows == rows && activations.f32.cols == k);
  }
  if (activations.has_int8()) {
    CHECK(activations.int8.rows == rows && activations.int8.k == k);
    CHECK(activations.int8.row_bytes == int8_format(k).row_bytes, "rows as int8_row_bytes() says");
  }
}

void check_cache(const KvCache& cache, int32_t layer) {
  CHECK(cache.dtype == DType::kF16 || cache.dtype == DType::kF32 || cache.dtype == DType::kI8);
  CHECK(0 <= layer && layer < cache.layers);
  CHECK(cache.blocks > 0 && cache.kv_heads > 0 && cache.block_size > 0 && cache.head_size > 0);
}

void check_rows(const StepRows& rows, int64_t tokens) {
  check_tensor(rows.segments_device, DType::kI32);
  CHECK(rows.segments_device.rows == static_cast<int64_t>(rows.segments.size()) && rows.segments_device.cols == 4);
  check_list(rows.block_tables);
  check_list(rows.positions);
  check_list(rows.row_of_token);
  CHECK(rows.positions.cols == tokens && rows.row_of_token.cols == tokens);
  for (const RowSegment& segment : rows.segments) {
    CHECK(segment.token_begin >= 0 && segment.token_count >= 0 && segment.position >= 0 && segment.block_begin >= 0);
    CHECK(int64_t{segment.token_begin} + segment.token_count <= tokens);
  }
}

}  // namespace

size_t CpuOperators::weight_bytes(const WeightShape& shape) const { return packed_bytes(shape); }

void CpuOperators::store_weight(const Weight& weight, const HostWeightRows& rows) {
  pack_rows(weight.shape, bytes_at(weight.data), rows);
}

size_t CpuOperators::int8_row_bytes(int64_t k) const { return int8_format(k).row_bytes; }

void CpuOperators::embed(Tensor out, const Weight& table, Tensor tokens) {
  check_tensor(out, DType::kF32);
  check_list(tokens);
  CHECK(out.rows == tokens.cols && out.cols == table.shape.k);
  pool().run(out.rows, [&](int64_t t, int) {
    const int32_t token = row_pointer<const int32_t>(tokens, 0)[t];
    CHECK(0 <= token && token < table.shape.n, "a token outside the vocabulary");
    unpack_row(table.shape, bytes_at(table.data), token, {row_pointer<float>(out, t), static_cast<size_t>(out.cols)});
  });
}

void CpuOperators::gather_rows(Tensor out, Tensor in, Tensor indices) {
  check_tensor(out, DType::kF32);
  check_tensor(in, DType::kF32);
  check_list(indices);
  CHECK(out.rows == indices.cols && out.cols == in.cols);
  for (int64_t i = 0; i < out.rows; ++i) {
    const int32_t index = row_pointer<const int32_t>(indices, 0)[i];
    CHECK(0 <= index && index < in.rows, "a row outside the tensor");
    std::memcpy(row_pointer<float>(out, i), row_pointer<const float>(in, index),
                static_cast<size_t>(out.cols) * sizeof(float));
  }
}

void CpuOperators::copy_blocks(const KvCache& cache, Tensor pairs) {
  check_cache(cache, 0);
  check_tensor(pairs, DType::kI32);
  CHECK(pairs.cols == 2);
  const size_t bytes = cache.block_bytes();
  // Layers share nothing, so they may run at once; within one, later pairs see what earlier ones wrote.
  pool().run(cache.layers, [&](int64_t layer, int) {
    std::byte* blocks = bytes_at(cache.data) + static_cast<size_t>(layer) * static_cast<size_t>(cache.blocks) * bytes;
    for (int64_t i = 0; i < pairs.rows; ++i) {
      const int32_t* pair = row_pointer<const int32_t>(pairs, i);
      CHECK(0 <= pair[0] && pair[0] < cache.blocks && 0 <= pair[1] && pair[1] < cache.blocks);
      if (pair[0] == pair[1]) continue;
      std::memcpy(blocks + static_cast<size_t>(pair[1]) * bytes, blocks + static_cast<size_t>(pair[0]) * bytes, bytes);
    }
  });
}

void check_quantise(const Activations& activations) {
  CHECK(activations.has_f32() && activations.has_int8());
  check_activations(activations, activations.f32.rows, activations.f32.cols);
}

void check_rms_norm(const Activations& out, const Tensor& in, const Tensor& scale) {
  check_tensor(in, DType::kF32);
  check_tensor(scale, DType::kF32);
  check_activations(out, in.rows, in.cols);
  CHECK(scale.rows == 1 && scale.cols == in.cols && in.cols > 0);
}

bool reads_int8(const Activations& in, const Weight& weight) { return in.has_int8() && weight.shape.group > 0; }

void check_matmul(const Tensor& out, const Activations& in, const Weight& weight) {
  check_tensor(out, DType::kF32);
  check_activations(in, out.rows, weight.shape.k);
  CHECK(reads_int8(in, weight) || in.has_f32(), "weights of plain numbers read f32 activations");
  CHECK(out.cols == weight.shape.n);
}

void check_rotate_and_store(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& inverse_frequency,
                            const KvCache& cache, int32_t layer, const StepRows& rows) {
  check_cache(cache, layer);
  check_tensor(q, DType::kF32);
  check_tensor(k, DType::kF32);
  check_tensor(v, DType::kF32);
  check_tensor(inverse_frequency, DType::kF32);
  check_same_shape(k, v);
  CHECK(k.cols == int64_t{cache.kv_heads} * cache.head_size);
  CHECK(q.rows == k.rows && q.cols > 0 && q.cols % cache.head_size == 0);
  CHECK(inverse_frequency.rows == 1 && inverse_frequency.cols * 2 <= cache.head_size);
  check_rows(rows, q.rows);
}

void check_attention(const Tensor& out, const Tensor& q, const KvCache& cache, int32_t layer, const StepRows& rows) {
  check_cache(cache, layer);
  check_tensor(out, DType::kF32);
  check_tensor(q, DType::kF32);
  check_same_shape(out, q);
  CHECK(q.cols > 0 && q.cols % (int64_t{cache.kv_heads} * cache.head_size) == 0,
        "query heads must be a multiple of the key/value heads");
  check_rows(rows, q.rows);
}

void check_silu_gate(const Activations& out, const Tensor& gate, const Tensor& up) {
  check_tensor(gate, DType::kF32);
  check_tensor(up, DType::kF32);
  check_same_shape(gate, up);
  check_activations(out, gate.rows, gate.cols);
}

int32_t block_of(const KvCache& cache, const StepRows& rows, const RowSegment& segment, int32_t position) {
  const int64_t index = int64_t{segment.block_begin} + position / cache.block_size;
  CHECK(index < rows.block_tables.cols, "a position beyond the row's block table");
  const int32_t block = row_pointer<const int32_t>(rows.block_tables, 0)[index];
  CHECK(0 <= block && block < cache.blocks, "a block outside the cache");
  return block;
}

}  // namespace twostroke
