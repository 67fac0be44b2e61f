// The product that everything else is made of: a tile of rows by 16 outputs, whose sums stay in registers.

#include "kernels/cpu/kernels_avx2.h"
#include "kernels/cpu/simd_avx2.h"

namespace twostroke {
namespace {

// Not inlined: with six rows the loop takes 15 of the 16 registers, and what surrounds it may not take any.
template <int kRows>
[[gnu::noinline]] void multiply_rows(const float* x, int64_t x_stride, const float* panel, int64_t panel_stride,
                                     int64_t k_count, float* sums, int64_t sums_stride) {
  __m256 low[kRows];
  __m256 high[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    low[r] = _mm256_loadu_ps(sums + r * sums_stride);
    high[r] = _mm256_loadu_ps(sums + r * sums_stride + kLanes);
  }
  for (int64_t i = 0; i < k_count; ++i) {
    const __m256 low_weight = _mm256_loadu_ps(panel + i * panel_stride);
    const __m256 high_weight = _mm256_loadu_ps(panel + i * panel_stride + kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m256 input = _mm256_broadcast_ss(x + r * x_stride + i);
      low[r] = _mm256_fmadd_ps(input, low_weight, low[r]);
      high[r] = _mm256_fmadd_ps(input, high_weight, high[r]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    _mm256_storeu_ps(sums + r * sums_stride, low[r]);
    _mm256_storeu_ps(sums + r * sums_stride + kLanes, high[r]);
  }
}

}  // namespace

void multiply_tile_avx2(int32_t rows, const float* x, int64_t x_stride, const float* panel, int64_t panel_stride,
                        int64_t k_count, float* sums, int64_t sums_stride) {
  switch (rows) {
    case 1:
      return multiply_rows<1>(x, x_stride, panel, panel_stride, k_count, sums, sums_stride);
    case 2:
      return multiply_rows<2>(x, x_stride, panel, panel_stride, k_count, sums, sums_stride);
    case 3:
      return multiply_rows<3>(x, x_stride, panel, panel_stride, k_count, sums, sums_stride);
    case 4:
      return multiply_rows<4>(x, x_stride, panel, panel_stride, k_count, sums, sums_stride);
    case 5:
      return multiply_rows<5>(x, x_stride, panel, panel_stride, k_count, sums, sums_stride);
    default:
      return multiply_rows<kTileRows>(x, x_stride, panel, panel_stride, k_count, sums, sums_stride);
  }
}

}  // namespace twostroke
