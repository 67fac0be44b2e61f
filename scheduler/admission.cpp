// Waiting sequences start, in the queue's order, when there are blocks for all the tokens that they have.
//
// Prefill takes blocks chunk by chunk, but a sequence is admitted only if, after everything promised to those that run,
// the whole of it fits: so admitted prefills do not starve each other half-way, and only the growth of decodes can
// exhaust the pool.
//
// A step looks at a bounded number of those that wait: past kAdmissionLookahead that do not fit, and kPrefixLookahead
// that are put aside.
#include <algorithm>
#include <limits>

#include "kernels/check.h"
#include "scheduler/scheduler_impl.h"

namespace twostroke {

// At most one request in an aging interval goes before its order, and stays there: see order.h. Of the best priority
// there is none has to: it is kept waiting by its equals alone.
void Scheduler::Impl::let_age() {
  const TimeNs interval = limits_.aging_ms * kMillisecondNs;
  if (limits_.aging_ms == 0 || clock_ - aged_at_ < interval) return;
  Level best = std::numeric_limits<Level>::max();
  if (const Sequence* waiting = waiting_.first_at(kAgedLevel + 1)) best = waiting->level();
  for (const Sequence* sequence : running_) {
    if (sequence->level() == kAgedLevel) continue;
    best = std::min(best, sequence->level());
    break;
  }
  for (uint32_t i = 0; i < kAdmissionLookahead; ++i) {
    Sequence* sequence = waiting_.longest_waiting();
    if (sequence == nullptr || clock_ - sequence->waiting_since < interval) return;
    LiveRequest& live = *sequence->request;
    if (live.level <= best || live.running > 0) {
      // It has its place already, or will have when its siblings, which run, have ended.
      waiting_.start_waiting_anew(*sequence, clock_);
      continue;
    }
    for (Sequence& sibling : live.sequences) {
      if (sibling.state == SequenceState::kWaiting) waiting_.leave(sibling);
    }
    live.level = kAgedLevel;
    for (Sequence& sibling : live.sequences) {
      if (sibling.state == SequenceState::kWaiting) waiting_.enter(sibling);
    }
    aged_at_ = clock_;
    return;
  }
}

// Starts what it can of this level; with Order::kFair only of this tenant.
void Scheduler::Impl::admit_line(Level level, const Tenant* tenant) {
  if (step_.closed) return;
  if (limits_.order == Order::kShortest && !admit_eldest(level)) return;
  uint32_t passed = 0;
  for (Sequence* sequence = waiting_.first_in_line(level, tenant); sequence != nullptr;) {
    Sequence* next = waiting_.next_in_line(*sequence);
    const bool looks = sequence->looked != looks_;
    const Look look = looks ? look_at(*sequence) : Look::kPassed;
    if (looks && !take_look(*sequence, look)) return;
    // What does not fit of one tenant must not hide the others.
    if (look != Look::kStarted && ++passed >= kTenantLookahead && waiting_.has_other_lines(*sequence)) return;
    sequence = look == Look::kMoved ? waiting_.first_in_line(level, tenant) : next;
  }
}

// Newcomers that were passed over because their prompt is long, though tokens are left for them.
void Scheduler::Impl::admit_deferred(Level level, const Tenant* tenant) {
  for (size_t i = 0; i < passed_.size() && !step_.closed && step_.tokens_left > 0; ++i) {
    Sequence& sequence = *passed_[i];
    if (sequence.state != SequenceState::kWaiting || sequence.level() != level) continue;
    if (sequence.request->tenant != tenant) continue;
    if (sequence.reason != WaitReason::kTokens || !is_open_to(sequence)) continue;
    if (try_start(sequence, /*may_defer=*/false) == Look::kStarted) count_overtakes(sequence);
  }
}

// Where the shortest go first: the one that arrived first, once the others have overtaken it often enough. False:
// nobody else may start.
bool Scheduler::Impl::admit_eldest(Level level) {
  Sequence* eldest = waiting_.eldest_at(level);
  if (eldest == nullptr || eldest->looked == looks_ || eldest->overtakes < limits_.max_overtakes) return true;
  return take_look(*eldest, look_at(*eldest));
}

// Keeps the books of who was passed over. False: nobody else may start.
bool Scheduler::Impl::take_look(Sequence& sequence, Look look) {
  switch (look) {
    case Look::kStarted:
      count_overtakes(sequence);
      break;
    case Look::kPassed:
      step_.closed = sequence.overtakes >= limits_.max_overtakes || passed_.size() >= kAdmissionLookahead;
      passed_.push_back(&sequence);
      break;
    case Look::kMoved:
    case Look::kAside:
      step_.closed = ++step_.aside >= kPrefixLookahead;
      break;
    case Look::kClosed:
      step_.closed = true;
      break;
  }
  return !step_.closed;
}

// `started` has gone before those that were looked at earlier, and, where the shortest go first, before the eldest.
void Scheduler::Impl::count_overtakes(const Sequence& started) {
  const auto count = [&](Sequence& passed) {
    if (passed.overtakes < limits_.max_overtakes) ++passed.overtakes;
    step_.closed |= passed.overtakes >= limits_.max_overtakes;
  };
  for (Sequence* passed : passed_) {
    if (passed == &started) return;
    if (passed->state == SequenceState::kWaiting) count(*passed);
  }
  if (limits_.order != Order::kShortest) return;
  Sequence* eldest = waiting_.eldest_at(started.level());
  if (eldest == nullptr || eldest->request->arrival > started.request->arrival) return;
  if (std::ranges::find(passed_, eldest) == passed_.end()) count(*eldest);
}

Scheduler::Impl::Look Scheduler::Impl::look_at(Sequence& sequence) {
  sequence.looked = looks_;
  if (!is_open_to(sequence)) {
    // All that come behind it have no better priority, unless it stands here by its age.
    return sequence.level() == kAgedLevel ? Look::kAside : Look::kClosed;
  }
  return try_start(sequence, /*may_defer=*/true);
}

// Whether there is a slot and a token for it, or something that must give it its own.
bool Scheduler::Impl::is_open_to(Sequence& sequence) {
  // Who has just given way would come straight back.
  if (step_.gave_way && sequence.priority() >= *step_.gave_way) {
    set_reason(sequence, WaitReason::kGaveWay);
    return false;
  }
  const bool pushes = may_push_out(sequence);
  if (running_.size() >= limits_.max_running && !pushes && victim_for_share(sequence) == nullptr) {
    set_reason(sequence, WaitReason::kSlot);
    return false;
  }
  if (step_.tokens_left > 0) return true;
  // Decodes of worse priorities give it a token; prompts that go before it need not.
  if (pushes && step_.prefill_tokens == 0 && worse_victim(sequence, Need::kRow) != nullptr) return true;
  set_reason(sequence, WaitReason::kTokens);
  return false;
}

// Blocks that newcomers may take: what is neither held nor promised, less one for each running sequence to grow into,
// less the headroom. Negative where more is promised than there is.
int64_t Scheduler::Impl::room_for_admission() const {
  const auto taken = static_cast<int64_t>(blocks_promised_ + running_.size());
  const int64_t headroom = running_.empty() ? 0 : headroom_;
  return int64_t{pool_.available()} - taken - headroom;
}

// Of those that are there: new ones, and hits that nobody holds.
uint32_t Scheduler::Impl::blocks_to_take(const Sequence& sequence, const Prefix& prefix) const {
  uint32_t needed = blocks_for(sequence.length()) - prefix.shared() / block_size_;
  if (prefix.sibling != nullptr) return needed;
  for (const BlockId block : hits_) needed += pool_.references(block) == 0 ? 1 : 0;
  return needed;
}

Scheduler::Impl::Look Scheduler::Impl::try_start(Sequence& sequence, bool may_defer) {
  if (still_awaits(sequence)) return Look::kAside;
  const bool pushes = may_push_out(sequence);
  // Looking up a long prompt again and again costs; only the first in line is worth it, the others go by what they
  // needed when last looked at.
  const auto blocked = [&] {
    set_reason(sequence, WaitReason::kBlocks);
    return Look::kPassed;
  };
  if (!passed_.empty() && !pushes && sequence.blocks_needed > room_for_admission()) return blocked();

  const Prefix prefix = find_prefix(sequence);
  if (goes_to_another_place(sequence, prefix)) return Look::kMoved;
  if (prefix.sibling == nullptr && prefix.imported == 0 && awaits_another(sequence)) return Look::kAside;
  const uint32_t to_go = sequence.length() - prefix.tokens;
  const bool is_short = to_go <= step_.short_tokens;
  if (!is_short && may_defer && step_.prefilling && !pushes && sequence.overtakes < limits_.max_overtakes) {
    set_reason(sequence, WaitReason::kTokens);
    return Look::kPassed;
  }
  sequence.blocks_needed = blocks_to_take(sequence, prefix);
  if (sequence.blocks_needed > room_for_admission() && !(pushes && push_out_for_blocks(sequence, prefix))) {
    return blocked();
  }
  if (running_.size() >= limits_.max_running && !push_out(sequence, Need::kSlot)) {
    Sequence* victim = victim_for_share(sequence);
    CHECK(victim != nullptr, "there was a slot, or somebody to give one");
    preempt(*victim);
  }
  if (step_.tokens_left == 0 && !push_out(sequence, Need::kRow)) {
    set_reason(sequence, WaitReason::kTokens);
    return Look::kPassed;
  }

  start(sequence, prefix);
  uint32_t count = std::min({sequence.to_go(), limits_.max_chunk_tokens, step_.tokens_left});
  if (count < sequence.to_go()) {
    // The first of the prompts that go on leaves half to others, as in plan_level().
    if (!step_.prefilling && waiting_.size() > 0) count = std::min(count, (step_.tokens_left + 1) / 2);
    if (!step_.prefilling) step_.short_tokens = std::max<uint64_t>(step_.short_tokens, sequence.to_go() / kShortPart);
    step_.prefilling = true;
    newcomers_.push_back(&sequence);
  }
  take_row(sequence, count);
  if (in_flight_listed_) add_in_flight(sequence);
  return Look::kStarted;
}

// What the queue believes of its length may be out of date, where the shortest go first. True: others go before it now.
bool Scheduler::Impl::goes_to_another_place(Sequence& sequence, const Prefix& prefix) {
  const uint32_t to_go = sequence.length() - prefix.tokens;
  if (limits_.order != Order::kShortest || to_go <= sequence.length_key) return false;
  const bool first = waiting_.first_at(sequence.level()) == &sequence;
  waiting_.leave(sequence);
  sequence.length_key = to_go;
  waiting_.enter(sequence);
  if (!first || waiting_.first_at(sequence.level()) == &sequence) return false;
  sequence.looked = 0;
  return true;
}

// Those that a sequence which enters the queue has to compute, as far as can be told.
uint32_t Scheduler::Impl::tokens_to_compute(const Sequence& sequence) {
  const LiveRequest& live = *sequence.request;
  const std::span<const TokenId> tokens = sequence.all_tokens();
  const auto reusable = static_cast<uint32_t>(tokens.size()) - 1;
  known_.clear();
  if (reads_cache(live)) cache_.match(live.scope(), tokens.first(reusable), known_);
  uint32_t known = std::max(static_cast<uint32_t>(known_.size()) * block_size_, remote_tokens(live, reusable));
  const uint32_t shared = std::min(live.prompt_count(), reusable);
  if (shared > known && sibling_with(sequence, shared) != nullptr) known = shared;
  return static_cast<uint32_t>(tokens.size()) - known;
}

// The longest beginning that is there already: blocks of a sibling, or a chain in the prefix cache (left in `hits_`)
// and what the request brings with it behind that.
// Never all tokens: the last is always computed, so that there is something to sample from.
Scheduler::Impl::Prefix Scheduler::Impl::find_prefix(const Sequence& sequence) {
  const LiveRequest& live = *sequence.request;
  const std::span<const TokenId> tokens = sequence.all_tokens();
  const uint32_t reusable = static_cast<uint32_t>(tokens.size()) - 1;
  hits_.clear();
  if (reads_cache(live)) cache_.match(live.scope(), tokens.first(reusable), hits_);
  const uint32_t cached = static_cast<uint32_t>(hits_.size()) * block_size_;
  const uint32_t remote = remote_tokens(live, reusable);
  if (remote > cached) return {.tokens = remote, .imported = remote - cached};

  const uint32_t shared = std::min(live.prompt_count(), reusable);
  if (shared <= cached) return {.tokens = cached};
  const Sequence* sibling = sibling_with(sequence, shared);
  if (sibling == nullptr) return {.tokens = cached};
  return {.tokens = shared, .sibling = sibling};
}

const Sequence* Scheduler::Impl::sibling_with(const Sequence& sequence, uint32_t tokens) const {
  const LiveRequest& live = *sequence.request;
  if (live.running == 0) return nullptr;
  for (const Sequence& sibling : live.sequences) {
    if (sibling.state == SequenceState::kRunning && sibling.computed >= tokens) return &sibling;
  }
  return nullptr;
}

// What a sequence needs when it starts for the first time.
void Scheduler::Impl::prepare(Sequence& sequence) {
  if (!sequence.tokens.empty()) return;
  const LiveRequest& live = *sequence.request;
  sequence.tokens.reserve(live.prompt_count() + live.output_max);
  sequence.tokens = live.request.prompt;
  sequence.blocks.reserve(blocks_for(live.prompt_count() + live.output_max));
  sequence.sampling = live.request.sampling;
  sequence.sampling.seed = sequence_seed(live.request.sampling.seed, sequence.index);
}

// Gives the sequence its beginning. What it shares is taken before anything new is allocated, which might evict it.
void Scheduler::Impl::start(Sequence& sequence, const Prefix& prefix) {
  LiveRequest& live = *sequence.request;
  prepare(sequence);
  dequeue(sequence);
  const uint32_t full = prefix.shared() / block_size_;
  for (uint32_t i = 0; i < full; ++i) {
    const BlockId block = prefix.sibling != nullptr ? prefix.sibling->blocks[i] : hits_[i];
    pool_.acquire(block);
    sequence.blocks.push_back(block);
  }
  enter_running(sequence);
  sequence.computed = prefix.tokens;
  sequence.registered = uses_cache(live) ? full : 0;
  sequence.imported = prefix.imported;
  if (prefix.imported > 0) {
    hold_blocks(sequence, prefix.tokens);
  } else if (prefix.tokens % block_size_ > 0) {
    // A sibling's block that is full only in part will go on differently in each: a copy.
    hold_blocks(sequence, prefix.tokens);
    step_.copies.push_back({.source = prefix.sibling->blocks[full], .target = sequence.blocks[full]});
  }
  count_admission(sequence, prefix.sibling == nullptr ? prefix.shared() : 0, prefix.imported);
}

}  // namespace twostroke
