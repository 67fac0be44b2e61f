// One step of the running softmax in AVX-512, which both ways through a tile share: softmax_avx2.h with 16 lanes.
// Included by *_avx512.cpp only, in each of which everything here is a copy of its own.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "kernels/cpu/vector_kernels.h"

namespace twostroke {

static inline __m512 load_kv16(const float* from) { return _mm512_loadu_ps(from); }
static inline __m512 load_kv16(const uint16_t* from) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
static inline __m512 load_kv16(const int8_t* from) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}

// The first `count` lanes.
static inline __mmask16 first_lanes16(int32_t count) {
  return count >= 16 ? static_cast<__mmask16>(0xffff) : static_cast<__mmask16>((1u << count) - 1);
}

// e^x for x <= 0 as exp_lanes() in simd_avx2.h computes it: within 2e-7 down to -87.33, 0 below, NaN for NaN.
static inline __m512 exp_not_above_zero(__m512 x) {
  const __m512 lowest = _mm512_set1_ps(-87.33f);
  const __m512 clamped = _mm512_max_ps(lowest, x);  // its second operand where one is NaN
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(clamped, _mm512_set1_ps(0x1.715476p+0f)),
                                        _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.62e4p-1f), clamped);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.7f7d1cp-20f), r);
  __m512 y = _mm512_set1_ps(1.0f / 5040);
  y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(1.0f / 720));
  y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(1.0f / 120));
  y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(1.0f / 24));
  y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(1.0f / 6));
  y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(0.5f));
  y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(1.0f));
  y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(1.0f));
  return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, lowest, _CMP_NLT_UQ), y, n);
}

// scores[j] times the scale of position j, for the vectors that hold the first `count` of a tile.
static inline void scale_positions16(float* scores, const uint16_t* const* scales, int32_t count) {
  for (int32_t i = 0; i * kSlicePositions < count; ++i) {
    float* at = scores + i * kSlicePositions;
    _mm512_storeu_ps(at, _mm512_mul_ps(_mm512_loadu_ps(at), load_kv16(scales[i])));
  }
}

// Turns the scores [kTilePositions] of a row, of which it sees the first `count`, into what values are multiplied with,
// and brings maximum and weight of the row up to date. Returns the factor that its sums take.
static inline float soften16(const PositionTile* tile, int32_t count, float* scores, float* row_maximum,
                             float* row_weight) {
  if (tile->element == KvElement::kCode) scale_positions16(scores, tile->key_scales, count);
  __m512 highest = _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int32_t>(0xff800000u)));  // -infinity
  for (int32_t i = 0; i * kSlicePositions < count; ++i) {
    const __mmask16 seen = first_lanes16(count - i * kSlicePositions);
    highest = _mm512_mask_max_ps(highest, seen, _mm512_loadu_ps(scores + i * kSlicePositions), highest);
  }
  const float before = *row_maximum;
  const float own = _mm512_reduce_max_ps(highest);
  const float maximum = own > before ? own : before;
  const __m512 offset = _mm512_set1_ps(maximum);
  __m512 total = _mm512_setzero_ps();
  for (int32_t i = 0; i * kSlicePositions < count; ++i) {
    // Unseen lanes are cleared by their mask: they may hold anything.
    const __mmask16 seen = first_lanes16(count - i * kSlicePositions);
    const __m512 difference = _mm512_sub_ps(_mm512_loadu_ps(scores + i * kSlicePositions), offset);
    const __m512 weight = _mm512_maskz_mov_ps(seen, exp_not_above_zero(difference));
    _mm512_storeu_ps(scores + i * kSlicePositions, weight);
    total = _mm512_add_ps(total, weight);
  }
  float shrink = 1;
  if (maximum != before) {
    shrink = _mm512_cvtss_f32(exp_not_above_zero(_mm512_set1_ps(before - maximum)));
    *row_maximum = maximum;
  }
  *row_weight = *row_weight * shrink + _mm512_reduce_add_ps(total);
  if (tile->element == KvElement::kCode) scale_positions16(scores, tile->value_scales, count);
  return shrink;
}

}  // namespace twostroke
