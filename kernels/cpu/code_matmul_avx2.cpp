// Panels of codes times rows of quantised activations in AVX2.
//
// vpmaddubsw multiplies unsigned bytes (codes) by signed ones (activations) and adds neighbouring pairs into 16 bits. A
// pair of 4-bit codes gives at most 2 * 15 * 127, and eight of these fit: a whole group of 32 is summed in 16 bits and
// widened once. Of 6-bit codes, two; or half a group, if what takes their middle off is added first, which pays
// where codes are unpacked beforehand: with kUnpackedRows rows or more. Codes of 8 bits are taken as two halves of 4
// bits each. Either half costs as many instructions as the two vpmaddwd of 16-bit numbers that do the same, but these
// need no unpacking between: with kWideRows rows or more it pays to widen a panel's codes in the cache first.
//
// Per group and output: dot, exact in integers; then sum = fma(float(dot) * weight scale, activation scale, sum) and
// sum = fma(weight min, activation sum, sum). Groups are taken in ascending order, for any number of rows.

#include "kernels/cpu/kernels_avx2.h"
#include "kernels/cpu/look_ahead.h"
#include "kernels/cpu/simd_avx2.h"

namespace twostroke {
namespace {

constexpr int64_t kRowsMax = 4;  // 4 rows by 16 outputs have 8 sums of 16 bits
constexpr int64_t kWideRows = 12;
constexpr int64_t kUnpackedRows = 5;
constexpr int64_t kWideRowsMax = 64;
constexpr int64_t kWideK = 512;

// Four activations in every lane.
static inline __m256i broadcast_quad(const uint8_t* at) {
  int32_t quad;
  __builtin_memcpy(&quad, at, sizeof(quad));
  return _mm256_set1_epi32(quad);
}

// sum += the products of `codes` and `inputs`. The compiler would rather compute all products of a group first and add
// them later, which takes several times the registers that there are.
static inline void add_products(__m256i& sum, __m256i codes, __m256i inputs) {
  sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(codes, inputs));
  asm("" : "+x"(sum));
}

static inline __m256i low_halves(__m256i bytes) { return _mm256_and_si256(bytes, _mm256_set1_epi8(15)); }
static inline __m256i high_halves(__m256i bytes) { return low_halves(_mm256_srli_epi16(bytes, 4)); }

// Where the outputs of a panel go.
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

  __m256 broadcast(int r, size_t part, int64_t index) const {
    return _mm256_broadcast_ss(reinterpret_cast<const float*>(at[r] + part) + index);
  }
  __m256i broadcast_integer(int r, size_t part, int64_t index) const {
    return _mm256_castps_si256(broadcast(r, part, index));
  }
};

// The dot products of one group with each row, for outputs 0 to 7 and 8 to 15. `k` is the group's first.
template <int32_t kGroup, int kRows>
static inline void dots4(const uint8_t* codes, const Rows<kRows>& rows, int64_t k, __m256i (&low)[kRows],
                         __m256i (&high)[kRows]) {
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) low[r] = high[r] = _mm256_setzero_si256();
#pragma GCC unroll 4
  for (int32_t i = 0; i < kGroup; i += 8) {
    const __m256i* quads = reinterpret_cast<const __m256i*>(codes + i / 2 * kPanelOutputs);
    const __m256i packed_low = _mm256_loadu_si256(quads);
    const __m256i packed_high = _mm256_loadu_si256(quads + 1);
    const __m256i first_low = low_halves(packed_low);
    const __m256i first_high = low_halves(packed_high);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const __m256i inputs = broadcast_quad(rows.at[r] + k + i);
      add_products(low[r], first_low, inputs);
      add_products(high[r], first_high, inputs);
    }
    const __m256i second_low = high_halves(packed_low);
    const __m256i second_high = high_halves(packed_high);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const __m256i inputs = broadcast_quad(rows.at[r] + k + i + 4);
      add_products(low[r], second_low, inputs);
      add_products(high[r], second_high, inputs);
    }
  }
  const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    low[r] = _mm256_madd_epi16(low[r], ones);
    high[r] = _mm256_madd_epi16(high[r], ones);
  }
}

// Likewise for codes of 8 bits and 8 outputs, whose codes begin at `codes`; the caller takes the 128 off.
template <int kRows>
static inline void dots8(const uint8_t* codes, const Rows<kRows>& rows, int64_t k, __m256i (&dots)[kRows]) {
  __m256i sixteens[kRows];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) dots[r] = sixteens[r] = _mm256_setzero_si256();
#pragma GCC unroll 8
  for (int32_t i = 0; i < kInt8Codes; i += 4) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + i * kPanelOutputs));
    const __m256i low = low_halves(bytes);
    const __m256i high = high_halves(bytes);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const __m256i inputs = broadcast_quad(rows.at[r] + k + i);
      add_products(dots[r], low, inputs);
      add_products(sixteens[r], high, inputs);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    dots[r] = _mm256_add_epi32(_mm256_madd_epi16(dots[r], _mm256_set1_epi16(1)),
                               _mm256_madd_epi16(sixteens[r], _mm256_set1_epi16(16)));
  }
}

// Codes of 6 bits of 16 k and 8 outputs, in quads of k; `unit` is where the unit of 16 k has those of these outputs.
static inline void unpack6(const uint8_t* unit, __m256i (&quads)[4]) {
  const __m256i pairs = _mm256_set1_epi8(0x30);
  const __m256i* from = reinterpret_cast<const __m256i*>(unit);
  const __m256i low[] = {_mm256_loadu_si256(from), _mm256_loadu_si256(from + 2)};
  const __m256i high = _mm256_loadu_si256(from + 4);
  quads[0] = _mm256_or_si256(low_halves(low[0]), _mm256_and_si256(_mm256_slli_epi16(high, 4), pairs));
  quads[1] = _mm256_or_si256(high_halves(low[0]), _mm256_and_si256(_mm256_slli_epi16(high, 2), pairs));
  quads[2] = _mm256_or_si256(low_halves(low[1]), _mm256_and_si256(high, pairs));
  quads[3] = _mm256_or_si256(high_halves(low[1]), _mm256_and_si256(_mm256_srli_epi16(high, 2), pairs));
}

// Likewise for codes of 6 bits. Two products' pair sums fit 16 bits: 4 * 63 * 127 is less than 2^15.
template <int32_t kGroup, int kRows>
static inline void dots6(const uint8_t* codes, const Rows<kRows>& rows, int64_t k, __m256i (&dots)[kRows]) {
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) dots[r] = _mm256_setzero_si256();
#pragma GCC unroll 2
  for (int32_t i = 0; i < kGroup; i += 16) {
    __m256i quads[4];
    unpack6(codes + i * 3 / 4 * kPanelOutputs, quads);
#pragma GCC unroll 2
    for (int q = 0; q < 4; q += 2) {
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const uint8_t* inputs = rows.at[r] + k + i + 4 * q;
        __m256i sum = _mm256_maddubs_epi16(quads[q], broadcast_quad(inputs));
        add_products(sum, quads[q + 1], broadcast_quad(inputs + 4));
        dots[r] = _mm256_add_epi32(dots[r], _mm256_madd_epi16(sum, _mm256_set1_epi16(1)));
        asm("" : "+x"(dots[r]));  // as in add_products
      }
    }
  }
}

// sum += the products of 16-bit numbers, pairs of neighbours added.
static inline void add_wide_products(__m256i& sum, __m256i weights, __m256i inputs) {
  sum = _mm256_add_epi32(sum, _mm256_madd_epi16(weights, inputs));
  asm("" : "+x"(sum));  // as in add_products
}

// What a group adds to the sums of 8 outputs.
static inline void add_group(float* sums, __m256i dots, __m256 scale, __m256 input_scale) {
  const __m256 product = _mm256_mul_ps(_mm256_cvtepi32_ps(dots), scale);
  _mm256_storeu_ps(sums, _mm256_fmadd_ps(product, input_scale, _mm256_loadu_ps(sums)));
}
static inline void add_min(float* sums, __m256 min, __m256 input_sum) {
  _mm256_storeu_ps(sums, _mm256_fmadd_ps(min, input_sum, _mm256_loadu_ps(sums)));
}

// One panel times the rows.
template <PanelKind kKind, bool kHasMin, int32_t kGroup, int kRows>
[[gnu::noinline]] void multiply_rows(const PanelFormat& format, const uint8_t* panel, const Rows<kRows>& given,
                                     const LookAhead& given_ahead, const Outputs& out) {
  LookAhead ahead = given_ahead;
  const Rows<kRows> rows = given;
  const Int8Format& parts = *rows.format;
  const size_t sums_part = kGroup == kInt8Codes ? parts.sums : parts.half_sums;
  const size_t offsets_part = kGroup == kInt8Codes ? parts.offsets : parts.half_offsets;
  const uint8_t* const supers = panel;
  panel += format.steps_at;
  const int64_t groups = parts.k / kGroup;
  float total[kRows * kPanelOutputs];
#pragma GCC unroll 8
  for (int i = 0; i < 2 * kRows; ++i) _mm256_storeu_ps(total + i * kLanes, _mm256_setzero_ps());
  for (int64_t g = 0; g < groups; ++g, panel += format.step_bytes) {
    ask_ahead(ahead, 1);
    const uint8_t* super = supers + static_cast<size_t>(g * kGroup / kSuperBlockK) * format.super_bytes;
    const PanelVector scale = load_scales(format.scale_factors, panel, super);
    PanelVector min = {};
    if constexpr (kHasMin) min = load_scales(format.scale_factors, panel + format.scale_bytes, super + kHalvesBytes);
    const int64_t input_group = g * kGroup / kInt8Codes;
    if constexpr (kKind == PanelKind::kCode4) {
      __m256i low[kRows];
      __m256i high[kRows];
      dots4<kGroup, kRows>(panel + format.codes_at, rows, g * kGroup, low, high);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const __m256 input_scale = rows.broadcast(r, parts.scales, input_group);
        if constexpr (!kHasMin) {
          const __m256i offset = rows.broadcast_integer(r, offsets_part, g);
          low[r] = _mm256_add_epi32(low[r], offset);
          high[r] = _mm256_add_epi32(high[r], offset);
        }
        float* sum = total + r * kPanelOutputs;
        add_group(sum, low[r], scale.low, input_scale);
        add_group(sum + kLanes, high[r], scale.high, input_scale);
        if constexpr (kHasMin) {
          const __m256 input_sum = rows.broadcast(r, sums_part, g);
          add_min(sum, min.low, input_sum);
          add_min(sum + kLanes, min.high, input_sum);
        }
      }
    } else {
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        __m256i dots[kRows];
        const uint8_t* codes = panel + format.codes_at + half * sizeof(__m256i);
        if constexpr (kKind == PanelKind::kCode8) {
          dots8<kRows>(codes, rows, g * kGroup, dots);
        } else {
          dots6<kGroup, kRows>(codes, rows, g * kGroup, dots);
        }
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) {
          // From the middle of 4-bit codes to that of these.
          const __m256i offset =
              _mm256_slli_epi32(rows.broadcast_integer(r, offsets_part, g), kKind == PanelKind::kCode8 ? 4 : 2);
          float* sum = total + r * kPanelOutputs + half * kLanes;
          add_group(sum, _mm256_add_epi32(dots[r], offset), half == 0 ? scale.low : scale.high,
                    rows.broadcast(r, parts.scales, input_group));
          if constexpr (kHasMin) add_min(sum, half == 0 ? min.low : min.high, rows.broadcast(r, sums_part, g));
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < 2 * kRows; ++i) {
    float* to = out.at + i / 2 * out.stride + i % 2 * kLanes;
    const __m256 sum = _mm256_loadu_ps(total + i * kLanes);
    _mm256_storeu_ps(to, out.accumulate ? _mm256_add_ps(_mm256_loadu_ps(to), sum) : sum);
  }
}

// Some k of a panel whose codes have been unpacked for many rows.
template <PanelKind kKind>
struct Unpacked;

template <>
struct Unpacked<PanelKind::kCode8> {
  alignas(32) int16_t codes[kWideK * kPanelOutputs];  // for each two k, [16][2]: the signed codes
};

template <>
struct Unpacked<PanelKind::kCode6> {
  alignas(32) uint8_t codes[kWideK * kPanelOutputs];  // in quads, code + 32
  alignas(32) float scales[kWideK / 16 * kPanelOutputs];
  alignas(32) float mins[kWideK / 16 * kPanelOutputs];
};
using Unpacked6 = Unpacked<PanelKind::kCode6>;

// The panel's codes of `groups` groups as signed 16-bit numbers: for each two k, [16][2].
static inline void widen_codes(const PanelFormat& format, const uint8_t* codes, int64_t groups, int16_t* out) {
  const __m256i first = _mm256_setr_epi8(0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1,  //
                                         0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1);
  const __m256i second = _mm256_setr_epi8(2, -1, 3, -1, 6, -1, 7, -1, 10, -1, 11, -1, 14, -1, 15, -1,  //
                                          2, -1, 3, -1, 6, -1, 7, -1, 10, -1, 11, -1, 14, -1, 15, -1);
  const __m256i offset = _mm256_set1_epi16(128);
  __m256i* to = reinterpret_cast<__m256i*>(out);
  for (int64_t g = 0; g < groups; ++g, codes += format.step_bytes) {
    for (int32_t i = 0; i < kInt8Codes; i += 4, to += 4) {
      const __m256i* quads = reinterpret_cast<const __m256i*>(codes + i * kPanelOutputs);
      const __m256i low = _mm256_loadu_si256(quads);
      const __m256i high = _mm256_loadu_si256(quads + 1);
      _mm256_storeu_si256(to, _mm256_sub_epi16(_mm256_shuffle_epi8(low, first), offset));
      _mm256_storeu_si256(to + 1, _mm256_sub_epi16(_mm256_shuffle_epi8(high, first), offset));
      _mm256_storeu_si256(to + 2, _mm256_sub_epi16(_mm256_shuffle_epi8(low, second), offset));
      _mm256_storeu_si256(to + 3, _mm256_sub_epi16(_mm256_shuffle_epi8(high, second), offset));
    }
  }
}

// sums [kRows, 16] += the groups from `group_begin` on, whose codes are in `wide` and whose constants begin at `step`,
// times the rows.
template <int kRows>
[[gnu::noinline]] void multiply_wide_rows(const PanelFormat& format, const uint8_t* step, const int16_t* wide,
                                          int64_t group_begin, int64_t groups, const Rows<kRows>& given,
                                          LookAhead& given_ahead, float* sums) {
  LookAhead ahead = given_ahead;
  const Rows<kRows> rows = given;
  const Int8Format& parts = *rows.format;
  const __m256i* weights = reinterpret_cast<const __m256i*>(wide);
  for (int64_t g = group_begin; g < group_begin + groups; ++g, step += format.step_bytes, weights += kInt8Codes) {
    ask_ahead(ahead, 1);
    __m256i low[kRows];
    __m256i high[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) low[r] = high[r] = _mm256_setzero_si256();
    const size_t inputs_at = parts.wide + static_cast<size_t>(g) * kInt8Codes * sizeof(int16_t);
#pragma GCC unroll 16
    for (int32_t i = 0; i < kInt8Codes / 2; ++i) {
      const __m256i low_weights = _mm256_loadu_si256(weights + 2 * i);
      const __m256i high_weights = _mm256_loadu_si256(weights + 2 * i + 1);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const __m256i inputs = broadcast_quad(rows.at[r] + inputs_at + i * 4);
        add_wide_products(low[r], low_weights, inputs);
        add_wide_products(high[r], high_weights, inputs);
      }
    }
    const PanelVector scale = load_halves(step);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const __m256 input_scale = rows.broadcast(r, parts.scales, g);
      float* sum = sums + r * kPanelOutputs;
      add_group(sum, low[r], scale.low, input_scale);
      add_group(sum + kLanes, high[r], scale.high, input_scale);
    }
  }
  given_ahead = ahead;
}

template <bool kHasMin, int32_t kGroup>
static inline void unpack_codes6(const PanelFormat& format, const uint8_t* panel, int64_t group_begin, int64_t groups,
                                 Unpacked6& out) {
  __m256i* to = reinterpret_cast<__m256i*>(out.codes);
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t group = group_begin + g;
    const uint8_t* step = panel + format.steps_at + static_cast<size_t>(group) * format.step_bytes;
    const uint8_t* super = panel + static_cast<size_t>(group * kGroup / kSuperBlockK) * format.super_bytes;
    const PanelVector scale = load_scales(format.scale_factors, step, super);
    _mm256_store_ps(out.scales + g * kPanelOutputs, scale.low);
    _mm256_store_ps(out.scales + g * kPanelOutputs + kLanes, scale.high);
    if constexpr (kHasMin) {
      const PanelVector min = load_scales(format.scale_factors, step + format.scale_bytes, super + kHalvesBytes);
      _mm256_store_ps(out.mins + g * kPanelOutputs, min.low);
      _mm256_store_ps(out.mins + g * kPanelOutputs + kLanes, min.high);
    }
    for (int32_t i = 0; i < kGroup; i += 16, to += 8) {
      for (int half = 0; half < 2; ++half) {
        __m256i quads[4];
        unpack6(step + format.codes_at + i * 3 / 4 * kPanelOutputs + half * sizeof(__m256i), quads);
#pragma GCC unroll 4
        for (int q = 0; q < 4; ++q) _mm256_store_si256(to + 2 * q + half, quads[q]);
      }
    }
  }
}

// sums [kRows, 16] += `groups` unpacked groups, from `group_begin` on, times the rows. The sums of half a group begin
// with the offsets of its pairs (int8_format.h), so that they fit 16 bits: on their way they may wrap around, but they
// end within 8 * 32 * 127.
template <bool kHasMin, int32_t kGroup, int kRows>
[[gnu::noinline]] void multiply_unpacked6(const Unpacked6& unpacked, int64_t group_begin, int64_t groups,
                                          const Rows<kRows>& given, LookAhead& given_ahead, float* sums) {
  LookAhead ahead = given_ahead;
  const Rows<kRows> rows = given;
  const Int8Format& parts = *rows.format;
  const size_t sums_part = kGroup == kInt8Codes ? parts.sums : parts.half_sums;
  const __m256i* codes = reinterpret_cast<const __m256i*>(unpacked.codes);
  for (int64_t g = 0; g < groups; ++g) {
    ask_ahead(ahead, 1);
    const int64_t group = group_begin + g;
    __m256i low[kRows];
    __m256i high[kRows];
#pragma GCC unroll 2
    for (int32_t i = 0; i < kGroup; i += 16, codes += 8) {
      const int64_t k = group * kGroup + i;
      __m256i low_sums[kRows];
      __m256i high_sums[kRows];
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        low_sums[r] = high_sums[r] = rows.broadcast_integer(r, parts.pair_offsets, k / 16);
      }
#pragma GCC unroll 4
      for (int q = 0; q < 4; ++q) {
        const __m256i low_codes = _mm256_load_si256(codes + 2 * q);
        const __m256i high_codes = _mm256_load_si256(codes + 2 * q + 1);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) {
          const __m256i inputs = broadcast_quad(rows.at[r] + k + 4 * q);
          add_products(low_sums[r], low_codes, inputs);
          add_products(high_sums[r], high_codes, inputs);
        }
      }
      const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const __m256i low_dot = _mm256_madd_epi16(low_sums[r], ones);
        const __m256i high_dot = _mm256_madd_epi16(high_sums[r], ones);
        low[r] = i == 0 ? low_dot : _mm256_add_epi32(low[r], low_dot);
        high[r] = i == 0 ? high_dot : _mm256_add_epi32(high[r], high_dot);
      }
    }
    const float* scales = unpacked.scales + g * kPanelOutputs;
    const float* mins = unpacked.mins + g * kPanelOutputs;
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const __m256 input_scale = rows.broadcast(r, parts.scales, group * kGroup / kInt8Codes);
      float* sum = sums + r * kPanelOutputs;
      add_group(sum, low[r], _mm256_load_ps(scales), input_scale);
      add_group(sum + kLanes, high[r], _mm256_load_ps(scales + kLanes), input_scale);
      if constexpr (kHasMin) {
        const __m256 input_sum = rows.broadcast(r, sums_part, group);
        add_min(sum, _mm256_load_ps(mins), input_sum);
        add_min(sum + kLanes, _mm256_load_ps(mins + kLanes), input_sum);
      }
    }
  }
  given_ahead = ahead;
}

// Up to kWideRowsMax rows, in blocks of k whose widened codes take a third of the first-level cache, or 6-bit codes a
// quarter.
template <PanelKind kKind, bool kHasMin, int32_t kGroup>
void multiply_wide(const PanelFormat& format, const uint8_t* panel, const Int8Format* parts, const uint8_t* row,
                   int64_t rows, const Outputs& out) {
  Unpacked<kKind> block;
  alignas(32) float sums[kWideRowsMax * kPanelOutputs];
  for (int64_t i = 0; i < rows * kPanelOutputs; i += kLanes) _mm256_store_ps(sums + i, _mm256_setzero_ps());
  const int64_t groups = parts->k / kGroup;
  LookAhead ahead =
      look_ahead_at_panel(format, panel + format.panel_bytes, groups * ((rows + kRowsMax - 1) / kRowsMax));
  constexpr int64_t kGroupsAtOnce = kWideK / kGroup;
  for (int64_t begin = 0; begin < groups; begin += kGroupsAtOnce) {
    const int64_t count = groups - begin < kGroupsAtOnce ? groups - begin : kGroupsAtOnce;
    const uint8_t* step = panel + static_cast<size_t>(begin) * format.step_bytes;
    if constexpr (kKind == PanelKind::kCode8) {
      widen_codes(format, step + format.codes_at, count, block.codes);
    } else {
      unpack_codes6<kHasMin, kGroup>(format, panel, begin, count, block);
    }
    for (int64_t r = 0; r < rows;) {
      const auto some = [&](auto rows_at) {
        rows_at.format = parts;
        constexpr int64_t kCount = sizeof(rows_at.at) / sizeof(rows_at.at[0]);
        for (int64_t i = 0; i < kCount; ++i) rows_at.at[i] = row + static_cast<size_t>(r + i) * parts->row_bytes;
        float* to = sums + r * kPanelOutputs;
        if constexpr (kKind == PanelKind::kCode8) {
          multiply_wide_rows(format, step, block.codes, begin, count, rows_at, ahead, to);
        } else {
          multiply_unpacked6<kHasMin, kGroup>(block, begin, count, rows_at, ahead, to);
        }
        r += kCount;
      };
      const int64_t left = rows - r;
      if (left >= 4 && left != 5) {
        some(Rows<4>());
      } else if (left == 3 || left == 5) {
        some(Rows<3>());
      } else if (left == 2) {
        some(Rows<2>());
      } else {
        some(Rows<1>());
      }
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int32_t j = 0; j < kPanelOutputs; j += kLanes) {
      float* to = out.at + r * out.stride + j;
      const __m256 sum = _mm256_load_ps(sums + r * kPanelOutputs + j);
      _mm256_storeu_ps(to, out.accumulate ? _mm256_add_ps(_mm256_loadu_ps(to), sum) : sum);
    }
  }
}

template <PanelKind kKind, bool kHasMin, int32_t kGroup, int kRows>
static inline void multiply_some(const PanelFormat& format, const uint8_t* panel, const Int8Format* parts,
                                 const uint8_t* first_row, const LookAhead& ahead, const Outputs& out) {
  Rows<kRows> rows;
  rows.format = parts;
  for (int r = 0; r < kRows; ++r) rows.at[r] = first_row + static_cast<size_t>(r) * parts->row_bytes;
  multiply_rows<kKind, kHasMin, kGroup, kRows>(format, panel, rows, ahead, out);
}

template <PanelKind kKind, bool kHasMin, int32_t kGroup>
void multiply_panel(const PanelFormat& format, const uint8_t* panel, const Int8Format* parts, const uint8_t* row,
                    int64_t rows, Outputs out) {
  if constexpr (kKind != PanelKind::kCode4) {
    for (int64_t count; rows >= (kKind == PanelKind::kCode8 ? kWideRows : kUnpackedRows); rows -= count) {
      count = rows < kWideRowsMax ? rows : kWideRowsMax;
      multiply_wide<kKind, kHasMin, kGroup>(format, panel, parts, row, count, out);
      row += static_cast<size_t>(count) * parts->row_bytes;
      out.at += count * out.stride;
    }
  }
  // The last eight or fewer are halved: 5 rows are 3 and 2, not 4 and 1.
  const int64_t passes = (rows + kRowsMax - 1) / kRowsMax;
  for (int64_t pass = 0; rows > 0; ++pass) {
    const LookAhead ahead = look_ahead(format, panel, 1, parts->k / kGroup, pass, passes);
    const int64_t count = rows >= 2 * kRowsMax ? kRowsMax : rows > kRowsMax ? (rows + 1) / 2 : rows;
    switch (count) {
      case 1:
        multiply_some<kKind, kHasMin, kGroup, 1>(format, panel, parts, row, ahead, out);
        break;
      case 2:
        multiply_some<kKind, kHasMin, kGroup, 2>(format, panel, parts, row, ahead, out);
        break;
      case 3:
        multiply_some<kKind, kHasMin, kGroup, 3>(format, panel, parts, row, ahead, out);
        break;
      default:
        multiply_some<kKind, kHasMin, kGroup, kRowsMax>(format, panel, parts, row, ahead, out);
        break;
    }
    row += static_cast<size_t>(count) * parts->row_bytes;
    out.at += count * out.stride;
    rows -= count;
  }
}

template <PanelKind kKind>
void multiply_kind(const PanelFormat& format, const uint8_t* panel, const Int8Format* parts, const uint8_t* row,
                   int64_t rows, const Outputs& out) {
  const bool whole = format.group == kInt8Codes;
  if (format.has_min) {
    if (whole) return multiply_panel<kKind, true, 32>(format, panel, parts, row, rows, out);
    return multiply_panel<kKind, true, 16>(format, panel, parts, row, rows, out);
  }
  if (whole) return multiply_panel<kKind, false, 32>(format, panel, parts, row, rows, out);
  multiply_panel<kKind, false, 16>(format, panel, parts, row, rows, out);
}

}  // namespace

void multiply_codes_avx2(const PanelFormat* format, const void* panel, int32_t panels, const Int8Format* parts,
                         const void* row, int64_t rows, float* out, int64_t out_stride, bool accumulate) {
  const uint8_t* weights = static_cast<const uint8_t*>(panel);
  const uint8_t* inputs = static_cast<const uint8_t*>(row);
  for (int32_t p = 0; p < panels; ++p, weights += format->panel_bytes) {
    const Outputs outputs = {out + p * kPanelOutputs, out_stride, accumulate};
    if (format->kind == PanelKind::kCode8) {
      multiply_panel<PanelKind::kCode8, false, kInt8Codes>(*format, weights, parts, inputs, rows, outputs);
    } else if (format->kind == PanelKind::kCode6) {
      multiply_kind<PanelKind::kCode6>(*format, weights, parts, inputs, rows, outputs);
    } else {
      multiply_kind<PanelKind::kCode4>(*format, weights, parts, inputs, rows, outputs);
    }
  }
}

}  // namespace twostroke
