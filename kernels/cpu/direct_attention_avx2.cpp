// Attention of the few rows of one token to a tile of positions in AVX2, straight from the cache's elements.

#include "kernels/cpu/kernels_avx2.h"
#include "kernels/cpu/softmax_avx2.h"

namespace twostroke {
namespace {

// Blocks lie anywhere, which the processor cannot foresee: ask for the next tile while this one is worked on.
inline void prefetch(const void* from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) _mm_prefetch(static_cast<const char*>(from) + i, _MM_HINT_T0);
}

// Scores of kRows queries against kSlices slices. A sum is a chain of additions, each of which takes as long as eight
// others could: so there are enough sums side by side.
template <typename Element, int kRows, int kSlices>
inline void score_slices(const AttentionRows& rows, const PositionTile& tile, int32_t first, float* scores) {
  __m256 sums[kRows][kSlices * kSliceVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kSlices * kSliceVectors; ++v) sums[r][v] = _mm256_setzero_ps();
  }
  const Element* keys[kSlices];
#pragma GCC unroll 8
  for (int i = 0; i < kSlices; ++i) keys[i] = static_cast<const Element*>(tile.keys[first + i]);
  for (int32_t s = 0; s < tile.size; ++s) {
    __m256 query[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) query[r] = _mm256_broadcast_ss(rows.queries + r * rows.size + s);
#pragma GCC unroll 8
    for (int v = 0; v < kSlices * kSliceVectors; ++v) {
      const __m256 key = load_kv(keys[v / kSliceVectors] + s * tile.key_stride + v % kSliceVectors * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sums[r][v] = _mm256_fmadd_ps(query[r], key, sums[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kSlices * kSliceVectors; ++v) {
      _mm256_storeu_ps(scores + r * kTilePositions + first * kSlicePositions + v * kLanes, sums[r][v]);
    }
  }
}

// sums[r][s] = sums[r][s] * shrink[r] + the weighted values, for kVectors vectors of s from `begin` on.
template <typename Element, int kRows, int kVectors>
inline void add_values(const AttentionRows& rows, const PositionTile& tile, int32_t begin, const float* weights,
                       const float* shrink) {
  __m256 sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const __m256 factor = _mm256_broadcast_ss(shrink + r);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      sums[r][v] = _mm256_mul_ps(_mm256_loadu_ps(rows.sums + r * rows.padded_size + begin + v * kLanes), factor);
    }
  }
  for (int32_t slice = 0; slice * kSlicePositions < tile.count; ++slice) {
    const int32_t left = tile.count - slice * kSlicePositions;
    const int32_t count = left < kSlicePositions ? left : int32_t{kSlicePositions};
    const Element* value = static_cast<const Element*>(tile.values[slice]) + begin;
    const float* weight = weights + slice * kSlicePositions;
    for (int32_t j = 0; j < count; ++j, value += tile.size) {
      __m256 factor[kRows];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) factor[r] = _mm256_broadcast_ss(weight + r * kTilePositions + j);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        const __m256 numbers = load_kv(value + v * kLanes);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) sums[r][v] = _mm256_fmadd_ps(factor[r], numbers, sums[r][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      _mm256_storeu_ps(rows.sums + r * rows.padded_size + begin + v * kLanes, sums[r][v]);
    }
  }
}

template <typename Element, int kRows>
void attend_rows(const AttentionRows& rows, const PositionTile& tile, const PositionTile* next) {
  constexpr int kSlices = kRows == 1 ? 4 : kRows <= 3 ? 2 : 1;   // with the queries they fill the registers
  constexpr int kVectors = kRows == 1 ? 8 : kRows <= 3 ? 4 : 2;  // likewise
  const int64_t slice_bytes = int64_t{tile.size} * kSlicePositions * static_cast<int64_t>(sizeof(Element));
  const auto prefetch_next = [&](const void* const* slices, int32_t slice) {
    if (next != nullptr && slice * kSlicePositions < next->count) prefetch(slices[slice], slice_bytes);
  };
  // With blocks of several slices, keys are not in one piece.
  const bool together = next != nullptr && next->key_stride == kSlicePositions;
  float scores[kRows * kTilePositions];
  const int32_t slices = (tile.count + kSlicePositions - 1) / kSlicePositions;
  int32_t slice = 0;
  for (; slice + kSlices <= slices; slice += kSlices) {
    for (int32_t i = slice; together && i < slice + kSlices; ++i) prefetch_next(next->keys, i);
    score_slices<Element, kRows, kSlices>(rows, tile, slice, scores);
  }
  for (; slice < slices; ++slice) score_slices<Element, kRows, 1>(rows, tile, slice, scores);
  float shrink[kRows];
  for (int r = 0; r < kRows; ++r) {
    shrink[r] = soften(&tile, tile.count, scores + r * kTilePositions, rows.maxima + r, rows.weights + r);
  }
  if (next != nullptr) {
    for (int32_t i = 0; i < kTileSlices; ++i) prefetch_next(next->values, i);
  }
  int32_t s = 0;
  for (; s + kVectors * kLanes <= rows.size; s += kVectors * kLanes) {
    add_values<Element, kRows, kVectors>(rows, tile, s, scores, shrink);
  }
  for (; s < rows.size; s += kLanes) add_values<Element, kRows, 1>(rows, tile, s, scores, shrink);
}

template <typename Element>
void attend(const AttentionRows& rows, const PositionTile& tile, const PositionTile* next) {
  switch (rows.rows) {
    case 1:
      return attend_rows<Element, 1>(rows, tile, next);
    case 2:
      return attend_rows<Element, 2>(rows, tile, next);
    case 3:
      return attend_rows<Element, 3>(rows, tile, next);
    default:
      return attend_rows<Element, kDirectRows>(rows, tile, next);
  }
}

}  // namespace

void attend_direct_avx2(const AttentionRows* rows, const PositionTile* tile, const PositionTile* next) {
  switch (tile->element) {
    case KvElement::kFloat:
      return attend<float>(*rows, *tile, next);
    case KvElement::kHalf:
      return attend<uint16_t>(*rows, *tile, next);
    case KvElement::kCode:
      return attend<int8_t>(*rows, *tile, next);
  }
}

}  // namespace twostroke
