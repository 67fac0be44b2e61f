// Helpers of the kernel tests: rows of a step over a paged cache.
#pragma once

#include <random>
#include <vector>

#include "tests/kernels/test_tensors.h"

namespace twostroke::test {

// Device tensors and host spans of one StepRows.
class OwnedRows {
 public:
  // Rows with `segments[r].token_count` tokens from `segments[r].position` on; token_begin and block_begin are filled
  // in here. tables[r] is row r's block table.
  OwnedRows(Device& device, std::vector<RowSegment> segments, const std::vector<std::vector<int32_t>>& tables);
  const StepRows& operator*() const { return rows_; }
  int64_t tokens() const { return rows_.positions.cols; }

 private:
  std::vector<RowSegment> segments_;
  std::vector<OwnedTensor> tensors_;
  StepRows rows_;
};

// A cache with memory of its own; every number is `fill`, or NaN in a cache of codes.
class OwnedCache {
 public:
  OwnedCache(Device& device, KvCache shape, float fill);
  const KvCache& operator*() const { return cache_; }
  std::vector<float> floats() const;  // all numbers, [layers, blocks, 2 (keys, values), G, block_size, S]

 private:
  Device* device_;
  DeviceMemory memory_;
  KvCache cache_;
};

// `blocks` distinct block numbers in random order.
std::vector<int32_t> random_table(std::mt19937_64& random, int32_t blocks);

}  // namespace twostroke::test
