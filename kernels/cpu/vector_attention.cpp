// VectorOperators::attention: cutting it into tasks, and the walk of one task over its context.
//
// What must not depend on the cutting is the order of additions. So it is fixed by position alone: a context is made of
// spans that begin at multiples of kSpanPositions; each has a running softmax of its own over tiles that begin at
// multiples of kTilePositions; and spans are folded into the first one in ascending order. Whether one thread does all
// spans of a row or each is done by another is then a matter of speed only.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/kv_blocks.h"
#include "kernels/cpu/vector_operators.h"

namespace twostroke {
namespace {

// Queries (tokens times heads) that share the loads of keys and values of a task. Enough to make the loads cheap, few
// enough that queries and sums stay in the second-level cache and that a chunk has tasks for every thread.
constexpr int64_t kQueriesPerTask = 48;

// A multiple of kTilePositions. Long enough that folding costs nothing, short enough that a context of some hundred
// positions is shared out evenly: a chunk that an objective keeps small is a single unit for each key-value head.
constexpr int32_t kSpanPositions = 256;

// A row's context is split where it would take more than this part of a thread's share of the step.
constexpr int64_t kPiecesPerThread = 4;

// What a position costs beside its queries, in queries.
constexpr int64_t kPositionCost = 4;

int32_t round_up_to_panel(int32_t size) { return (size + kPanelOutputs - 1) / kPanelOutputs * kPanelOutputs; }

KvElement element_of(DType dtype) {
  return dtype == DType::kF32 ? KvElement::kFloat : dtype == DType::kF16 ? KvElement::kHalf : KvElement::kCode;
}

void prefetch(const void* from, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(static_cast<const std::byte*>(from) + i);
}

}  // namespace

// Sums, maxima and weights of some rows, one after the other: what an attention over a part of the context leaves.
VectorOperators::AttentionPart VectorOperators::part_at(float* memory, int32_t rows, int32_t padded_size) {
  float* const maxima = memory + int64_t{rows} * padded_size;
  return {memory, maxima, maxima + rows};
}

void VectorOperators::plan_attention(const StepRows& rows, int32_t heads, const KvCache& cache) {
  const auto tokens_per_unit = static_cast<int32_t>(std::max<int64_t>(1, kQueriesPerTask / heads));
  attention_units_.clear();
  int64_t total_cost = 0;
  const auto cost_of = [&](const AttentionUnit& unit, int32_t span_begin, int32_t span_end) {
    const int32_t positions = std::min(span_end * kSpanPositions, unit.context) - span_begin * kSpanPositions;
    return (int64_t{unit.token_count} * heads + kPositionCost) * positions;
  };
  for (size_t row = 0; row < rows.segments.size(); ++row) {
    const RowSegment& segment = rows.segments[row];
    for (int32_t begin = 0; begin < segment.token_count; begin += tokens_per_unit) {
      const int32_t count = std::min(tokens_per_unit, segment.token_count - begin);
      const int32_t context = segment.position + begin + count;
      for (int32_t g = 0; g < cache.kv_heads; ++g) {
        attention_units_.push_back({.row = static_cast<int32_t>(row),
                                    .token_begin = begin,
                                    .token_count = count,
                                    .kv_head = g,
                                    .context = context,
                                    .spans = (context + kSpanPositions - 1) / kSpanPositions});
        total_cost += cost_of(attention_units_.back(), 0, attention_units_.back().spans);
      }
    }
  }
  const int threads = pool().threads();
  const int64_t piece_cost = total_cost / (kPiecesPerThread * threads);
  attention_tasks_.clear();
  size_t parts_size = 0;
  for (size_t u = 0; u < attention_units_.size(); ++u) {
    AttentionUnit& unit = attention_units_[u];
    const int64_t span_cost = cost_of(unit, 0, 1);
    const auto spans = static_cast<int32_t>(std::clamp<int64_t>(piece_cost / span_cost, 1, unit.spans));
    unit.split = threads > 1 && spans < unit.spans;
    const int32_t step = unit.split ? spans : unit.spans;
    for (int32_t begin = 0; begin < unit.spans; begin += step) {
      const int32_t end = std::min(unit.spans, begin + step);
      attention_tasks_.push_back({u, begin, end, cost_of(unit, begin, end)});
    }
    if (!unit.split) continue;
    unit.parts_begin = parts_size;
    unit.spans_left = unit.spans;
    parts_size += static_cast<size_t>(unit.spans) * part_floats(unit.token_count * heads, cache.head_size);
  }
  if (attention_parts_.size() < parts_size) attention_parts_.resize(parts_size);
  // The longest first, so that no thread starts one when the others have nothing left to do.
  std::stable_sort(attention_tasks_.begin(), attention_tasks_.end(),
                   [](const AttentionTask& a, const AttentionTask& b) { return a.cost > b.cost; });
}

size_t VectorOperators::part_floats(int32_t rows, int32_t head_size) {
  return static_cast<size_t>(rows) * static_cast<size_t>(round_up_to_panel(head_size) + 2);
}

void VectorOperators::attention(Tensor out, Tensor q, const KvCache& cache, int32_t layer, const StepRows& rows) {
  check_attention(out, q, cache, layer, rows);
  const auto heads = static_cast<int32_t>(q.cols / cache.head_size / cache.kv_heads);
  plan_attention(rows, heads, cache);
  const auto queries = static_cast<int32_t>(std::max<int64_t>(kQueriesPerTask, heads));
  const auto size = static_cast<size_t>(cache.head_size);
  for (AttentionScratch& scratch : attention_scratch_) {
    scratch.queries.resize(static_cast<size_t>(queries) * size);
    scratch.keys.resize(size * kTilePositions);
    scratch.values.resize(static_cast<size_t>(round_up_to_panel(cache.head_size)) * kTilePositions);
    scratch.total.resize(part_floats(queries, cache.head_size));
    scratch.part.resize(part_floats(queries, cache.head_size));
    if (cache.block_size % kSlicePositions != 0) scratch.gathered.resize(2 * kTilePositions * (size * 4 + 2));
  }
  const AttentionCall call = {out, q, cache, layer, rows, heads, round_up_to_panel(cache.head_size)};
  pool().run(static_cast<int64_t>(attention_tasks_.size()), [&](int64_t task, int thread) {
    run_attention_task(call, attention_tasks_[static_cast<size_t>(task)],
                       attention_scratch_[static_cast<size_t>(thread)]);
  });
}

void VectorOperators::run_attention_task(const AttentionCall& call, const AttentionTask& task,
                                         AttentionScratch& scratch) {
  AttentionUnit& unit = attention_units_[task.unit];
  const int32_t rows = unit.token_count * call.heads;
  const int32_t size = call.cache.head_size;
  const int64_t first_token = call.rows.segments[static_cast<size_t>(unit.row)].token_begin + unit.token_begin;
  const float scale = 1 / std::sqrt(static_cast<float>(size));
  for (int32_t i = 0; i < unit.token_count; ++i) {
    const float* from = row_pointer<const float>(call.q, first_token + i) + int64_t{unit.kv_head} * call.heads * size;
    float* to = scratch.queries.data() + int64_t{i} * call.heads * size;
    for (int64_t s = 0; s < int64_t{call.heads} * size; ++s) to[s] = from[s] * scale;
  }

  const auto split_part = [&](int32_t span) {
    float* const memory =
        attention_parts_.data() + unit.parts_begin + static_cast<size_t>(span) * part_floats(rows, size);
    return part_at(memory, rows, call.padded_size);
  };
  const AttentionPart total = unit.split ? split_part(0) : part_at(scratch.total.data(), rows, call.padded_size);
  if (unit.split) {
    for (int32_t span = task.span_begin; span < task.span_end; ++span) {
      attend_span(call, unit, span, split_part(span), scratch);
    }
    // Whoever finishes the last span folds them all.
    const int32_t done = task.span_end - task.span_begin;
    std::atomic_ref<int32_t> left(unit.spans_left);
    if (left.fetch_sub(done, std::memory_order_acq_rel) != done) return;
    for (int32_t span = 1; span < unit.spans; ++span) fold_part(call, rows, split_part(span), total);
  } else {
    attend_span(call, unit, 0, total, scratch);
    const AttentionPart part = part_at(scratch.part.data(), rows, call.padded_size);
    for (int32_t span = 1; span < unit.spans; ++span) {
      attend_span(call, unit, span, part, scratch);
      fold_part(call, rows, part, total);
    }
  }
  for (int32_t i = 0; i < rows; ++i) {
    const int64_t column = (int64_t{unit.kv_head} * call.heads + i % call.heads) * size;
    kernels_.divide(row_pointer<float>(call.out, first_token + i / call.heads) + column,
                    total.sums + int64_t{i} * call.padded_size, total.weights[i], size);
  }
}

void VectorOperators::fold_part(const AttentionCall& call, int32_t rows, const AttentionPart& part,
                                const AttentionPart& total) {
  for (int32_t i = 0; i < rows; ++i) {
    const int64_t at = int64_t{i} * call.padded_size;
    kernels_.fold(call.padded_size, part.sums + at, part.maxima[i], part.weights[i], total.sums + at, total.maxima + i,
                  total.weights + i);
  }
}

// Attention of a unit's rows to one span of their context.
void VectorOperators::attend_span(const AttentionCall& call, const AttentionUnit& unit, int32_t span,
                                  const AttentionPart& part, AttentionScratch& scratch) {
  const RowSegment& segment = call.rows.segments[static_cast<size_t>(unit.row)];
  const int32_t size = call.cache.head_size;
  const int32_t heads = call.heads;
  const int32_t rows = unit.token_count * heads;
  std::fill_n(part.sums, int64_t{rows} * call.padded_size, 0.0f);
  std::fill_n(part.maxima, rows, -std::numeric_limits<float>::infinity());
  std::fill_n(part.weights, rows, 0.0f);

  const int32_t first_position = segment.position + unit.token_begin;
  const int32_t end = std::min((span + 1) * kSpanPositions, first_position + unit.token_count);
  const bool direct = unit.token_count == 1 && heads <= kDirectRows && size == call.padded_size;
  const bool gathers = call.cache.block_size % kSlicePositions != 0;
  const auto find = [&](int32_t base) {
    const int32_t count = std::min<int32_t>(end - base, kTilePositions);
    return gathers ? gather_tile(call, unit, base, count, scratch) : find_tile(call, unit, base, count);
  };
  PositionTile tile = find(span * kSpanPositions);
  for (int32_t base = span * kSpanPositions; base < end; base += kTilePositions) {
    PositionTile next = {};
    const bool knows_next = !gathers && base + kTilePositions < end;
    if (knows_next) next = find(base + kTilePositions);

    // The first token that sees any of the tile.
    const int32_t token = std::clamp(base - first_position, 0, unit.token_count);
    const int64_t row = int64_t{token} * heads;
    const AttentionRows attending = {.rows = (unit.token_count - token) * heads,
                                     .heads = heads,
                                     .first_count = first_position + token - base + 1,
                                     .size = size,
                                     .padded_size = call.padded_size,
                                     .queries = scratch.queries.data() + row * size,
                                     .sums = part.sums + row * call.padded_size,
                                     .maxima = part.maxima + row,
                                     .weights = part.weights + row};
    if (direct) {
      kernels_.attend_direct(&attending, &tile, knows_next ? &next : nullptr);
    } else {
      if (knows_next) prefetch_tile(next, call.cache);
      kernels_.expand_tile(&tile, call.padded_size, scratch.keys.data(), scratch.values.data());
      kernels_.attend(&attending, &tile, scratch.keys.data(), scratch.values.data());
    }
    if (knows_next) {
      tile = next;
    } else if (base + kTilePositions < end) {
      tile = find(base + kTilePositions);
    }
  }
}

void VectorOperators::prefetch_tile(const PositionTile& tile, const KvCache& cache) {
  const size_t bytes = static_cast<size_t>(tile.size) * kSlicePositions * dtype_bytes(cache.dtype);
  for (int32_t i = 0; i * kSlicePositions < tile.count; ++i) {
    if (tile.key_stride == kSlicePositions) prefetch(tile.keys[i], bytes);  // else they are not in one piece
    prefetch(tile.values[i], bytes);
  }
}

// Positions [base, base + count), where they lie. Requires blocks of whole slices.
PositionTile VectorOperators::find_tile(const AttentionCall& call, const AttentionUnit& unit, int32_t base,
                                        int32_t count) {
  const KvCache& cache = call.cache;
  const RowSegment& segment = call.rows.segments[static_cast<size_t>(unit.row)];
  const size_t element_bytes = dtype_bytes(cache.dtype);
  PositionTile tile = {};
  tile.element = element_of(cache.dtype);
  tile.count = count;
  tile.size = cache.head_size;
  tile.key_stride = cache.block_size;
  for (int32_t i = 0; i * kSlicePositions < count; ++i) {
    const int32_t position = base + i * kSlicePositions;
    const auto offset = static_cast<size_t>(position % cache.block_size);
    const KvHead head = kv_head_at(cache, call.layer, block_of(cache, call.rows, segment, position), unit.kv_head);
    tile.keys[i] = head.keys + offset * element_bytes;
    tile.values[i] = head.values + offset * static_cast<size_t>(cache.head_size) * element_bytes;
    if (tile.element != KvElement::kCode) continue;
    tile.key_scales[i] = head.key_scales + offset;
    tile.value_scales[i] = head.value_scales + offset;
  }
  return tile;
}

// The same for blocks of any size: a copy in `scratch`.
PositionTile VectorOperators::gather_tile(const AttentionCall& call, const AttentionUnit& unit, int32_t base,
                                          int32_t count, AttentionScratch& scratch) {
  const KvCache& cache = call.cache;
  const RowSegment& segment = call.rows.segments[static_cast<size_t>(unit.row)];
  const size_t element_bytes = dtype_bytes(cache.dtype);
  const auto size = static_cast<size_t>(cache.head_size);
  const size_t slice_bytes = size * kSlicePositions * element_bytes;
  std::byte* const keys = scratch.gathered.data();
  std::byte* const values = keys + kTileSlices * slice_bytes;
  auto* const key_scales = reinterpret_cast<uint16_t*>(values + kTileSlices * slice_bytes);
  uint16_t* const value_scales = key_scales + kTilePositions;
  for (int32_t j = 0; j < count; ++j) {
    const KvHead head = kv_head_at(cache, call.layer, block_of(cache, call.rows, segment, base + j), unit.kv_head);
    const auto offset = static_cast<size_t>((base + j) % cache.block_size);
    const auto slice = static_cast<size_t>(j / kSlicePositions);
    const auto place = static_cast<size_t>(j % kSlicePositions);
    for (size_t s = 0; s < size; ++s) {
      std::memcpy(keys + slice * slice_bytes + (s * kSlicePositions + place) * element_bytes,
                  head.keys + (s * static_cast<size_t>(cache.block_size) + offset) * element_bytes, element_bytes);
    }
    std::memcpy(values + static_cast<size_t>(j) * size * element_bytes, head.values + offset * size * element_bytes,
                size * element_bytes);
    if (head.key_scales == nullptr) continue;
    key_scales[j] = head.key_scales[offset];
    value_scales[j] = head.value_scales[offset];
  }
  PositionTile tile = {};
  tile.element = element_of(cache.dtype);
  tile.count = count;
  tile.size = cache.head_size;
  tile.key_stride = kSlicePositions;
  for (size_t i = 0; i < kTileSlices; ++i) {
    tile.keys[i] = keys + i * slice_bytes;
    tile.values[i] = values + i * slice_bytes;
    if (tile.element != KvElement::kCode) continue;
    tile.key_scales[i] = key_scales + i * kSlicePositions;
    tile.value_scales[i] = value_scales + i * kSlicePositions;
  }
  return tile;
}

}  // namespace twostroke
