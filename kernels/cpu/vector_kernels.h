// VectorKernels: the inner loops that a vector instruction set must provide; VectorOperators builds the operators on
// them. To add an instruction set: fill in this table in files of its own and add it to Isa.
//
// Plain pointers and plain data only: the files that implement it are compiled for that instruction set, so they may
// share no inline code with the rest of the program (the linker keeps one copy of such code, for everyone).
//
// Every function gives the same bits for a row however the caller splits rows and k into calls. Alignment is that of
// the element. Thread-safety: pure functions over the memory given.
#pragma once

#include "kernels/cpu/int8_format.h"
#include "kernels/cpu/panel_format.h"

namespace twostroke {

enum : int32_t {
  kTileRows = 6,         // rows of multiply_tile: 6 x 16 sums fill the 16 registers of AVX2
  kPanelsAtOnce = 2,     // panels that share each load of activations where registers allow
  kTilePositions = 64,   // positions of the context that one step of the running softmax takes
  kSlicePositions = 16,  // positions whose keys lie together
  kTileSlices = kTilePositions / kSlicePositions,
  kDirectRows = 4,  // rows of attend_direct at most
};

// Elements of the key/value cache: floats, halves, or codes of one byte that take a scale.
enum class KvElement : int32_t { kFloat, kHalf, kCode };

// Keys and values of the first `count` positions, of [1, kTilePositions], of a tile of one key/value head's context. In
// slices of kSlicePositions; memory of a whole slice may be read, whatever it holds beyond `count`.
struct PositionTile {
  KvElement element;
  int32_t count;
  int32_t size;                               // of a head
  int64_t key_stride;                         // elements
  const void* keys[kTileSlices];              // number s of position j of the slice at [s * key_stride + j]
  const void* values[kTileSlices];            // at [j * size + s]
  const uint16_t* key_scales[kTileSlices];    // [kSlicePositions] halves; of codes only
  const uint16_t* value_scales[kTileSlices];  // likewise
};

// Queries of one key/value head: `heads` for each of some consecutive tokens, token by token. Sizes in floats.
struct AttentionRows {
  int32_t rows;
  int32_t heads;         // rows of a token
  int32_t first_count;   // positions of the tile at hand that the first token sees, at least 1; the next sees one more
  int32_t size;          // of a head
  int32_t padded_size;   // size rounded up to kPanelOutputs
  const float* queries;  // [rows, size], times 1 / sqrt(size)
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

  // out[r, 16 p + j] = (or += with `accumulate`) panels of codes, which follow each other, times rows of quantised
  // activations, which begin at `row` and follow each other as well. For each output, with groups of the weight in
  // ascending order: dot, the exact sum of products of codes; then sum = fma(float(dot) * weight scale, activation
  // scale, sum) and, where the weight has mins, sum = fma(weight min, sum of the group's activations, sum).
  void (*multiply_codes)(const PanelFormat* format, const void* panel, int32_t panels, const Int8Format* parts,
                         const void* row, int64_t rows, float* out, int64_t out_stride, bool accumulate);

  // Writes a row from format->k numbers: the bits of quantise_row() in int8_rows.h.
  void (*quantise)(const Int8Format* format, void* row, const float* in);

  // out[i] = in[i] / sqrt(mean(in^2) + epsilon) * scale[i]; out may be in.
  void (*rms_norm)(float* out, const float* in, const float* scale, int64_t size, float epsilon);

  // out[i] = gate[i] * sigmoid(gate[i]) * up[i]; out may be gate.
  void (*silu_gate)(float* out, const float* gate, const float* up, int64_t size);

  // x[i] = x[i] * cosine[i] + x[i ^ 1] * sine[i]; size is even.
  void (*rotate)(float* x, const float* cosine, const float* sine, int64_t size);

  // Rounded to nearest even.
  void (*to_half)(uint16_t* out, const float* in, int64_t size);

  // The elements of a tile as floats, codes without their scales: keys [slices, size, kSlicePositions], of whole
  // slices, and values [count, padded_size], zero from size on.
  void (*expand_tile)(const PositionTile* tile, int32_t padded_size, float* keys, float* values);

  // One step of the running softmax (arXiv:1805.02867) for every row, over a tile that expand_tile has expanded:
  //   score = sum over ascending s of query[s] * key[s], times the key's scale;
  //   sums = fma(weight * value's scale, value, sums) for ascending positions.
  void (*attend)(const AttentionRows* rows, const PositionTile* tile, const float* keys, const float* values);

  // The same bits without the detour through memory, for up to kDirectRows rows of one token. Requires size % 16 == 0.
  // `next` is the tile that comes next, or null.
  void (*attend_direct)(const AttentionRows* rows, const PositionTile* tile, const PositionTile* next);

  // Adds another part of a row's context to its running softmax: sums, maximum and weight of `part` to those of
  // `total`.
  void (*fold)(int32_t padded_size, const float* part_sums, float part_maximum, float part_weight, float* sums,
               float* maximum, float* weight);

  // out[i] = in[i] / divisor.
  void (*divide)(float* out, const float* in, float divisor, int64_t size);

  // x = x * factor + addend, `rounds` times in each of multiply_adds_per_round independent sums, in registers; returns
  // their total. Not an operator's: it is timed to learn the peak of this instruction set (machine_peaks.h). Sums begin
  // with small integers, not all of them with the same.
  double (*multiply_add)(int64_t rounds, float factor, float addend);
  int32_t multiply_adds_per_round;
  // Likewise of bytes, as in multiply_codes: see int8_multiply_add() in machine_peaks.h.
  int64_t (*int8_multiply_add)(int64_t rounds, int32_t code, int32_t input);
  int32_t int8_multiply_adds_per_round;
};

// Only to be called where isa_supported(Isa::kAvx2).
const VectorKernels* avx2_kernels();
// Only to be called where isa_supported(Isa::kAvx512).
const VectorKernels* avx512_kernels();
// Only to be called where isa_supported(Isa::kAmx).
const VectorKernels* amx_kernels();

}  // namespace twostroke
