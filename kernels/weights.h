// Weights: the few internal layouts into which every file format is transcoded at load.
//
// A weight is a matrix W of `n` outputs by `k` inputs; y = x W^T. A dozen file formats become six layouts:
//
//   kF32, kF16, kBF16   plain numbers
//   kQ8                 signed 8-bit codes in groups of 32 along k:         w = scale * code
//   kQ6                 signed 6-bit codes (-32..31) in groups of `group`:  w = scale * code + min, or without min
//   kQ4                 unsigned 4-bit codes (0..15), likewise:             w = scale * code + min
//                       or, with no bytes for a min,                        w = scale * (code - 8)
//
// Scales and mins are half-precision numbers; or, with `scale_factors`, products of such a number for each super-block
// of 256 k and a signed byte for each group.
//
// What follows for the formats (d, m: half-precision block constants; all products exact in f32 unless said):
//   Q4_0    d * (q - 8)                    kQ4/32 without min, scale d
//   Q4_1    d * q + m                      kQ4/32, scale d, min m
//   Q4_K    d * s * q - dmin * m           kQ4/32, scale d * s, min -dmin * m
//   Q2_K    d * s * q - dmin * m           kQ4/16, likewise
//   Q3_K    d * s * (q - 4)                kQ4/16 without min, scale d * s, code q + 4
//   Q5_0    d * (q - 16)                   kQ6/32 without min
//   Q5_1    d * q + m                      kQ6/32
//   Q5_K    d * s * q - dmin * m           kQ6/32, as Q4_K
//   Q6_K    d * s * (q - 32)               kQ6/16 without min, scale d * s
//   Q8_0    d * q                          kQ8/32
//   IQ4_NL  d * table[q]                   kQ8/32: the code is the table's signed value
//
// HostWeightRows is the canonical form on the host, row-major, in which a transcoder hands rows over. How an operator
// set stores them (interleaved panels, ...) is its own business: it says how
// many bytes it needs and packs the rows itself (Operators::weight_bytes, Operators::store_weight).
#pragma once

#include <cstdint>
#include <span>

#include "kernels/tensor.h"

namespace twostroke {

enum class WeightLayout : uint8_t { kF32, kF16, kBF16, kQ8, kQ6, kQ4 };

inline constexpr int64_t kSuperBlock = 256;  // k that share a scale where groups have factors

struct WeightShape {
  WeightLayout layout = WeightLayout::kF32;
  int64_t n = 0;               // outputs: rows of the matrix
  int64_t k = 0;               // inputs; a multiple of `group` for codes, and of kSuperBlock with scale_factors
  int32_t group = 0;           // 32 for kQ8, 16 or 32 for kQ6 and kQ4, else 0
  bool has_min = false;        // of kQ6, kQ4; else w = scale * code, and for kQ4 w = scale * (code - 8)
  bool scale_factors = false;  // of kQ6, kQ4
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
  std::span<const int8_t> q8;        // kQ8, kQ6: [row_count, k]
  std::span<const uint8_t> q4;  // kQ4: [row_count, k / 2]; element 2i in the low half of byte i, 2i+1 in the high half
  // Of codes: [row_count, k / group], or with scale_factors [row_count, k / kSuperBlock]. What is no half-precision
  // number is rounded to the nearest.
  std::span<const float> scales;
  std::span<const float> mins;          // with has_min: likewise
  std::span<const int8_t> factors;      // with scale_factors: [row_count, k / group], of the scales
  std::span<const int8_t> min_factors;  // with scale_factors and has_min: likewise, of the mins
};

}  // namespace twostroke
