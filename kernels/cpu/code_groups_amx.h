// How the AMX kernels unpack groups of codes: signed or unsigned bytes as tiles take them, and what brings their dot
// products to single precision.
//
// While tile instructions are about, 512-bit operations of the multiplier (floating-point multiply-adds and
// conversions, vpdpbusd) run at half their speed, one in a cycle on port 0 (seen on a Xeon, up to 80 ns after any tile
// instruction; additions of integers and logic are as fast as ever). It is what these kernels wait for, so they do
// without it what they can:
// - Codes stay in the upper bits of their bytes, as multiples of 16 or 4, which saves moving them down; what is taken
//   off them flips the highest bit, which then is a sign. Shifts run on port 0, multishift on port 5.
// - A dot product becomes a float by the addition of an integer: kMagic + dot has the bits of kMagicBits + dot,
// exactly,
//   as |dot| < 2^22. fma(kMagic + dot, scale, -kMagic * scale) then is the product of dot and scale, rounded once: the
//   bits that the other sets have. (-kMagic * scale is exact, since a scale has 19 bits at most and kMagic two; a
//   multiple of 16 or 4 is made up for in the scale, exactly as well. Scales that are not finite may give other values
//   that are not finite.)
//
// Static, as all that files of an instruction set share.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/tiles_amx.h"

namespace twostroke {

enum : int32_t { kMagicBits = 0x4b400000 };
constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23

// Bits of each byte, moved up by kUp, or down by -kUp; what comes in from neighbouring bytes is to be masked.
template <int kUp>
static inline __m512i move_bits(__m512i bytes) {
  constexpr auto control = [] {
    uint64_t bits = 0;
    for (int i = 0; i < 8; ++i) bits |= static_cast<uint64_t>((8 * i - kUp) & 63) << (8 * i);
    return static_cast<int64_t>(bits);
  };
  return _mm512_multishift_epi64_epi8(_mm512_set1_epi64(control()), bytes);
}

// (bytes & mask) ^ flipped
static inline __m512i mask_and_flip(__m512i bytes, __m512i mask, __m512i flipped) {
  return _mm512_ternarylogic_epi64(bytes, mask, flipped, 0x6a);
}

// Codes of 4 bits in groups of 32; with mins, or less kCode4Middle.
template <bool kMins>
struct Codes4Amx {
  static constexpr int32_t kGroup = 32;
  static constexpr bool kHasMin = kMins;
  static constexpr bool kSigned = !kMins;
  static constexpr size_t kBytes = 256;
  static constexpr float kUnit = 1.0f / 16;

  [[gnu::always_inline]] static inline void unpack(const uint8_t* from, int8_t* to) {
    const __m512i mask = _mm512_set1_epi8(static_cast<char>(0xf0));
    const __m512i flipped = _mm512_set1_epi8(static_cast<char>(kMins ? 0 : 0x80));
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i, from += kTileRowBytes, to += 2 * kTileRowBytes) {
      const __m512i bytes = _mm512_loadu_si512(from);
      _mm512_store_si512(to, mask_and_flip(move_bits<4>(bytes), mask, flipped));
      _mm512_store_si512(to + kTileRowBytes, mask_and_flip(bytes, mask, flipped));
    }
  }
};

// Codes of 6 bits in groups of 16, less kCode6Middle.
struct Codes6Amx {
  static constexpr int32_t kGroup = 16;
  static constexpr bool kHasMin = false;
  static constexpr bool kSigned = true;
  static constexpr size_t kBytes = 192;
  static constexpr float kUnit = 1.0f / 4;

  [[gnu::always_inline]] static inline void unpack(const uint8_t* from, int8_t* to) {
    const __m512i low_bits = _mm512_set1_epi8(0x3c);
    const __m512i mask = _mm512_set1_epi8(static_cast<char>(0xfc));
    const __m512i flipped = _mm512_set1_epi8(static_cast<char>(0x80));
    const __m512i first = _mm512_loadu_si512(from);
    const __m512i second = _mm512_loadu_si512(from + kTileRowBytes);
    const __m512i high = _mm512_loadu_si512(from + 2 * kTileRowBytes);
    const __m512i lows[] = {move_bits<2>(first), move_bits<-2>(first), move_bits<2>(second), move_bits<-2>(second)};
    const __m512i highs[] = {move_bits<6>(high), move_bits<4>(high), move_bits<2>(high), high};
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const __m512i both = _mm512_ternarylogic_epi64(low_bits, lows[i], highs[i], 0xca);  // low_bits ? lows : highs
      _mm512_store_si512(to + i * kTileRowBytes, mask_and_flip(both, mask, flipped));
    }
  }
};

// Codes of 8 bits in groups of 32, less 128.
struct Codes8Amx {
  static constexpr int32_t kGroup = 32;
  static constexpr bool kHasMin = false;
  static constexpr bool kSigned = true;
  static constexpr size_t kBytes = 512;
  static constexpr float kUnit = 1.0f;

  [[gnu::always_inline]] static inline void unpack(const uint8_t* from, int8_t* to) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i, from += kTileRowBytes, to += kTileRowBytes) {
      _mm512_store_si512(to, _mm512_xor_si512(_mm512_loadu_si512(from), _mm512_set1_epi8(-128)));
    }
  }
};

}  // namespace twostroke
