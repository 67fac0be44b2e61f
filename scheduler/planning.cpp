// A step is decided: a row for everything that has one token to go, then prefill chunks of those that run and of
// newcomers.
#include <algorithm>
#include <tuple>

#include "kernels/check.h"
#include "scheduler/scheduler_impl.h"

namespace twostroke {

void Scheduler::Impl::schedule(TimeNs now, StepPlan& plan, StepCounts& counts) {
  CHECK(!step_.in_flight, "schedule() before the last plan was committed");
  step_.now = now;
  step_.ran_out = false;
  step_.gave_way.reset();
  step_.closed = false;
  step_.prefill_tokens = 0;
  step_.aside = 0;
  step_.masks_due = false;
  step_.tokens_left = limits_.max_step_tokens;
  step_.counts = {};
  step_.planned.clear();
  step_.copies.clear();
  order_ = running_;  // preemption changes running_ underneath
  passed_.clear();
  in_flight_listed_ = false;
  ++looks_;
  clock_ = std::max(clock_, now);

  let_age();
  plan_decodes();
  limit_prefill();
  plan_prefills();
  settle_headroom();
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

// Level by level, the best first, running prompts and those that wait together: what one level leaves goes to the next.
void Scheduler::Impl::plan_prefills() {
  advance_first();
  list_prefills();
  size_t begin = 0;
  for (Level level = kAgedLevel;; ++level) {
    // A newcomer may have pushed some out.
    while (begin < prefills_.size() && prefills_[begin]->state != SequenceState::kRunning) ++begin;
    const Sequence* waiting = step_.closed ? nullptr : waiting_.first_at(level);
    if (begin == prefills_.size() && waiting == nullptr) return;
    if (step_.closed && step_.tokens_left == 0) return;
    level = waiting == nullptr          ? prefills_[begin]->level()
            : begin == prefills_.size() ? waiting->level()
                                        : std::min(prefills_[begin]->level(), waiting->level());
    size_t end = begin;
    while (end < prefills_.size() && prefills_[end]->level() == level) ++end;
    // What has aged goes first, but not alone: its prompt may be long.
    const bool others = end < prefills_.size() || waiting_.first_at(level + 1) != nullptr;
    const uint32_t kept = level == kAgedLevel && others ? step_.tokens_left / 2 : 0;
    step_.tokens_left -= kept;
    plan_level(level, std::span(prefills_).subspan(begin, end - begin));
    step_.tokens_left += kept;
    begin = end;
  }
}

// Where tenants are served fairly: one after the other, the least served first.
void Scheduler::Impl::plan_level(Level level, std::span<Sequence* const> prefills) {
  if (limits_.order != Order::kFair) return plan_line(level, nullptr, prefills);
  ++turns_;
  while (step_.tokens_left > 0 || !step_.closed) {
    // A tenant whose turn was is not asked again.
    const auto had_turn = [&](const Sequence* sequence) { return sequence->request->tenant->turn == turns_; };
    while (!prefills.empty() && had_turn(prefills.front())) prefills = prefills.subspan(1);
    const Sequence* waiting = step_.closed ? nullptr : waiting_.first_at(level);
    while (waiting != nullptr && waiting->level() == level && had_turn(waiting)) waiting = waiting_.next_line(*waiting);
    if (waiting != nullptr && waiting->level() != level) waiting = nullptr;
    if (prefills.empty() && waiting == nullptr) return;
    Tenant* tenant = waiting != nullptr ? waiting->request->tenant : prefills.front()->request->tenant;
    if (!prefills.empty() && prefills.front()->request->tenant->service <= tenant->service) {
      tenant = prefills.front()->request->tenant;
    }
    tenant->turn = turns_;
    const auto is_its = [&](const Sequence* sequence) { return sequence->request->tenant == tenant; };
    const auto first = std::ranges::find_if(prefills, is_its);
    const auto last = std::find_if_not(first, prefills.end(), is_its);
    plan_line(level, tenant, std::span(first, last));
  }
}

// The oldest of the best level, which takes blocks from others if it must: that is what keeps everything moving. The
// others wait for decodes to end.
void Scheduler::Impl::advance_first() {
  if (running_.empty() || step_.tokens_left == 0) return;
  Sequence& first = *running_.front();
  if (first.to_go() == 1 || fitting_tokens(first) > 0) return;
  if (make_room(first)) grow_row(first, (step_.tokens_left + 1) / 2);
}

// The running prompts, in the order in which they get tokens.
void Scheduler::Impl::list_prefills() {
  prefills_.clear();
  for (Sequence* sequence : order_) {
    if (sequence->state == SequenceState::kRunning && sequence->to_go() > 1) prefills_.push_back(sequence);
  }
  if (limits_.order != Order::kFair) return;
  std::ranges::sort(prefills_, [](const Sequence* a, const Sequence* b) {
    const Tenant& tenant_a = *a->request->tenant;
    const Tenant& tenant_b = *b->request->tenant;
    if (a->level() != b->level() || &tenant_a == &tenant_b) return precedes(*a, *b);
    return std::tie(tenant_a.service, tenant_a.id) < std::tie(tenant_b.service, tenant_b.id);
  });
}

// The first of the running prompts gets half of the tokens, so that it advances whoever comes. The other half is first
// for the short ones, running or new: what would end in a few steps, or has a quarter of what the first still has at
// most, does not wait behind it. What they leave goes to all running prompts in their order, and then to newcomers that
// are longer.
void Scheduler::Impl::plan_line(Level level, const Tenant* tenant, std::span<Sequence* const> prefills) {
  newcomers_.clear();
  step_.prefilling = !prefills.empty();
  step_.short_tokens = uint64_t{kShortSteps} * step_.tokens_left;
  if (!prefills.empty()) {
    Sequence& first = *prefills.front();
    step_.short_tokens = std::max<uint64_t>(step_.short_tokens, first.to_go() / kShortPart);
    const bool shares = prefills.size() > 1 || (!step_.closed && waiting_.first_in_line(level, tenant) != nullptr);
    grow_row(first, shares ? (step_.tokens_left + 1) / 2 : step_.tokens_left);
    grow_short(prefills.subspan(1));
  }
  admit_line(level, tenant);
  for (Sequence* sequence : prefills) grow_row(*sequence, step_.tokens_left);
  for (Sequence* sequence : newcomers_) grow_row(*sequence, step_.tokens_left);
  admit_deferred(level, tenant);
}

// The short ones of the running prompts, the shortest first.
void Scheduler::Impl::grow_short(std::span<Sequence* const> prefills) {
  short_.clear();
  for (Sequence* sequence : prefills) {
    if (sequence->state == SequenceState::kRunning && sequence->to_go() <= step_.short_tokens) {
      short_.push_back(sequence);
    }
  }
  std::ranges::sort(short_, [](const Sequence* a, const Sequence* b) {
    return a->to_go() != b->to_go() ? a->to_go() < b->to_go() : precedes(*a, *b);
  });
  for (Sequence* sequence : short_) grow_row(*sequence, step_.tokens_left);
}

// How many more tokens of it the blocks that it holds and those that are there have room for.
uint64_t Scheduler::Impl::fitting_tokens(const Sequence& sequence) const {
  return (sequence.blocks.size() + uint64_t{pool_.available()}) * block_size_ - sequence.computed - sequence.planned;
}

// A chunk, or more of one, of a running prompt: as far as the step's tokens and the blocks that there are go.
void Scheduler::Impl::grow_row(Sequence& sequence, uint32_t tokens_max) {
  if (sequence.state != SequenceState::kRunning) return;
  const uint32_t count = std::min({sequence.to_go() - sequence.planned, limits_.max_chunk_tokens - sequence.planned,
                                   step_.tokens_left, tokens_max});
  const uint64_t fitting = std::min<uint64_t>(count, fitting_tokens(sequence));
  if (fitting > 0) take_row(sequence, static_cast<uint32_t>(fitting));
}

// A row for the sequence, or more tokens in the one that it has.
void Scheduler::Impl::take_row(Sequence& sequence, uint32_t count) {
  hold_blocks(sequence, sequence.computed + sequence.planned + count);
  if (sequence.planned == 0) step_.planned.push_back(&sequence);
  sequence.planned += count;
  step_.tokens_left -= count;
  if (is_decode(sequence)) return;
  step_.prefill_tokens += count;
  if (Tenant* tenant = sequence.request->tenant) tenant->charge(kPrefillTokenCost * count);
}

void Scheduler::Impl::give_back_row(Sequence& sequence) {
  if (!is_decode(sequence)) {
    step_.prefill_tokens -= sequence.planned;
    if (Tenant* tenant = sequence.request->tenant) {
      tenant->charge(-kPrefillTokenCost * sequence.planned);
      waiting_.service_fell(tenant->id);
    }
  }
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
  constexpr double kPredictedMax = 1e18;  // a model may predict what no clock counts to
  step_.counts.predicted_ns = static_cast<TimeNs>(std::min(costs_.predict_ns(step_.counts.shape), kPredictedMax));
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
  row.imported = std::span(sequence.tokens).subspan(sequence.computed - sequence.imported, sequence.imported);
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
