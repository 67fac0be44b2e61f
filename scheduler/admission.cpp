// Waiting sequences start, in the queue's order, when there are blocks for all the tokens that they have.
//
// Prefill takes blocks chunk by chunk, but a sequence is admitted only if, after everything promised to those that run,
// the whole of it fits: so admitted prefills do not starve each other half-way, and only the growth of decodes can
// exhaust the pool.
#include <algorithm>

#include "kernels/check.h"
#include "scheduler/scheduler_impl.h"

namespace twostroke {

void Scheduler::Impl::admit_waiting() {
  // Who has just given way would come straight back.
  if (step_.preempted) return;
  passed_.clear();
  Sequence* next = nullptr;
  for (Sequence* sequence = waiting_.first(); sequence != nullptr; sequence = next) {
    if (step_.tokens_left == 0 || running_.size() >= limits_.max_running) return;
    next = SequenceQueue::next(*sequence);
    if (try_admit(*sequence, /*first_blocked=*/passed_.empty())) {
      bool exhausted = false;
      for (Sequence* passed : passed_) exhausted |= ++passed->overtakes >= limits_.max_overtakes;
      if (exhausted) return;
    } else {
      if (sequence->overtakes >= limits_.max_overtakes || passed_.size() >= kAdmissionLookahead) return;
      passed_.push_back(sequence);
    }
  }
}

// Blocks that newcomers may take: what is neither held nor promised, less one for each running sequence to grow into.
uint32_t Scheduler::Impl::room_for_admission() const {
  const uint64_t taken = blocks_promised_ + running_.size();
  return pool_.available() > taken ? pool_.available() - static_cast<uint32_t>(taken) : 0;
}

bool Scheduler::Impl::try_admit(Sequence& sequence, bool first_blocked) {
  const uint32_t room = room_for_admission();
  // Looking up a long prompt again and again costs; only the first in line is worth it, the others go by what they
  // needed when last looked at.
  if (!first_blocked && sequence.blocks_needed > room) return false;

  const Prefix prefix = find_prefix(sequence);
  uint32_t needed = blocks_for(sequence.length()) - prefix.tokens / block_size_;
  if (prefix.sibling == nullptr) {
    for (const BlockId block : hits_) needed += pool_.references(block) == 0 ? 1 : 0;
  }
  sequence.blocks_needed = needed;
  if (needed > room) return false;

  start(sequence, prefix);
  take_row(sequence, std::min({sequence.to_go(), limits_.max_chunk_tokens, step_.tokens_left}));
  return true;
}

// The longest beginning that is there already: blocks of a sibling, or a chain in the prefix cache (left in `hits_`).
// Never all tokens: the last is always computed, so that there is something to sample from.
Scheduler::Impl::Prefix Scheduler::Impl::find_prefix(const Sequence& sequence) {
  const LiveRequest& live = *sequence.request;
  const std::span<const TokenId> tokens = sequence.all_tokens();
  const uint32_t reusable = static_cast<uint32_t>(tokens.size()) - 1;
  hits_.clear();
  if (reads_cache(live)) cache_.match(live.scope(), tokens.first(reusable), hits_);
  const uint32_t cached = static_cast<uint32_t>(hits_.size()) * block_size_;

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
  waiting_.remove(sequence);
  const uint32_t full = prefix.tokens / block_size_;
  for (uint32_t i = 0; i < full; ++i) {
    const BlockId block = prefix.sibling != nullptr ? prefix.sibling->blocks[i] : hits_[i];
    pool_.acquire(block);
    sequence.blocks.push_back(block);
  }
  enter_running(sequence);
  sequence.computed = prefix.tokens;
  sequence.registered = uses_cache(live) ? full : 0;
  if (prefix.tokens % block_size_ > 0) {
    // A sibling's block that is full only in part will go on differently in each: a copy.
    hold_blocks(sequence, prefix.tokens);
    step_.copies.push_back({.source = prefix.sibling->blocks[full], .target = sequence.blocks[full]});
  }
  count_admission(sequence, prefix.sibling == nullptr ? prefix.tokens : 0);
}

}  // namespace twostroke
