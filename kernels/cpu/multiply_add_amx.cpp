// Nothing but products of tiles of 16 rows and a group of kInt8Codes, as multiply_codes_amx makes them: the most that
// AMX can do for it. (Tiles have room for twice as many k, but each group's sums are needed by themselves.)

#include "kernels/cpu/kernels_amx.h"
#include "kernels/cpu/tiles_amx.h"

namespace twostroke {
namespace {

// Several, since a product takes longer than it keeps the next one from starting.
constexpr int kSums = 4;
constexpr int kOutputs = int{kTileRowBytes} / 4;
constexpr int kGroupBytes = int{kTileRowsMax} * int{kInt8Codes};  // of 16 rows or 16 outputs
static_assert(kSums * kTileRowsMax * kOutputs * kInt8Codes == kInt8MultiplyAddsAmx);

}  // namespace

int64_t int8_multiply_add_amx(int64_t rounds, int32_t code, int32_t input) {
  alignas(64) int8_t codes[kGroupBytes];
  alignas(64) int8_t inputs[kGroupBytes];
  for (int i = 0; i < kGroupBytes; ++i) {
    codes[i] = static_cast<int8_t>(code);
    inputs[i] = static_cast<int8_t>(input);
  }
  TileShapes shapes = {};
  for (int i = 0; i < kSums; ++i) shape_tile(shapes, i, kTileRowsMax, kTileRowBytes);
  shape_tile(shapes, 4, kTileRowsMax, kInt8Codes);
  shape_tile(shapes, 5, kInt8Codes / 4, kTileRowBytes);
  use_shapes(shapes);
  asm volatile("" ::"m"(inputs));  // load_tile() does not say that it reads them
  load_tile<4>(inputs, kInt8Codes);
  load_tile_rows<5, kInt8Codes / 4>(codes);
  clear_tile<0>();
  clear_tile<1>();
  clear_tile<2>();
  clear_tile<3>();
  for (int64_t round = 0; round < rounds; ++round) {
    multiply_tiles<true, 0, 4, 5>();
    multiply_tiles<true, 1, 4, 5>();
    multiply_tiles<true, 2, 4, 5>();
    multiply_tiles<true, 3, 4, 5>();
  }
  alignas(64) int32_t sums[kSums][kTileRowsMax * kOutputs];
  store_tile_rows<0, kTileRowsMax>(sums[0]);
  store_tile_rows<1, kTileRowsMax>(sums[1]);
  store_tile_rows<2, kTileRowsMax>(sums[2]);
  store_tile_rows<3, kTileRowsMax>(sums[3]);
  release_tiles();
  int64_t total = 0;
  for (const auto& tile : sums) {
    for (const int32_t sum : tile) total += sum;
  }
  return total;
}

}  // namespace twostroke
