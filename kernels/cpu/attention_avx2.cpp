// Attention in AVX2: bringing a tile of keys and values into the form that multiply_tile takes, and one step of the
// running softmax over it.

#include "kernels/cpu/kernels_avx2.h"
#include "kernels/cpu/simd_avx2.h"

namespace twostroke {
namespace {

// The first `count` elements at `from`, at most 8, as floats; zero beyond.
inline __m256 load_floats(const uint16_t* from, int32_t count) {
  if (count >= kLanes) return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  uint16_t padded[kLanes] = {};
  for (int32_t i = 0; i < count; ++i) padded[i] = from[i];
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(padded)));
}
inline __m256 load_floats(const float* from, int32_t count) {
  return count >= kLanes ? _mm256_loadu_ps(from) : _mm256_maskload_ps(from, first_lanes(count));
}

inline void transpose_8x8(__m256 (&rows)[kLanes]) {
  __m256 pairs[kLanes];
  for (int i = 0; i < kLanes; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
  }
  __m256 quads[kLanes];
  for (int i = 0; i < kLanes; i += 4) {
    quads[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
    quads[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
    quads[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
    quads[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    rows[i] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x20);
    rows[i + 4] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x31);
  }
}

inline void scale_row(float* row, int32_t size, float factor) {
  const __m256 factors = _mm256_set1_ps(factor);
  for (int32_t i = 0; i < size; i += kLanes) {
    _mm256_storeu_ps(row + i, _mm256_mul_ps(_mm256_loadu_ps(row + i), factors));
  }
}

// Turns the scores of one row into weights and brings the row's running values up to the new maximum.
inline void soften(const AttentionTile& tile, int32_t row, float* scores) {
  const __m256 seen_low = _mm256_castsi256_ps(first_lanes(tile.count));
  const __m256 seen_high = _mm256_castsi256_ps(first_lanes(tile.count - kLanes));
  const __m256 never = _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int32_t>(0xff800000u)));  // -infinity
  const __m256 low = _mm256_blendv_ps(never, _mm256_loadu_ps(scores), seen_low);
  const __m256 high = _mm256_blendv_ps(never, _mm256_loadu_ps(scores + kLanes), seen_high);

  const float before = tile.maxima[row];
  const float highest = max_lanes(_mm256_max_ps(low, high));
  const float maximum = highest > before ? highest : before;
  const __m256 offset = _mm256_set1_ps(maximum);
  // Unseen lanes are cleared by their mask: with a maximum of -infinity they would be NaN.
  const __m256 low_weight = _mm256_and_ps(exp_lanes(_mm256_sub_ps(low, offset)), seen_low);
  const __m256 high_weight = _mm256_and_ps(exp_lanes(_mm256_sub_ps(high, offset)), seen_high);
  _mm256_storeu_ps(scores, low_weight);
  _mm256_storeu_ps(scores + kLanes, high_weight);

  float sum = tile.weights[row];
  if (maximum != before) {
    const float shrink = _mm256_cvtss_f32(exp_lanes(_mm256_set1_ps(before - maximum)));
    sum *= shrink;
    scale_row(tile.sums + int64_t{row} * tile.padded_size, tile.padded_size, shrink);
    tile.maxima[row] = maximum;
  }
  tile.weights[row] = sum + sum_lanes(_mm256_add_ps(low_weight, high_weight));
}

// Element is uint16_t, a half, or float.
template <typename Element>
void load_keys(const void* const* rows, int32_t count, int32_t size, float* out) {
  for (int32_t first = 0; first < kTilePositions; first += kLanes) {
    for (int32_t s = 0; s < size; s += kLanes) {
      __m256 block[kLanes];
#pragma GCC unroll 8
      for (int32_t j = 0; j < kLanes; ++j) {
        block[j] = first + j < count ? load_floats(static_cast<const Element*>(rows[first + j]) + s, size - s)
                                     : _mm256_setzero_ps();
      }
      transpose_8x8(block);
      float* to = out + s * kTilePositions + first;
#pragma GCC unroll 8
      for (int32_t i = 0; i < kLanes; ++i) {
        if (s + i < size) _mm256_storeu_ps(to + i * kTilePositions, block[i]);
      }
    }
  }
}

template <typename Element>
void load_values(const void* const* rows, int32_t count, int32_t size, int32_t padded_size, float* out) {
  for (int32_t j = 0; j < count; ++j) {
    const Element* row = static_cast<const Element*>(rows[j]);
    float* to = out + j * padded_size;
    int32_t s = 0;
    for (; s + kLanes <= size; s += kLanes) _mm256_storeu_ps(to + s, load_floats(row + s, kLanes));
    for (; s < padded_size; s += kLanes) _mm256_storeu_ps(to + s, load_floats(row + s, size > s ? size - s : 0));
  }
}

}  // namespace

void load_keys_avx2(const void* const* rows, bool half, int32_t count, int32_t size, float* out) {
  half ? load_keys<uint16_t>(rows, count, size, out) : load_keys<float>(rows, count, size, out);
}

void load_values_avx2(const void* const* rows, bool half, int32_t count, int32_t size, int32_t padded_size,
                      float* out) {
  half ? load_values<uint16_t>(rows, count, size, padded_size, out)
       : load_values<float>(rows, count, size, padded_size, out);
}

void attend_avx2(const AttentionTile* tile) {
  for (int32_t begin = 0; begin < tile->rows; begin += kTileRows) {
    const int32_t rows = tile->rows - begin < kTileRows ? tile->rows - begin : kTileRows;
    float scores[kTileRows * kTilePositions];
    for (int32_t i = 0; i < rows * kTilePositions; i += kLanes) _mm256_storeu_ps(scores + i, _mm256_setzero_ps());
    multiply_tile_avx2(rows, tile->queries + int64_t{begin} * tile->size, tile->size, tile->keys, kTilePositions,
                       tile->size, scores, kTilePositions);
    for (int32_t r = 0; r < rows; ++r) soften(*tile, begin + r, scores + r * kTilePositions);
    float* sums = tile->sums + int64_t{begin} * tile->padded_size;
    for (int32_t s = 0; s < tile->padded_size; s += kPanelOutputs) {
      multiply_tile_avx2(rows, scores, kTilePositions, tile->values + s, tile->padded_size, tile->count, sums + s,
                         tile->padded_size);
    }
  }
}

}  // namespace twostroke
