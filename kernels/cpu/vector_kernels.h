// VectorKernels: the inner loops that a vector instruction set must provide; VectorOperators builds the operators on
// them. To add an instruction set: fill in this table in files of its own and add it to Isa.
//
// Plain pointers and plain data only: the files that implement it are compiled for that instruction set, so they may
// share no inline code with the rest of the program (the linker keeps one copy of such code, for everyone).
//
// Every function gives the same bits for a row however the caller splits rows and k into calls. Alignment is that of
// the element. Thread-safety: pure functions over the memory given.
#pragma once

#include "kernels/cpu/panel_format.h"

namespace twostroke {

enum : int32_t {
  kTileRows = 6,        // rows of multiply_tile: 6 x 16 sums fill the 16 registers of AVX2
  kTilePositions = 16,  // positions of the context that attend() takes at once
};

// `rows` queries against up to kTilePositions positions of one key/value head. Sizes in floats.
struct AttentionTile {
  int32_t rows;
  int32_t count;         // positions that all these rows see, in [1, kTilePositions]
  int32_t size;          // of a head
  int32_t padded_size;   // size rounded up to kPanelOutputs
  const float* queries;  // [rows, size], times 1 / sqrt(size)
  const float* keys;     // [size, kTilePositions], from load_keys
  const float* values;   // [kTilePositions, padded_size], from load_values
  float* sums;           // [rows, padded_size]: running sum of weight * value
  float* maxima;         // [rows]: running maximum of the scores, from -infinity
  float* weights;        // [rows]: running sum of the weights, relative to the maximum
};

struct VectorKernels {
  // Weights of one panel for k in [k_begin, k_begin + k_count) as floats: out [k_count, 16]. Both numbers are multiples
  // of the group.
  void (*expand)(const PanelFormat* format, const void* panel, int64_t k_begin, int64_t k_count, float* out);

  // sums[r, j] = fma(x[r, i], panel[i, j], sums[r, j]) for i ascending from 0 to k_count, j < 16, r < rows <=
  // kTileRows.
  void (*multiply_tile)(int32_t rows, const float* x, int64_t x_stride, const float* panel, int64_t panel_stride,
                        int64_t k_count, float* sums, int64_t sums_stride);

  // out[p, j] = the sum over all k for one row x: the bits of expand and multiply_tile from zero, without the detour
  // through memory. `panels` panels in a row.
  void (*multiply_vector)(const PanelFormat* format, const void* panel, int32_t panels, const float* x, int64_t k,
                          float* out);

  // out[i] = in[i] / sqrt(mean(in^2) + epsilon) * scale[i]; out may be in.
  void (*rms_norm)(float* out, const float* in, const float* scale, int64_t size, float epsilon);

  // out[i] = gate[i] * sigmoid(gate[i]) * up[i]; out may be gate.
  void (*silu_gate)(float* out, const float* gate, const float* up, int64_t size);

  // x[i] = x[i] * cosine[i] + x[i ^ 1] * sine[i]; size is even.
  void (*rotate)(float* x, const float* cosine, const float* sine, int64_t size);

  // Rounded to nearest even.
  void (*to_half)(uint16_t* out, const float* in, int64_t size);

  // rows[j] points to `size` elements (halves or floats) of position j, for j < count <= kTilePositions. Keys come out
  // transposed, [size, kTilePositions], with zeros from `count` on; values as [count, padded_size], zero from size on.
  void (*load_keys)(const void* const* rows, bool half, int32_t count, int32_t size, float* out);
  void (*load_values)(const void* const* rows, bool half, int32_t count, int32_t size, int32_t padded_size, float* out);

  // One step of the running softmax (arXiv:1805.02867) for every row.
  void (*attend)(const AttentionTile* tile);

  // out[i] = in[i] / divisor.
  void (*divide)(float* out, const float* in, float divisor, int64_t size);

  // x = x * factor + addend, `rounds` times in each of multiply_adds_per_round independent sums, in registers; returns
  // their total. Not an operator's: it is timed to learn the peak of this instruction set (machine_peaks.h). Sums begin
  // with small integers, not all of them with the same.
  double (*multiply_add)(int64_t rounds, float factor, float addend);
  int32_t multiply_adds_per_round;
};

// Only to be called where isa_supported(Isa::kAvx2).
const VectorKernels* avx2_kernels();

}  // namespace twostroke
