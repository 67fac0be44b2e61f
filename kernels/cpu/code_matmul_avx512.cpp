// Panels of codes times rows of quantised activations in AVX-512 with VNNI: vpdpbusd multiplies four unsigned bytes
// (codes) by four signed ones (activations) in each of 16 lanes, one output each, and adds them to 32 bits.
//
// The sums, and the order in which groups are added in single precision, are those of code_matmul_avx2.cpp: the two
// give the same bits.

#include <immintrin.h>

#include "kernels/cpu/kernels_avx512.h"
#include "kernels/cpu/look_ahead.h"

namespace twostroke {
namespace {

// Two panels share each broadcast activation; 2 x 6 sums are enough to keep two units busy whose latency is 5 cycles.
constexpr int64_t kRowsMax = 6;

// Scales or mins of a group: halves, or factors of those of its super-block.
static inline __m512 load_halves(const uint8_t* at) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
}
static inline __m512 load_scales(bool factors, const uint8_t* at, const uint8_t* super) {
  if (!factors) return load_halves(at);
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
  return _mm512_mul_ps(load_halves(super), _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)));
}

// Four activations in every lane.
static inline __m512i broadcast_quad(const uint8_t* at) {
  int32_t quad;
  __builtin_memcpy(&quad, at, sizeof(quad));
  return _mm512_set1_epi32(quad);
}

// Where the outputs of the panels go.
struct Outputs {
  float* at;  // of the first row
  int64_t stride;
  bool accumulate;
};

// Rows that are multiplied at once: where each has its codes, and where in a row the other parts are.
template <int kRows>
struct Rows {
  const Int8Format* format;
  const uint8_t* at[kRows];

  __m512 broadcast(int r, size_t part, int64_t index) const {
    return _mm512_set1_ps(reinterpret_cast<const float*>(at[r] + part)[index]);
  }
  __m512i broadcast_integer(int r, size_t part, int64_t index) const {
    return _mm512_set1_epi32(reinterpret_cast<const int32_t*>(at[r] + part)[index]);
  }
};

// Codes of consecutive k: how many vectors of quads are packed together, each of them, and how far kCode4Middle is from
// the middle of the codes.
template <PanelKind kKind>
struct Codes;

template <>
struct Codes<PanelKind::kCode8> {
  static constexpr int kVectors = 1;
  static constexpr int kBytesPerK = 16;
  static constexpr int kOffsetShift = 4;
  static inline __m512i quads(const uint8_t* at, int) { return _mm512_loadu_si512(at); }
};

template <>
struct Codes<PanelKind::kCode4> {
  static constexpr int kVectors = 2;
  static constexpr int kBytesPerK = 8;
  static constexpr int kOffsetShift = 0;
  static inline __m512i quads(const uint8_t* at, int vector) {
    const __m512i bytes = _mm512_loadu_si512(at);
    return _mm512_and_si512(vector == 0 ? bytes : _mm512_srli_epi16(bytes, 4), _mm512_set1_epi8(15));
  }
};

template <>
struct Codes<PanelKind::kCode6> {
  static constexpr int kVectors = 4;
  static constexpr int kBytesPerK = 12;
  static constexpr int kOffsetShift = 2;
  static inline __m512i quads(const uint8_t* at, int vector) {
    const __m512i low = Codes<PanelKind::kCode4>::quads(at + vector / 2 * 64, vector % 2);
    const __m512i high = _mm512_loadu_si512(at + 128);
    const __m512i pairs = vector == 0   ? _mm512_slli_epi16(high, 4)
                          : vector == 1 ? _mm512_slli_epi16(high, 2)
                          : vector == 2 ? high
                                        : _mm512_srli_epi16(high, 2);
    return _mm512_ternarylogic_epi64(low, pairs, _mm512_set1_epi8(0x30), 0xf8);  // low | (pairs & 0x30)
  }
};

// kPanels panels times the rows.
template <PanelKind kKind, bool kHasMin, int32_t kGroup, int kPanels, int kRows>
[[gnu::noinline]] void multiply_rows(const PanelFormat& format, const uint8_t* panel, const Rows<kRows>& given,
                                     const LookAhead& given_ahead, const Outputs& out) {
  LookAhead ahead = given_ahead;
  const Rows<kRows> rows = given;
  const Int8Format& parts = *rows.format;
  const size_t sums_part = kGroup == kInt8Codes ? parts.sums : parts.half_sums;
  const size_t offsets_part = kGroup == kInt8Codes ? parts.offsets : parts.half_offsets;
  const bool factors = format.scale_factors;
  const size_t panel_bytes = format.panel_bytes;
  const int64_t groups = parts.k / kGroup;
  const uint8_t* const supers_at = panel;
  panel += format.steps_at;
  __m512 total[kPanels][kRows];
#pragma GCC unroll 2
  for (int p = 0; p < kPanels; ++p) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) total[p][r] = _mm512_setzero_ps();
  }
  for (int64_t g = 0; g < groups; ++g, panel += format.step_bytes) {
    ask_ahead(ahead, kPanels);
    __m512i dots[kPanels][kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      __m512i start = _mm512_setzero_si512();
      if constexpr (kKind != PanelKind::kCode4 || !kHasMin) {
        start = _mm512_slli_epi32(rows.broadcast_integer(r, offsets_part, g), Codes<kKind>::kOffsetShift);
      }
#pragma GCC unroll 2
      for (int p = 0; p < kPanels; ++p) dots[p][r] = start;
    }
    constexpr int kVectors = Codes<kKind>::kVectors;
    const uint8_t* codes = panel + format.codes_at;
#pragma GCC unroll 8
    for (int32_t i = 0; i < kGroup; i += 4 * kVectors) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        __m512i quads[kPanels];
#pragma GCC unroll 2
        for (int p = 0; p < kPanels; ++p) {
          quads[p] =
              Codes<kKind>::quads(codes + static_cast<size_t>(p) * panel_bytes + i * Codes<kKind>::kBytesPerK, v);
        }
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const __m512i inputs = broadcast_quad(rows.at[r] + g * kGroup + i + 4 * v);
#pragma GCC unroll 2
          for (int p = 0; p < kPanels; ++p) dots[p][r] = _mm512_dpbusd_epi32(dots[p][r], quads[p], inputs);
        }
      }
    }
    const int64_t input_group = g * kGroup / kInt8Codes;
    const uint8_t* super = supers_at + static_cast<size_t>(g * kGroup / kSuperBlockK) * format.super_bytes;
#pragma GCC unroll 2
    for (int p = 0; p < kPanels; ++p) {
      const uint8_t* at = panel + static_cast<size_t>(p) * panel_bytes;
      const uint8_t* supers = super + static_cast<size_t>(p) * panel_bytes;
      const __m512 scale = load_scales(factors, at, supers);
      __m512 min = _mm512_setzero_ps();
      if constexpr (kHasMin) min = load_scales(factors, at + format.scale_bytes, supers + kHalvesBytes);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const __m512 product = _mm512_mul_ps(_mm512_cvtepi32_ps(dots[p][r]), scale);
        total[p][r] = _mm512_fmadd_ps(product, rows.broadcast(r, parts.scales, input_group), total[p][r]);
        if constexpr (kHasMin) total[p][r] = _mm512_fmadd_ps(min, rows.broadcast(r, sums_part, g), total[p][r]);
      }
    }
  }
#pragma GCC unroll 2
  for (int p = 0; p < kPanels; ++p) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      float* to = out.at + r * out.stride + p * kPanelOutputs;
      _mm512_storeu_ps(to, out.accumulate ? _mm512_add_ps(_mm512_loadu_ps(to), total[p][r]) : total[p][r]);
    }
  }
}

template <PanelKind kKind, bool kHasMin, int32_t kGroup, int kPanels>
struct Multiply {
  const PanelFormat& format;
  const uint8_t* panel;
  const Int8Format* parts;

  template <int kRows>
  void some(const uint8_t* row, const LookAhead& ahead, const Outputs& out) const {
    Rows<kRows> rows;
    rows.format = parts;
    for (int r = 0; r < kRows; ++r) rows.at[r] = row + static_cast<size_t>(r) * parts->row_bytes;
    multiply_rows<kKind, kHasMin, kGroup, kPanels, kRows>(format, panel, rows, ahead, out);
  }

  // The last twelve or fewer are halved: 7 rows are 4 and 3, not 6 and 1.
  void all(const uint8_t* row, int64_t rows, Outputs out) const {
    const int64_t passes = (rows + kRowsMax - 1) / kRowsMax;
    int64_t pass = 0;
    for (int64_t left = rows; left > 0; ++pass) {
      const int64_t count = left >= 2 * kRowsMax ? kRowsMax : left > kRowsMax ? (left + 1) / 2 : left;
      const LookAhead ahead = look_ahead(format, panel, kPanels, parts->k / kGroup, pass, passes);
      switch (count) {
        case 1:
          some<1>(row, ahead, out);
          break;
        case 2:
          some<2>(row, ahead, out);
          break;
        case 3:
          some<3>(row, ahead, out);
          break;
        case 4:
          some<4>(row, ahead, out);
          break;
        case 5:
          some<5>(row, ahead, out);
          break;
        default:
          some<kRowsMax>(row, ahead, out);
          break;
      }
      row += static_cast<size_t>(count) * parts->row_bytes;
      out.at += count * out.stride;
      left -= count;
    }
  }
};

template <PanelKind kKind, bool kHasMin, int32_t kGroup>
void multiply_panels(const PanelFormat& format, const uint8_t* panel, int32_t panels, const Int8Format* parts,
                     const uint8_t* row, int64_t rows, const Outputs& out) {
  if (panels == kPanelsAtOnce) {
    Multiply<kKind, kHasMin, kGroup, kPanelsAtOnce>{format, panel, parts}.all(row, rows, out);
  } else {
    Multiply<kKind, kHasMin, kGroup, 1>{format, panel, parts}.all(row, rows, out);
  }
}

template <PanelKind kKind, bool kHasMin>
void multiply_groups(const PanelFormat& format, const uint8_t* panel, int32_t panels, const Int8Format* parts,
                     const uint8_t* row, int64_t rows, const Outputs& out) {
  if (format.group == kInt8Codes) {
    multiply_panels<kKind, kHasMin, 32>(format, panel, panels, parts, row, rows, out);
  } else {
    multiply_panels<kKind, kHasMin, 16>(format, panel, panels, parts, row, rows, out);
  }
}

template <PanelKind kKind>
void multiply_kind(const PanelFormat& format, const uint8_t* panel, int32_t panels, const Int8Format* parts,
                   const uint8_t* row, int64_t rows, const Outputs& out) {
  if (format.has_min) {
    multiply_groups<kKind, true>(format, panel, panels, parts, row, rows, out);
  } else {
    multiply_groups<kKind, false>(format, panel, panels, parts, row, rows, out);
  }
}

}  // namespace

void multiply_codes_avx512(const PanelFormat* format, const void* panel, int32_t panels, const Int8Format* parts,
                           const void* row, int64_t rows, float* out, int64_t out_stride, bool accumulate) {
  const uint8_t* weights = static_cast<const uint8_t*>(panel);
  const uint8_t* inputs = static_cast<const uint8_t*>(row);
  for (int32_t p = 0; p < panels; p += kPanelsAtOnce, weights += kPanelsAtOnce * format->panel_bytes) {
    const int32_t count = panels - p < kPanelsAtOnce ? panels - p : int32_t{kPanelsAtOnce};
    const Outputs outputs = {out + p * kPanelOutputs, out_stride, accumulate};
    if (format->kind == PanelKind::kCode8) {
      multiply_panels<PanelKind::kCode8, false, kInt8Codes>(*format, weights, count, parts, inputs, rows, outputs);
    } else if (format->kind == PanelKind::kCode6) {
      multiply_kind<PanelKind::kCode6>(*format, weights, count, parts, inputs, rows, outputs);
    } else {
      multiply_kind<PanelKind::kCode4>(*format, weights, count, parts, inputs, rows, outputs);
    }
  }
}

}  // namespace twostroke
