// How sequences and requests change state, and the gauges with them. Nothing else changes a state.
#include <algorithm>

#include "kernels/check.h"
#include "scheduler/scheduler_impl.h"

namespace twostroke {

void Scheduler::Impl::enqueue(Sequence& sequence, TimeNs now) {
  clock_ = std::max(clock_, now);
  sequence.state = SequenceState::kWaiting;
  sequence.queued_after = step_.decided;
  sequence.waiting_since = clock_;
  if (limits_.order == Order::kShortest) sequence.length_key = tokens_to_compute(sequence);
  waiting_.insert(sequence);
  sequence.reason = WaitReason::kTurn;
  ++gauges_.sequences_by_reason[static_cast<size_t>(sequence.reason)];
}

void Scheduler::Impl::dequeue(Sequence& sequence) {
  waiting_.remove(sequence);
  --gauges_.sequences_by_reason[static_cast<size_t>(sequence.reason)];
  sequence.awaits = 0;
}

void Scheduler::Impl::set_reason(Sequence& sequence, WaitReason reason) {
  --gauges_.sequences_by_reason[static_cast<size_t>(sequence.reason)];
  sequence.reason = reason;
  ++gauges_.sequences_by_reason[static_cast<size_t>(sequence.reason)];
}

// The sequence has left the queue and holds the blocks that it shares.
void Scheduler::Impl::enter_running(Sequence& sequence) {
  LiveRequest& live = *sequence.request;
  sequence.state = SequenceState::kRunning;
  const auto place = std::ranges::upper_bound(running_, &sequence,
                                              [](const Sequence* a, const Sequence* b) { return precedes(*a, *b); });
  running_.insert(place, &sequence);
  blocks_promised_ += promised_to(sequence);
  --gauges_.sequences_waiting;
  ++gauges_.sequences_running;
  if (live.tenant != nullptr) ++live.tenant->running;
  if (live.running++ == 0) {
    --gauges_.requests_waiting;
    ++gauges_.requests_running;
  }
  if (!live.started) {
    live.started = true;
    live.summary.first_scheduled = step_.now;
    count_waiting(live, false);
  }
}

// Gives up its blocks, tail first; the state that follows is the caller's to set. With `forget_blocks` the prefix cache
// forgets those of them that only this sequence used.
void Scheduler::Impl::leave_running(Sequence& sequence, bool forget_blocks) {
  LiveRequest& live = *sequence.request;
  blocks_promised_ -= promised_to(sequence);
  for (size_t i = sequence.blocks.size(); i-- > 0;) {
    const BlockId block = sequence.blocks[i];
    if (forget_blocks && pool_.references(block) == 1) cache_.forget(block);
    pool_.release(block);
  }
  sequence.blocks.clear();
  sequence.computed = 0;
  sequence.registered = 0;
  sequence.planned = 0;
  sequence.drafts = 0;
  sequence.imported = 0;
  ++sequence.epoch;
  std::erase(running_, &sequence);
  ++gauges_.sequences_waiting;
  --gauges_.sequences_running;
  if (live.tenant != nullptr) --live.tenant->running;
  if (--live.running == 0) {
    ++gauges_.requests_waiting;
    --gauges_.requests_running;
  }
}

// The prompt is there: its followers may fork.
void Scheduler::Impl::release_followers(LiveRequest& live, TimeNs now) {
  for (Sequence& sequence : live.sequences) {
    if (sequence.state == SequenceState::kFollowing) enqueue(sequence, now);
  }
}

void Scheduler::Impl::stop(Sequence& sequence, bool forget_blocks) {
  if (sequence.state == SequenceState::kFinished) return;
  if (sequence.state == SequenceState::kWaiting) dequeue(sequence);
  if (sequence.state == SequenceState::kRunning) {
    leave_running(sequence, forget_blocks);
    ++ends_;
  }
  sequence.state = SequenceState::kFinished;
  --gauges_.sequences_waiting;
}

// Without the prefix cache, the prompt that a request has computed is in the blocks of its running sequences alone.
// When the only one of them ends, a sibling that has not started yet takes its place, so that it is not computed again.
Sequence* Scheduler::Impl::heir_of(const Sequence& sequence) {
  LiveRequest& live = *sequence.request;
  const bool last_holder = sequence.state == SequenceState::kRunning && live.running == 1;
  if (!last_holder || uses_cache(live) || sequence.computed < live.prompt_count()) return nullptr;
  for (Sequence& sibling : live.sequences) {
    if (sibling.state == SequenceState::kWaiting && sibling.output_count() == 0) return &sibling;
  }
  return nullptr;
}

// All but the last prompt token, which each sequence computes for a sample of its own.
void Scheduler::Impl::hand_over_prompt(Sequence& from, Sequence& to) {
  const uint32_t tokens = from.request->prompt_count() - 1;
  const auto end = from.blocks.begin() + blocks_for(tokens);
  prepare(to);
  dequeue(to);
  to.blocks.assign(from.blocks.begin(), end);
  from.blocks.erase(from.blocks.begin(), end);
  blocks_promised_ += blocks_for(tokens);  // as if `from` still needed them: what promised_to() says of it now
  enter_running(to);
  to.computed = tokens;
}

void Scheduler::Impl::finish(Sequence& sequence, FinishReason reason, TimeNs now) {
  LiveRequest& live = *sequence.request;
  Event& event = events_.emplace_back();
  event.kind = Event::Kind::kSequenceFinished;
  event.request = live.request.id;
  event.sequence = sequence.index;
  event.time = now;
  event.finish_reason = reason;
  if (Sequence* heir = heir_of(sequence)) hand_over_prompt(sequence, *heir);
  stop(sequence, /*forget_blocks=*/false);
  if (--live.unfinished == 0) return end_request(live, Outcome::kFinished, {}, now);
  if (live.prompt_done || sequence.index != live.leader) return;
  // It has gone before the prompt was computed: the next one leads.
  const auto next = std::ranges::find(live.sequences, SequenceState::kFollowing, &Sequence::state);
  CHECK(next != live.sequences.end());
  live.leader = next->index;
  enqueue(*next, now);
}

void Scheduler::Impl::end_request(LiveRequest& live, Outcome outcome, const Status& error, TimeNs now) {
  for (Sequence& sequence : live.sequences) stop(sequence, /*forget_blocks=*/outcome == Outcome::kFailed);
  --gauges_.requests_waiting;
  if (!live.started) count_waiting(live, false);
  if (live.tenant != nullptr) fairness_.leave(*live.tenant);
  live.summary.ended = now;
  Event& event = events_.emplace_back();
  event.kind = Event::Kind::kEnded;
  event.request = live.request.id;
  event.time = now;
  event.outcome = outcome;
  event.error = error;
  event.summary = live.summary;
  const auto found = requests_.find(live.request.id);
  CHECK(found != requests_.end(), "a request ends once");
  ended_.push_back(std::move(found->second));
  requests_.erase(found);
}

void Scheduler::Impl::cancel(RequestId request, TimeNs now) {
  CHECK(!step_.in_flight, "cancel() between schedule() and commit()");
  const auto found = requests_.find(request);
  if (found == requests_.end()) return;
  end_request(*found->second, Outcome::kCancelled, {}, now);
  ended_.clear();
}

void Scheduler::Impl::finish_sequence(RequestId request, uint32_t index, TimeNs now) {
  CHECK(!step_.in_flight, "finish_sequence() between schedule() and commit()");
  const auto found = requests_.find(request);
  if (found == requests_.end() || index >= found->second->sequences.size()) return;
  Sequence& sequence = found->second->sequences[index];
  if (sequence.state == SequenceState::kFinished || sequence.request->pools()) return;
  finish(sequence, FinishReason::kStop, now);
  ended_.clear();
}

void Scheduler::Impl::fail_all(const Status& error, TimeNs now) {
  CHECK(!step_.in_flight, "fail_all() between schedule() and commit()");
  std::vector<LiveRequest*> all;
  for (const auto& [id, live] : requests_) all.push_back(live.get());
  std::ranges::sort(all, {}, &LiveRequest::arrival);
  for (LiveRequest* live : all) end_request(*live, Outcome::kFailed, error, now);
  ended_.clear();
}

}  // namespace twostroke
