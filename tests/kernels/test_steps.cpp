#include "tests/kernels/test_steps.h"

#include <algorithm>
#include <numeric>

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
  if (shape.dtype == DType::kF32) {
    const std::vector<float> values(shape.bytes() / sizeof(float), fill);
    device.upload(cache_.data, values.data(), shape.bytes());
    CHECK(device.wait().ok());
  } else {
    const std::vector<uint16_t> values(shape.bytes() / sizeof(uint16_t), float_to_half(fill));
    device.upload(cache_.data, values.data(), shape.bytes());
    CHECK(device.wait().ok());
  }
}

std::vector<float> OwnedCache::floats() const {
  std::vector<float> values;
  if (cache_.dtype == DType::kF32) {
    values.resize(cache_.bytes() / sizeof(float));
    device_->download(values.data(), cache_.data, cache_.bytes());
    CHECK(device_->wait().ok());
  } else {
    std::vector<uint16_t> halves(cache_.bytes() / sizeof(uint16_t));
    device_->download(halves.data(), cache_.data, cache_.bytes());
    CHECK(device_->wait().ok());
    for (uint16_t half : halves) values.push_back(half_to_float(half));
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
