// One step of the running softmax in AVX2, which both ways through a tile share. Included by attention files only.
#pragma once

#include "kernels/cpu/simd_avx2.h"

namespace twostroke {

enum : int32_t { kSliceVectors = 2 };  // of kSlicePositions

// 8 elements as floats.
static inline __m256 load_kv(const float* from) { return _mm256_loadu_ps(from); }
static inline __m256 load_kv(const uint16_t* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
static inline __m256 load_kv(const int8_t* from) {
  const __m128i codes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes));
}

// scores[j] times the scale of position j, for the vectors that hold the first `count` of a tile.
static inline void scale_positions(float* scores, const uint16_t* const* scales, int32_t count) {
  for (int32_t v = 0; v * kLanes < count; ++v) {
    const __m256 factors = load_kv(scales[v / kSliceVectors] + v % kSliceVectors * kLanes);
    _mm256_storeu_ps(scores + v * kLanes, _mm256_mul_ps(_mm256_loadu_ps(scores + v * kLanes), factors));
  }
}

// Turns the scores [kTilePositions] of a row, of which it sees the first `count`, into what values are multiplied with,
// and brings maximum and weight of the row up to date. Returns the factor that its sums take.
static inline float soften(const PositionTile* tile, int32_t count, float* scores, float* row_maximum,
                           float* row_weight) {
  if (tile->element == KvElement::kCode) scale_positions(scores, tile->key_scales, count);
  const __m256 never = _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int32_t>(0xff800000u)));  // -infinity
  __m256 highest = never;
  for (int32_t v = 0; v * kLanes < count; ++v) {
    const __m256 seen = _mm256_castsi256_ps(first_lanes(count - v * kLanes));
    highest = _mm256_max_ps(_mm256_blendv_ps(never, _mm256_loadu_ps(scores + v * kLanes), seen), highest);
  }
  const float before = *row_maximum;
  const float own = max_lanes(highest);
  const float maximum = own > before ? own : before;
  const __m256 offset = _mm256_set1_ps(maximum);
  __m256 total = _mm256_setzero_ps();
  for (int32_t v = 0; v * kLanes < count; ++v) {
    // Unseen lanes are cleared by their mask: they may hold anything.
    const __m256 seen = _mm256_castsi256_ps(first_lanes(count - v * kLanes));
    const __m256 weight = exp_lanes(_mm256_sub_ps(_mm256_loadu_ps(scores + v * kLanes), offset));
    const __m256 seen_weight = _mm256_and_ps(weight, seen);
    _mm256_storeu_ps(scores + v * kLanes, seen_weight);
    total = _mm256_add_ps(total, seen_weight);
  }
  float shrink = 1;
  if (maximum != before) {
    shrink = _mm256_cvtss_f32(exp_lanes(_mm256_set1_ps(before - maximum)));
    *row_maximum = maximum;
  }
  *row_weight = *row_weight * shrink + sum_lanes(total);
  if (tile->element == KvElement::kCode) scale_positions(scores, tile->value_scales, count);
  return shrink;
}

}  // namespace twostroke
