// Panels of codes times rows of quantised activations in AMX: a tile product multiplies up to 16 rows by a group of one
// panel, all its dot products at once.
//
// Three things go on at a time, on different pairs of groups, so that none of them waits for another:
//
//   unpack    a pair's codes (code_groups_amx.h) into a ring in the first-level cache, some pairs before they are used,
//             since a tile load waits until what it reads has left the core; and ask memory for what comes 8 KiB later
//   multiply  a pair into two tiles, once those of the pair before are stored: a product takes some 50 cycles, and
//   tiles
//             can be read through memory only
//   convert   the stored dot products of an earlier pair to single precision, and add them to the sums in registers, in
//             the order and to the bits of code_matmul_avx2.cpp
//
// Work goes by panels, and in a panel by blocks of k and, for each, by tiles of rows, which share the unpacked codes
// and the activations in the first-level cache; sums wait in memory for the next block. Rows of one tile need no
// blocks.

#include <immintrin.h>

#include "kernels/cpu/code_groups_amx.h"
#include "kernels/cpu/kernels_amx.h"
#include "kernels/cpu/kernels_avx512.h"

namespace twostroke {
namespace {

constexpr int64_t kTilesMax = 4;  // of rows, that share unpacked codes
constexpr int64_t kRowsAtOnceMax = kTilesMax * kTileRowsMax;
constexpr int64_t kBlockK = 256;  // of a block at least
// How many pairs ahead of their conversion pairs are multiplied, and of that unpacked where there is one tile (with
// more of them it is a block). Both are a few hundred instructions, as many as a core has under way.
constexpr int64_t kMultiplyLead = 3;
constexpr int64_t kUnpackLead = 2;
constexpr int64_t kDotsSlots = 4;
static_assert(kMultiplyLead >= 2 && kMultiplyLead <= kDotsSlots);

struct Call {
  const uint8_t* panel;
  size_t panel_bytes;
  size_t steps_at;
  int64_t panels;
  const Int8Format& parts;
  const uint8_t* row;
  int64_t rows;
  float* out;
  int64_t out_stride;
  bool accumulate;
};

// How a call is cut.
struct Cut {
  int64_t groups;
  int64_t pairs;  // of groups; the last has one group where their number is odd
  int64_t blocks;
  int64_t block_pairs;  // of a block; the first `longer` blocks have one more
  int64_t longer;
  int64_t tiles;

  int64_t begin(int64_t block) const { return block * block_pairs + (block < longer ? block : longer); }
  int64_t size(int64_t block) const { return block_pairs + (block < longer ? 1 : 0); }
  int64_t after(int64_t block) const { return block + 1 == blocks ? 0 : block + 1; }
};

template <typename Codes, bool kFactors, int kRows>
class Kernel {
 public:
  explicit Kernel(const Call& call) : call_(call), stride_(call.parts.row_bytes), three_strides_(3 * stride_) {
    cut_.groups = call.parts.k / kGroup;
    cut_.pairs = (cut_.groups + 1) / 2;
    cut_.tiles = (call.rows + kRows - 1) / kRows;
    cut_.blocks = cut_.tiles == 1 ? 1 : cut_.pairs / kBlockPairs;
    cut_.block_pairs = cut_.pairs / cut_.blocks;
    cut_.longer = cut_.pairs - cut_.blocks * cut_.block_pairs;
    one_tile_ = cut_.tiles == 1;
    ring_end_ = ring_ + (one_tile_ ? kMultiplyLead + kUnpackLead + 1 : 2 * cut_.size(0));
  }

  [[gnu::noinline]] void multiply() {
    TileShapes shapes = {};
    for (int i = 0; i < 2; ++i) {
      shape_tile(shapes, i, kRows, kTileRowBytes);
      shape_tile(shapes, 2 + i, kRows, kGroup);
      shape_tile(shapes, 4 + i, kGroup / 4, kTileRowBytes);
    }
    use_shapes(shapes);

    const int64_t all = call_.panels * cut_.pairs;
    int64_t to_unpack = one_tile_ ? kMultiplyLead + kUnpackLead : cut_.size(0);
    if (to_unpack > all) to_unpack = all;
    Unpacking unpacking = {call_.panel + call_.steps_at, call_.panel, 0, ring_};
    for (int64_t i = 0; i < to_unpack; ++i) unpack_pair(unpacking);
    to_unpack = one_tile_ ? all - to_unpack : 0;
    Multiplying multiplying = {cut_.size(0), call_.row, ring_, ring_, 0, 0, 0, kDotsSlots - 1};
    for (int64_t i = 0; i < kMultiplyLead; ++i) multiply_pair(multiplying);

    const Pair* first = ring_;  // of the block
    size_t dots_at = 0;
    for (int64_t panel = 0; panel < call_.panels; ++panel) {
      for (int64_t block = 0; block < cut_.blocks; ++block) {
        if (!one_tile_ && (block + 1 < cut_.blocks || panel + 1 < call_.panels)) {
          to_unpack += cut_.size(cut_.after(block));
        }
        const Pair* pair = first;
        const int64_t end = cut_.begin(block) + cut_.size(block);
        for (int64_t tile = 0; tile < cut_.tiles; ++tile) {
          __m512 total[kRows];
          float(*const sums)[kPanelOutputs] = sums_ + tile * kRows;
#pragma GCC unroll 16
          for (int r = 0; r < kRows; ++r) total[r] = block == 0 ? _mm512_setzero_ps() : _mm512_load_ps(sums[r]);
          RowParts parts = row_parts(tile, cut_.begin(block));
          pair = first;
          for (int64_t i = cut_.begin(block); i < end; ++i) {
            // In memory: the compiler would keep some of it in vector registers, and get it through the ports that
            // this loop is short of.
            asm volatile("" : "+m"(multiplying), "+m"(unpacking), "+m"(to_unpack), "+m"(dots_at));
            multiply_pair(multiplying);
            if (to_unpack > 0) {
              --to_unpack;
              unpack_pair(unpacking);
            }
            const Dots* dots = dots_ + dots_at;
            asm("" : "+r"(dots));  // one register, not two to add with each access
            dots_at = (dots_at + 1) % kDotsSlots;
            add_group<0>(total, dots->of[0], pair->groups[0], parts);
            if (2 * i + 1 < cut_.groups) add_group<1>(total, dots->of[1], pair->groups[1], parts);
            parts.next();
            if (++pair == ring_end_) pair = ring_;
          }
          if (block + 1 < cut_.blocks) {
#pragma GCC unroll 16
            for (int r = 0; r < kRows; ++r) _mm512_store_ps(sums[r], total[r]);
          } else {
            store_outputs(total, tile, panel);
          }
        }
        first = pair;
      }
    }
    release_tiles();
  }

 private:
  static constexpr int32_t kGroup = Codes::kGroup;
  static constexpr bool kHasMin = Codes::kHasMin;
  static constexpr int64_t kBlockPairs = kBlockK / kGroup / 2;
  static constexpr size_t kScaleBytes = kFactors ? size_t{kPanelOutputs} : size_t{kHalvesBytes};
  static constexpr size_t kCodesAt = kScaleBytes * (kHasMin ? 2 : 1);
  static constexpr size_t kStepBytes = kCodesAt + Codes::kBytes;
  static constexpr size_t kSuperBytes = size_t{kHalvesBytes} * (kHasMin ? 2 : 1);

  struct alignas(64) Group {
    int8_t codes[kGroup * kPanelOutputs];
    float scales[kPanelOutputs];  // times Codes::kUnit
    float zeros[kPanelOutputs];   // -kMagic times those
    float mins[kHasMin ? kPanelOutputs : 1];
  };
  struct Pair {
    Group groups[2];
  };
  struct Dots {
    alignas(64) int32_t of[2][kTileRowsMax][kPanelOutputs];
  };

  // Where the float parts of a tile's rows are for a pair. Only every fourth row has an address of its own, the others
  // are so many strides further: 16 addresses would be more than there are registers.
  struct RowParts {
    static constexpr size_t kStep = 2 * kGroup / kInt8Codes * sizeof(float);
    const uint8_t* at[(kRows + 3) / 4];
    size_t stride;
    size_t three_strides;
    size_t sums_at;

    [[gnu::always_inline]] const float& of(int r, size_t further) const {
      const size_t strides = r % 4 == 3 ? three_strides : static_cast<size_t>(r % 4) * stride;
      return *reinterpret_cast<const float*>(at[r / 4] + strides + further);
    }
    [[gnu::always_inline]] void next() {
#pragma GCC unroll 4
      for (int i = 0; i < (kRows + 3) / 4; ++i) {
        at[i] += kStep;
        asm("" : "+r"(at[i]));  // or the compiler would count groups and compute all addresses from that
      }
    }
  };

  // Tiles of kRows each: the last begins early enough, and its first rows are computed twice.
  int64_t tile_row(int64_t tile) const {
    return tile * kRows + kRows <= call_.rows ? tile * kRows : call_.rows - kRows;
  }
  RowParts row_parts(int64_t tile, int64_t pair) const {
    RowParts parts;
    const uint8_t* at = call_.row + static_cast<size_t>(tile_row(tile)) * stride_ + call_.parts.scales +
                        static_cast<size_t>(pair) * RowParts::kStep;
    for (int i = 0; i < (kRows + 3) / 4; ++i) parts.at[i] = at + static_cast<size_t>(4 * i) * stride_;
    parts.stride = stride_;
    parts.three_strides = three_strides_;
    parts.sums_at = call_.parts.sums - call_.parts.scales;
    return parts;
  }

  // The next pair to be unpacked, in the order in which they lie in memory.
  struct Unpacking {
    const uint8_t* step;
    const uint8_t* panel;
    int64_t pair;  // of the panel
    Pair* to;
  };
  [[gnu::always_inline]] void unpack_pair(Unpacking& at) {
    constexpr size_t kLineBytes = 64;
#pragma GCC unroll 32
    for (size_t i = 0; i < 2 * kStepBytes; i += kLineBytes) __builtin_prefetch(at.step + kPrefetchAhead + i, 0, 2);
    const uint8_t* super = at.panel;
    if constexpr (kFactors) super += static_cast<size_t>(at.pair * 2 * kGroup / kSuperBlockK) * kSuperBytes;
    unpack_group(at.step, super, at.to->groups[0]);
    if (2 * at.pair + 1 < cut_.groups) {
      unpack_group(at.step + kStepBytes, super, at.to->groups[1]);
      at.step += kStepBytes;
    }
    at.step += kStepBytes;
    if (++at.to == ring_end_) at.to = ring_;
    if (++at.pair == cut_.pairs) {
      at.pair = 0;
      at.panel += call_.panel_bytes;
      at.step = at.panel + call_.steps_at;
    }
  }
  [[gnu::always_inline]] static inline void unpack_group(const uint8_t* step, const uint8_t* super, Group& to) {
    const __m512 scales = _mm512_mul_ps(load_scales(step, super), _mm512_set1_ps(Codes::kUnit));
    _mm512_store_ps(to.scales, scales);
    _mm512_store_ps(to.zeros, _mm512_mul_ps(scales, _mm512_set1_ps(-kMagic)));
    if constexpr (kHasMin) _mm512_store_ps(to.mins, load_scales(step + kScaleBytes, super + kHalvesBytes));
    Codes::unpack(step + kCodesAt, to.codes);
  }
  // Scales or mins of a group: halves, or factors of those of its super-block.
  static inline __m512 load_scales(const uint8_t* at, const uint8_t* super) {
    const __m512 halves = _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(kFactors ? super : at)));
    if constexpr (!kFactors) return halves;
    const __m128i factors = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    return _mm512_mul_ps(halves, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(factors)));
  }

  // The next pair to be multiplied.
  struct Multiplying {
    int64_t left;  // of the block and the tile; 0 at the end
    const uint8_t* inputs;
    const Pair* pair;
    const Pair* first;  // of the block
    int64_t tile;
    int64_t block;
    int64_t panel;
    size_t dots_at;  // where the products of the pair before go
  };
  [[gnu::always_inline]] void multiply_pair(Multiplying& at) {
    Dots& dots = dots_[at.dots_at];
    at.dots_at = (at.dots_at + 1) % kDotsSlots;
    if (at.left == 0) {
      store_tile_rows<0, kRows>(dots.of[0]);
      store_tile_rows<1, kRows>(dots.of[1]);
      return;
    }
    load_tile<2>(at.inputs, stride_);
    load_tile_rows<4, kGroup / 4>(at.pair->groups[0].codes);
    store_tile_rows<0, kRows>(dots.of[0]);
    clear_tile<0>();
    multiply_tiles<Codes::kSigned, 0, 2, 4>();
    // Without a second group nobody looks at what comes of it; a row goes on behind its codes.
    load_tile<3>(at.inputs + kGroup, stride_);
    load_tile_rows<5, kGroup / 4>(at.pair->groups[1].codes);
    store_tile_rows<1, kRows>(dots.of[1]);
    clear_tile<1>();
    multiply_tiles<Codes::kSigned, 1, 3, 5>();
    at.inputs += 2 * kGroup;
    if (++at.pair == ring_end_) at.pair = ring_;
    if (--at.left == 0) next_tile(at);
  }
  [[gnu::always_inline]] void next_tile(Multiplying& at) {
    if (++at.tile < cut_.tiles) {
      at.pair = at.first;
    } else {
      at.tile = 0;
      at.first = at.pair;
      at.block = cut_.after(at.block);
      at.panel += at.block == 0 ? 1 : 0;
    }
    if (at.panel == call_.panels) return;
    at.left = cut_.size(at.block);
    at.inputs = call_.row + static_cast<size_t>(tile_row(at.tile)) * stride_ +
                static_cast<size_t>(cut_.begin(at.block)) * (2 * kGroup);
  }

  // total += what a group adds to the sums.
  template <int kNumber>
  [[gnu::always_inline]] static inline void add_group(__m512 (&total)[kRows],
                                                      const int32_t (&dots)[kTileRowsMax][kPanelOutputs],
                                                      const Group& group, const RowParts& parts) {
    constexpr size_t kAt = kNumber * (kGroup / kInt8Codes) * sizeof(float);
    const __m512 scale = _mm512_load_ps(group.scales);
    const __m512 zero = _mm512_load_ps(group.zeros);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const __m512i bits = _mm512_add_epi32(_mm512_load_si512(dots[r]), _mm512_set1_epi32(kMagicBits));
      const __m512 product = _mm512_fmadd_ps(_mm512_castsi512_ps(bits), scale, zero);
      total[r] = _mm512_fmadd_ps(product, _mm512_set1_ps(parts.of(r, kAt)), total[r]);
      asm("" : "+v"(total[r]));  // or all products would be computed first, for which there are no registers
    }
    if constexpr (kHasMin) {
      static_assert(kGroup == kInt8Codes);
      const __m512 min = _mm512_load_ps(group.mins);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        total[r] = _mm512_fmadd_ps(min, _mm512_set1_ps(parts.of(r, parts.sums_at + kAt)), total[r]);
      }
    }
  }

  [[gnu::always_inline]] void store_outputs(const __m512 (&total)[kRows], int64_t tile, int64_t panel) const {
    const int64_t first = tile_row(tile);
    const int64_t twice = tile * kRows - first;  // rows that the tile before has stored
    float* to = call_.out + first * call_.out_stride + panel * kPanelOutputs;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r, to += call_.out_stride) {
      if (r < twice) continue;
      _mm512_storeu_ps(to, call_.accumulate ? _mm512_add_ps(_mm512_loadu_ps(to), total[r]) : total[r]);
    }
  }

  const Call call_;
  const size_t stride_;  // of rows
  const size_t three_strides_;
  Cut cut_;
  bool one_tile_;
  Pair* ring_end_;
  Pair ring_[4 * kBlockPairs];
  Dots dots_[kDotsSlots];
  alignas(64) float sums_[kRowsAtOnceMax][kPanelOutputs];
};

template <typename Codes, bool kFactors, int kRows>
void multiply_rows(const Call& call) {
  Kernel<Codes, kFactors, kRows>(call).multiply();
}

template <typename Codes, bool kFactors>
void multiply_call(const Call& call) {
  const int64_t tiles = (call.rows + kTileRowsMax - 1) / kTileRowsMax;
  switch ((call.rows + tiles - 1) / tiles) {
    case 9:
      return multiply_rows<Codes, kFactors, 9>(call);
    case 10:
      return multiply_rows<Codes, kFactors, 10>(call);
    case 11:
      return multiply_rows<Codes, kFactors, 11>(call);
    case 12:
      return multiply_rows<Codes, kFactors, 12>(call);
    case 13:
      return multiply_rows<Codes, kFactors, 13>(call);
    case 14:
      return multiply_rows<Codes, kFactors, 14>(call);
    case 15:
      return multiply_rows<Codes, kFactors, 15>(call);
    default:
      return multiply_rows<Codes, kFactors, kTileRowsMax>(call);
  }
}

struct Choice {
  void (*multiply)(const Call& call);  // or null: formats that no model file here has
  int64_t rows_min;                    // fewer are not slower in AVX-512
};

Choice choose(const PanelFormat& format) {
  const bool wide = format.group == kInt8Codes;
  if (format.kind == PanelKind::kCode8) return {multiply_call<Codes8Amx, false>, 20};
  if (format.kind == PanelKind::kCode6 && !wide && !format.has_min && format.scale_factors) {
    return {multiply_call<Codes6Amx, true>, 12};
  }
  if (format.kind != PanelKind::kCode4 || !wide) return {nullptr, 0};
  if (!format.has_min && !format.scale_factors) return {multiply_call<Codes4Amx<false>, false>, 10};
  if (!format.has_min) return {nullptr, 0};
  return {format.scale_factors ? multiply_call<Codes4Amx<true>, true> : multiply_call<Codes4Amx<true>, false>, 12};
}

}  // namespace

void multiply_codes_amx(const PanelFormat* format, const void* panel, int32_t panels, const Int8Format* parts,
                        const void* row, int64_t rows, float* out, int64_t out_stride, bool accumulate) {
  const uint8_t* inputs = static_cast<const uint8_t*>(row);
  const Choice choice = choose(*format);
  while (rows > 0) {
    const int64_t count = rows < kRowsAtOnceMax ? rows : kRowsAtOnceMax;
    // Several tiles need a block that is long enough to unpack the next one meanwhile.
    const bool fits = count <= kTileRowsMax || parts->k >= kBlockK;
    if (choice.multiply == nullptr || count < choice.rows_min || !fits) {
      multiply_codes_avx512(format, panel, panels, parts, inputs, count, out, out_stride, accumulate);
    } else {
      choice.multiply({static_cast<const uint8_t*>(panel), format->panel_bytes, format->steps_at, panels, *parts,
                       inputs, count, out, out_stride, accumulate});
    }
    inputs += static_cast<size_t>(count) * parts->row_bytes;
    out += count * out_stride;
    rows -= count;
  }
}

}  // namespace twostroke
