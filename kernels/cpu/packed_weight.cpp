#include "kernels/cpu/packed_weight.h"

#include <cmath>
#include <cstring>

#include "kernels/float16.h"

namespace twostroke {
namespace {

constexpr size_t kOutputs = kPanelOutputs;
static_assert(kSuperBlockK == kSuperBlock);

PanelKind panel_kind(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::kF32:
      return PanelKind::kFloat32;
    case WeightLayout::kF16:
      return PanelKind::kFloat16;
    case WeightLayout::kBF16:
      return PanelKind::kBfloat16;
    case WeightLayout::kQ8:
      return PanelKind::kCode8;
    case WeightLayout::kQ6:
      return PanelKind::kCode6;
    case WeightLayout::kQ4:
      return PanelKind::kCode4;
  }
  CHECK(false, "a WeightLayout that is not in the enumeration");
}

size_t code_bits(PanelKind kind) {
  switch (kind) {
    case PanelKind::kCode8:
      return 8;
    case PanelKind::kCode6:
      return 6;
    case PanelKind::kCode4:
      return 4;
    default:
      return 0;
  }
}

void store_half(std::byte* halves, size_t lane, float value) {
  const uint16_t half = float_to_half(value);
  std::memcpy(halves + lane * sizeof(half), &half, sizeof(half));
}

template <typename T>
T load(const std::byte* from, size_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof(T), sizeof(T));
  return value;
}

float load_half(const std::byte* halves, size_t lane) { return half_to_float(load<uint16_t>(halves, lane)); }

// The scale, or with `min` the min, of one group.
float load_scale(const PanelFormat& format, const std::byte* super, const std::byte* step, size_t lane, bool min) {
  const std::byte* at = step + (min ? format.scale_bytes : 0);
  if (!format.scale_factors) return load_half(at, lane);
  return load_half(super + (min ? size_t{kHalvesBytes} : 0), lane) * static_cast<float>(load<int8_t>(at, lane));
}

// Element i of `source` becomes element (i, lane) of the panel part at `target`, [count][16].
template <typename T>
void scatter(std::byte* target, size_t lane, std::span<const T> source) {
  for (size_t i = 0; i < source.size(); ++i) {
    std::memcpy(target + (i * kOutputs + lane) * sizeof(T), &source[i], sizeof(T));
  }
}

constexpr size_t kQuad = 4;  // consecutive k of one output, side by side

// Codes of one output and one group, into quads (panel_format.h).
void scatter_codes8(std::byte* target, size_t lane, std::span<const int8_t> source) {
  for (size_t i = 0; i < source.size(); ++i) {
    target[(i / kQuad * kOutputs + lane) * kQuad + i % kQuad] = static_cast<std::byte>(source[i] + 128);
  }
}
// `source` has the codes of 2i and 2i + 1 in byte i.
void scatter_codes4(std::byte* target, size_t lane, std::span<const uint8_t> source) {
  const auto code = [&](size_t i) { return (source[i / 2] >> (i % 2 * 4)) & 15; };
  for (size_t i = 0; i < source.size() * 2; i += 2 * kQuad) {
    std::byte* quad = target + (i / (2 * kQuad) * kOutputs + lane) * kQuad;
    for (size_t j = 0; j < kQuad; ++j) quad[j] = static_cast<std::byte>(code(i + j) | code(i + kQuad + j) << 4);
  }
}

constexpr size_t kUnit6 = 16;                              // k whose 6-bit codes lie together
constexpr size_t kUnit6Low = kUnit6 / 2 * kOutputs;        // bytes of their lower four bits
constexpr size_t kUnit6Bytes = kUnit6 * 6 / 8 * kOutputs;  // and all

void scatter_codes6(std::byte* target, size_t lane, std::span<const int8_t> source) {
  for (size_t begin = 0; begin < source.size(); begin += kUnit6, target += kUnit6Bytes) {
    const std::span<const int8_t> unit = source.subspan(begin, kUnit6);
    const auto code = [&](size_t i) { return (unit[i] + 32) & 63; };
    std::byte* low = target + lane * kQuad;
    std::byte* high = target + kUnit6Low + lane * kQuad;
    for (size_t j = 0; j < kQuad; ++j) {
      const int codes[] = {code(j), code(j + 4), code(j + 8), code(j + 12)};
      low[j] = static_cast<std::byte>((codes[0] & 15) | (codes[1] & 15) << 4);
      low[kOutputs * kQuad + j] = static_cast<std::byte>((codes[2] & 15) | (codes[3] & 15) << 4);
      high[j] = static_cast<std::byte>(codes[0] >> 4 | codes[1] >> 4 << 2 | codes[2] >> 4 << 4 | codes[3] >> 4 << 6);
    }
  }
}

// The 4 bits of element i as in code4.
int load_half_byte(const std::byte* codes, size_t lane, size_t i) {
  const auto pair = load<uint8_t>(codes, (i / (2 * kQuad) * kOutputs + lane) * kQuad + i % kQuad);
  return i % (2 * kQuad) < kQuad ? pair & 15 : pair >> 4;
}

int load_code(const PanelFormat& format, const std::byte* codes, size_t lane, size_t i) {
  switch (format.kind) {
    case PanelKind::kCode8:
      return load<uint8_t>(codes, (i / kQuad * kOutputs + lane) * kQuad + i % kQuad) - 128;
    case PanelKind::kCode6: {
      const std::byte* unit = codes + i / kUnit6 * kUnit6Bytes;
      i %= kUnit6;
      const auto pairs = load<uint8_t>(unit + kUnit6Low, lane * kQuad + i % kQuad);
      return (load_half_byte(unit, lane, i) | (pairs >> (i / kQuad * 2) & 3) << 4) - 32;
    }
    default:
      return load_half_byte(codes, lane, i) - (format.has_min ? 0 : int{kCode4Middle});
  }
}

}  // namespace

PanelFormat panel_format(const WeightShape& shape) {
  CHECK(shape.n > 0 && shape.k > 0, "a weight needs outputs and inputs");
  PanelFormat format = {};
  format.kind = panel_kind(shape.layout);
  if (const size_t bits = code_bits(format.kind); bits > 0) {
    CHECK(shape.group == 16 || shape.group == 32, "groups have 16 or 32 elements");
    CHECK(shape.k % shape.group == 0, "k must be a multiple of the group");
    CHECK(!shape.scale_factors || shape.k % kSuperBlockK == 0, "k must be a multiple of the super-block");
    CHECK(shape.layout != WeightLayout::kQ8 || (shape.group == 32 && !shape.has_min && !shape.scale_factors),
          "8-bit codes have groups of 32, no mins and no factors");
    format.group = shape.group;
    format.has_min = shape.has_min;
    format.scale_factors = shape.scale_factors;
    const size_t per_group = shape.has_min ? 2 : 1;
    format.super_bytes = shape.scale_factors ? kHalvesBytes * per_group : 0;
    format.steps_at = static_cast<size_t>(shape.k / kSuperBlockK) * format.super_bytes;
    format.scale_bytes = shape.scale_factors ? kOutputs : kHalvesBytes;
    format.codes_at = format.scale_bytes * per_group;
    format.step_bytes = format.codes_at + static_cast<size_t>(shape.group) * kOutputs * bits / 8;
    format.panel_bytes = format.steps_at + static_cast<size_t>(shape.k / shape.group) * format.step_bytes;
  } else {
    format.step_bytes = kOutputs * (format.kind == PanelKind::kFloat32 ? 4 : 2);
    format.panel_bytes = static_cast<size_t>(shape.k) * format.step_bytes;
  }
  return format;
}

int64_t panel_count(const WeightShape& shape) { return (shape.n + kPanelOutputs - 1) / kPanelOutputs; }

size_t packed_bytes(const WeightShape& shape) {
  return static_cast<size_t>(panel_count(shape)) * panel_format(shape).panel_bytes;
}

void pack_rows(const WeightShape& shape, std::byte* packed, const HostWeightRows& rows) {
  const PanelFormat format = panel_format(shape);
  CHECK(rows.row_begin >= 0 && rows.row_count >= 0 && rows.row_begin + rows.row_count <= shape.n);
  const auto k = static_cast<size_t>(shape.k);
  const bool coded = format.group > 0;
  const auto group = static_cast<size_t>(format.group);
  const size_t groups = coded ? k / group : 0;
  const auto count = static_cast<size_t>(rows.row_count);
  CHECK(rows.f32.size() == (format.kind == PanelKind::kFloat32 ? count * k : 0));
  CHECK(rows.bits16.size() ==
        (format.kind == PanelKind::kFloat16 || format.kind == PanelKind::kBfloat16 ? count * k : 0));
  CHECK(rows.q8.size() == (format.kind == PanelKind::kCode8 || format.kind == PanelKind::kCode6 ? count * k : 0));
  CHECK(rows.q4.size() == (format.kind == PanelKind::kCode4 ? count * k / 2 : 0));
  const size_t supers = coded && format.scale_factors ? k / kSuperBlockK : 0;
  const size_t scales = supers > 0 ? supers : groups;
  CHECK(rows.scales.size() == count * scales);
  CHECK(rows.mins.size() == (format.has_min ? count * scales : 0));
  CHECK(rows.factors.size() == (supers > 0 ? count * groups : 0));
  CHECK(rows.min_factors.size() == (supers > 0 && format.has_min ? count * groups : 0));

  for (size_t i = 0; i < count; ++i) {
    const size_t row = static_cast<size_t>(rows.row_begin) + i;
    const size_t lane = row % kOutputs;
    std::byte* panel = packed + row / kOutputs * format.panel_bytes;
    // Rows come in ascending order, so this clears the lanes that no row will fill.
    if (lane == 0) std::memset(panel, 0, format.panel_bytes);
    switch (format.kind) {
      case PanelKind::kFloat32:
        scatter(panel, lane, rows.f32.subspan(i * k, k));
        break;
      case PanelKind::kFloat16:
      case PanelKind::kBfloat16:
        scatter(panel, lane, rows.bits16.subspan(i * k, k));
        break;
      case PanelKind::kCode8:
      case PanelKind::kCode6:
      case PanelKind::kCode4:
        for (size_t s = 0; s < scales; ++s) {
          std::byte* at = panel + s * (supers > 0 ? format.super_bytes : format.step_bytes);
          store_half(at, lane, rows.scales[i * scales + s]);
          if (format.has_min) store_half(at + kHalvesBytes, lane, rows.mins[i * scales + s]);
        }
        for (size_t g = 0; g < groups; ++g) {
          std::byte* step = panel + format.steps_at + g * format.step_bytes;
          if (supers > 0) step[lane] = static_cast<std::byte>(rows.factors[i * groups + g]);
          if (supers > 0 && format.has_min) {
            step[format.scale_bytes + lane] = static_cast<std::byte>(rows.min_factors[i * groups + g]);
          }
          std::byte* codes = step + format.codes_at;
          if (format.kind == PanelKind::kCode8) {
            scatter_codes8(codes, lane, rows.q8.subspan(i * k + g * group, group));
          } else if (format.kind == PanelKind::kCode6) {
            scatter_codes6(codes, lane, rows.q8.subspan(i * k + g * group, group));
          } else {
            scatter_codes4(codes, lane, rows.q4.subspan((i * k + g * group) / 2, group / 2));
          }
        }
        break;
    }
  }
}

void unpack_row(const WeightShape& shape, const std::byte* packed, int64_t row, std::span<float> out) {
  const PanelFormat format = panel_format(shape);
  CHECK(0 <= row && row < shape.n && out.size() == static_cast<size_t>(shape.k));
  const size_t lane = static_cast<size_t>(row) % kOutputs;
  const std::byte* panel = packed + static_cast<size_t>(row) / kOutputs * format.panel_bytes;
  for (size_t k = 0; k < out.size(); ++k) {
    switch (format.kind) {
      case PanelKind::kFloat32:
        out[k] = load<float>(panel, k * kOutputs + lane);
        break;
      case PanelKind::kFloat16:
        out[k] = half_to_float(load<uint16_t>(panel, k * kOutputs + lane));
        break;
      case PanelKind::kBfloat16:
        out[k] = bfloat16_to_float(load<uint16_t>(panel, k * kOutputs + lane));
        break;
      case PanelKind::kCode8:
      case PanelKind::kCode6:
      case PanelKind::kCode4: {
        const auto group = static_cast<size_t>(format.group);
        const std::byte* super = panel + k / kSuperBlockK * format.super_bytes;
        const std::byte* step = panel + format.steps_at + k / group * format.step_bytes;
        const int code = load_code(format, step + format.codes_at, lane, k % group);
        const float min = format.has_min ? load_scale(format, super, step, lane, true) : 0.0f;
        const float scale = load_scale(format, super, step, lane, false);
        out[k] = format.has_min ? std::fma(scale, static_cast<float>(code), min) : scale * static_cast<float>(code);
        break;
      }
    }
  }
}

}  // namespace twostroke
