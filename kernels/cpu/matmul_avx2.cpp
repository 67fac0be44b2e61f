// Panels of weights in AVX2: expanding them to floats, and multiplying them by one row straight from their codes. Both
// get their weights from the same Reader types, and add products in the same order, hence the same bits.

#include "kernels/cpu/kernels_avx2.h"
#include "kernels/cpu/simd_avx2.h"

namespace twostroke {
namespace {

// The 16 weights of one k.
struct Weights {
  __m256 low;
  __m256 high;
};

// A Reader walks one panel: enter(step) loads what a step (panel_format.h) has in common, then read(i, use) calls
// use(j, weights) with the weights of its k = i + j for j = 0, 1, ... kAtOnce - 1; i is a multiple of kAtOnce.

struct Float32Reader {
  static constexpr int kAtOnce = 1;
  const float* step;
  explicit Float32Reader(const PanelFormat&) {}
  void enter(const uint8_t* at) { step = reinterpret_cast<const float*>(at); }
  template <typename Use>
  void read(int32_t, Use use) const {
    use(0, Weights{_mm256_loadu_ps(step), _mm256_loadu_ps(step + kLanes)});
  }
};

struct Float16Reader {
  static constexpr int kAtOnce = 1;
  const __m128i* step;
  explicit Float16Reader(const PanelFormat&) {}
  void enter(const uint8_t* at) { step = reinterpret_cast<const __m128i*>(at); }
  template <typename Use>
  void read(int32_t, Use use) const {
    use(0, Weights{_mm256_cvtph_ps(_mm_loadu_si128(step)), _mm256_cvtph_ps(_mm_loadu_si128(step + 1))});
  }
};

struct Bfloat16Reader {
  static constexpr int kAtOnce = 1;
  const __m128i* step;
  explicit Bfloat16Reader(const PanelFormat&) {}
  void enter(const uint8_t* at) { step = reinterpret_cast<const __m128i*>(at); }
  static __m256 widen(__m128i bits) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16)); }
  template <typename Use>
  void read(int32_t, Use use) const {
    use(0, Weights{widen(_mm_loadu_si128(step)), widen(_mm_loadu_si128(step + 1))});
  }
};

inline Weights load_scales(const PanelFormat& format, const uint8_t* at) {
  if (format.half_scales) {
    const __m128i* halves = reinterpret_cast<const __m128i*>(at);
    return {_mm256_cvtph_ps(_mm_loadu_si128(halves)), _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))};
  }
  const float* floats = reinterpret_cast<const float*>(at);
  return {_mm256_loadu_ps(floats), _mm256_loadu_ps(floats + kLanes)};
}

template <bool kHasMin>
struct ScaledReader {
  const PanelFormat& format;
  Weights scale;
  Weights min;
  const uint8_t* codes;

  explicit ScaledReader(const PanelFormat& panel_format) : format(panel_format) {}
  void enter(const uint8_t* at) {
    const int32_t bytes = kPanelOutputs * (format.half_scales ? 2 : 4);
    scale = load_scales(format, at);
    if constexpr (kHasMin) min = load_scales(format, at + bytes);
    codes = at + bytes * (kHasMin ? 2 : 1);
  }
  Weights apply(__m256i low, __m256i high) const {
    const __m256 x = _mm256_cvtepi32_ps(low);
    const __m256 y = _mm256_cvtepi32_ps(high);
    if constexpr (kHasMin) return {_mm256_fmadd_ps(scale.low, x, min.low), _mm256_fmadd_ps(scale.high, y, min.high)};
    return {_mm256_mul_ps(scale.low, x), _mm256_mul_ps(scale.high, y)};
  }
};

template <bool kHasMin>
struct Code8Reader : ScaledReader<kHasMin> {
  static constexpr int kAtOnce = 4;
  using ScaledReader<kHasMin>::ScaledReader;
  template <typename Use>
  void read(int32_t i, Use use) const {
    const __m256i* quads = reinterpret_cast<const __m256i*>(this->codes + i * kPanelOutputs);
    const __m256i offset = _mm256_set1_epi8(-128);  // from code + 128 back to the signed code
    const __m256i low = _mm256_xor_si256(_mm256_loadu_si256(quads), offset);
    const __m256i high = _mm256_xor_si256(_mm256_loadu_si256(quads + 1), offset);
    const auto signed_byte = [](__m256i x, int j) { return _mm256_srai_epi32(_mm256_slli_epi32(x, 24 - 8 * j), 24); };
    use(0, this->apply(signed_byte(low, 0), signed_byte(high, 0)));
    use(1, this->apply(signed_byte(low, 1), signed_byte(high, 1)));
    use(2, this->apply(signed_byte(low, 2), signed_byte(high, 2)));
    use(3, this->apply(signed_byte(low, 3), signed_byte(high, 3)));
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

// Asks for the part of a panel that will be read when `at` is kPrefetchAhead further. Of plain numbers a step is a line
// or half of one.
static inline void ask_ahead(const PanelFormat& format, const uint8_t* at) {
  for (size_t i = 0; i < format.step_bytes; i += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(at + kPrefetchAhead + i), _MM_HINT_T0);
  }
}

// kGroup is 1 for plain numbers.
template <typename Reader, int32_t kGroup>
void expand(const PanelFormat& format, const uint8_t* panel, int64_t k_begin, int64_t k_count, float* out) {
  Reader reader(format);
  const uint8_t* step = panel + static_cast<size_t>(k_begin / kGroup) * format.step_bytes;
  for (int64_t k = 0; k < k_count; k += kGroup, step += format.step_bytes) {
    ask_ahead(format, step);
    reader.enter(step);
    for (int32_t i = 0; i < kGroup; i += Reader::kAtOnce) {
      reader.read(i, [&](int j, Weights weights) {
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
  const uint8_t* step = panel;
  for (int64_t base = 0; base < k; base += kGroup, step += format.step_bytes) {
    ask_ahead(format, step);
    if constexpr (kPanels == 2) ask_ahead(format, step + format.panel_bytes);
    first.enter(step);
    if constexpr (kPanels == 2) second.enter(step + format.panel_bytes);
    for (int32_t i = 0; i < kGroup; i += Reader::kAtOnce) {
      first.read(i, [&](int j, Weights weights) {
        const __m256 input = _mm256_broadcast_ss(x + base + i + j);
        sums[0] = _mm256_fmadd_ps(input, weights.low, sums[0]);
        sums[1] = _mm256_fmadd_ps(input, weights.high, sums[1]);
      });
      if constexpr (kPanels == 2) {
        second.read(i, [&](int j, Weights weights) {
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
      if (format.has_min) {
        if (format.group == 32) return use(ReaderOf<Code8Reader<true>, 32>());
        return use(ReaderOf<Code8Reader<true>, 16>());
      }
      if (format.group == 32) return use(ReaderOf<Code8Reader<false>, 32>());
      return use(ReaderOf<Code8Reader<false>, 16>());
    case PanelKind::kCode4:
      if (format.has_min) {
        if (format.group == 32) return use(ReaderOf<Code4Reader<true>, 32>());
        return use(ReaderOf<Code4Reader<true>, 16>());
      }
      if (format.group == 32) return use(ReaderOf<Code4Reader<false>, 32>());
      return use(ReaderOf<Code4Reader<false>, 16>());
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
