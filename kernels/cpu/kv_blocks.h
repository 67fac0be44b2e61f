// How the CPU's operator sets arrange a block of the key/value cache: where vectors of one head lie in it, and how they
// get there.
//
//   keys    [G, S, block_size]   numbers or codes: 16 neighbouring positions are a vector for the processor, so that
//   values  [G, block_size, S]   neither a score nor a weighted sum needs a sum across its lanes
//   scales  [2, G, block_size]   halves, of the keys and then of the values; kI8 only
//
// Thread-safety: functions over memory; different positions may be stored from different threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/operators.h"

namespace twostroke {

// One head's part of a block.
struct KvHead {
  std::byte* keys = nullptr;         // [S, block_size]
  std::byte* values = nullptr;       // [block_size, S]
  uint16_t* key_scales = nullptr;    // [block_size], or null
  uint16_t* value_scales = nullptr;  // likewise
};

KvHead kv_head_at(const KvCache& cache, int32_t layer, int32_t block, int32_t g);

// The scale of kI8 for a vector, a half: NaN where a number is not finite or too large.
uint16_t kv_scale(std::span<const float> vector);

// codes[i] = vector[i] / scale, rounded to nearest, in [-127, 127]. All 0 for a scale of 0, all 1 for NaN.
void kv_codes(std::span<const float> vector, uint16_t scale, std::span<int8_t> codes);

// Stores the key and the value, S numbers each, of the position at `offset` of a block.
void store_kv(const KvCache& cache, const KvHead& head, int32_t offset, const float* key, const float* value);

// The same for numbers that are elements of `cache.dtype`, kF32 or kF16, already.
void store_kv_elements(const KvCache& cache, const KvHead& head, int32_t offset, const void* key, const void* value);

// Number s of the key and the value at `offset`.
float load_key(const KvCache& cache, const KvHead& head, int32_t offset, int32_t s);
float load_value(const KvCache& cache, const KvHead& head, int32_t offset, int32_t s);

}  // namespace twostroke
