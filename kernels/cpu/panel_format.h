// PanelFormat: how the CPU operator sets arrange a weight in memory.
//
// The outputs of a weight (rows of W) are cut into panels of kPanelOutputs; a panel holds its outputs side by side, in
// ascending k, so that a kernel reads a weight once, from front to back. Lanes beyond n in the last panel are zero.
//
//   float32          [k][16] float
//   float16/bfloat16 [k][16] uint16
//   codes            with scale factors: for each super-block of k, scales [16] and mins [16] if any; then
//                    per group: scales [16] and mins [16] if any, or their factors [16] bytes; and the codes:
//     code8            [group / 4][16][4] bytes: code + 128
//     code4            [group / 8][16][4] bytes: of eight consecutive k, the low half of byte (i, lane, j) holds the
//                      code of k = 8i + j and the high half that of k = 8i + 4 + j
//     code6            code + 32, for each 16 k: the lower four bits as in code4, [2][16][4] bytes, and the upper two,
//                      [16][4] bytes: those of k = 4i + j begin at bit 2i of byte (lane, j)
//
// Codes come in quads: a 32-bit lane has four consecutive k of one output, where the dot products of bytes with four
// broadcast activations want them; the float kernels take one k of 16 outputs by a shift and a mask. All kinds of code
// are unsigned, since those instructions take one operand of each sign and activations have the other.
//
// Scales and mins are uint16 halves, factors signed bytes by which those of the super-block are multiplied. The value
// is w = fma(scale, code, min) in float, or scale * code without mins, where kCode4Middle is taken off a 4-bit code
// first.
//
// Plain data, no includes with inline code: kernels compiled for other instruction sets see it too.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace twostroke {

enum : int32_t {
  kPanelOutputs = 16,
  kCode4Middle = 8,
  kCode6Middle = 32,
  kSuperBlockK = 256,  // k of a super-block, which have scales of their own where groups have factors
  // How far ahead of the codes that they multiply kernels ask for weights, in bytes: about as much as a core gets from
  // memory while it waits for it. The processor's own look-ahead stops at the end of a page of 4 KiB.
  kPrefetchAhead = 8192,
};

enum : size_t { kHalvesBytes = kPanelOutputs * sizeof(uint16_t) };  // of 16 scales

enum class PanelKind : uint8_t { kFloat32, kFloat16, kBfloat16, kCode8, kCode6, kCode4 };

struct PanelFormat {
  PanelKind kind;
  bool has_min;
  bool scale_factors;
  int32_t group;       // 0 for plain numbers
  size_t super_bytes;  // scales and mins of one super-block
  size_t steps_at;     // where the groups begin in a panel: behind those of all super-blocks
  size_t scale_bytes;  // of one group: 16 scales or factors; mins take as many
  size_t codes_at;     // where the codes begin in a group
  size_t step_bytes;   // of one group; for plain numbers, of one k
  size_t panel_bytes;  // of a whole panel
};

}  // namespace twostroke
