// PanelFormat: how the CPU operator sets arrange a weight in memory.
//
// The outputs of a weight (rows of W) are cut into panels of kPanelOutputs; a panel holds its outputs side by side for
// each k, in ascending k, so that a kernel reads a weight once, from front to back, and multiplies one broadcast input
// by a whole vector of weights. Lanes beyond n in the last panel are zero.
//
//   float32          [k][16] float
//   float16/bfloat16 [k][16] uint16
//   code8            per group: scales [16], mins [16] if any, codes [group][16] int8
//   code4            per group: scales [16], mins [16], codes [group / 2][16] bytes: byte (i, lane) holds the code of
//                    k = 2i in its low half and of k = 2i + 1 in its high half
//
// Scales and mins are uint16 halves with half_scales, else float. The value is w = fma(scale, code, min) in float.
//
// Plain data, no includes with inline code: kernels compiled for other instruction sets see it too.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace twostroke {

enum : int32_t { kPanelOutputs = 16 };

enum class PanelKind : uint8_t { kFloat32, kFloat16, kBfloat16, kCode8, kCode4 };

struct PanelFormat {
  PanelKind kind;
  bool has_min;
  bool half_scales;
  int32_t group;       // 0 for plain numbers
  size_t step_bytes;   // of one group; for plain numbers, of one k
  size_t panel_bytes;  // of a whole panel
};

}  // namespace twostroke
