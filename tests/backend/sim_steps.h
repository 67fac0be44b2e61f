// Builds steps by hand, as a scheduler would, for tests of backends.
#pragma once

#include <list>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/step.h"

namespace twostroke {

// Owns a plan and everything that its rows borrow.
class TestStep {
 public:
  explicit TestStep(uint64_t step) { plan_.step = step; }

  // Computes history[position, end) of a sequence whose block table is `blocks`. Samples unless `sampling` is null.
  Row& add(std::vector<TokenId> history, uint32_t position, std::vector<BlockId> blocks, const SamplingParams* sampling,
           uint32_t prompt_count = 0) {
    const std::vector<TokenId>& kept = histories_.emplace_back(std::move(history));
    Row row;
    row.sequence = plan_.rows.size() + 1;
    row.token_begin = static_cast<uint32_t>(plan_.tokens.size());
    row.token_count = static_cast<uint32_t>(kept.size()) - position;
    row.position = position;
    row.block_begin = static_cast<uint32_t>(plan_.blocks.size());
    row.block_count = static_cast<uint32_t>(blocks.size());
    plan_.tokens.insert(plan_.tokens.end(), kept.begin() + position, kept.end());
    plan_.blocks.insert(plan_.blocks.end(), blocks.begin(), blocks.end());
    if (sampling != nullptr) {
      row.samples = true;
      row.sampling = sampling;
      row.history = kept;
      row.prompt_count = prompt_count == 0 ? static_cast<uint32_t>(kept.size()) : prompt_count;
    }
    return plan_.rows.emplace_back(row);
  }

  // The same with drafts behind the history. They are the plan's, not the history's.
  Row& add_with_drafts(std::vector<TokenId> history, uint32_t position, std::vector<BlockId> blocks,
                       const SamplingParams* sampling, uint32_t prompt_count, std::span<const TokenId> drafts) {
    Row& row = add(std::move(history), position, std::move(blocks), sampling, prompt_count);
    plan_.tokens.insert(plan_.tokens.end(), drafts.begin(), drafts.end());
    row.draft_count = static_cast<uint32_t>(drafts.size());
    row.token_count += row.draft_count;
    return row;
  }

  StepPlan& plan() { return plan_; }

 private:
  StepPlan plan_;
  std::list<std::vector<TokenId>> histories_;
};

inline SamplingParams greedy(int32_t logprobs = -1) {
  SamplingParams sampling;
  sampling.temperature = 0;
  sampling.logprobs = logprobs;
  return sampling;
}

inline Status run_step(Backend& backend, TestStep& step, StepResult& result) {
  if (Status status = backend.submit(step.plan()); !status.ok()) return status;
  return backend.wait(result);
}

}  // namespace twostroke
