#include "kernels/cpu/kv_blocks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "kernels/check.h"
#include "kernels/float16.h"

namespace twostroke {
namespace {

constexpr int32_t kPart = 256;  // numbers of a vector that are converted at once, on the stack

// Adding this to a float in [-2^22, 2^22] rounds it to the nearest integer, which the sum's lowest bits then hold.
constexpr float kRound = 0x1.8p23f;

// Writes `count` elements at `stride` elements from each other.
template <typename Element>
void scatter(std::byte* to, int64_t stride, const Element* from, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    std::memcpy(to + static_cast<size_t>(i * stride) * sizeof(Element), from + i, sizeof(Element));
  }
}

// Stores numbers [begin, begin + count) of a vector.
void store_part(DType dtype, uint16_t scale, std::byte* to, int64_t stride, std::span<const float> numbers) {
  const auto count = static_cast<int32_t>(numbers.size());
  if (dtype == DType::kF32) return scatter(to, stride, numbers.data(), count);
  if (dtype == DType::kF16) {
    std::array<uint16_t, kPart> halves;
    for (int32_t i = 0; i < count; ++i) halves[size_t(i)] = float_to_half(numbers[size_t(i)]);
    return scatter(to, stride, halves.data(), count);
  }
  std::array<int8_t, kPart> codes;
  kv_codes(numbers, scale, std::span(codes).first(numbers.size()));
  scatter(to, stride, codes.data(), count);
}

void store_vector(DType dtype, std::byte* to, int64_t stride, uint16_t* scale_at, std::span<const float> vector) {
  uint16_t scale = 0;
  if (dtype == DType::kI8) *scale_at = scale = kv_scale(vector);
  const size_t step = static_cast<size_t>(stride) * dtype_bytes(dtype);
  for (size_t begin = 0; begin < vector.size(); begin += kPart) {
    const size_t count = std::min<size_t>(kPart, vector.size() - begin);
    store_part(dtype, scale, to + begin * step, stride, vector.subspan(begin, count));
  }
}

float load(DType dtype, const std::byte* data, size_t index, const uint16_t* scale) {
  if (dtype == DType::kF32) {
    float number;
    std::memcpy(&number, data + index * sizeof number, sizeof number);
    return number;
  }
  if (dtype == DType::kF16) {
    uint16_t half;
    std::memcpy(&half, data + index * sizeof half, sizeof half);
    return half_to_float(half);
  }
  return half_to_float(*scale) * static_cast<float>(static_cast<int8_t>(data[index]));
}

}  // namespace

KvHead kv_head_at(const KvCache& cache, int32_t layer, int32_t block, int32_t g) {
  const size_t vectors = size_t(cache.kv_heads) * size_t(cache.block_size);  // of keys in a block; as many of values
  const size_t vector_bytes = size_t(cache.head_size) * dtype_bytes(cache.dtype);
  std::byte* begin = reinterpret_cast<std::byte*>(cache.data.value) +
                     (size_t(layer) * size_t(cache.blocks) + size_t(block)) * cache.block_bytes();
  const size_t first = size_t(g) * size_t(cache.block_size);
  KvHead head = {.keys = begin + first * vector_bytes, .values = begin + (vectors + first) * vector_bytes};
  if (cache.dtype == DType::kI8) {
    auto* scales = reinterpret_cast<uint16_t*>(begin + 2 * vectors * vector_bytes);
    head.key_scales = scales + first;
    head.value_scales = scales + vectors + first;
  }
  return head;
}

uint16_t kv_scale(std::span<const float> vector) {
  // The bits of a magnitude ascend with it, and those of infinity and NaN are beyond all others.
  uint32_t greatest = 0;
  for (const float x : vector) greatest = std::max(greatest, std::bit_cast<uint32_t>(x) & 0x7fffffffu);
  const uint16_t scale = float_to_half(std::bit_cast<float>(greatest) / 127);
  return scale >= 0x7c00 ? uint16_t{0x7e00} : scale;
}

void kv_codes(std::span<const float> vector, uint16_t scale, std::span<int8_t> codes) {
  CHECK(codes.size() == vector.size());
  const float step = half_to_float(scale);
  if (scale == 0 || step != step) {
    std::fill(codes.begin(), codes.end(), scale == 0 ? int8_t{0} : int8_t{1});
    return;
  }
  const float factor = 1 / step;  // finite: the smallest half is 2^-24
  for (size_t i = 0; i < vector.size(); ++i) {
    // Where the scale was rounded down, by up to half for the smallest halves, a quotient may lie beyond 127.
    const float quotient = std::clamp(vector[i] * factor, -127.0f, 127.0f);
    codes[i] = static_cast<int8_t>(std::bit_cast<uint32_t>(quotient + kRound));
  }
}

void store_kv(const KvCache& cache, const KvHead& head, int32_t offset, const float* key, const float* value) {
  const auto size = static_cast<size_t>(cache.head_size);
  const size_t bytes = dtype_bytes(cache.dtype);
  uint16_t* const key_scale = head.key_scales == nullptr ? nullptr : head.key_scales + offset;
  uint16_t* const value_scale = head.value_scales == nullptr ? nullptr : head.value_scales + offset;
  store_vector(cache.dtype, head.keys + static_cast<size_t>(offset) * bytes, cache.block_size, key_scale, {key, size});
  store_vector(cache.dtype, head.values + static_cast<size_t>(offset) * size * bytes, 1, value_scale, {value, size});
}

void store_kv_elements(const KvCache& cache, const KvHead& head, int32_t offset, const void* key, const void* value) {
  const size_t bytes = dtype_bytes(cache.dtype);
  std::byte* const keys = head.keys + static_cast<size_t>(offset) * bytes;
  if (cache.dtype == DType::kF16) {
    scatter(keys, cache.block_size, static_cast<const uint16_t*>(key), cache.head_size);
  } else {
    CHECK(cache.dtype == DType::kF32, "codes have a scale");
    scatter(keys, cache.block_size, static_cast<const float*>(key), cache.head_size);
  }
  const size_t vector_bytes = static_cast<size_t>(cache.head_size) * bytes;
  std::memcpy(head.values + static_cast<size_t>(offset) * vector_bytes, value, vector_bytes);
}

float load_key(const KvCache& cache, const KvHead& head, int32_t offset, int32_t s) {
  const size_t index = size_t(s) * size_t(cache.block_size) + size_t(offset);
  return load(cache.dtype, head.keys, index, head.key_scales == nullptr ? nullptr : head.key_scales + offset);
}

float load_value(const KvCache& cache, const KvHead& head, int32_t offset, int32_t s) {
  const size_t index = size_t(offset) * size_t(cache.head_size) + size_t(s);
  return load(cache.dtype, head.values, index, head.value_scales == nullptr ? nullptr : head.value_scales + offset);
}

}  // namespace twostroke
