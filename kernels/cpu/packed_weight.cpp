#include "kernels/cpu/packed_weight.h"

#include <cmath>
#include <cstring>

#include "kernels/float16.h"

namespace twostroke {
namespace {

constexpr size_t kOutputs = kPanelOutputs;

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
    case WeightLayout::kQ4:
      return PanelKind::kCode4;
  }
  CHECK(false, "a WeightLayout that is not in the enumeration");
}

size_t scale_bytes(const PanelFormat& format) { return format.half_scales ? 2 : 4; }
size_t scales_bytes(const PanelFormat& format) { return kOutputs * scale_bytes(format); }  // of one group
size_t codes_offset(const PanelFormat& format) { return scales_bytes(format) * (format.has_min ? 2 : 1); }

void store_scale(const PanelFormat& format, std::byte* scales, size_t lane, float value) {
  if (format.half_scales) {
    const uint16_t half = float_to_half(value);
    std::memcpy(scales + lane * sizeof(half), &half, sizeof(half));
  } else {
    std::memcpy(scales + lane * sizeof(value), &value, sizeof(value));
  }
}

template <typename T>
T load(const std::byte* from, size_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof(T), sizeof(T));
  return value;
}

float load_scale(const PanelFormat& format, const std::byte* scales, size_t lane) {
  return format.half_scales ? half_to_float(load<uint16_t>(scales, lane)) : load<float>(scales, lane);
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

int load_code(const PanelFormat& format, const std::byte* codes, size_t lane, size_t i) {
  if (format.kind == PanelKind::kCode8) {
    return load<uint8_t>(codes, (i / kQuad * kOutputs + lane) * kQuad + i % kQuad) - 128;
  }
  const auto pair = load<uint8_t>(codes, (i / (2 * kQuad) * kOutputs + lane) * kQuad + i % kQuad);
  const int code = i % (2 * kQuad) < kQuad ? pair & 15 : pair >> 4;
  return format.has_min ? code : code - kCode4Middle;
}

}  // namespace

PanelFormat panel_format(const WeightShape& shape) {
  CHECK(shape.n > 0 && shape.k > 0, "a weight needs outputs and inputs");
  PanelFormat format = {};
  format.kind = panel_kind(shape.layout);
  if (format.kind == PanelKind::kCode8 || format.kind == PanelKind::kCode4) {
    CHECK(shape.group == 16 || shape.group == 32, "groups have 16 or 32 elements");
    CHECK(shape.k % shape.group == 0, "k must be a multiple of the group");
    format.group = shape.group;
    format.has_min = shape.has_min;
    format.half_scales = shape.half_scales;
    const size_t codes = static_cast<size_t>(shape.group) * kOutputs / (format.kind == PanelKind::kCode4 ? 2 : 1);
    format.step_bytes = codes_offset(format) + codes;
    format.panel_bytes = static_cast<size_t>(shape.k / shape.group) * format.step_bytes;
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
  CHECK(rows.q8.size() == (format.kind == PanelKind::kCode8 ? count * k : 0));
  CHECK(rows.q4.size() == (format.kind == PanelKind::kCode4 ? count * k / 2 : 0));
  CHECK(rows.scales.size() == count * groups);
  CHECK(rows.mins.size() == (format.has_min ? count * groups : 0));

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
      case PanelKind::kCode4:
        for (size_t g = 0; g < groups; ++g) {
          std::byte* step = panel + g * format.step_bytes;
          store_scale(format, step, lane, rows.scales[i * groups + g]);
          if (format.has_min) store_scale(format, step + scales_bytes(format), lane, rows.mins[i * groups + g]);
          if (format.kind == PanelKind::kCode8) {
            scatter_codes8(step + codes_offset(format), lane, rows.q8.subspan(i * k + g * group, group));
          } else {
            scatter_codes4(step + codes_offset(format), lane, rows.q4.subspan((i * k + g * group) / 2, group / 2));
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
      case PanelKind::kCode4: {
        const auto group = static_cast<size_t>(format.group);
        const std::byte* step = panel + k / group * format.step_bytes;
        const std::byte* codes = step + codes_offset(format);
        const int code = load_code(format, codes, lane, k % group);
        const float min = format.has_min ? load_scale(format, step + scales_bytes(format), lane) : 0.0f;
        const float scale = load_scale(format, step, lane);
        out[k] = format.has_min ? std::fma(scale, static_cast<float>(code), min) : scale * static_cast<float>(code);
        break;
      }
    }
  }
}

}  // namespace twostroke
