// Attention of many rows to a tile of positions in AVX-512: attention_avx2.cpp with twelve rows by 32 sums in
// registers.

#include "kernels/cpu/kernels_avx512.h"
#include "kernels/cpu/softmax_avx512.h"

namespace twostroke {
namespace {

constexpr int32_t kLanes16 = 16;
constexpr int32_t kRowsAtOnce = 12;  // 12 rows by 2 vectors of sums leave 8 of the 32 registers

// sums[r][v] = fma(x[r][i], panel[i][v], sums[r][v]) for ascending i, and vectors v of 16 sums. Strides in floats.
struct Product {
  const float* x;
  int64_t x_stride;  // of rows
  const float* panel;
  int64_t panel_stride;         // of i
  int64_t panel_vector_stride;  // of v
  int64_t count;                // of i
  float* sums;
  int64_t sums_stride;  // of rows; vectors of a row follow each other
};

template <int kRows, int kVectors>
[[gnu::noinline]] void multiply(const Product& product) {
  const Product p = product;
  __m512 sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_loadu_ps(p.sums + r * p.sums_stride + v * kLanes16);
  }
  for (int64_t i = 0; i < p.count; ++i) {
    __m512 panel[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      panel[v] = _mm512_loadu_ps(p.panel + i * p.panel_stride + v * p.panel_vector_stride);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const __m512 input = _mm512_set1_ps(p.x[r * p.x_stride + i]);
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_fmadd_ps(input, panel[v], sums[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_ps(p.sums + r * p.sums_stride + v * kLanes16, sums[r][v]);
  }
}

template <int kVectors>
void multiply_rows(int32_t rows, Product product) {
  // Twelve rows, then what is left in fours and ones: few shapes of code, and the last rows of a tile are few.
  const auto advance = [&](int32_t done) {
    product.x += done * product.x_stride;
    product.sums += done * product.sums_stride;
    rows -= done;
  };
  for (; rows >= 12; advance(12)) multiply<12, kVectors>(product);
  for (; rows >= 6; advance(6)) multiply<6, kVectors>(product);
  for (; rows >= 3; advance(3)) multiply<3, kVectors>(product);
  for (; rows >= 1; advance(1)) multiply<1, kVectors>(product);
}

// Sums [rows, padded_size] plus weights [rows, kTilePositions] times the values of positions [begin, end).
void add_values(int32_t rows, const float* weights, const float* values, int32_t begin, int32_t end, float* sums,
                int32_t padded_size) {
  for (int32_t s = 0; s < padded_size; s += 2 * kLanes16) {
    const Product product = {weights + begin, kTilePositions, values + int64_t{begin} * padded_size + s,
                             padded_size,     kLanes16,       end - begin,
                             sums + s,        padded_size};
    padded_size - s >= 2 * kLanes16 ? multiply_rows<2>(rows, product) : multiply_rows<1>(rows, product);
  }
}

// Positions that a row sees.
inline int32_t count_of(const AttentionRows& rows, const PositionTile& tile, int32_t row) {
  const int32_t count = rows.first_count + row / rows.heads;
  return count < tile.count ? count : tile.count;
}

}  // namespace

void attend_avx512(const AttentionRows* all, const PositionTile* tile, const float* keys, const float* values) {
  const int64_t size = all->size;
  const int32_t padded_size = all->padded_size;
  for (int32_t begin = 0; begin < all->rows; begin += kRowsAtOnce) {
    const int32_t rows = all->rows - begin < kRowsAtOnce ? all->rows - begin : kRowsAtOnce;
    const int32_t least = count_of(*all, *tile, begin);
    const int32_t most = count_of(*all, *tile, begin + rows - 1);
    alignas(64) float scores[kRowsAtOnce * kTilePositions] = {};
    for (int32_t j = 0; j < most; j += 2 * kSlicePositions) {
      const Product product = {all->queries + begin * size, size, keys + j * size, kSlicePositions,
                               size * kSlicePositions,      size, scores + j,      kTilePositions};
      most - j > kSlicePositions ? multiply_rows<2>(rows, product) : multiply_rows<1>(rows, product);
    }
    float* sums = all->sums + int64_t{begin} * padded_size;
    for (int32_t r = 0; r < rows; ++r) {
      const int32_t row = begin + r;
      const float shrink = soften16(tile, count_of(*all, *tile, row), scores + r * kTilePositions, all->maxima + row,
                                    all->weights + row);
      if (shrink == 1) continue;
      const __m512 factor = _mm512_set1_ps(shrink);
      for (int32_t s = 0; s < padded_size; s += kLanes16) {
        float* at = sums + int64_t{r} * padded_size + s;
        _mm512_storeu_ps(at, _mm512_mul_ps(_mm512_loadu_ps(at), factor));
      }
    }
    add_values(rows, scores, values, 0, least, sums, padded_size);
    // Positions that only later rows see: they must not reach the earlier rows' sums even times zero, since zero times
    // infinity is not zero.
    for (int32_t r = 0; r < rows && most > least; ++r) {
      const int32_t count = count_of(*all, *tile, begin + r);
      if (count == least) continue;
      add_values(1, scores + r * kTilePositions, values, least, count, sums + int64_t{r} * padded_size, padded_size);
    }
  }
}

}  // namespace twostroke
