#include "tests/scheduler/plan_checker.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "backend/sim/machine.h"
#include "backend/sim/plan_check.h"
#include "scheduler/cost/phase_work.h"

namespace twostroke::test {
namespace {

std::string name_of(const Row& row) { return "row of sequence " + std::to_string(row.sequence); }

bool is_decode(const Row& row) {
  return row.samples && row.token_count - row.draft_count == 1 && row.position >= row.prompt_count;
}

}  // namespace

std::string PlanChecker::check(const StepPlan& plan, const StepCounts& counts, uint32_t blocks_available) {
  if (plan.empty()) {
    if (!plan.tokens.empty() || !plan.blocks.empty() || !plan.copies.empty()) return "an empty plan does something";
    return {};
  }
  if (plan.step != ++steps_) return "steps are not numbered one after the other";
  std::string error = check_plan(plan, info_);
  if (error.empty()) error = check_shape(plan);
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
  if (limits_.max_chunk_tokens > 0 && row.token_count - row.draft_count > limits_.max_chunk_tokens) {
    return name + " is longer than a chunk";
  }
  if (row.draft_count > limits_.max_draft_tokens) return name + " has more drafts than it may";
  if (row.draft_count > 0 && !is_decode(row)) return name + " has drafts, but does not decode";
  const uint32_t end = row.position + row.token_count;
  const auto block_size = static_cast<uint32_t>(info_.block_size);
  if (row.block_count != (end + block_size - 1) / block_size) return name + " has a table that does not fit its tokens";
  std::set<BlockId> table;
  for (uint32_t i = 0; i < row.block_count; ++i) {
    const BlockId block = plan.blocks[row.block_begin + i];
    if (!table.insert(block).second) return name + " names a block twice";
  }
  const bool bare = row.sampling == nullptr && row.history.empty() && row.mask.empty();
  return row.samples || bare ? "" : name + " does not sample, but says how";
}

// What a row writes, no other row may even read; what a copy writes is in use.
std::string PlanChecker::check_writes(const StepPlan& plan) const {
  const auto block_size = static_cast<uint32_t>(info_.block_size);
  std::map<BlockId, int> tables;
  for (const BlockId block : plan.blocks) ++tables[block];
  for (const Row& row : plan.rows) {
    for (uint32_t i = row.position / block_size; i < row.block_count; ++i) {
      if (tables[plan.blocks[row.block_begin + i]] > 1) return name_of(row) + " writes to a block of another row";
    }
  }
  // In order: a copy may read what one before it wrote (a fork of a fork), not what one behind it will overwrite.
  std::set<BlockId> sources;
  std::set<BlockId> targets;
  for (const BlockCopy& copy : plan.copies) {
    sources.insert(copy.source);
    if (sources.contains(copy.target)) return "a copy into a block that was copied from";
    if (!targets.insert(copy.target).second) return "two copies into one block";
    if (!tables.contains(copy.target)) return "a copy into a block that no row uses";
  }
  return {};
}

std::string PlanChecker::check_counts(const StepPlan& plan, const StepCounts& counts) const {
  StepCounts found;
  for (const Row& row : plan.rows) {
    StepShape& shape = found.shape;
    ++(is_decode(row) ? shape.decode_rows : shape.prefill_rows);
    (is_decode(row) ? shape.decode_tokens : shape.prefill_tokens) += row.token_count;
    shape.logit_tokens += (row.samples ? row.draft_count + 1 : 0) + static_cast<uint32_t>(row.targets.size());
    found.draft_tokens += row.draft_count;
    uint64_t& context = is_decode(row) ? shape.decode_context : shape.prefill_context;
    for (uint32_t i = 0; i < row.token_count; ++i) context += row.position + i + 1;
    (is_decode(row) ? shape.decode_positions : shape.prefill_positions) += row.position + row.token_count;
    found.sampled_tokens += row.samples ? 1 : 0;
    found.scored_tokens += static_cast<uint32_t>(row.targets.size());
  }
  if (counts.shape.decode_rows != found.shape.decode_rows || counts.shape.prefill_rows != found.shape.prefill_rows)
    return "rows miscounted";
  if (counts.sampled_tokens != found.sampled_tokens) return "sampled tokens miscounted";
  if (counts.scored_tokens != found.scored_tokens) return "scored tokens miscounted";
  if (counts.draft_tokens != found.draft_tokens) return "drafts miscounted";
  if (counts.shape.decode_context != found.shape.decode_context ||
      counts.shape.prefill_context != found.shape.prefill_context) {
    return "context tokens miscounted";
  }
  if (counts.shape != found.shape) return "the step's tokens miscounted";
  if (std::string error = check_work(plan, counts.shape); !error.empty()) return error;
  const size_t prefill = counts.shape.prefill_tokens;
  const size_t explained = counts.computed_tokens + counts.recomputed_tokens;
  // A prefill row may hold one more: a follower's last prompt token, or the last output token of one that came back.
  if (explained > prefill || prefill > explained + counts.shape.prefill_rows) return "prefill tokens miscounted";
  return {};
}

// The phases' work together is what the sim machine makes of the plan: its peaks times its seconds.
std::string PlanChecker::check_work(const StepPlan& plan, const StepShape& shape) const {
  SimMachine machine{.compute_efficiency = 1, .memory_efficiency = 1};
  StepWork rows = StepWork::of(plan);
  rows.block_copies = 0;  // left out of the phases' work
  const StepCost cost = step_cost(machine, info_, rows);
  const PhaseWork work = phase_work(shape, info_);
  const auto differ = [](double a, double b) { return std::abs(a - b) > 1e-9 * (a + b); };
  if (differ(work.total().flops, cost.compute_seconds * machine.peak_flops)) return "FLOPs miscounted";
  if (differ(work.total().read_bytes + work.total().written_bytes,
             cost.memory_seconds * machine.peak_bytes_per_second)) {
    return "bytes miscounted";
  }
  return "";
}

std::string PlanChecker::check_progress(const StepPlan& plan, const StepCounts& counts, uint32_t blocks_available) {
  // Who had a row in the last step and has one in this goes on where it was: preemption keeps it out for a step.
  size_t decoding = 0;
  for (const auto& [sequence, known] : known_) decoding += known.decoding && known.step + 1 == steps_ ? 1 : 0;
  for (const Row& row : plan.rows) {
    Known& known = known_[row.sequence];
    if (known.step > 0 && known.step + 1 == steps_) {
      // Drafts that were accepted have taken it further.
      if (row.position < known.end || row.position > known.end + known.drafts) {
        return name_of(row) + " does not go on where the last one ended";
      }
      if (known.decoding) --decoding;
    }
    known = {.end = row.position + row.token_count - row.draft_count,
             .drafts = row.draft_count,
             .decoding = row.samples,
             .step = steps_};
  }
  // A decode may be missing only where blocks ran out.
  if (decoding > 0 && counts.preemptions == 0 && blocks_available > 0) return "a running decode got no row";
  return {};
}

}  // namespace twostroke::test
