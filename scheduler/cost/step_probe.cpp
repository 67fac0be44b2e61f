#include "scheduler/cost/step_probe.h"

#include <algorithm>

#include "kernels/check.h"

namespace twostroke {

StepProbe::StepProbe(Backend& backend, Clock& clock)
    : backend_(backend),
      clock_(clock),
      block_size_(static_cast<uint32_t>(backend.info().block_size)),
      block_count_(static_cast<uint32_t>(backend.info().block_count)),
      depth_max_(std::min(block_count_ / 2, static_cast<uint32_t>(backend.info().context_max) / block_size_) *
                 block_size_) {
  greedy_.temperature = 0;
  const auto vocab = static_cast<uint32_t>(backend.info().vocab_size);
  tokens_.resize(static_cast<size_t>(backend.info().context_max));
  for (size_t i = 0; i < tokens_.size(); ++i) tokens_[i] = static_cast<TokenId>((i * 7919 + 13) % vocab);
}

Result<CostSample> StepProbe::extend(uint32_t tokens) {
  CHECK(tokens > 0 && depth_ + tokens <= depth_max_ &&
        tokens <= static_cast<uint32_t>(backend_.info().step_tokens_max));
  plan_.clear();
  add_row(depth_, tokens, /*samples=*/false, /*on_chain=*/true);
  StepShape shape;
  shape.prefill_rows = 1;
  shape.prefill_tokens = tokens;
  shape.prefill_context = (2 * uint64_t{depth_} + tokens + 1) * tokens / 2;
  shape.prefill_positions = uint64_t{depth_} + tokens;
  Result<CostSample> sample = time_step(shape);
  if (sample.ok()) depth_ += tokens;
  return sample;
}

uint32_t StepProbe::own_blocks_max() const {
  const BackendInfo& info = backend_.info();
  return blocks_for(static_cast<uint32_t>(info.step_tokens_max)) + static_cast<uint32_t>(info.step_rows_max);
}

uint32_t StepProbe::spread_rows_max(uint32_t positions) const {
  const uint32_t used = blocks_for(depth_max_) + own_blocks_max();
  const uint32_t each = std::max(positions / block_size_, 1U);
  return 1 + (used < block_count_ ? (block_count_ - used) / each : 0);
}

Status StepProbe::spread(uint32_t rows, uint32_t positions) {
  CHECK(rows > 0 && positions <= depth_ && rows <= spread_rows_max(positions), "copies of the chain must fit");
  copies_ = rows - 1;
  copy_blocks_ = positions / block_size_;
  plan_.clear();
  for (uint32_t i = 0; i < copies_ * copy_blocks_; ++i) {
    plan_.copies.push_back({.source = i % copy_blocks_, .target = block_count_ - 1 - i});
  }
  // There is no step without a row.
  next_block_ = blocks_for(depth_max_);
  add_row(0, 1, /*samples=*/true, /*on_chain=*/false);
  const Result<CostSample> sample = time_step({.decode_rows = 1, .decode_tokens = 1, .logit_tokens = 1});
  return sample.ok() ? Status() : sample.status();
}

bool StepProbe::fits(std::span<const ProbeRow> rows) const {
  const BackendInfo& info = backend_.info();
  uint64_t tokens = 0;
  uint64_t blocks = blocks_for(depth_max_) + uint64_t{copies_} * copy_blocks_;
  for (const ProbeRow& row : rows) {
    if (row.tokens == 0 || row.position > depth_) return false;
    if (uint64_t{row.position} + row.tokens > static_cast<uint64_t>(info.context_max)) return false;
    tokens += row.tokens;
    blocks += blocks_for(row.tokens);
  }
  return !rows.empty() && rows.size() <= static_cast<size_t>(info.step_rows_max) &&
         tokens <= static_cast<uint64_t>(info.step_tokens_max) && blocks <= block_count_;
}

Result<CostSample> StepProbe::run(std::span<const ProbeRow> rows) {
  CHECK(fits(rows), "a probe's rows must fit");
  plan_.clear();
  next_block_ = blocks_for(depth_max_);
  StepShape shape;
  for (const ProbeRow& row : rows) {
    const uint32_t position = row.position / block_size_ * block_size_;
    const uint64_t end = uint64_t{position} + row.tokens;
    const uint64_t context = (uint64_t{position} + 1 + end) * row.tokens / 2;
    if (row.decodes) {
      CHECK(row.tokens == 1, "a decode is one token");
      ++shape.decode_rows, ++shape.decode_tokens, ++shape.logit_tokens;
      shape.decode_context += context;
      shape.decode_positions += end;
    } else {
      ++shape.prefill_rows;
      shape.prefill_tokens += row.tokens;
      shape.prefill_context += context;
      shape.prefill_positions += end;
    }
    add_row(position, row.tokens, row.decodes, /*on_chain=*/false);
  }
  return time_step(shape);
}

void StepProbe::add_row(uint32_t position, uint32_t tokens, bool samples, bool on_chain) {
  Row row;
  row.sequence = plan_.rows.size() + 1;
  row.token_begin = static_cast<uint32_t>(plan_.tokens.size());
  row.token_count = tokens;
  row.position = position;
  row.block_begin = static_cast<uint32_t>(plan_.blocks.size());
  row.block_count = blocks_for(position + tokens);
  row.samples = samples;
  if (samples) {
    row.sampling = &greedy_;
    row.history = std::span(tokens_).first(position + tokens);
    row.prompt_count = position + tokens;
  }
  const auto first = tokens_.begin() + position;
  plan_.tokens.insert(plan_.tokens.end(), first, first + tokens);
  const uint32_t shared = on_chain ? row.block_count : position / block_size_;
  const auto index = static_cast<uint32_t>(plan_.rows.size());
  const uint32_t copied = index > 0 && index <= copies_ ? std::min(copy_blocks_, shared) : 0;
  const uint32_t copy_end = block_count_ - (copied > 0 ? (index - 1) * copy_blocks_ : 0);
  for (uint32_t i = 0; i < row.block_count; ++i) {
    plan_.blocks.push_back(i < copied ? copy_end - 1 - i : i < shared ? i : next_block_++);
  }
  plan_.rows.push_back(row);
}

Result<CostSample> StepProbe::time_step(const StepShape& shape) {
  ++plan_.step;
  const TimeNs began = clock_.now();
  Status status = backend_.submit(plan_);
  if (status.ok()) status = backend_.wait(result_);
  if (!status.ok()) return status;
  return CostSample{shape, clock_.now() - began};
}

}  // namespace twostroke
