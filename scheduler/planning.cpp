// A step is decided: a row for everything that has one token to go, then prefill chunks, then newcomers.
#include <algorithm>

#include "kernels/check.h"
#include "scheduler/scheduler_impl.h"

namespace twostroke {

void Scheduler::Impl::schedule(TimeNs now, StepPlan& plan, StepCounts& counts) {
  CHECK(!step_.in_flight, "schedule() before the last plan was committed");
  step_.now = now;
  step_.preempted = false;
  step_.masks_due = false;
  step_.tokens_left = limits_.max_step_tokens;
  step_.counts = {};
  step_.planned.clear();
  step_.copies.clear();
  order_ = running_;  // preemption changes running_ underneath

  plan_decodes();
  limit_prefill();
  plan_prefills();
  admit_waiting();
  plan_drafts();
  write_plan(plan);
  counts = step_.counts;
  ++step_.decided;
}

// max_running is at most max_step_tokens, so there is a token for each.
void Scheduler::Impl::plan_decodes() {
  for (Sequence* sequence : order_) {
    if (sequence->state != SequenceState::kRunning || sequence->to_go() != 1) continue;
    const bool needs_block = sequence->blocks.size() * block_size_ == sequence->computed;
    if (needs_block && pool_.available() == 0 && !make_room(*sequence)) continue;
    take_row(*sequence, 1);
  }
}

// What is left of the step becomes what prefill may take of it. The chunk is taken to begin at the furthest position of
// those prompts that run: the one whose context costs the most. (What a newcomer finds in the prefix cache is not known
// yet.)
void Scheduler::Impl::limit_prefill() {
  StepBudgetInput input{.step_tokens_max = limits_.max_step_tokens, .fixed = limits_in_force_.max_chunk_tokens > 0};
  for (const Sequence* sequence : step_.planned) {
    ++input.decodes.decode_rows;
    input.decodes.decode_tokens += sequence->planned;
    input.decodes.logit_tokens += sequence->planned;
    input.decodes.decode_context += uint64_t{sequence->computed} + 1;
    const TimeNs own = sequence->request->request.objectives.tpot_ns;
    const TimeNs objective = own > 0 ? own : limits_.itl_target_ns;
    if (objective > 0 && (input.objective_ns == 0 || objective < input.objective_ns)) input.objective_ns = objective;
  }
  for (const Sequence* sequence : order_) {
    if (sequence->state != SequenceState::kRunning || sequence->planned > 0) continue;
    input.position = std::max(input.position, sequence->computed);
  }
  step_.objective_ns = input.objective_ns;
  decodes_ = input.decodes;
  budget_ = decide_budget(costs_, input);
  ridge_tokens_ = costs_.ridge_tokens(input.decodes, limits_.max_step_tokens);
  step_.tokens_left = std::min(step_.tokens_left, budget_.prefill_tokens);
}

// A chunk shrinks to the blocks that there are. Only the oldest sequence takes blocks from others for a prefill, which
// is what keeps everything moving; the others just wait for decodes to end.
void Scheduler::Impl::plan_prefills() {
  for (Sequence* sequence : order_) {
    if (step_.tokens_left == 0) return;
    if (sequence->state != SequenceState::kRunning || sequence->to_go() == 1) continue;
    const auto fitting = [&] {
      return (sequence->blocks.size() + pool_.available()) * block_size_ - sequence->computed;
    };
    if (fitting() == 0 && !(sequence == running_.front() && make_room(*sequence))) continue;
    uint32_t count = std::min({sequence->to_go(), limits_.max_chunk_tokens, step_.tokens_left});
    count = static_cast<uint32_t>(std::min<size_t>(count, fitting()));
    take_row(*sequence, count);
  }
}

void Scheduler::Impl::take_row(Sequence& sequence, uint32_t count) {
  hold_blocks(sequence, sequence.computed + count);
  sequence.planned = count;
  step_.tokens_left -= count;
  step_.planned.push_back(&sequence);
}

void Scheduler::Impl::give_back_row(Sequence& sequence) {
  step_.tokens_left += sequence.planned;
  sequence.planned = 0;
  sequence.drafts = 0;
  std::erase(step_.planned, &sequence);
}

void Scheduler::Impl::hold_blocks(Sequence& sequence, uint32_t positions) {
  blocks_promised_ -= promised_to(sequence);
  while (sequence.blocks.size() * block_size_ < positions) sequence.blocks.push_back(pool_.allocate());
  blocks_promised_ += promised_to(sequence);
}

bool Scheduler::Impl::is_decode(const Sequence& sequence) const {
  return sequence.planned > 0 && sequence.to_go() == 1 && sequence.computed >= sequence.request->prompt_count();
}

void Scheduler::Impl::write_plan(StepPlan& plan) {
  plan.clear();
  step_.rows.clear();
  if (step_.planned.empty()) {
    plan.step = 0;
    return;
  }
  plan.step = ++step_.number;
  step_.in_flight = true;
  plan.copies = step_.copies;
  for (Sequence* sequence : step_.planned) {
    if (is_decode(*sequence)) write_row(*sequence, plan);
  }
  for (Sequence* sequence : step_.planned) {
    if (!is_decode(*sequence)) write_row(*sequence, plan);
  }
  step_.counts.predicted_ns = static_cast<TimeNs>(costs_.predict_ns(step_.counts.shape));
}

// Prompt tokens that its row scores. The last one has no other behind it.
uint32_t Scheduler::Impl::targets(const Sequence& sequence) const {
  const LiveRequest& live = *sequence.request;
  const uint32_t end = live.prompt_count() - 1;
  if (!live.scores_prompt() || sequence.computed >= end) return 0;
  return std::min(sequence.planned, end - sequence.computed);
}

void Scheduler::Impl::write_row(Sequence& sequence, StepPlan& plan) {
  const LiveRequest& live = *sequence.request;
  const auto first = sequence.tokens.begin() + sequence.computed;
  Row row;
  row.sequence = sequence.id;
  row.token_begin = static_cast<uint32_t>(plan.tokens.size());
  row.token_count = sequence.planned;
  row.draft_count = sequence.drafts;
  row.position = sequence.computed;
  row.block_begin = static_cast<uint32_t>(plan.blocks.size());
  row.block_count = static_cast<uint32_t>(sequence.blocks.size());
  row.samples = samples(sequence);
  plan.tokens.insert(plan.tokens.end(), first, first + (sequence.planned - sequence.drafts));
  if (sequence.drafts > 0) {
    plan.tokens.resize(plan.tokens.size() + sequence.drafts);
    sequence.drafter.guess(sequence.tokens, std::span(plan.tokens).last(sequence.drafts));
  }
  plan.blocks.insert(plan.blocks.end(), sequence.blocks.begin(), sequence.blocks.end());
  if (row.samples) {
    row.sampling = &sequence.sampling;
    row.history = sequence.tokens;
    row.prompt_count = live.prompt_count();
    if (!live.request.constraints.empty() || live.rules.apply_to(sequence.tokens, sequence.output_count())) {
      sequence.mask.resize((vocab_size_ + 31) / 32);
      row.mask = sequence.mask;
      step_.masks_due = true;
    }
  }
  if (const uint32_t count = targets(sequence); count > 0) {
    row.targets = std::span(sequence.tokens).subspan(sequence.computed + 1, count);
    row.target_logprobs = static_cast<uint32_t>(live.request.prompt_logprobs);
  }
  if (sequence.planned == sequence.to_go() || live.request.pooling == Pooling::kMean)
    row.pooling = live.request.pooling;
  plan.rows.push_back(row);
  step_.rows.push_back({&sequence, sequence.epoch});
  sequence.row_step = step_.number;
  count_row(sequence, row);
}

void Scheduler::Impl::fill_masks(const StepPlan& plan) {
  CHECK(step_.in_flight && plan.step == step_.number && plan.rows.size() == step_.rows.size(),
        "fill_masks() of a plan that is not in flight");
  if (!step_.masks_due) return;
  step_.masks_due = false;
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    if (plan.rows[i].mask.empty()) continue;
    Sequence& sequence = *step_.rows[i].sequence;
    const LiveRequest& live = *sequence.request;
    TokenConstraint* constraint =
        live.request.constraints.empty() ? nullptr : live.request.constraints[sequence.index].get();
    sequence.mask_allows = live.rules.fill_mask(sequence.tokens, sequence.output_count(), constraint, sequence.mask);
  }
}

}  // namespace twostroke
