// VectorOperators::attention: cutting it into tasks, and the walk of one task over its context.

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/vector_operators.h"

namespace twostroke {
namespace {

// Queries (tokens times heads) that share the loads of keys and values of a task. Enough to make the loads cheap, few
// enough that queries and sums stay in the second-level cache and that a chunk has tasks for every thread.
constexpr int64_t kQueriesPerTask = 48;

int32_t round_up_to_panel(int32_t size) { return (size + kPanelOutputs - 1) / kPanelOutputs * kPanelOutputs; }

// Blocks lie anywhere, which the processor cannot foresee: ask for the next tile while this one is worked on.
void prefetch(const void* const* rows, int32_t count, size_t row_bytes) {
  for (int32_t j = 0; j < count; ++j) {
    for (size_t offset = 0; offset < row_bytes; offset += 64) {
      __builtin_prefetch(static_cast<const std::byte*>(rows[j]) + offset);
    }
  }
}

}  // namespace

// Positions [begin, end), at most kTilePositions of them.
VectorOperators::PositionTile VectorOperators::find_positions(const KvCache& cache, int32_t layer, int32_t kv_head,
                                                              const StepRows& rows, const RowSegment& segment,
                                                              int32_t begin, int32_t end) {
  const size_t element_bytes = dtype_bytes(cache.dtype);
  const size_t position_bytes = static_cast<size_t>(cache.head_size) * element_bytes;
  PositionTile tile;
  tile.count = end - begin;
  for (int32_t j = 0; j < tile.count;) {  // block by block
    const int32_t offset = (begin + j) % cache.block_size;
    const int32_t block = block_of(cache, rows, segment, begin + j);
    const std::byte* key = bytes_at(cache.data) + kv_index(cache, layer, block, 0, kv_head, offset) * element_bytes;
    const std::byte* value = bytes_at(cache.data) + kv_index(cache, layer, block, 1, kv_head, offset) * element_bytes;
    for (const int32_t block_end = std::min(tile.count, j + cache.block_size - offset); j < block_end; ++j) {
      tile.keys[j] = key;
      tile.values[j] = value;
      key += position_bytes;
      value += position_bytes;
    }
  }
  return tile;
}

void VectorOperators::plan_attention(const StepRows& rows, int64_t heads_per_kv_head, int32_t kv_heads) {
  const auto tokens_per_task = static_cast<int32_t>(std::max<int64_t>(1, kQueriesPerTask / heads_per_kv_head));
  attention_tasks_.clear();
  for (size_t row = 0; row < rows.segments.size(); ++row) {
    const int32_t count = rows.segments[row].token_count;
    for (int32_t begin = 0; begin < count; begin += tokens_per_task) {
      for (int32_t g = 0; g < kv_heads; ++g) {
        attention_tasks_.push_back({.row = static_cast<int32_t>(row),
                                    .token_begin = begin,
                                    .token_count = std::min(tokens_per_task, count - begin),
                                    .kv_head = g});
      }
    }
  }
  // The longest first, so that no thread starts one when the others have nothing left to do.
  const auto positions = [&](const AttentionTask& task) {
    return rows.segments[static_cast<size_t>(task.row)].position + task.token_begin + task.token_count;
  };
  std::stable_sort(attention_tasks_.begin(), attention_tasks_.end(),
                   [&](const AttentionTask& a, const AttentionTask& b) { return positions(a) > positions(b); });
}

void VectorOperators::attention(Tensor out, Tensor q, const KvCache& cache, int32_t layer, const StepRows& rows) {
  check_attention(out, q, cache, layer, rows);
  const int64_t heads_per_kv_head = q.cols / cache.head_size / cache.kv_heads;
  plan_attention(rows, heads_per_kv_head, cache.kv_heads);
  const auto queries = static_cast<size_t>(std::max(kQueriesPerTask, heads_per_kv_head));
  const auto size = static_cast<size_t>(cache.head_size);
  const auto padded_size = static_cast<size_t>(round_up_to_panel(cache.head_size));
  for (AttentionScratch& scratch : attention_scratch_) {
    scratch.queries.resize(queries * size);
    scratch.keys.resize(size * kTilePositions);
    scratch.values.resize(padded_size * kTilePositions);
    scratch.sums.resize(queries * padded_size);
    scratch.maxima.resize(queries);
    scratch.weights.resize(queries);
  }
  pool().run(static_cast<int64_t>(attention_tasks_.size()), [&](int64_t task, int thread) {
    run_attention_task(attention_tasks_[static_cast<size_t>(task)], attention_scratch_[static_cast<size_t>(thread)],
                       out, q, cache, layer, rows);
  });
}

void VectorOperators::run_attention_task(const AttentionTask& task, AttentionScratch& scratch, const Tensor& out,
                                         const Tensor& q, const KvCache& cache, int32_t layer, const StepRows& rows) {
  const RowSegment& segment = rows.segments[static_cast<size_t>(task.row)];
  const int32_t size = cache.head_size;
  const int32_t padded_size = round_up_to_panel(size);
  const auto heads = static_cast<int32_t>(q.cols / size / cache.kv_heads);  // that share this key/value head
  const int32_t queries = task.token_count * heads;
  const int64_t first_token = segment.token_begin + task.token_begin;
  const int64_t first_column = int64_t{task.kv_head} * heads * size;

  const float scale = 1 / std::sqrt(static_cast<float>(size));
  for (int32_t i = 0; i < task.token_count; ++i) {
    const float* from = row_pointer<const float>(q, first_token + i) + first_column;
    float* to = scratch.queries.data() + int64_t{i} * heads * size;
    for (int64_t s = 0; s < int64_t{heads} * size; ++s) to[s] = from[s] * scale;
  }
  std::fill_n(scratch.sums.begin(), int64_t{queries} * padded_size, 0.0f);
  std::fill_n(scratch.maxima.begin(), queries, -std::numeric_limits<float>::infinity());
  std::fill_n(scratch.weights.begin(), queries, 0.0f);

  // Tokens [begin, end) of the task against the first `count` positions of the tile at hand.
  const auto attend = [&](int32_t begin, int32_t end, int32_t count) {
    const int64_t row = int64_t{begin} * heads;
    const AttentionTile tile = {.rows = (end - begin) * heads,
                                .count = count,
                                .size = size,
                                .padded_size = padded_size,
                                .queries = scratch.queries.data() + row * size,
                                .keys = scratch.keys.data(),
                                .values = scratch.values.data(),
                                .sums = scratch.sums.data() + row * padded_size,
                                .maxima = scratch.maxima.data() + row,
                                .weights = scratch.weights.data() + row};
    kernels_.attend(&tile);
  };

  const bool half = cache.dtype == DType::kF16;
  const size_t row_bytes = static_cast<size_t>(size) * dtype_bytes(cache.dtype);
  const int32_t first_position = segment.position + task.token_begin;
  const int32_t context = first_position + task.token_count;  // positions that the last token sees
  const auto find = [&](int32_t base) {
    return find_positions(cache, layer, task.kv_head, rows, segment, base,
                          std::min<int32_t>(context, base + kTilePositions));
  };
  PositionTile next = find(0);
  for (int32_t base = 0; base < context; base += kTilePositions) {
    const PositionTile tile = next;
    if (base + kTilePositions < context) {
      next = find(base + kTilePositions);
      prefetch(next.keys, next.count, row_bytes);
      prefetch(next.values, next.count, row_bytes);
    }
    kernels_.load_keys(tile.keys, half, tile.count, size, scratch.keys.data());
    kernels_.load_values(tile.values, half, tile.count, size, padded_size, scratch.values.data());

    // Token i sees positions up to first_position + i: none of this tile, some of it, or all of it. What it does not
    // see must not reach its sums even times zero, since zero times infinity is not zero.
    const int32_t some = std::clamp(base - first_position, 0, task.token_count);
    const int32_t all = std::clamp(base + kTilePositions - 1 - first_position, some, task.token_count);
    for (int32_t i = some; i < all; ++i) attend(i, i + 1, first_position + i - base + 1);
    if (all < task.token_count) attend(all, task.token_count, kTilePositions);
  }

  for (int32_t i = 0; i < queries; ++i) {
    kernels_.divide(row_pointer<float>(out, first_token + i / heads) + first_column + int64_t{i % heads} * size,
                    scratch.sums.data() + int64_t{i} * padded_size, scratch.weights[static_cast<size_t>(i)], size);
  }
}

}  // namespace twostroke
