#include "tests/kernels/test_steps.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/cpu/kv_blocks.h"
#include "kernels/float16.h"

namespace twostroke::test {

OwnedRows::OwnedRows(Device& device, std::vector<RowSegment> segments, const std::vector<std::vector<int32_t>>& tables)
    : segments_(std::move(segments)) {
  CHECK(segments_.size() == tables.size());
  std::vector<int32_t> fields;
  std::vector<int32_t> blocks;
  std::vector<int32_t> positions;
  std::vector<int32_t> row_of_token;
  for (size_t r = 0; r < segments_.size(); ++r) {
    RowSegment& segment = segments_[r];
    segment.token_begin = static_cast<int32_t>(positions.size());
    segment.block_begin = static_cast<int32_t>(blocks.size());
    blocks.insert(blocks.end(), tables[r].begin(), tables[r].end());
    for (int32_t i = 0; i < segment.token_count; ++i) {
      positions.push_back(segment.position + i);
      row_of_token.push_back(static_cast<int32_t>(r));
    }
    fields.insert(fields.end(), {segment.token_begin, segment.token_count, segment.position, segment.block_begin});
  }
  const auto list = [&](const std::vector<int32_t>& values) {
    return *tensors_.emplace_back(device, values, 1, static_cast<int64_t>(values.size()));
  };
  rows_.segments = segments_;
  rows_.segments_device = *tensors_.emplace_back(device, fields, static_cast<int64_t>(segments_.size()), 4);
  rows_.block_tables = list(blocks);
  rows_.positions = list(positions);
  rows_.row_of_token = list(row_of_token);
}

OwnedCache::OwnedCache(Device& device, KvCache shape, float fill) : device_(&device), cache_(shape) {
  Result<DeviceMemory> memory = device.allocate(shape.bytes());
  CHECK(memory.ok());
  memory_ = std::move(memory).value();
  cache_.data = memory_.address();
  // The same bytes for all: a number is `fill` whatever the arrangement. Codes and scales are bytes of their own.
  std::vector<std::byte> bytes(shape.bytes());
  const uint16_t half = float_to_half(fill);
  const size_t width = dtype_bytes(shape.dtype);
  for (size_t i = 0; i < bytes.size(); i += width) {
    if (shape.dtype == DType::kF32) std::memcpy(&bytes[i], &fill, width);
    if (shape.dtype == DType::kF16) std::memcpy(&bytes[i], &half, width);
    if (shape.dtype == DType::kI8) bytes[i] = std::byte{0x7f};  // as scales they are NaN
  }
  device.upload(cache_.data, bytes.data(), bytes.size());
  CHECK(device.wait().ok());
}

std::vector<float> OwnedCache::floats() const {
  std::vector<std::byte> bytes(cache_.bytes());
  device_->download(bytes.data(), cache_.data, bytes.size());
  CHECK(device_->wait().ok());
  KvCache copy = cache_;
  copy.data = {reinterpret_cast<uintptr_t>(bytes.data())};
  std::vector<float> values;
  for (int32_t layer = 0; layer < copy.layers; ++layer) {
    for (int32_t block = 0; block < copy.blocks; ++block) {
      for (const bool keys : {true, false}) {
        for (int32_t g = 0; g < copy.kv_heads; ++g) {
          const KvHead head = kv_head_at(copy, layer, block, g);
          for (int32_t offset = 0; offset < copy.block_size; ++offset) {
            for (int32_t s = 0; s < copy.head_size; ++s) {
              values.push_back(keys ? load_key(copy, head, offset, s) : load_value(copy, head, offset, s));
            }
          }
        }
      }
    }
  }
  return values;
}

std::vector<int32_t> random_table(std::mt19937_64& random, int32_t blocks) {
  std::vector<int32_t> table(static_cast<size_t>(blocks));
  std::iota(table.begin(), table.end(), 0);
  std::shuffle(table.begin(), table.end(), random);
  return table;
}

}  // namespace twostroke::test
