// Panels of weights in AVX2: expanding them to floats, and multiplying them by one row straight from their codes. Both
// get their weights from the same Reader types, and add products in the same order, hence the same bits.

#include "kernels/cpu/kernels_avx2.h"
#include "kernels/cpu/simd_avx2.h"

namespace twostroke {
namespace {

// A Reader walks one panel: enter(step, super) loads what a step (panel_format.h) has in common, of whose super-block
// scales begin at `super` if it has any; then read(i, use) calls use(j, weights) with the weights of its k = i + j for
// j = 0, 1, ... kAtOnce - 1; i is a multiple of kAtOnce.

struct Float32Reader {
  static constexpr int kAtOnce = 1;
  const float* step;
  explicit Float32Reader(const PanelFormat&) {}
  void enter(const uint8_t* at, const uint8_t*) { step = reinterpret_cast<const float*>(at); }
  template <typename Use>
  void read(int32_t, Use use) const {
    use(0, PanelVector{_mm256_loadu_ps(step), _mm256_loadu_ps(step + kLanes)});
  }
};

struct Float16Reader {
  static constexpr int kAtOnce = 1;
  const __m128i* step;
  explicit Float16Reader(const PanelFormat&) {}
  void enter(const uint8_t* at, const uint8_t*) { step = reinterpret_cast<const __m128i*>(at); }
  template <typename Use>
  void read(int32_t, Use use) const {
    use(0, PanelVector{_mm256_cvtph_ps(_mm_loadu_si128(step)), _mm256_cvtph_ps(_mm_loadu_si128(step + 1))});
  }
};

struct Bfloat16Reader {
  static constexpr int kAtOnce = 1;
  const __m128i* step;
  explicit Bfloat16Reader(const PanelFormat&) {}
  void enter(const uint8_t* at, const uint8_t*) { step = reinterpret_cast<const __m128i*>(at); }
  static __m256 widen(__m128i bits) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16)); }
  template <typename Use>
  void read(int32_t, Use use) const {
    use(0, PanelVector{widen(_mm_loadu_si128(step)), widen(_mm_loadu_si128(step + 1))});
  }
};

struct Integers {
  __m256i low;   // of outputs 0 to 7
  __m256i high;  // of outputs 8 to 15
};

template <bool kHasMin>
struct ScaledReader {
  const PanelFormat& format;
  PanelVector scale;
  PanelVector min;
  const uint8_t* codes;

  explicit ScaledReader(const PanelFormat& panel_format) : format(panel_format) {}
  void enter(const uint8_t* at, const uint8_t* super) {
    scale = load_scales(format.scale_factors, at, super);
    if constexpr (kHasMin) min = load_scales(format.scale_factors, at + format.scale_bytes, super + kHalvesBytes);
    codes = at + format.codes_at;
  }
  PanelVector apply(__m256i low, __m256i high) const {
    const __m256 x = _mm256_cvtepi32_ps(low);
    const __m256 y = _mm256_cvtepi32_ps(high);
    if constexpr (kHasMin) return {_mm256_fmadd_ps(scale.low, x, min.low), _mm256_fmadd_ps(scale.high, y, min.high)};
    return {_mm256_mul_ps(scale.low, x), _mm256_mul_ps(scale.high, y)};
  }
};

struct Code8Reader : ScaledReader<false> {
  static constexpr int kAtOnce = 4;
  using ScaledReader<false>::ScaledReader;
  template <typename Use>
  void read(int32_t i, Use use) const {
    const __m256i* quads = reinterpret_cast<const __m256i*>(codes + i * kPanelOutputs);
    const __m256i offset = _mm256_set1_epi8(-128);  // from code + 128 back to the signed code
    const __m256i low = _mm256_xor_si256(_mm256_loadu_si256(quads), offset);
    const __m256i high = _mm256_xor_si256(_mm256_loadu_si256(quads + 1), offset);
    const auto signed_byte = [](__m256i x, int j) { return _mm256_srai_epi32(_mm256_slli_epi32(x, 24 - 8 * j), 24); };
    use(0, apply(signed_byte(low, 0), signed_byte(high, 0)));
    use(1, apply(signed_byte(low, 1), signed_byte(high, 1)));
    use(2, apply(signed_byte(low, 2), signed_byte(high, 2)));
    use(3, apply(signed_byte(low, 3), signed_byte(high, 3)));
  }
};

template <bool kHasMin>
struct Code4Reader : ScaledReader<kHasMin> {
  static constexpr int kAtOnce = 8;
  using ScaledReader<kHasMin>::ScaledReader;
  template <typename Use>
  void read(int32_t i, Use use) const {
    const __m256i* quads = reinterpret_cast<const __m256i*>(this->codes + i / 2 * kPanelOutputs);
    const __m256i low = _mm256_loadu_si256(quads);
    const __m256i high = _mm256_loadu_si256(quads + 1);
    const auto code = [](__m256i x, int at) {
      const __m256i half_byte = _mm256_and_si256(_mm256_srli_epi32(x, at), _mm256_set1_epi32(15));
      return kHasMin ? half_byte : _mm256_sub_epi32(half_byte, _mm256_set1_epi32(kCode4Middle));
    };
    use(0, this->apply(code(low, 0), code(high, 0)));
    use(1, this->apply(code(low, 8), code(high, 8)));
    use(2, this->apply(code(low, 16), code(high, 16)));
    use(3, this->apply(code(low, 24), code(high, 24)));
    use(4, this->apply(code(low, 4), code(high, 4)));
    use(5, this->apply(code(low, 12), code(high, 12)));
    use(6, this->apply(code(low, 20), code(high, 20)));
    use(7, this->apply(code(low, 28), code(high, 28)));
  }
};

template <bool kHasMin>
struct Code6Reader : ScaledReader<kHasMin> {
  static constexpr int kAtOnce = 16;
  using ScaledReader<kHasMin>::ScaledReader;
  template <typename Use>
  void read(int32_t i, Use use) const {
    const __m256i* unit = reinterpret_cast<const __m256i*>(this->codes + i * 3 / 4 * kPanelOutputs);
    const Integers first = {_mm256_loadu_si256(unit), _mm256_loadu_si256(unit + 1)};
    const Integers second = {_mm256_loadu_si256(unit + 2), _mm256_loadu_si256(unit + 3)};
    const Integers upper = {_mm256_loadu_si256(unit + 4), _mm256_loadu_si256(unit + 5)};
    // k = 4q + j has its lower bits at bit 8j + 4 (q % 2), its upper ones at 8j + 2q.
    const auto code = [](__m256i lower, __m256i pairs, int q, int j) {
      const __m256i low = _mm256_and_si256(_mm256_srli_epi32(lower, 8 * j + 4 * (q % 2)), _mm256_set1_epi32(15));
      const __m256i high = _mm256_and_si256(_mm256_srli_epi32(pairs, 8 * j + 2 * q), _mm256_set1_epi32(3));
      return _mm256_sub_epi32(_mm256_or_si256(low, _mm256_slli_epi32(high, 4)), _mm256_set1_epi32(32));
    };
#pragma GCC unroll 16
    for (int j = 0; j < kAtOnce; ++j) {
      const Integers& lower = j < 8 ? first : second;
      use(j, this->apply(code(lower.low, upper.low, j / 4, j % 4), code(lower.high, upper.high, j / 4, j % 4)));
    }
  }
};

// Asks for the part of a panel that will be read when `at` is kPrefetchAhead further. Of plain numbers a step is a line
// or half of one.
static inline void ask_ahead(const PanelFormat& format, const uint8_t* at) {
  for (size_t i = 0; i < format.step_bytes; i += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(at + kPrefetchAhead + i), _MM_HINT_T0);
  }
}

// The scales of the super-block of k.
static inline const uint8_t* super_at(const PanelFormat& format, const uint8_t* panel, int64_t k) {
  return panel + static_cast<size_t>(k / kSuperBlockK) * format.super_bytes;
}

// kGroup is 1 for plain numbers.
template <typename Reader, int32_t kGroup>
void expand(const PanelFormat& format, const uint8_t* panel, int64_t k_begin, int64_t k_count, float* out) {
  Reader reader(format);
  const uint8_t* step = panel + format.steps_at + static_cast<size_t>(k_begin / kGroup) * format.step_bytes;
  for (int64_t k = 0; k < k_count; k += kGroup, step += format.step_bytes) {
    ask_ahead(format, step);
    reader.enter(step, super_at(format, panel, k_begin + k));
    for (int32_t i = 0; i < kGroup; i += Reader::kAtOnce) {
      reader.read(i, [&](int j, PanelVector weights) {
        _mm256_storeu_ps(out + (k + i + j) * kPanelOutputs, weights.low);
        _mm256_storeu_ps(out + (k + i + j) * kPanelOutputs + kLanes, weights.high);
      });
    }
  }
}

// kPanels panels at once: one panel's two chains of dependent additions would leave the multipliers idle.
template <typename Reader, int32_t kGroup, int kPanels>
void multiply_panels(const PanelFormat& format, const uint8_t* panel, const float* x, int64_t k, float* out) {
  Reader first(format);
  Reader second(format);
  __m256 sums[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
  const uint8_t* step = panel + format.steps_at;
  for (int64_t base = 0; base < k; base += kGroup, step += format.step_bytes) {
    ask_ahead(format, step);
    if constexpr (kPanels == 2) ask_ahead(format, step + format.panel_bytes);
    const uint8_t* super = super_at(format, panel, base);
    first.enter(step, super);
    if constexpr (kPanels == 2) second.enter(step + format.panel_bytes, super + format.panel_bytes);
    for (int32_t i = 0; i < kGroup; i += Reader::kAtOnce) {
      first.read(i, [&](int j, PanelVector weights) {
        const __m256 input = _mm256_broadcast_ss(x + base + i + j);
        sums[0] = _mm256_fmadd_ps(input, weights.low, sums[0]);
        sums[1] = _mm256_fmadd_ps(input, weights.high, sums[1]);
      });
      if constexpr (kPanels == 2) {
        second.read(i, [&](int j, PanelVector weights) {
          const __m256 input = _mm256_broadcast_ss(x + base + i + j);
          sums[2] = _mm256_fmadd_ps(input, weights.low, sums[2]);
          sums[3] = _mm256_fmadd_ps(input, weights.high, sums[3]);
        });
      }
    }
  }
  for (int i = 0; i < 2 * kPanels; ++i) _mm256_storeu_ps(out + i * kLanes, sums[i]);
}

template <typename Reader, int32_t kGroup>
void multiply_all(const PanelFormat& format, const uint8_t* panel, int32_t panels, const float* x, int64_t k,
                  float* out) {
  int32_t done = 0;
  for (; done + 2 <= panels; done += 2) {
    multiply_panels<Reader, kGroup, 2>(format, panel, x, k, out);
    panel += 2 * format.panel_bytes;
    out += 2 * kPanelOutputs;
  }
  if (done < panels) multiply_panels<Reader, kGroup, 1>(format, panel, x, k, out);
}

// Calls `use` with the Reader of a format and its group as types.
template <typename Reader, int32_t kGroup>
struct ReaderOf {
  using Type = Reader;
  static constexpr int32_t kSize = kGroup;
};
template <typename Reader, typename Use>
inline void dispatch_group(const PanelFormat& format, Use use) {
  if (format.group == 32) return use(ReaderOf<Reader, 32>());
  use(ReaderOf<Reader, 16>());
}
template <typename Use>
inline void dispatch(const PanelFormat& format, Use use) {
  switch (format.kind) {
    case PanelKind::kFloat32:
      return use(ReaderOf<Float32Reader, 1>());
    case PanelKind::kFloat16:
      return use(ReaderOf<Float16Reader, 1>());
    case PanelKind::kBfloat16:
      return use(ReaderOf<Bfloat16Reader, 1>());
    case PanelKind::kCode8:
      return use(ReaderOf<Code8Reader, 32>());
    case PanelKind::kCode6:
      if (format.has_min) return dispatch_group<Code6Reader<true>>(format, use);
      return dispatch_group<Code6Reader<false>>(format, use);
    case PanelKind::kCode4:
      if (format.has_min) return dispatch_group<Code4Reader<true>>(format, use);
      return dispatch_group<Code4Reader<false>>(format, use);
  }
}

}  // namespace

void expand_panel_avx2(const PanelFormat* format, const void* panel, int64_t k_begin, int64_t k_count, float* out) {
  dispatch(*format, [&](auto reader) {
    using Reader = decltype(reader);
    expand<typename Reader::Type, Reader::kSize>(*format, static_cast<const uint8_t*>(panel), k_begin, k_count, out);
  });
}

void multiply_vector_avx2(const PanelFormat* format, const void* panel, int32_t panels, const float* x, int64_t k,
                          float* out) {
  dispatch(*format, [&](auto reader) {
    using Reader = decltype(reader);
    multiply_all<typename Reader::Type, Reader::kSize>(*format, static_cast<const uint8_t*>(panel), panels, x, k, out);
  });
}

}  // namespace twostroke
