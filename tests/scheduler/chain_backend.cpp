#include "tests/scheduler/chain_backend.h"

#include <algorithm>

namespace twostroke::testing {

std::vector<TokenId> ChainModel::expected_output(const std::vector<TokenId>& prompt, const Request& request,
                                                 uint32_t index, size_t length_max) const {
  const uint64_t seed = sequence_seed(request.sampling.seed, index);
  uint64_t sum = 0;
  uint64_t last = 0;
  const auto read = [&](TokenId token) { sum += last = number(sum, token); };
  for (const TokenId token : prompt) read(token);
  std::vector<TokenId> output;
  while (output.size() < request.max_tokens && prompt.size() + output.size() < length_max) {
    output.push_back(next_token(last, seed, {}));
    if (std::ranges::binary_search(request.stop_tokens, output.back())) break;
    read(output.back());
  }
  return output;
}

ChainBackend::ChainBackend(const BackendInfo& info)
    : info_(info), kv_(static_cast<size_t>(info.block_count) * static_cast<size_t>(info.block_size), 0xdead) {}

uint64_t& ChainBackend::kv(const Row& row, uint32_t position) {
  const auto size = static_cast<uint32_t>(info_.block_size);
  return kv_[static_cast<size_t>(plan_->blocks[row.block_begin + position / size]) * size + position % size];
}

Status ChainBackend::submit(const StepPlan& plan) {
  plan_ = &plan;
  return {};
}

Status ChainBackend::wait(StepResult& result) {
  const auto size = static_cast<ptrdiff_t>(info_.block_size);
  for (const BlockCopy& copy : plan_->copies) {
    std::copy_n(kv_.begin() + copy.source * size, size, kv_.begin() + copy.target * size);
  }
  result.rows.assign(plan_->rows.size(), {});
  const bool lost = lose_step && lose_step(*plan_);
  for (size_t i = 0; i < plan_->rows.size(); ++i) {
    const Row& row = plan_->rows[i];
    const bool spoilt = spoil_row && spoil_row(row);
    uint64_t sum = 0;
    for (uint32_t position = 0; position < row.position; ++position) sum += kv(row, position);
    uint64_t last = 0;
    for (uint32_t k = 0; k < row.token_count; ++k) {
      last = lost || spoilt ? 0xbad : ChainModel::number(sum, plan_->tokens[row.token_begin + k]);
      sum += kv(row, row.position + k) = last;
    }
    RowResult& out = result.rows[i];
    if (spoilt) out.status = RowStatus::kNotFinite;
    if (spoilt || !row.samples) continue;
    out.token = model().next_token(last, row.sampling->seed, row.mask);
    if (out.token < 0) out.status = RowStatus::kNotFinite;
    out.logprob = -1;
    for (int32_t k = 0; k < row.sampling->logprobs; ++k) out.top.push_back({k, -1.0f - static_cast<float>(k)});
  }
  return lost ? internal_error("the step was lost on purpose") : Status();
}

}  // namespace twostroke::testing
