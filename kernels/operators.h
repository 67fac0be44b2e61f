// Operators: the table of kernels over which the transformer is written once.
//
// An operator set belongs to a device and enqueues on its queue (device.h): a call may return before the operator has
// run. All arguments are values or device tensors, copied at the call; spans over host memory must stay valid until the
// device's next wait(). Shapes are the caller's duty: an operator CHECKs them, since no user input decides them.
//
// Determinism, which tests rely on: what an operator computes for one row depends on that row alone. It is the same
// bits whatever other rows share the call, however many rows there are, and however many threads run it.
//
// Notation: T tokens (matrix rows) in the step, R rows (one sequence's slice each), D embedding size, H query heads,
// G key/value heads, S head size. Row-major, f32 unless said.
//
// Thread-safety: one user at a time (the step thread).
#pragma once

#include <cstdint>
#include <span>

#include "kernels/activations.h"
#include "kernels/device.h"
#include "kernels/tensor.h"
#include "kernels/weights.h"

namespace twostroke {

// Bytes of a key or a value of one head, `size` numbers, in a cache of this type: kF32, kF16, or kI8. With kI8 a vector
// is codes c in [-127, 127] and one scale d, a half: its numbers are d * c, with d = max |x| / 127 before rounding. So
// a number is off by at most max |x| / 250, or 4e-6 where max |x| is below 0.008, since such a scale has fewer bits;
// vectors with numbers beyond 8 million become NaN.
constexpr size_t kv_vector_bytes(DType dtype, int32_t size) {
  return static_cast<size_t>(size) * dtype_bytes(dtype) + (dtype == DType::kI8 ? 2 : 0);
}

// The paged key/value cache of all layers. Position p of a sequence lies in block block_table[p / block_size] at offset
// p % block_size. Block b of a layer begins at (layer * blocks + b) * block_bytes() and holds the 2 * G * block_size
// vectors of its positions; how they lie in it is the operator set's own business. Keys are stored rotated.
struct KvCache {
  DeviceAddress data;
  DType dtype = DType::kF16;  // kF32, kF16, kI8
  int32_t layers = 0;
  int32_t blocks = 0;
  int32_t kv_heads = 0;
  int32_t block_size = 0;
  int32_t head_size = 0;

  size_t block_bytes() const {
    return size_t{2} * size_t(kv_heads) * size_t(block_size) * kv_vector_bytes(dtype, head_size);
  }
  size_t bytes() const { return size_t(layers) * size_t(blocks) * block_bytes(); }
};

// One row of the step: a sequence's slice of `token_count` consecutive tokens.
struct RowSegment {
  int32_t token_begin = 0;  // index of its first token among the step's T tokens
  int32_t token_count = 0;
  int32_t position = 0;     // of its first token in the sequence; it attends to [0, position + i] for its i-th token
  int32_t block_begin = 0;  // index of its block table's first entry in `block_tables`
};
static_assert(sizeof(RowSegment) == 16);

// What the attention operators know of the step. `segments` is for planning work at the call; the two tensors hold the
// same facts in the device's memory, for use when the operator runs.
struct StepRows {
  std::span<const RowSegment> segments;  // [R], host
  Tensor segments_device;                // kI32 [R, 4]: the fields of RowSegment
  Tensor block_tables;                   // kI32 [1, sum of table lengths]
  Tensor positions;                      // kI32 [1, T]: each token's position
  Tensor row_of_token;                   // kI32 [1, T]: each token's row
};

class Operators {
 public:
  virtual ~Operators() = default;

  virtual Device& device() = 0;

  // Bytes that the set needs to store a weight of this shape.
  virtual size_t weight_bytes(const WeightShape& shape) const = 0;
  // Packs some rows into `weight`, whose data has weight_bytes() bytes. Every row is stored exactly once before first
  // use, in ascending order of row_begin. Copies what it needs before it returns. Rows of different weights may be
  // stored from different threads at once (load only, before any other operator is enqueued).
  virtual void store_weight(const Weight& weight, const HostWeightRows& rows) = 0;

  // out[t] = table[tokens[t]].                           tokens kI32 [1, T]; table n = vocabulary, k = D; out [T, D]
  virtual void embed(Tensor out, const Weight& table, Tensor tokens) = 0;

  // Bytes that the set needs for one row of k quantised activations.
  virtual size_t int8_row_bytes(int64_t k) const = 0;

  // Operators that give activations write each form that `out` has; which forms there are does not change what is in
  // them.

  // Quantises activations.f32 into activations.int8 (activations.h); both are there.
  virtual void quantise(const Activations& activations) = 0;

  // out[t] = in[t] / sqrt(mean(in[t]^2) + epsilon) * scale.   in, out [T, D]; scale [1, D]. out.f32 may be in.
  // (Root Mean Square Layer Normalization, arXiv:1910.07467)
  virtual void rms_norm(const Activations& out, Tensor in, Tensor scale, float epsilon) = 0;

  // out[t] = W in[t], or out[t] += W in[t] with `accumulate`.   in [T, k]; out [T, n]
  // Weights of codes read in.int8 if it is there; all others, and they otherwise, read in.f32.
  virtual void matmul(Tensor out, const Activations& in, const Weight& weight, bool accumulate) = 0;

  // Rotates queries in place and keys on their way into the cache, and stores the values (RoFormer, arXiv:2104.09864).
  // The pair (2i, 2i+1) of a head, for i < rope_size / 2, turns by position * inverse_frequency[i]; the rest passes
  // through. q [T, H*S]; k, v [T, G*S]; inverse_frequency [1, rope_size / 2].
  virtual void rotate_and_store(Tensor q, Tensor k, Tensor v, Tensor inverse_frequency, const KvCache& cache,
                                int32_t layer, const StepRows& rows) = 0;

  // Causal attention of every token over its sequence's cached positions [0, its own]:
  // out[t, h] = sum_p softmax_p(q[t, h] . K[p, h * G / H] / sqrt(S)) V[p, h * G / H].     q, out [T, H*S]
  // Positions are taken together in a way that depends on their numbers alone, so that a chunk's boundaries do not
  // show.
  virtual void attention(Tensor out, Tensor q, const KvCache& cache, int32_t layer, const StepRows& rows) = 0;

  // out[t] = gate[t] * sigmoid(gate[t]) * up[t].     all [T, F]; out.f32 may be gate. (GLU variants, arXiv:2002.05202)
  virtual void silu_gate(const Activations& out, Tensor gate, Tensor up) = 0;

  // out[i] = in[indices[i]].                             indices kI32 [1, M]; in [T, D]; out [M, D]
  virtual void gather_rows(Tensor out, Tensor in, Tensor indices) = 0;

  // Copies whole blocks, all layers, in order: pairs kI32 [M, 2] of (source, target).
  virtual void copy_blocks(const KvCache& cache, Tensor pairs) = 0;
};

}  // namespace twostroke
