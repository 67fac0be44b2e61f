#include "backend/transcode.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "kernels/check.h"

namespace twostroke {
namespace {

constexpr uint32_t kBlockMax = 256;     // elements in the largest block of any format
constexpr uint32_t kGroupMin = 16;      // elements in the smallest group
constexpr uint32_t kSubBlocksOf32 = 8;  // in a super-block of 256

// A block in canonical form: element i is scale * codes[i] + min, or as the layout says. A block is one group, or with
// factors a super-block, whose group g has scale * factors[g] and min * min_factors[g].
struct UnpackedBlock {
  std::array<int8_t, kBlockMax> codes;  // 0 to 15 for kQ4
  float scale;
  float min;  // this and min_factors are unspecified where the layout has no minimum
  std::array<int8_t, kBlockMax / kGroupMin> factors;
  std::array<int8_t, kBlockMax / kGroupMin> min_factors;
};

using Unpack = void (*)(const uint8_t* block, UnpackedBlock& out);

struct Format {
  WeightLayout layout;
  int32_t group;
  bool has_min;
  bool scale_factors;
  Unpack unpack;  // nullptr for plain types
};

// IEEE 754 half precision, little-endian, to single: exact.
float half_at(const uint8_t* bytes) {
  const uint32_t bits = static_cast<uint32_t>(bytes[0]) | static_cast<uint32_t>(bytes[1]) << 8;
  const uint32_t sign = (bits & 0x8000) << 16;
  const uint32_t exponent = bits >> 10 & 0x1f;
  const uint32_t mantissa = bits & 0x3ff;
  if (exponent == 0) {  // zero and subnormal numbers: multiples of 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | mantissa << 13);  // infinity, NaN
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

// 32 4-bit values in 16 bytes: first half in the low, second half in the high part of each byte.
void unpack_nibbles(const uint8_t* bytes, int8_t* codes) {
  for (int i = 0; i < 16; ++i) {
    codes[i] = static_cast<int8_t>(bytes[i] & 15);
    codes[i + 16] = static_cast<int8_t>(bytes[i] >> 4);
  }
}

// The fifth bits of 32 values: bit i of a little-endian 32-bit number belongs to value i.
void add_fifth_bits(const uint8_t* bytes, int8_t* codes) {
  for (int i = 0; i < 32; ++i) codes[i] = static_cast<int8_t>(codes[i] | (bytes[i / 8] >> (i % 8) & 1) << 4);
}

// Q4_0: half d, 16 bytes of nibbles.                                    w = d * (q - 8)
void unpack_q4_0(const uint8_t* block, UnpackedBlock& out) {
  unpack_nibbles(block + 2, out.codes.data());
  out.scale = half_at(block);
}

// Q4_1: half d, half m, 16 bytes of nibbles.                            w = d * q + m
void unpack_q4_1(const uint8_t* block, UnpackedBlock& out) {
  unpack_nibbles(block + 4, out.codes.data());
  out.scale = half_at(block);
  out.min = half_at(block + 2);
}

// Q5_0: half d, 4 bytes of fifth bits, 16 bytes of nibbles.             w = d * (q - 16)
void unpack_q5_0(const uint8_t* block, UnpackedBlock& out) {
  unpack_nibbles(block + 6, out.codes.data());
  add_fifth_bits(block + 2, out.codes.data());
  for (int i = 0; i < 32; ++i) out.codes[i] = static_cast<int8_t>(out.codes[i] - 16);
  out.scale = half_at(block);
}

// Q5_1: half d, half m, 4 bytes of fifth bits, 16 bytes of nibbles.     w = d * q + m
void unpack_q5_1(const uint8_t* block, UnpackedBlock& out) {
  unpack_nibbles(block + 8, out.codes.data());
  add_fifth_bits(block + 4, out.codes.data());
  out.scale = half_at(block);
  out.min = half_at(block + 2);
}

// Q8_0: half d, 32 signed bytes.                                        w = d * q
void unpack_q8_0(const uint8_t* block, UnpackedBlock& out) {
  std::memcpy(out.codes.data(), block + 2, 32);
  out.scale = half_at(block);
}

// IQ4_NL: half d, 16 bytes of nibbles that index a table of levels which lie closer together near zero.
//                                                                       w = d * levels[q]
void unpack_iq4_nl(const uint8_t* block, UnpackedBlock& out) {
  static constexpr std::array<int8_t, 16> kLevels = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                     1,    13,   25,  38,  53,  69,  89,  113};
  unpack_nibbles(block + 2, out.codes.data());
  for (int i = 0; i < 32; ++i) out.codes[i] = kLevels[static_cast<size_t>(out.codes[i])];
  out.scale = half_at(block);
}

// The 2-bit values of Q2_K and the low bits of Q3_K: 64 bytes hold 256 values. Each run of 32 bytes holds 128 of them,
// the first 32 in the lowest two bits, the next 32 in the two above, and so on.
void unpack_two_bits(const uint8_t* bytes, int8_t* codes) {
  for (int run = 0; run < 2; ++run) {
    for (int part = 0; part < 4; ++part) {
      for (int i = 0; i < 32; ++i) {
        codes[128 * run + 32 * part + i] = static_cast<int8_t>(bytes[32 * run + i] >> (2 * part) & 3);
      }
    }
  }
}

// Q2_K: 16 bytes of scales (low half: scale, high half: minimum), 64 bytes of values, half d, half dmin.
//                                                                       w = d * scale * q - dmin * minimum
void unpack_q2_k(const uint8_t* block, UnpackedBlock& out) {
  const uint8_t* packed = block;
  out.scale = half_at(block + 80);
  out.min = -half_at(block + 82);
  unpack_two_bits(block + 16, out.codes.data());
  for (size_t i = 0; i < 16; ++i) {
    out.factors[i] = static_cast<int8_t>(packed[i] & 15);
    out.min_factors[i] = static_cast<int8_t>(packed[i] >> 4);
  }
}

// Q3_K: 32 bytes of third bits (bit j of byte i: value 32 j + i), 64 bytes of low bits, 12 bytes of 6-bit scales,
// half d.                                                               w = d * (scale - 32) * (q - 4)
// Scale i: its low 4 bits in byte i % 8 (i < 8: the low half), its high 2 bits in byte 8 + i % 4, at bit 2 (i / 4).
void unpack_q3_k(const uint8_t* block, UnpackedBlock& out) {
  const uint8_t* third = block;
  const uint8_t* packed = block + 96;
  out.scale = half_at(block + 108);
  unpack_two_bits(block + 32, out.codes.data());
  for (int part = 0; part < 8; ++part) {
    for (int i = 0; i < 32; ++i) {
      int8_t& code = out.codes[static_cast<size_t>(32 * part + i)];
      code = static_cast<int8_t>((code | (third[i] >> part & 1) << 2) + 4);  // the layout takes 8 off
    }
  }
  for (size_t i = 0; i < 16; ++i) {
    const int low = packed[i % 8] >> (i < 8 ? 0 : 4) & 15;
    const int high = packed[8 + i % 4] >> (2 * (i / 4)) & 3;
    out.factors[i] = static_cast<int8_t>((low | high << 4) - 32);
  }
}

// The 6-bit scales and minima of Q4_K and Q5_K: 8 of each in 12 bytes. The first four have their 6 bits in bytes 0-3
// (scales) and 4-7 (minima); the others their low 4 bits in bytes 8-11 (scale in the low half, minimum in the high) and
// their high 2 bits on top of bytes 0-3 and 4-7.
void unpack_six_bit_scales(const uint8_t* packed, UnpackedBlock& out) {
  for (size_t i = 0; i < kSubBlocksOf32; ++i) {
    if (i < 4) {
      out.factors[i] = static_cast<int8_t>(packed[i] & 63);
      out.min_factors[i] = static_cast<int8_t>(packed[i + 4] & 63);
    } else {
      out.factors[i] = static_cast<int8_t>((packed[i + 4] & 15) | (packed[i - 4] >> 6) << 4);
      out.min_factors[i] = static_cast<int8_t>((packed[i + 4] >> 4) | (packed[i] >> 6) << 4);
    }
  }
}

// The nibbles of Q4_K and Q5_K: each run of 32 bytes holds 64 values, 32 in the low and 32 in the high halves.
void unpack_nibble_runs(const uint8_t* bytes, int8_t* codes) {
  for (int run = 0; run < 4; ++run) {
    for (int i = 0; i < 32; ++i) {
      codes[64 * run + i] = static_cast<int8_t>(bytes[32 * run + i] & 15);
      codes[64 * run + 32 + i] = static_cast<int8_t>(bytes[32 * run + i] >> 4);
    }
  }
}

// Q4_K: half d, half dmin, 12 bytes of scales, 128 bytes of nibbles.    w = d * scale * q - dmin * minimum
void unpack_q4_k(const uint8_t* block, UnpackedBlock& out) {
  out.scale = half_at(block);
  out.min = -half_at(block + 2);
  unpack_six_bit_scales(block + 4, out);
  unpack_nibble_runs(block + 16, out.codes.data());
}

// Q5_K: as Q4_K, with 32 bytes of fifth bits (bit j of byte i: value 32 j + i) before the nibbles.
void unpack_q5_k(const uint8_t* block, UnpackedBlock& out) {
  const uint8_t* fifth = block + 16;
  out.scale = half_at(block);
  out.min = -half_at(block + 2);
  unpack_six_bit_scales(block + 4, out);
  unpack_nibble_runs(block + 48, out.codes.data());
  for (int part = 0; part < 8; ++part) {
    for (int i = 0; i < 32; ++i) {
      int8_t& code = out.codes[static_cast<size_t>(32 * part + i)];
      code = static_cast<int8_t>(code | (fifth[i] >> part & 1) << 4);
    }
  }
}

// Q6_K: 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 signed bytes of scales, half d.
//                                                                       w = d * scale * (q - 32)
// Each run of 128 values takes 64 bytes of nibbles (values 0-63 in the low halves, 64-127 in the high ones) and 32
// bytes of pairs (32 values in the lowest pair, the next 32 in the pair above, and so on).
void unpack_q6_k(const uint8_t* block, UnpackedBlock& out) {
  const uint8_t* scales = block + 192;
  out.scale = half_at(block + 208);
  for (int run = 0; run < 2; ++run) {
    const uint8_t* low = block + 64 * run;
    const uint8_t* high = block + 128 + 32 * run;
    for (int part = 0; part < 4; ++part) {
      for (int i = 0; i < 32; ++i) {
        const int nibble = low[32 * (part % 2) + i] >> (4 * (part / 2)) & 15;
        const int pair = high[i] >> (2 * part) & 3;
        out.codes[static_cast<size_t>(128 * run + 32 * part + i)] = static_cast<int8_t>((nibble | pair << 4) - 32);
      }
    }
  }
  std::memcpy(out.factors.data(), scales, out.factors.size());
}

Format format_of(GgufType type) {
  switch (type) {
    case GgufType::kF32:
      return {WeightLayout::kF32, 0, false, false, nullptr};
    case GgufType::kF16:
      return {WeightLayout::kF16, 0, false, false, nullptr};
    case GgufType::kBF16:
      return {WeightLayout::kBF16, 0, false, false, nullptr};
    case GgufType::kQ4_0:
      return {WeightLayout::kQ4, 32, false, false, unpack_q4_0};
    case GgufType::kQ4_1:
      return {WeightLayout::kQ4, 32, true, false, unpack_q4_1};
    case GgufType::kQ5_0:
      return {WeightLayout::kQ6, 32, false, false, unpack_q5_0};
    case GgufType::kQ5_1:
      return {WeightLayout::kQ6, 32, true, false, unpack_q5_1};
    case GgufType::kQ8_0:
      return {WeightLayout::kQ8, 32, false, false, unpack_q8_0};
    case GgufType::kQ2_K:
      return {WeightLayout::kQ4, 16, true, true, unpack_q2_k};
    case GgufType::kQ3_K:
      return {WeightLayout::kQ4, 16, false, true, unpack_q3_k};
    case GgufType::kQ4_K:
      return {WeightLayout::kQ4, 32, true, true, unpack_q4_k};
    case GgufType::kQ5_K:
      return {WeightLayout::kQ6, 32, true, true, unpack_q5_k};
    case GgufType::kQ6_K:
      return {WeightLayout::kQ6, 16, false, true, unpack_q6_k};
    case GgufType::kIQ4_NL:
      return {WeightLayout::kQ8, 32, false, false, unpack_iq4_nl};
  }
  check_failed(__FILE__, __LINE__, "type", "GgufFile::open() lets no other type through");
}

const uint8_t* bytes_of(const GgufTensor& tensor) { return reinterpret_cast<const uint8_t*>(tensor.data.data()); }

// Rows of a plain type, borrowed from the tensor: its data is aligned by GgufFile.
HostWeightRows plain_rows(const GgufTensor& tensor, const WeightShape& shape, int64_t row_begin, int64_t row_count) {
  HostWeightRows rows;
  rows.row_begin = row_begin;
  rows.row_count = row_count;
  const auto first = static_cast<size_t>(row_begin * shape.k);
  const auto count = static_cast<size_t>(row_count * shape.k);
  if (shape.layout == WeightLayout::kF32) {
    rows.f32 = {reinterpret_cast<const float*>(tensor.data.data()) + first, count};
  } else {
    rows.bits16 = {reinterpret_cast<const uint16_t*>(tensor.data.data()) + first, count};
  }
  return rows;
}

}  // namespace

WeightShape transcoded_shape(const GgufTensor& tensor) {
  CHECK(tensor.dims[2] == 1 && tensor.dims[3] == 1, "a weight is a matrix");
  const Format format = format_of(tensor.type);
  WeightShape shape;
  shape.layout = format.layout;
  shape.n = static_cast<int64_t>(tensor.dims[1]);
  shape.k = static_cast<int64_t>(tensor.dims[0]);
  shape.group = format.group;
  shape.has_min = format.has_min;
  shape.scale_factors = format.scale_factors;
  return shape;
}

HostWeightRows transcode_rows(const GgufTensor& tensor, int64_t row_begin, int64_t row_count, TranscodeBuffer& buffer) {
  const WeightShape shape = transcoded_shape(tensor);
  CHECK(row_begin >= 0 && row_count >= 0 && row_begin <= shape.n && row_count <= shape.n - row_begin);
  const Format format = format_of(tensor.type);
  if (format.unpack == nullptr) return plain_rows(tensor, shape, row_begin, row_count);

  const GgufTypeTraits& traits = *gguf_type_traits(static_cast<uint32_t>(tensor.type));
  const size_t block_size = traits.block_size;
  const size_t groups_per_block = block_size / static_cast<size_t>(format.group);
  const size_t blocks_per_row = static_cast<size_t>(shape.k) / block_size;
  const size_t blocks = static_cast<size_t>(row_count) * blocks_per_row;
  const bool is_q4 = format.layout == WeightLayout::kQ4;
  buffer.q4.resize(is_q4 ? blocks * block_size / 2 : 0);
  buffer.q8.resize(is_q4 ? 0 : blocks * block_size);
  buffer.scales.resize(blocks);
  buffer.mins.resize(format.has_min ? blocks : 0);
  buffer.factors.resize(format.scale_factors ? blocks * groups_per_block : 0);
  buffer.min_factors.resize(format.has_min ? buffer.factors.size() : 0);

  const uint8_t* block = bytes_of(tensor) + static_cast<size_t>(row_begin) * blocks_per_row * traits.block_bytes;
  UnpackedBlock unpacked;
  for (size_t b = 0; b < blocks; ++b, block += traits.block_bytes) {
    format.unpack(block, unpacked);
    buffer.scales[b] = unpacked.scale;
    if (format.has_min) buffer.mins[b] = unpacked.min;
    if (format.scale_factors) {
      std::memcpy(buffer.factors.data() + b * groups_per_block, unpacked.factors.data(), groups_per_block);
    }
    if (format.scale_factors && format.has_min) {
      std::memcpy(buffer.min_factors.data() + b * groups_per_block, unpacked.min_factors.data(), groups_per_block);
    }
    if (is_q4) {
      uint8_t* pairs = buffer.q4.data() + b * block_size / 2;
      for (size_t i = 0; i < block_size / 2; ++i) {
        pairs[i] = static_cast<uint8_t>(unpacked.codes[2 * i] | unpacked.codes[2 * i + 1] << 4);
      }
    } else {
      std::memcpy(buffer.q8.data() + b * block_size, unpacked.codes.data(), block_size);
    }
  }
  HostWeightRows rows;
  rows.row_begin = row_begin;
  rows.row_count = row_count;
  rows.q4 = buffer.q4;
  rows.q8 = buffer.q8;
  rows.scales = buffer.scales;
  rows.mins = buffer.mins;
  rows.factors = buffer.factors;
  rows.min_factors = buffer.min_factors;
  return rows;
}

void dequantise(const GgufTensor& tensor, std::span<float> out) {
  CHECK(out.size() == tensor.elements());
  const Format format = format_of(tensor.type);
  const uint8_t* bytes = bytes_of(tensor);
  switch (format.layout) {
    case WeightLayout::kF32:
      std::memcpy(out.data(), bytes, out.size() * sizeof(float));
      return;
    case WeightLayout::kF16:
      for (size_t i = 0; i < out.size(); ++i) out[i] = half_at(bytes + 2 * i);
      return;
    case WeightLayout::kBF16:  // the upper half of a single-precision number
      for (size_t i = 0; i < out.size(); ++i) {
        const uint32_t bits = static_cast<uint32_t>(bytes[2 * i]) | static_cast<uint32_t>(bytes[2 * i + 1]) << 8;
        out[i] = std::bit_cast<float>(bits << 16);
      }
      return;
    case WeightLayout::kQ8:
    case WeightLayout::kQ6:
    case WeightLayout::kQ4:
      break;
  }
  const GgufTypeTraits& traits = *gguf_type_traits(static_cast<uint32_t>(tensor.type));
  UnpackedBlock unpacked;
  for (size_t begin = 0; begin < out.size(); begin += traits.block_size, bytes += traits.block_bytes) {
    format.unpack(bytes, unpacked);
    for (size_t i = 0; i < traits.block_size; ++i) {
      const size_t group = i / static_cast<size_t>(format.group);
      const auto factor = [&](const auto& all) { return format.scale_factors ? static_cast<float>(all[group]) : 1.0F; };
      const int code = unpacked.codes[i] - (format.layout == WeightLayout::kQ4 && !format.has_min ? 8 : 0);
      const float product = unpacked.scale * factor(unpacked.factors) * static_cast<float>(code);
      out[begin + i] = format.has_min ? product + unpacked.min * factor(unpacked.min_factors) : product;
    }
  }
}

}  // namespace twostroke
