// A step has run: sequences advance, full blocks become known to the prefix cache, tokens become events.
#include <algorithm>

#include "kernels/check.h"
#include "scheduler/scheduler_impl.h"

namespace twostroke {

void Scheduler::Impl::commit(const StepPlan& plan, const StepResult& result, TimeNs now, std::vector<Event>& events) {
  if (result.rows.size() != plan.rows.size()) {
    return fail(plan,
                internal_error("the backend returned " + std::to_string(result.rows.size()) + " rows for a step of " +
                               std::to_string(plan.rows.size())),
                now, events);
  }
  CHECK(plan.rows.size() == step_.rows.size() && (plan.empty() || plan.step == step_.number),
        "commit() of a plan that is not the last one");
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    const PlannedRow& planned = step_.rows[i];
    // A sibling's failure in this very step has ended it.
    if (planned.sequence->epoch != planned.epoch) continue;
    commit_row(*planned.sequence, plan.rows[i], result.rows[i], now);
  }
  end_step();
  drain_events(events);
}

void Scheduler::Impl::fail(const StepPlan& plan, const Status& error, TimeNs now, std::vector<Event>& events) {
  CHECK(plan.rows.size() == step_.rows.size() && (plan.empty() || plan.step == step_.number),
        "fail() of a plan that is not the last one");
  for (const PlannedRow& planned : step_.rows) {
    if (planned.sequence->epoch != planned.epoch) continue;
    end_request(*planned.sequence->request, Outcome::kFailed, error, now);
  }
  end_step();
  drain_events(events);
}

void Scheduler::Impl::end_step() {
  step_.in_flight = false;
  step_.rows.clear();
  ended_.clear();
}

void Scheduler::Impl::drain_events(std::vector<Event>& events) {
  if (events.empty()) {
    events.swap(events_);
  } else {
    events.insert(events.end(), std::move_iterator(events_.begin()), std::move_iterator(events_.end()));
  }
  events_.clear();
}

void Scheduler::Impl::commit_row(Sequence& sequence, const Row& row, const RowResult& result, TimeNs now) {
  LiveRequest& live = *sequence.request;
  if (result.status == RowStatus::kNotFinite) {
    end_request(live, Outcome::kFailed,
                internal_error("the model gave no usable probabilities for this request: they were not finite, or no "
                               "token was allowed; other requests are not affected"),
                now);
    return;
  }
  if (row.samples && (result.token < 0 || static_cast<uint32_t>(result.token) >= vocab_size_)) {
    end_request(live, Outcome::kFailed,
                internal_error("the backend returned token " + std::to_string(result.token) +
                               ", which is not in the vocabulary of " + std::to_string(vocab_size_)),
                now);
    return;
  }
  sequence.computed += sequence.planned;
  sequence.computed_max = std::max(sequence.computed_max, sequence.computed);
  sequence.planned = 0;
  if (uses_cache(live)) register_blocks(sequence);
  if (!live.prompt_done && sequence.computed >= live.prompt_count()) {
    live.prompt_done = true;
    release_followers(live);
  }
  if (row.samples) append_token(sequence, result, now);
}

void Scheduler::Impl::register_blocks(Sequence& sequence) {
  const std::span<const TokenId> tokens = sequence.tokens;
  for (; (sequence.registered + 1) * block_size_ <= sequence.computed; ++sequence.registered) {
    const uint32_t i = sequence.registered;
    const BlockId parent = i > 0 ? sequence.blocks[i - 1] : kNoBlock;
    const BlockId own = sequence.blocks[i];
    const BlockId known =
        cache_.insert(sequence.request->scope(), parent, tokens.subspan(i * block_size_, block_size_), own);
    if (known == own) continue;
    // A twin was first; it holds the same, and sharing it gives a block back.
    pool_.acquire(known);
    pool_.release(own);
    sequence.blocks[i] = known;
  }
}

void Scheduler::Impl::append_token(Sequence& sequence, const RowResult& result, TimeNs now) {
  LiveRequest& live = *sequence.request;
  sequence.tokens.push_back(result.token);
  if (sequence.computed % block_size_ == 0) ++blocks_promised_;
  if (!live.request.constraints.empty()) live.request.constraints[sequence.index]->accept(result.token);

  Event& event = events_.emplace_back();
  event.kind = Event::Kind::kToken;
  event.request = live.request.id;
  event.sequence = sequence.index;
  event.token = result.token;
  event.logprob = result.logprob;
  event.top = result.top;
  event.time = now;
  event.gap_ns = sequence.last_token >= 0 ? now - sequence.last_token : -1;
  sequence.last_token = now;

  ++live.summary.output_tokens;
  if (live.summary.first_token < 0) live.summary.first_token = now;
  if (std::ranges::binary_search(live.request.stop_tokens, result.token)) {
    finish(sequence, FinishReason::kStop, /*stop_token=*/true, now);
  } else if (sequence.output_count() >= live.output_max) {
    finish(sequence, FinishReason::kLength, /*stop_token=*/false, now);
  }
}

}  // namespace twostroke
