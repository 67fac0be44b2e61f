// Int8Format: how the CPU operator sets arrange a row of quantised activations (kernels/activations.h) in memory.
//
// With groups = ceil(k / 32), a row has these parts, each beginning at a multiple of 64 bytes:
//
//   codes         [groups * 32] int8; zero beyond k
//   wide          [groups * 32] int16: the codes again, for products of 16-bit numbers
//   scales        [groups] float
//   sums          [groups] float: scale * (sum of the group's codes), which a weight's min is multiplied with
//   half_sums     [groups * 2] float: likewise of each half of a group, for weights in groups of 16
//   offsets       [groups] int32: -kCode4Middle * (sum of the group's codes), which takes the middle off
//                 a weight's codes
//   half_offsets  [groups * 2] int32: likewise of each half
//   pair_offsets  [groups * 2][2] int16, for each half of a group: -kCode6Middle * (sum of its codes of k = 4i and
//                 4i + 1), and likewise of those of k = 4i + 2 and 4i + 3
//
// Parts of one kind lie together, so that a product fetches only those that its weight needs. A row takes an odd number
// of these 64 bytes, so that what rows have at the same place falls into different sets of a cache.
//
// Plain data, no includes with inline code: kernels compiled for other instruction sets see it too.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace twostroke {

enum : int32_t { kInt8Codes = 32 };  // of a group

// Where the parts of a row begin, in bytes; codes begin at 0.
struct Int8Format {
  int64_t k;
  int64_t groups;
  size_t wide;
  size_t scales;
  size_t sums;
  size_t half_sums;
  size_t offsets;
  size_t half_offsets;
  size_t pair_offsets;
  size_t row_bytes;
};

}  // namespace twostroke
