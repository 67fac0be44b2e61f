// The instructions of AMX that the kernels need. In assembler, since the compiler's intrinsics do not say which memory
// they read and write, so that it may put off or drop the stores that fill a tile.
//
// Static, as all that files of an instruction set share.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace twostroke {

enum : int32_t { kTileRowsMax = 16, kTileRowBytes = 64 };

// What each tile register holds, as ldtilecfg takes it (Intel's Software Developer's Manual, volume 1, chapter 18).
struct TileShapes {
  uint8_t palette;
  uint8_t start_row;
  uint8_t reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};
static_assert(sizeof(TileShapes) == 64);

static inline void shape_tile(TileShapes& shapes, int tile, int64_t rows, int64_t row_bytes) {
  shapes.palette = 1;
  shapes.rows[tile] = static_cast<uint8_t>(rows);
  shapes.row_bytes[tile] = static_cast<uint16_t>(row_bytes);
}

static inline void use_shapes(const TileShapes& shapes) { asm volatile("ldtilecfg %0" ::"m"(shapes)); }
// To be done when tiles are no longer needed: the operating system saves them while they are in use.
static inline void release_tiles() { asm volatile("tilerelease"); }

template <int kTile>
static inline void clear_tile() {
  asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
}

// Rows `stride` apart, of memory that has not been written by the function at hand.
template <int kTile>
static inline void load_tile(const void* at, size_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(at), "r"(stride), "i"(kTile));
}

// `kRows` whole rows that follow each other.
template <int kTile, int kRows>
static inline void load_tile_rows(const void* at) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(at), "r"(size_t{kTileRowBytes}), "i"(kTile),
               "m"(*static_cast<const char(*)[kRows * kTileRowBytes]>(at)));
}
template <int kTile, int kRows>
static inline void store_tile_rows(void* at) {
  asm volatile("tilestored %%tmm%c3, (%1,%2,1)"
               : "=m"(*static_cast<char(*)[kRows * kTileRowBytes]>(at))
               : "r"(at), "r"(size_t{kTileRowBytes}), "i"(kTile));
}

// Sums += rows of signed bytes times quads (panel_format.h) of bytes, signed or not.
template <bool kSigned, int kSums, int kInputs, int kCodes>
static inline void multiply_tiles() {
  if constexpr (kSigned) {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kInputs), "i"(kCodes));
  } else {
    asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kInputs), "i"(kCodes));
  }
}

}  // namespace twostroke
