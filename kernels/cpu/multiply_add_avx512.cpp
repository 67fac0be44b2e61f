// Nothing but multiply-adds: the most that the arithmetic units can do.

#include <immintrin.h>

#include "kernels/cpu/kernels_avx512.h"

namespace twostroke {
namespace {

// A multiply-add takes four or five cycles and up to two start in each: ten or more must be under way.
constexpr int32_t kSums = 12;
constexpr int32_t kWidth = 16;
static_assert(kSums * kWidth == kMultiplyAddsAvx512);
static_assert(kSums * kWidth * 4 == kInt8MultiplyAddsAvx512);

}  // namespace

double multiply_add_avx512(int64_t rounds, float factor, float addend) {
  const __m512 factors = _mm512_set1_ps(factor);
  const __m512 addends = _mm512_set1_ps(addend);
  __m512 sums[kSums];
  // Sums that began alike would stay alike, and the compiler would compute one of them.
#pragma GCC unroll 16
  for (int i = 0; i < kSums; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) sums[i] = _mm512_fmadd_ps(sums[i], factors, addends);
  }
  double total = 0;
  for (int i = 0; i < kSums; ++i) {
    float lanes[kWidth];
    _mm512_storeu_ps(lanes, sums[i]);
    for (const float lane : lanes) total += static_cast<double>(lane);
  }
  return total;
}

int64_t int8_multiply_add_avx512(int64_t rounds, int32_t code, int32_t input) {
  const __m512i codes = _mm512_set1_epi8(static_cast<char>(code));
  __m512i inputs = _mm512_set1_epi8(static_cast<char>(input));
  __m512i sums[kSums];
#pragma GCC unroll 16
  for (int i = 0; i < kSums; ++i) sums[i] = _mm512_setzero_si512();
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) {
      sums[i] = _mm512_dpbusd_epi32(sums[i], codes, inputs);
      asm("" : "+v"(sums[i]));  // or sums that began alike would be computed once
    }
  }
  __m512i sum = _mm512_setzero_si512();
#pragma GCC unroll 16
  for (int i = 0; i < kSums; ++i) sum = _mm512_add_epi32(sum, sums[i]);
  int32_t lanes[kWidth];
  _mm512_storeu_si512(lanes, sum);
  int64_t total = 0;
  for (const int32_t lane : lanes) total += lane;
  return total;
}

}  // namespace twostroke
