#include "backend/sim/plan_check.h"

#include <algorithm>

namespace twostroke {
namespace {

// [begin, begin + count) lies within [0, size)
bool within(uint32_t begin, uint32_t count, size_t size) { return uint64_t{begin} + count <= size; }

bool is_token(TokenId token, const BackendInfo& info) { return token >= 0 && token < info.vocab_size; }

std::string check_sampling(const StepPlan& plan, const Row& row, const BackendInfo& info) {
  if (row.sampling == nullptr) return "samples without sampling settings";
  if (row.draft_count >= row.token_count) return "has drafts alone";
  const uint32_t known = row.token_count - row.draft_count;
  if (row.history.size() != uint64_t{row.position} + known) {
    return "its history has " + std::to_string(row.history.size()) + " tokens, but its last known position is " +
           std::to_string(uint64_t{row.position} + known - 1);
  }
  if (row.draft_count > 0 && !row.mask.empty()) return "has drafts under a mask";
  if (row.draft_count > 0 && !row.targets.empty()) return "has drafts and targets";
  if (row.prompt_count == 0 || row.prompt_count > row.history.size()) return "prompt_count is outside its history";
  const auto tokens = std::span(plan.tokens).subspan(row.token_begin, known);
  if (!std::ranges::equal(tokens, row.history.subspan(row.position))) return "its tokens are not its history's last";
  const size_t words = (static_cast<size_t>(info.vocab_size) + 31) / 32;
  if (!row.mask.empty() && row.mask.size() != words) return "its mask is not as long as the vocabulary";
  for (const auto& [token, bias] : row.sampling->logit_bias) {
    if (!is_token(token, info)) return "a logit bias for token " + std::to_string(token) + ", outside the vocabulary";
  }
  return {};
}

// Targets are the tokens that follow, as far as the row can tell.
std::string check_prompt_work(const StepPlan& plan, const Row& row, const BackendInfo& info) {
  if (row.targets.size() > row.token_count) return "has more targets than tokens";
  if (!row.targets.empty() && !info.scores_targets) return "has targets, which the backend cannot score";
  for (size_t i = 0; i < row.targets.size(); ++i) {
    if (!is_token(row.targets[i], info)) return "has a target outside the vocabulary";
    if (i + 1 < row.token_count && row.targets[i] != plan.tokens[row.token_begin + i + 1]) {
      return "has a target that is not its next token";
    }
  }
  if (row.pooling == Pooling::kNone) return {};
  if (info.embedding_size == 0) return "pools, which the backend cannot";
  return row.samples ? "pools and samples" : std::string();
}

std::string check_row(const StepPlan& plan, const Row& row, const BackendInfo& info) {
  if (row.token_count == 0) return "has no tokens";
  if (!within(row.token_begin, row.token_count, plan.tokens.size())) return "its tokens are outside the plan's";
  if (!within(row.block_begin, row.block_count, plan.blocks.size())) return "its blocks are outside the plan's";
  const uint64_t end = uint64_t{row.position} + row.token_count;
  if (end > static_cast<uint64_t>(info.context_max)) return "reaches beyond the context";
  if (end > uint64_t{row.block_count} * static_cast<uint64_t>(info.block_size)) return "its blocks do not cover it";
  for (uint32_t i = 0; i < row.block_count; ++i) {
    if (plan.blocks[row.block_begin + i] >= static_cast<uint32_t>(info.block_count)) return "names an unknown block";
  }
  for (uint32_t i = 0; i < row.token_count; ++i) {
    if (!is_token(plan.tokens[row.token_begin + i], info)) return "has a token outside the vocabulary";
  }
  if (!row.imported.empty() && !info.imports_kv) return "imports keys and values, which the backend cannot";
  if (row.imported.size() > row.position) return "imports more positions than there are before it";
  if (std::string fault = check_prompt_work(plan, row, info); !fault.empty()) return fault;
  if (!row.samples && row.draft_count > 0) return "has drafts, but does not sample";
  return row.samples ? check_sampling(plan, row, info) : std::string();
}

}  // namespace

std::string check_plan(const StepPlan& plan, const BackendInfo& info) {
  if (plan.rows.empty()) return "the step has no rows";
  if (plan.rows.size() > static_cast<size_t>(info.step_rows_max)) return "the step has more rows than step_rows_max";
  if (plan.tokens.size() > static_cast<size_t>(info.step_tokens_max)) {
    return "the step has more tokens than step_tokens_max";
  }
  uint64_t tokens = 0;
  uint64_t drafts = 0;
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    const std::string fault = check_row(plan, plan.rows[i], info);
    if (!fault.empty()) return "row " + std::to_string(i) + ": " + fault;
    tokens += plan.rows[i].token_count;
    drafts += plan.rows[i].draft_count;
  }
  if (drafts > static_cast<uint64_t>(info.step_drafts_max)) return "the step has more drafts than step_drafts_max";
  if (tokens != plan.tokens.size()) return "the step has tokens that belong to no row, or to two";
  for (const BlockCopy& copy : plan.copies) {
    const auto known = [&](BlockId block) { return block < static_cast<uint32_t>(info.block_count); };
    if (!known(copy.source) || !known(copy.target)) return "a copy names an unknown block";
  }
  return {};
}

}  // namespace twostroke
