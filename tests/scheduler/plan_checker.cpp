#include "tests/scheduler/plan_checker.h"

#include <algorithm>
#include <map>
#include <set>

namespace twostroke::testing {
namespace {

std::string name_of(const Row& row) { return "row of sequence " + std::to_string(row.sequence); }

bool is_decode(const Row& row) { return row.samples && row.token_count == 1 && row.position >= row.prompt_count; }

}  // namespace

std::string PlanChecker::check(const StepPlan& plan, const StepCounts& counts, uint32_t blocks_available) {
  if (plan.empty()) {
    if (!plan.tokens.empty() || !plan.blocks.empty() || !plan.copies.empty()) return "an empty plan does something";
    return {};
  }
  if (plan.step != ++steps_) return "steps are not numbered one after the other";
  std::string error = check_shape(plan);
  for (const Row& row : plan.rows) {
    if (error.empty()) error = check_row(plan, row);
  }
  if (error.empty()) error = check_writes(plan);
  if (error.empty()) error = check_counts(plan, counts);
  if (error.empty()) error = check_progress(plan, counts, blocks_available);
  return error;
}

std::string PlanChecker::check_shape(const StepPlan& plan) const {
  if (plan.tokens.size() > limits_.max_step_tokens) return "more tokens than a step may carry";
  if (plan.rows.size() > limits_.max_running) return "more rows than sequences may run";
  uint32_t tokens = 0;
  uint32_t blocks = 0;
  bool decodes = true;
  std::set<SequenceId> sequences;
  for (const Row& row : plan.rows) {
    if (row.token_begin != tokens || row.block_begin != blocks) return name_of(row) + " does not follow the one before";
    if (!sequences.insert(row.sequence).second) return name_of(row) + " is there twice";
    if (is_decode(row) && !decodes) return name_of(row) + " decodes behind a prefill";
    decodes = is_decode(row);
    tokens += row.token_count;
    blocks += row.block_count;
  }
  if (tokens != plan.tokens.size() || blocks != plan.blocks.size()) return "tokens or blocks that belong to no row";
  return {};
}

std::string PlanChecker::check_row(const StepPlan& plan, const Row& row) const {
  const std::string name = name_of(row);
  if (row.token_count == 0) return name + " has no tokens";
  if (row.token_count > limits_.max_chunk_tokens) return name + " is longer than a chunk";
  const uint32_t end = row.position + row.token_count;
  if (end > static_cast<uint32_t>(info_.context_max)) return name + " goes beyond the context";
  const auto block_size = static_cast<uint32_t>(info_.block_size);
  if (row.block_count != (end + block_size - 1) / block_size) return name + " has a table that does not fit its tokens";
  std::set<BlockId> table;
  for (uint32_t i = 0; i < row.block_count; ++i) {
    const BlockId block = plan.blocks[row.block_begin + i];
    if (block >= static_cast<uint32_t>(info_.block_count)) return name + " names a block that does not exist";
    if (!table.insert(block).second) return name + " names a block twice";
  }
  for (uint32_t i = 0; i < row.token_count; ++i) {
    const TokenId token = plan.tokens[row.token_begin + i];
    if (token < 0 || token >= info_.vocab_size) return name + " has a token outside the vocabulary";
  }
  if (!row.samples) {
    const bool bare = row.sampling == nullptr && row.history.empty() && row.mask.empty();
    return bare ? "" : name + " does not sample, but says how";
  }
  if (row.sampling == nullptr) return name + " samples without parameters";
  if (row.history.size() != end) return name + " has a history of another length";
  if (row.prompt_count == 0 || row.prompt_count > end) return name + " has an impossible prompt length";
  if (!std::equal(row.history.begin() + row.position, row.history.end(), plan.tokens.begin() + row.token_begin)) {
    return name + " has a history that does not end in its tokens";
  }
  return {};
}

// What a row writes, no other row may even read; a copy reads no target, and its target is in use.
std::string PlanChecker::check_writes(const StepPlan& plan) const {
  const auto block_size = static_cast<uint32_t>(info_.block_size);
  std::map<BlockId, int> tables;
  for (const BlockId block : plan.blocks) ++tables[block];
  for (const Row& row : plan.rows) {
    for (uint32_t i = row.position / block_size; i < row.block_count; ++i) {
      if (tables[plan.blocks[row.block_begin + i]] > 1) return name_of(row) + " writes to a block of another row";
    }
  }
  std::set<BlockId> targets;
  for (const BlockCopy& copy : plan.copies) {
    if (!targets.insert(copy.target).second) return "two copies into one block";
    if (!tables.contains(copy.target)) return "a copy into a block that no row uses";
    if (copy.source >= static_cast<uint32_t>(info_.block_count)) return "a copy from a block that does not exist";
  }
  for (const BlockCopy& copy : plan.copies) {
    if (targets.contains(copy.source)) return "a copy from a block that is copied into";
  }
  return {};
}

std::string PlanChecker::check_counts(const StepPlan& plan, const StepCounts& counts) const {
  StepCounts found;
  for (const Row& row : plan.rows) {
    ++(is_decode(row) ? found.decode_rows : found.prefill_rows);
    uint64_t& context = is_decode(row) ? found.context_tokens_decode : found.context_tokens_prefill;
    for (uint32_t i = 0; i < row.token_count; ++i) context += row.position + i + 1;
    found.sampled_tokens += row.samples ? 1 : 0;
  }
  if (counts.decode_rows != found.decode_rows || counts.prefill_rows != found.prefill_rows) return "rows miscounted";
  if (counts.sampled_tokens != found.sampled_tokens) return "sampled tokens miscounted";
  if (counts.context_tokens_decode != found.context_tokens_decode ||
      counts.context_tokens_prefill != found.context_tokens_prefill) {
    return "context tokens miscounted";
  }
  const size_t prefill = plan.tokens.size() - counts.decode_rows;
  const size_t explained = counts.prefill_tokens + counts.recomputed_tokens;
  // A prefill row may hold one more: a follower's last prompt token, or the last output token of one that came back.
  if (explained > prefill || prefill > explained + counts.prefill_rows) return "prefill tokens miscounted";
  return {};
}

std::string PlanChecker::check_progress(const StepPlan& plan, const StepCounts& counts, uint32_t blocks_available) {
  for (const Row& row : plan.rows) {
    const auto found = known_.find(row.sequence);
    if (found == known_.end()) continue;
    if (row.position > found->second.end) return name_of(row) + " skips positions";
  }
  size_t decoding = 0;
  for (const auto& [sequence, known] : known_) decoding += known.decoding && known.step + 1 == steps_ ? 1 : 0;
  for (const Row& row : plan.rows) {
    Known& known = known_[row.sequence];
    if (known.decoding && known.step + 1 == steps_) {
      --decoding;
      if (counts.preemptions == 0 && row.position != known.end) return name_of(row) + " goes back without preemption";
    }
    known = {.end = row.position + row.token_count, .decoding = row.samples, .step = steps_};
  }
  // A decode may be missing only where blocks ran out.
  if (decoding > 0 && counts.preemptions == 0 && blocks_available > 0) return "a running decode got no row";
  return {};
}

}  // namespace twostroke::testing
