// Nothing but multiply-adds: the most that the arithmetic units can do, and what multiply_tile is measured against.

#include "kernels/cpu/kernels_avx2.h"
#include "kernels/cpu/simd_avx2.h"

namespace twostroke {
namespace {

// A multiply-add takes four or five cycles and two start in each: ten or more must be under way, and 12 sums, as in
// multiply_tile with six rows, leave room for the factor and the addend.
constexpr int32_t kSums = 12;
static_assert(kSums * kLanes == kMultiplyAddsAvx2);
static_assert(kSums * kLanes * 4 == kInt8MultiplyAddsAvx2);

}  // namespace

double multiply_add_avx2(int64_t rounds, float factor, float addend) {
  const __m256 factors = _mm256_set1_ps(factor);
  const __m256 addends = _mm256_set1_ps(addend);
  __m256 sums[kSums];
  // Sums that began alike would stay alike, and the compiler would compute one of them.
#pragma GCC unroll 16
  for (int i = 0; i < kSums; ++i) sums[i] = _mm256_set1_ps(static_cast<float>(i));
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) sums[i] = _mm256_fmadd_ps(sums[i], factors, addends);
  }
  double total = 0;
  for (int i = 0; i < kSums; ++i) {
    float lanes[kLanes];
    _mm256_storeu_ps(lanes, sums[i]);
    for (const float lane : lanes) total += static_cast<double>(lane);
  }
  return total;
}

int64_t int8_multiply_add_avx2(int64_t rounds, int32_t code, int32_t input) {
  const __m256i codes = _mm256_set1_epi8(static_cast<char>(code));
  __m256i inputs = _mm256_set1_epi8(static_cast<char>(input));
  __m256i sums[kSums];
#pragma GCC unroll 16
  for (int i = 0; i < kSums; ++i) sums[i] = _mm256_setzero_si256();
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) {
      asm("" : "+x"(inputs));  // or the compiler would multiply once and for all
      sums[i] = _mm256_add_epi16(sums[i], _mm256_maddubs_epi16(codes, inputs));
      asm("" : "+x"(sums[i]));
    }
  }
  __m256i wide = _mm256_setzero_si256();
#pragma GCC unroll 16
  for (int i = 0; i < kSums; ++i) wide = _mm256_add_epi32(wide, _mm256_madd_epi16(sums[i], _mm256_set1_epi16(1)));
  int32_t lanes[kLanes];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), wide);
  int64_t total = 0;
  for (const int32_t lane : lanes) total += lane;
  return total;
}

}  // namespace twostroke
