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
  CHECK(!step_.masks_due, "commit() without fill_masks()");
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    const PlannedRow& planned = step_.rows[i];
    // A sibling's failure in this very step has ended it.
    if (planned.sequence->epoch != planned.epoch) continue;
    commit_row(*planned.sequence, plan.rows[i], plan.rows[i].drafts_in(plan.tokens), result.rows[i], now);
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

// Why the row's request cannot go on. The client's own rules are looked at first: a row without a token that may come
// has no other result worth reading.
Status Scheduler::Impl::check_result(const Sequence& sequence, const Row& row, std::span<const TokenId> drafts,
                                     const RowResult& result) const {
  const Request& request = sequence.request->request;
  if (!row.mask.empty() && !sequence.mask_allows) {
    return request.constraints.empty()
               ? invalid_argument("allowed_tokens, bad_words and min_tokens leave no token that may come next")
               : invalid_argument(
                     "no token may come next: the grammar and the request's other rules for tokens "
                     "(allowed_tokens, bad_words) have none in common");
  }
  if (result.status == RowStatus::kNotFinite) {
    return internal_error(
        "the model gave no usable probabilities for this request: they were not finite; other requests are not "
        "affected");
  }
  const auto token = static_cast<uint32_t>(result.token);
  if (row.samples && (result.token < 0 || token >= vocab_size_)) return not_in_vocabulary(result.token);
  if (!row.mask.empty() && ((row.mask[token / 32] >> (token % 32)) & 1) == 0) {
    return internal_error("the backend returned token " + std::to_string(result.token) +
                          ", which its mask does not allow");
  }
  if (result.targets.size() != row.targets.size()) {
    return internal_error("the backend returned " + std::to_string(result.targets.size()) +
                          " log-probabilities for a prompt chunk of " + std::to_string(row.targets.size()));
  }
  if (row.pooling != Pooling::kNone && result.hidden.size() != embedding_size_) {
    return internal_error("the backend returned a state of " + std::to_string(result.hidden.size()) +
                          " numbers, not of " + std::to_string(embedding_size_));
  }
  return check_drafts(sequence, drafts, result);
}

Status Scheduler::Impl::not_in_vocabulary(TokenId token) const {
  return internal_error("the backend returned token " + std::to_string(token) + ", which is not in the vocabulary of " +
                        std::to_string(vocab_size_));
}

void Scheduler::Impl::commit_row(Sequence& sequence, const Row& row, std::span<const TokenId> drafts,
                                 const RowResult& result, TimeNs now) {
  LiveRequest& live = *sequence.request;
  if (const Status fault = check_result(sequence, row, drafts, result); !fault.ok()) {
    return end_request(live, Outcome::kFailed, fault, now);
  }
  const uint32_t taken = row.samples ? tokens_to_take(sequence, result) : 0;
  advance(sequence, result, taken, now);
  sequence.imported = 0;
  live.import_done = true;
  if (uses_cache(live)) register_blocks(sequence);
  if (!row.targets.empty()) take_scores(live, row, result);
  if (row.pooling != Pooling::kNone) take_hidden(live, row, result);
  if (!live.prompt_done && sequence.computed >= live.prompt_count()) complete_prompt(live, now);
  if (taken == 1) append_token(sequence, result, /*same_step=*/false, now);
  if (taken > 1) append_token(sequence, result.following[taken - 2], /*same_step=*/true, now);
  if (row.samples) end_if_done(sequence, now);
  if (live.pools() && live.prompt_done) end_pooled(live, now);
}

// Past the row's tokens and the accepted drafts, `tokens` - 1 of them: these are appended, since they are computed.
// What was held for drafts alone goes back. It has the blocks of all these tokens, so nothing that is promised to it
// changes.
void Scheduler::Impl::advance(Sequence& sequence, const RowResult& result, uint32_t tokens, TimeNs now) {
  const uint32_t accepted = std::max(tokens, 1U) - 1;
  sequence.computed += sequence.planned - sequence.drafts + accepted;
  sequence.computed_max = std::max(sequence.computed_max, sequence.computed);
  sequence.planned = 0;
  sequence.drafts = 0;
  for (uint32_t i = 0; i < accepted; ++i) {
    if (i == 0) {
      append_token(sequence, result, /*same_step=*/false, now);
    } else {
      append_token(sequence, result.following[i - 1], /*same_step=*/true, now);
    }
  }
  for (; sequence.blocks.size() > blocks_for(sequence.computed); sequence.blocks.pop_back()) {
    pool_.release(sequence.blocks.back());
  }
}

// What is computed again, after a preemption, gives the same once more.
void Scheduler::Impl::take_scores(LiveRequest& live, const Row& row, const RowResult& result) {
  live.prompt_scores.resize(live.prompt_count() - 1);
  std::ranges::copy(result.targets, live.prompt_scores.begin() + row.position);
}

// A mean starts anew with the first position: that is where a sequence which gave way starts again, since nothing of
// it is read from the prefix cache.
void Scheduler::Impl::take_hidden(LiveRequest& live, const Row& row, const RowResult& result) {
  if (row.position == 0 || row.pooling == Pooling::kLast) live.hidden_sum.assign(embedding_size_, 0);
  for (uint32_t i = 0; i < embedding_size_; ++i) live.hidden_sum[i] += static_cast<double>(result.hidden[i]);
}

void Scheduler::Impl::complete_prompt(LiveRequest& live, TimeNs now) {
  if (live.scores_prompt()) {
    Event& event = events_.emplace_back();
    event.kind = Event::Kind::kPrompt;
    event.request = live.request.id;
    event.time = now;
    event.prompt = std::move(live.prompt_scores);
  }
  live.prompt_done = true;
  release_followers(live, now);
}

void Scheduler::Impl::end_pooled(LiveRequest& live, TimeNs now) {
  const double count = live.request.pooling == Pooling::kMean ? live.prompt_count() : 1;
  std::vector<float> embedding;
  embedding.reserve(live.hidden_sum.size());
  for (const double sum : live.hidden_sum) embedding.push_back(static_cast<float>(sum / count));
  end_request(live, Outcome::kFinished, {}, now);
  events_.back().embedding = std::move(embedding);
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

// `drawn` is a RowResult or a SampledToken.
template <typename Drawn>
void Scheduler::Impl::append_token(Sequence& sequence, const Drawn& drawn, bool same_step, TimeNs now) {
  LiveRequest& live = *sequence.request;
  blocks_promised_ -= promised_to(sequence);
  sequence.tokens.push_back(drawn.token);
  blocks_promised_ += promised_to(sequence);
  if (!live.request.constraints.empty()) live.request.constraints[sequence.index]->accept(drawn.token);

  Event& event = events_.emplace_back();
  event.kind = Event::Kind::kToken;
  event.request = live.request.id;
  event.sequence = sequence.index;
  event.token = drawn.token;
  event.logprob = drawn.logprob;
  event.rank = drawn.rank;
  event.top = drawn.top;
  event.time = now;
  event.gap_ns = sequence.last_token >= 0 ? now - sequence.last_token : -1;
  event.same_step = same_step;
  sequence.last_token = now;

  if (live.tenant != nullptr) live.tenant->charge(kDecodeTokenCost);
  ++live.summary.output_tokens;
  if (live.summary.first_token < 0) live.summary.first_token = now;
}

void Scheduler::Impl::end_if_done(Sequence& sequence, TimeNs now) {
  const LiveRequest& live = *sequence.request;
  if (std::ranges::binary_search(live.request.stop_tokens, sequence.tokens.back())) {
    const bool is_whole = live.request.constraints.empty() || live.request.constraints[sequence.index]->ended_whole();
    finish(sequence, is_whole ? FinishReason::kStop : FinishReason::kLength, now);
  } else if (sequence.output_count() >= live.output_max) {
    finish(sequence, FinishReason::kLength, now);
  }
}

}  // namespace twostroke
