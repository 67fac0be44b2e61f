// Pieces that the *_avx2.cpp files share. Everything here is static, so that each file has a copy of its own and none
// can be merged with code for other processors. Included by *_avx2.cpp only.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "kernels/cpu/vector_kernels.h"

namespace twostroke {

enum : int32_t { kLanes = 8 };

// A number for each output of a panel.
struct PanelVector {
  __m256 low;   // of outputs 0 to 7
  __m256 high;  // of outputs 8 to 15
};

// Scales or mins of a group (panel_format.h): halves, or factors of those of its super-block.
static inline PanelVector load_halves(const uint8_t* at) {
  const __m128i* halves = reinterpret_cast<const __m128i*>(at);
  return {_mm256_cvtph_ps(_mm_loadu_si128(halves)), _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))};
}
static inline PanelVector load_scales(bool factors, const uint8_t* at, const uint8_t* super) {
  if (!factors) return load_halves(at);
  const PanelVector scales = load_halves(super);
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
  const __m256 low = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
  const __m256 high = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)));
  return {_mm256_mul_ps(scales.low, low), _mm256_mul_ps(scales.high, high)};
}

// All ones in the first `count` lanes, count in [0, 8].
static inline __m256i first_lanes(int64_t count) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(count)), lane);
}

// Sum and maximum of the lanes, always in the same order.
static inline float sum_lanes(__m256 x) {
  __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  y = _mm_add_ps(y, _mm_movehl_ps(y, y));
  return _mm_cvtss_f32(_mm_add_ss(y, _mm_movehdup_ps(y)));
}
static inline float max_lanes(__m256 x) {
  __m128 y = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  y = _mm_max_ps(y, _mm_movehl_ps(y, y));
  return _mm_cvtss_f32(_mm_max_ss(y, _mm_movehdup_ps(y)));
}

// e^x with a relative error below 2e-7 in [-87.33, 88.37]; 0 below, infinity above, NaN for NaN.
//
// e^x = 2^n e^r with n the integer nearest x / ln 2, so |r| <= ln 2 / 2. ln 2 is taken off in two parts, the first with
// so few bits that n times it is exact. e^r is its Taylor polynomial of degree 7: the rest is below r^8 / 8! = 6e-9.
static inline __m256 exp_lanes(__m256 x) {
  const __m256 lowest = _mm256_set1_ps(-87.33f);
  const __m256 highest = _mm256_set1_ps(88.37f);
  // max and min return their second operand where one is NaN, so a NaN in x stays.
  const __m256 clamped = _mm256_min_ps(highest, _mm256_max_ps(lowest, x));
  const __m256 n = _mm256_round_ps(_mm256_mul_ps(clamped, _mm256_set1_ps(0x1.715476p+0f)),
                                   _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.62e4p-1f), clamped);
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.7f7d1cp-20f), r);
  __m256 y = _mm256_set1_ps(1.0f / 5040);
  y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(1.0f / 720));
  y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(1.0f / 120));
  y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(1.0f / 24));
  y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(1.0f / 6));
  y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(0.5f));
  y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(1.0f));
  y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(1.0f));
  const __m256i exponent = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
  y = _mm256_mul_ps(y, _mm256_castsi256_ps(exponent));
  y = _mm256_andnot_ps(_mm256_cmp_ps(x, lowest, _CMP_LT_OQ), y);
  const __m256 infinity = _mm256_castsi256_ps(_mm256_set1_epi32(0x7f800000));
  return _mm256_blendv_ps(y, infinity, _mm256_cmp_ps(x, highest, _CMP_GT_OQ));
}

}  // namespace twostroke
