// Attention of the few rows of one token to a tile of positions in AVX-512, straight from the cache's elements.

#include "kernels/cpu/kernels_avx512.h"
#include "kernels/cpu/softmax_avx512.h"

namespace twostroke {
namespace {

constexpr int32_t kDirectLanes = 16;

inline void prefetch_lines(const void* from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) _mm_prefetch(static_cast<const char*>(from) + i, _MM_HINT_T0);
}

// Scores of kRows queries against kSlices slices.
template <typename Element, int kRows, int kSlices>
inline void score_slices16(const AttentionRows& rows, const PositionTile& tile, int32_t first, float* scores) {
  __m512 sums[kRows][kSlices];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kSlices; ++v) sums[r][v] = _mm512_setzero_ps();
  }
  const Element* keys[kSlices];
#pragma GCC unroll 8
  for (int i = 0; i < kSlices; ++i) keys[i] = static_cast<const Element*>(tile.keys[first + i]);
  for (int32_t s = 0; s < tile.size; ++s) {
    __m512 query[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) query[r] = _mm512_set1_ps(rows.queries[r * rows.size + s]);
#pragma GCC unroll 8
    for (int v = 0; v < kSlices; ++v) {
      const __m512 key = load_kv16(keys[v] + s * tile.key_stride);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sums[r][v] = _mm512_fmadd_ps(query[r], key, sums[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kSlices; ++v) {
      _mm512_storeu_ps(scores + r * kTilePositions + (first + v) * kSlicePositions, sums[r][v]);
    }
  }
}

// sums[r][s] = sums[r][s] * shrink[r] + the weighted values, for kVectors vectors of s from `begin` on.
template <typename Element, int kRows, int kVectors>
inline void add_values16(const AttentionRows& rows, const PositionTile& tile, int32_t begin, const float* weights,
                         const float* shrink) {
  __m512 sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const __m512 factor = _mm512_set1_ps(shrink[r]);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      sums[r][v] = _mm512_mul_ps(_mm512_loadu_ps(rows.sums + r * rows.padded_size + begin + v * kDirectLanes), factor);
    }
  }
  for (int32_t slice = 0; slice * kSlicePositions < tile.count; ++slice) {
    const int32_t left = tile.count - slice * kSlicePositions;
    const int32_t count = left < kSlicePositions ? left : int32_t{kSlicePositions};
    const Element* value = static_cast<const Element*>(tile.values[slice]) + begin;
    const float* weight = weights + slice * kSlicePositions;
    for (int32_t j = 0; j < count; ++j, value += tile.size) {
      __m512 factor[kRows];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) factor[r] = _mm512_set1_ps(weight[r * kTilePositions + j]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        const __m512 numbers = load_kv16(value + v * kDirectLanes);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) sums[r][v] = _mm512_fmadd_ps(factor[r], numbers, sums[r][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      _mm512_storeu_ps(rows.sums + r * rows.padded_size + begin + v * kDirectLanes, sums[r][v]);
    }
  }
}

template <typename Element, int kRows>
void attend_rows16(const AttentionRows& rows, const PositionTile& tile, const PositionTile* next) {
  const int64_t slice_bytes = int64_t{tile.size} * kSlicePositions * static_cast<int64_t>(sizeof(Element));
  if (next != nullptr && next->key_stride == kSlicePositions) {  // else keys are not in one piece
    for (int32_t i = 0; i * kSlicePositions < next->count; ++i) prefetch_lines(next->keys[i], slice_bytes);
  }
  float scores[kRows * kTilePositions];
  const int32_t slices = (tile.count + kSlicePositions - 1) / kSlicePositions;
  int32_t slice = 0;
  for (; slice + 4 <= slices; slice += 4) score_slices16<Element, kRows, 4>(rows, tile, slice, scores);
  for (; slice < slices; ++slice) score_slices16<Element, kRows, 1>(rows, tile, slice, scores);
  float shrink[kRows];
  for (int r = 0; r < kRows; ++r) {
    shrink[r] = soften16(&tile, tile.count, scores + r * kTilePositions, rows.maxima + r, rows.weights + r);
  }
  if (next != nullptr) {
    for (int32_t i = 0; i * kSlicePositions < next->count; ++i) prefetch_lines(next->values[i], slice_bytes);
  }
  int32_t s = 0;
  for (; s + 4 * kDirectLanes <= rows.size; s += 4 * kDirectLanes) {
    add_values16<Element, kRows, 4>(rows, tile, s, scores, shrink);
  }
  for (; s < rows.size; s += kDirectLanes) add_values16<Element, kRows, 1>(rows, tile, s, scores, shrink);
}

template <typename Element>
void attend_few(const AttentionRows& rows, const PositionTile& tile, const PositionTile* next) {
  switch (rows.rows) {
    case 1:
      return attend_rows16<Element, 1>(rows, tile, next);
    case 2:
      return attend_rows16<Element, 2>(rows, tile, next);
    case 3:
      return attend_rows16<Element, 3>(rows, tile, next);
    default:
      return attend_rows16<Element, kDirectRows>(rows, tile, next);
  }
}

}  // namespace

void attend_direct_avx512(const AttentionRows* rows, const PositionTile* tile, const PositionTile* next) {
  switch (tile->element) {
    case KvElement::kFloat:
      return attend_few<float>(*rows, *tile, next);
    case KvElement::kHalf:
      return attend_few<uint16_t>(*rows, *tile, next);
    case KvElement::kCode:
      return attend_few<int8_t>(*rows, *tile, next);
  }
}

}  // namespace twostroke
