// Weights: the few internal layouts into which every file format is transcoded at load.
//
// A weight is a matrix W of `n` outputs by `k` inputs; y = x W^T. A dozen file formats become five layouts:
//
//   kF32, kF16, kBF16   plain numbers
//   kQ8                 signed 8-bit codes in groups of `group` along k:  w = scale * code + min
//   kQ4                 unsigned 4-bit codes (0..15), likewise:           w = scale * code + min
//                       or, with no bytes for a min,                      w = scale * (code - 8)
//
// What follows for the formats (d, m: half-precision block constants; all products exact in f32 unless said):
//   Q4_0    d * (q - 8)                    kQ4/32 without min, scale d
//   Q4_1    d * q + m                      kQ4/32, scale d, min m
//   Q4_K    d * s * q - dmin * m           kQ4/32, scale d * s, min -dmin * m
//   Q2_K    d * s * q - dmin * m           kQ4/16, likewise
//   Q3_K    d * s * (q - 4)                kQ4/16 without min, scale d * s, code q + 4
//   Q8_0, Q5_0, Q5_1, Q5_K                 kQ8/32
//   Q6_K                                   kQ8/16
//   IQ4_NL                                 kQ8/32: the code is the table's signed value
//
// HostWeightRows is the canonical form on the host, row-major, in which a transcoder hands rows over. How an operator
// set stores them (interleaved panels, scales as f16 where that loses nothing, ...) is its own business: it says how
// many bytes it needs and packs the rows itself (Operators::weight_bytes, Operators::store_weight).
#pragma once

#include <cstdint>
#include <span>

#include "kernels/tensor.h"

namespace twostroke {

enum class WeightLayout : uint8_t { kF32, kF16, kBF16, kQ8, kQ4 };

struct WeightShape {
  WeightLayout layout = WeightLayout::kF32;
  int64_t n = 0;         // outputs: rows of the matrix
  int64_t k = 0;         // inputs; a multiple of `group` for kQ8 and kQ4
  int32_t group = 0;     // 16 or 32 for kQ8 and kQ4, else 0
  bool has_min = false;  // else w = scale * code, and for kQ4 w = scale * (code - 8)
  // kQ8, kQ4: every scale and min of this weight is exactly a half-precision number, so that an operator set may store
  // them as such (a sixth of a Q4 weight's bytes less). True by their formats for Q8_0, Q5_0, Q5_1, Q4_0, Q4_1 and
  // IQ4_NL. Where it is wrongly set, values are rounded to the nearest half.
  bool half_scales = false;
};

// A weight in a device's memory, in the operator set's own arrangement. Owns nothing.
struct Weight {
  WeightShape shape;
  DeviceAddress data;
};

// Some consecutive rows of a weight in canonical form, borrowed. Exactly the spans that the layout uses are non-empty.
struct HostWeightRows {
  int64_t row_begin = 0;
  int64_t row_count = 0;
  std::span<const float> f32;        // kF32: [row_count, k]
  std::span<const uint16_t> bits16;  // kF16, kBF16: [row_count, k]
  std::span<const int8_t> q8;        // kQ8: [row_count, k]
  std::span<const uint8_t> q4;  // kQ4: [row_count, k / 2]; element 2i in the low half of byte i, 2i+1 in the high half
  std::span<const float> scales;  // kQ8, kQ4: [row_count, k / group]
  std::span<const float> mins;    // with has_min: [row_count, k / group]
};

}  // namespace twostroke
