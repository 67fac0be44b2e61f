// Quantising a row of activations in AVX2 (kernels/activations.h, int8_format.h): the bits of quantise_row().

#include "kernels/cpu/kernels_avx2.h"
#include "kernels/cpu/simd_avx2.h"

namespace twostroke {
namespace {

constexpr int kVectors = 4;  // of a group
static_assert(kVectors * int{kLanes} == int{kInt8Codes});

// Of 16 codes, in quads: the sum of the first two of each, and of the other two.
struct PairSums {
  int32_t first;
  int32_t second;
};
inline PairSums sum_pairs(__m256i words) {
  const __m256i pairs = _mm256_madd_epi16(words, _mm256_set1_epi16(1));
  __m128i y = _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
  y = _mm_add_epi32(y, _mm_unpackhi_epi64(y, y));
  return {_mm_cvtsi128_si32(y), _mm_extract_epi32(y, 1)};
}

// Their offsets (int8_format.h), side by side as 16 bits each.
inline int32_t pair_offsets_of(PairSums pairs) {
  const auto low = static_cast<uint32_t>(-kCode6Middle * pairs.first) & 0xffff;
  return static_cast<int32_t>(low | static_cast<uint32_t>(-kCode6Middle * pairs.second) << 16);
}

// The largest of 8 integers that are not negative.
inline int32_t max_integer(__m256i x) {
  __m128i y = _mm_max_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  y = _mm_max_epi32(y, _mm_unpackhi_epi64(y, y));
  return _mm_cvtsi128_si32(_mm_max_epi32(y, _mm_srli_epi64(y, 32)));
}

inline float from_bits(int32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}

}  // namespace

void quantise_avx2(const Int8Format* format, void* row, const float* in) {
  uint8_t* base = static_cast<uint8_t*>(row);
  float* scales = reinterpret_cast<float*>(base + format->scales);
  float* sums = reinterpret_cast<float*>(base + format->sums);
  float* half_sums = reinterpret_cast<float*>(base + format->half_sums);
  int32_t* offsets = reinterpret_cast<int32_t*>(base + format->offsets);
  int32_t* half_offsets = reinterpret_cast<int32_t*>(base + format->half_offsets);
  int32_t* pair_offsets = reinterpret_cast<int32_t*>(base + format->pair_offsets);
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  for (int64_t g = 0; g < format->groups; ++g) {
    __m256 x[kVectors];
    __m256i largest = _mm256_setzero_si256();
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const int64_t begin = g * kInt8Codes + v * kLanes;
      const int64_t left = format->k - begin;
      x[v] = left >= kLanes ? _mm256_loadu_ps(in + begin)
                            : _mm256_maskload_ps(in + (left > 0 ? begin : 0), first_lanes(left > 0 ? left : 0));
      largest = _mm256_max_epi32(largest, _mm256_and_si256(_mm256_castps_si256(x[v]), magnitude));
    }
    const int32_t bits = max_integer(largest);
    const float maximum = from_bits(bits);
    float scale = 0;
    __m256i codes[kVectors] = {};
    if (bits >= 0x7f800000) {
      scale = from_bits(0x7fc00000);
    } else if (maximum >= 0x1p-120f) {  // kInt8Least, which lies in a header that this file may not include
      scale = maximum / 127;
      const __m256 inverse = _mm256_set1_ps(127 / maximum);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) codes[v] = _mm256_cvtps_epi32(_mm256_mul_ps(x[v], inverse));
    }
    // Packing works within each half of a vector: the last step puts the fours of codes into their order.
    const __m256i words[2] = {_mm256_packs_epi32(codes[0], codes[1]), _mm256_packs_epi32(codes[2], codes[3])};
    const PairSums first_pairs = sum_pairs(words[0]);
    const PairSums second_pairs = sum_pairs(words[1]);
    const int32_t first = first_pairs.first + first_pairs.second;
    const int32_t second = second_pairs.first + second_pairs.second;
    const __m256i bytes = _mm256_packs_epi16(words[0], words[1]);
    __m256i* wide = reinterpret_cast<__m256i*>(base + format->wide) + 2 * g;
    _mm256_storeu_si256(wide, _mm256_permute4x64_epi64(words[0], 0xd8));
    _mm256_storeu_si256(wide + 1, _mm256_permute4x64_epi64(words[1], 0xd8));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(base + g * kInt8Codes),
                        _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
    scales[g] = scale;
    sums[g] = scale * static_cast<float>(first + second);
    half_sums[2 * g] = scale * static_cast<float>(first);
    half_sums[2 * g + 1] = scale * static_cast<float>(second);
    offsets[g] = -kCode4Middle * (first + second);
    half_offsets[2 * g] = -kCode4Middle * first;
    half_offsets[2 * g + 1] = -kCode4Middle * second;
    pair_offsets[2 * g] = pair_offsets_of(first_pairs);
    pair_offsets[2 * g + 1] = pair_offsets_of(second_pairs);
  }
}

}  // namespace twostroke
