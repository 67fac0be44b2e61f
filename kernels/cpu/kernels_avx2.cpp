// The element-wise kernels in AVX2, and the table of all of them.

#include "kernels/cpu/kernels_avx2.h"

#include "kernels/cpu/simd_avx2.h"

namespace twostroke {
namespace {

// A vector of up to 8 floats: the last one of an array may be partial. Lanes beyond are zero and are not stored.
inline __m256 load_part(const float* from, int64_t count) {
  return count >= kLanes ? _mm256_loadu_ps(from) : _mm256_maskload_ps(from, first_lanes(count));
}
inline void store_part(float* to, int64_t count, __m256 value) {
  if (count >= kLanes) {
    _mm256_storeu_ps(to, value);
  } else {
    _mm256_maskstore_ps(to, first_lanes(count), value);
  }
}

void rms_norm(float* out, const float* in, const float* scale, int64_t size, float epsilon) {
  __m256 even = _mm256_setzero_ps();
  __m256 odd = _mm256_setzero_ps();
  for (int64_t i = 0; i < size; i += 2 * kLanes) {
    const __m256 x = load_part(in + i, size - i);
    even = _mm256_fmadd_ps(x, x, even);
    if (size - i <= kLanes) break;
    const __m256 y = load_part(in + i + kLanes, size - i - kLanes);
    odd = _mm256_fmadd_ps(y, y, odd);
  }
  const float mean = sum_lanes(_mm256_add_ps(even, odd)) / static_cast<float>(size);
  const __m256 root = _mm256_sqrt_ps(_mm256_set1_ps(mean + epsilon));
  const __m256 factor = _mm256_div_ps(_mm256_set1_ps(1), root);
  for (int64_t i = 0; i < size; i += kLanes) {
    const __m256 x = _mm256_mul_ps(load_part(in + i, size - i), factor);
    store_part(out + i, size - i, _mm256_mul_ps(x, load_part(scale + i, size - i)));
  }
}

void silu_gate(float* out, const float* gate, const float* up, int64_t size) {
  const __m256 one = _mm256_set1_ps(1);
  for (int64_t i = 0; i < size; i += kLanes) {
    const __m256 x = load_part(gate + i, size - i);
    const __m256 exponential = exp_lanes(_mm256_sub_ps(_mm256_setzero_ps(), x));
    const __m256 swish = _mm256_div_ps(x, _mm256_add_ps(one, exponential));
    store_part(out + i, size - i, _mm256_mul_ps(swish, load_part(up + i, size - i)));
  }
}

void rotate(float* x, const float* cosine, const float* sine, int64_t size) {
  for (int64_t i = 0; i < size; i += kLanes) {
    const __m256 pairs = load_part(x + i, size - i);
    const __m256 swapped = _mm256_permute_ps(pairs, 0xb1);
    const __m256 turned = _mm256_mul_ps(swapped, load_part(sine + i, size - i));
    store_part(x + i, size - i, _mm256_fmadd_ps(pairs, load_part(cosine + i, size - i), turned));
  }
}

void to_half(uint16_t* out, const float* in, int64_t size) {
  for (int64_t i = 0; i < size; i += kLanes) {
    const __m128i halves = _mm256_cvtps_ph(load_part(in + i, size - i), _MM_FROUND_TO_NEAREST_INT);
    if (size - i >= kLanes) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), halves);
    } else {
      uint16_t part[kLanes];
      _mm_storeu_si128(reinterpret_cast<__m128i*>(part), halves);
      for (int64_t j = 0; j < size - i; ++j) out[i + j] = part[j];
    }
  }
}

void divide(float* out, const float* in, float divisor, int64_t size) {
  const __m256 divisors = _mm256_set1_ps(divisor);
  for (int64_t i = 0; i < size; i += kLanes) {
    store_part(out + i, size - i, _mm256_div_ps(load_part(in + i, size - i), divisors));
  }
}

constexpr VectorKernels kKernels = {
    .expand = expand_panel_avx2,
    .multiply_tile = multiply_tile_avx2,
    .multiply_vector = multiply_vector_avx2,
    .multiply_codes = multiply_codes_avx2,
    .quantise = quantise_avx2,
    .rms_norm = rms_norm,
    .silu_gate = silu_gate,
    .rotate = rotate,
    .to_half = to_half,
    .expand_tile = expand_tile_avx2,
    .attend = attend_avx2,
    .attend_direct = attend_direct_avx2,
    .fold = fold_avx2,
    .divide = divide,
    .multiply_add = multiply_add_avx2,
    .multiply_adds_per_round = kMultiplyAddsAvx2,
    .int8_multiply_add = int8_multiply_add_avx2,
    .int8_multiply_adds_per_round = kInt8MultiplyAddsAvx2,
};

}  // namespace

const VectorKernels* avx2_kernels() { return &kKernels; }

}  // namespace twostroke
