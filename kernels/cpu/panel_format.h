// PanelFormat: how the CPU operator sets arrange a weight in memory.
//
// The outputs of a weight (rows of W) are cut into panels of kPanelOutputs; a panel holds its outputs side by side, in
// ascending k, so that a kernel reads a weight once, from front to back. Lanes beyond n in the last panel are zero.
//
//   float32          [k][16] float
//   float16/bfloat16 [k][16] uint16
//   code8            per group: scales [16], mins [16] if any, codes [group / 4][16][4] bytes: code + 128
//   code4            per group: scales [16], mins [16] if any, codes [group / 8][16][4] bytes: of eight consecutive k,
//                    the low half of byte (i, lane, j) holds the code of k = 8i + j and the high half that of
//                    k = 8i + 4 + j
//
// Codes come in quads: a 32-bit lane has four consecutive k of one output, where the dot products of bytes with four
// broadcast activations want them; the float kernels take one k of 16 outputs by a shift and a mask. Both kinds of code
// are unsigned, since those instructions take one operand of each sign and activations have the other.
//
// Scales and mins are uint16 halves with half_scales, else float. The value is w = fma(scale, code, min) in float, or
// scale * code without mins, where kCode4Middle is taken off a 4-bit code first.
//
// Plain data, no includes with inline code: kernels compiled for other instruction sets see it too.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace twostroke {

enum : int32_t {
  kPanelOutputs = 16,
  kCode4Middle = 8,
  // How far ahead of the codes that they multiply kernels ask for weights, in bytes: about as much as a core gets from
  // memory while it waits for it. The processor's own look-ahead stops at the end of a page of 4 KiB.
  kPrefetchAhead = 8192,
};

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
