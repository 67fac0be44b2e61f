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

static inline __m512 load_scales(bool half_scales, const uint8_t* at) {
  if (half_scales) return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
  return _mm512_loadu_ps(at);
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

// kPanels panels times the rows.
template <PanelKind kKind, bool kHasMin, int32_t kGroup, int kPanels, int kRows>
[[gnu::noinline]] void multiply_rows(const PanelFormat& format, const uint8_t* panel, const Rows<kRows>& given,
                                     const LookAhead& given_ahead, const Outputs& out) {
  LookAhead ahead = given_ahead;
  const Rows<kRows> rows = given;
  const Int8Format& parts = *rows.format;
  const size_t sums_part = kGroup == kInt8Codes ? parts.sums : parts.half_sums;
  const size_t offsets_part = kGroup == kInt8Codes ? parts.offsets : parts.half_offsets;
  const bool half_scales = format.half_scales;
  const size_t scales_bytes = kPanelOutputs * (half_scales ? 2 : 4);
  const size_t codes_offset = scales_bytes * (kHasMin ? 2 : 1);
  const size_t panel_bytes = format.panel_bytes;
  const int64_t groups = parts.k / kGroup;
  const __m512i mask = _mm512_set1_epi8(15);
  __m512 total[kPanels][kRows];
#pragma GCC unroll 2
  for (int p = 0; p < kPanels; ++p) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) total[p][r] = _mm512_setzero_ps();
  }
  for (int64_t g = 0; g < groups; ++g, panel += format.step_bytes) {
    for (const uint8_t* to = ahead.at + ahead.bytes; ahead.at < to && ahead.at < ahead.end; ahead.at += kLineBytes) {
#pragma GCC unroll 2
      for (int p = 0; p < kPanels; ++p) {
        _mm_prefetch(reinterpret_cast<const char*>(ahead.at + static_cast<size_t>(p) * ahead.stride), _MM_HINT_T0);
      }
    }
    __m512i dots[kPanels][kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      __m512i start = _mm512_setzero_si512();
      if constexpr (kKind == PanelKind::kCode8 || !kHasMin) start = rows.broadcast_integer(r, offsets_part, g);
      if constexpr (kKind == PanelKind::kCode4 && !kHasMin) start = _mm512_srai_epi32(start, 4);
#pragma GCC unroll 2
      for (int p = 0; p < kPanels; ++p) dots[p][r] = start;
    }
    const uint8_t* codes = panel + codes_offset;
    if constexpr (kKind == PanelKind::kCode4) {
#pragma GCC unroll 4
      for (int32_t i = 0; i < kGroup; i += 8) {
        __m512i low[kPanels];
        __m512i high[kPanels];
#pragma GCC unroll 2
        for (int p = 0; p < kPanels; ++p) {
          const __m512i bytes =
              _mm512_loadu_si512(codes + static_cast<size_t>(p) * panel_bytes + i / 2 * kPanelOutputs);
          low[p] = _mm512_and_si512(bytes, mask);
          high[p] = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), mask);
        }
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const __m512i inputs = broadcast_quad(rows.at[r] + g * kGroup + i);
#pragma GCC unroll 2
          for (int p = 0; p < kPanels; ++p) dots[p][r] = _mm512_dpbusd_epi32(dots[p][r], low[p], inputs);
        }
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const __m512i inputs = broadcast_quad(rows.at[r] + g * kGroup + i + 4);
#pragma GCC unroll 2
          for (int p = 0; p < kPanels; ++p) dots[p][r] = _mm512_dpbusd_epi32(dots[p][r], high[p], inputs);
        }
      }
    } else {
#pragma GCC unroll 8
      for (int32_t i = 0; i < kGroup; i += 4) {
        __m512i bytes[kPanels];
#pragma GCC unroll 2
        for (int p = 0; p < kPanels; ++p) {
          bytes[p] = _mm512_loadu_si512(codes + static_cast<size_t>(p) * panel_bytes + i * kPanelOutputs);
        }
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const __m512i inputs = broadcast_quad(rows.at[r] + g * kGroup + i);
#pragma GCC unroll 2
          for (int p = 0; p < kPanels; ++p) dots[p][r] = _mm512_dpbusd_epi32(dots[p][r], bytes[p], inputs);
        }
      }
    }
    const int64_t input_group = g * kGroup / kInt8Codes;
#pragma GCC unroll 2
    for (int p = 0; p < kPanels; ++p) {
      const uint8_t* constants = panel + static_cast<size_t>(p) * panel_bytes;
      const __m512 scale = load_scales(half_scales, constants);
      const __m512 min = kHasMin ? load_scales(half_scales, constants + scales_bytes) : _mm512_setzero_ps();
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

}  // namespace

void multiply_codes_avx512(const PanelFormat* format, const void* panel, int32_t panels, const Int8Format* parts,
                           const void* row, int64_t rows, float* out, int64_t out_stride, bool accumulate) {
  const uint8_t* weights = static_cast<const uint8_t*>(panel);
  const uint8_t* inputs = static_cast<const uint8_t*>(row);
  const Outputs outputs = {out, out_stride, accumulate};
  if (format->kind == PanelKind::kCode4 && format->has_min) {
    multiply_groups<PanelKind::kCode4, true>(*format, weights, panels, parts, inputs, rows, outputs);
  } else if (format->kind == PanelKind::kCode4) {
    multiply_groups<PanelKind::kCode4, false>(*format, weights, panels, parts, inputs, rows, outputs);
  } else if (format->has_min) {
    multiply_groups<PanelKind::kCode8, true>(*format, weights, panels, parts, inputs, rows, outputs);
  } else {
    multiply_groups<PanelKind::kCode8, false>(*format, weights, panels, parts, inputs, rows, outputs);
  }
}

}  // namespace twostroke
