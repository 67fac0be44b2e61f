// Attention of many rows to a tile of positions in AVX2: the tile is expanded to floats once for all of them, and
// scores and weighted sums are the inner loop of matmul.

#include "kernels/cpu/kernels_avx2.h"
#include "kernels/cpu/softmax_avx2.h"

namespace twostroke {
namespace {

// The first `count` elements at `from`, at most 8, as floats; zero beyond.
template <typename Element>
inline __m256 load_part_kv(const Element* from, int32_t count) {
  if (count >= kLanes) return load_kv(from);
  Element padded[kLanes] = {};
  for (int32_t i = 0; i < count; ++i) padded[i] = from[i];
  return load_kv(padded);
}

inline void scale_row(float* row, int32_t size, float factor) {
  const __m256 factors = _mm256_set1_ps(factor);
  for (int32_t i = 0; i < size; i += kLanes) {
    _mm256_storeu_ps(row + i, _mm256_mul_ps(_mm256_loadu_ps(row + i), factors));
  }
}

template <typename Element>
void expand(const PositionTile& tile, int32_t padded_size, float* keys, float* values) {
  for (int32_t i = 0; i * kSlicePositions < tile.count; ++i) {
    const Element* from = static_cast<const Element*>(tile.keys[i]);
    for (int32_t s = 0; s < tile.size; ++s) {
      float* to = keys + (i * tile.size + s) * kSlicePositions;
      _mm256_storeu_ps(to, load_kv(from + s * tile.key_stride));
      _mm256_storeu_ps(to + kLanes, load_kv(from + s * tile.key_stride + kLanes));
    }
  }
  for (int32_t j = 0; j < tile.count; ++j) {
    const Element* from =
        static_cast<const Element*>(tile.values[j / kSlicePositions]) + int64_t{j % kSlicePositions} * tile.size;
    float* to = values + int64_t{j} * padded_size;
    int32_t s = 0;
    for (; s + kLanes <= tile.size; s += kLanes) _mm256_storeu_ps(to + s, load_kv(from + s));
    for (; s < padded_size; s += kLanes) {
      _mm256_storeu_ps(to + s, load_part_kv(from + s, tile.size > s ? tile.size - s : 0));
    }
  }
}

// Positions that a row sees.
inline int32_t count_of(const AttentionRows& rows, const PositionTile& tile, int32_t row) {
  const int32_t count = rows.first_count + row / rows.heads;
  return count < tile.count ? count : tile.count;
}

}  // namespace

void expand_tile_avx2(const PositionTile* tile, int32_t padded_size, float* keys, float* values) {
  switch (tile->element) {
    case KvElement::kFloat:
      return expand<float>(*tile, padded_size, keys, values);
    case KvElement::kHalf:
      return expand<uint16_t>(*tile, padded_size, keys, values);
    case KvElement::kCode:
      return expand<int8_t>(*tile, padded_size, keys, values);
  }
}

void attend_avx2(const AttentionRows* all, const PositionTile* tile, const float* keys, const float* values) {
  const int64_t size = all->size;
  const int64_t padded_size = all->padded_size;
  for (int32_t begin = 0; begin < all->rows; begin += kTileRows) {
    const int32_t rows = all->rows - begin < kTileRows ? all->rows - begin : kTileRows;
    const int32_t least = count_of(*all, *tile, begin);
    const int32_t most = count_of(*all, *tile, begin + rows - 1);
    float scores[kTileRows * kTilePositions];
    for (int32_t i = 0; i < rows * kTilePositions; i += kLanes) _mm256_storeu_ps(scores + i, _mm256_setzero_ps());
    for (int32_t j = 0; j < most; j += kSlicePositions) {
      multiply_tile_avx2(rows, all->queries + begin * size, size, keys + j * size, kSlicePositions, size, scores + j,
                         kTilePositions);
    }
    for (int32_t r = 0; r < rows; ++r) {
      const int32_t row = begin + r;
      const float shrink =
          soften(tile, count_of(*all, *tile, row), scores + r * kTilePositions, all->maxima + row, all->weights + row);
      if (shrink != 1) scale_row(all->sums + row * padded_size, all->padded_size, shrink);
    }
    float* sums = all->sums + begin * padded_size;
    for (int64_t s = 0; s < padded_size; s += kPanelOutputs) {
      multiply_tile_avx2(rows, scores, kTilePositions, values + s, padded_size, least, sums + s, padded_size);
    }
    // Positions that only later rows see: they must not reach the earlier rows' sums even times zero, since zero times
    // infinity is not zero.
    for (int32_t r = 0; r < rows && most > least; ++r) {
      const int32_t count = count_of(*all, *tile, begin + r);
      if (count == least) continue;
      for (int64_t s = 0; s < padded_size; s += kPanelOutputs) {
        multiply_tile_avx2(1, scores + r * kTilePositions + least, kTilePositions, values + least * padded_size + s,
                           padded_size, count - least, sums + r * padded_size + s, padded_size);
      }
    }
  }
}

void fold_avx2(int32_t padded_size, const float* part_sums, float part_maximum, float part_weight, float* sums,
               float* maximum, float* weight) {
  const float greatest = part_maximum > *maximum ? part_maximum : *maximum;
  const __m256 own = exp_lanes(_mm256_set1_ps(*maximum - greatest));
  const __m256 other = exp_lanes(_mm256_set1_ps(part_maximum - greatest));
  for (int32_t s = 0; s < padded_size; s += kLanes) {
    const __m256 kept = _mm256_mul_ps(_mm256_loadu_ps(sums + s), own);
    _mm256_storeu_ps(sums + s, _mm256_fmadd_ps(_mm256_loadu_ps(part_sums + s), other, kept));
  }
  *weight = *weight * _mm256_cvtss_f32(own) + part_weight * _mm256_cvtss_f32(other);
  *maximum = greatest;
}

}  // namespace twostroke
