// Who gives way: when there are no blocks, and when a better priority finds no room. A victim's blocks are released,
// tail first, and it goes back to its place in the queue; later it computes again what the prefix cache no longer has.
//
// Why this always makes progress: the first of the running sequences (the oldest of the best level; here simply the
// oldest) never gives way for want of blocks, and takes them from all others if it must; validate() has made sure that
// it fits into the pool alone. So it advances in every step that has a token for it, and ends; then the next is the
// oldest. A newcomer that goes before it may take its place, but of its own level there are only as many as arrived
// before it. Those of better priorities may keep it waiting, which is what priorities mean, until it ages.
#include <algorithm>

#include "kernels/check.h"
#include "scheduler/scheduler_impl.h"

namespace twostroke {

// Makes at least one block available for `sequence`. False: it gets no row in this step, because it has given way
// itself, or waits with the blocks that it has.
bool Scheduler::Impl::make_room(Sequence& sequence) {
  step_.ran_out = true;
  if (Sequence* victim = cheapest_victim(sequence)) {
    preempt(*victim);
    return true;
  }
  if (&sequence == running_.front()) {
    preempt_sharers(sequence);
    return true;
  }
  if (frees_a_block(sequence)) preempt(sequence);
  return false;
}

// The running sequence, other than the oldest and `sequence` itself, whose end frees a block: of the worst level, and
// not of a better one than `sequence`; of these the cheapest; of equals the youngest. Null when there is none.
Sequence* Scheduler::Impl::cheapest_victim(const Sequence& sequence) const {
  Sequence* best = nullptr;
  for (size_t i = running_.size(); i-- > 1;) {
    Sequence* candidate = running_[i];
    // In order of level, from the worst: nothing comes that is as bad as what was found, or as `sequence`.
    if (candidate->level() < (best != nullptr ? best : &sequence)->level()) break;
    if (candidate == &sequence || !frees_a_block(*candidate)) continue;
    if (best == nullptr || is_cheaper(*candidate, *best)) best = candidate;
  }
  return best;
}

// Those that have given way max_preemptions times come last; otherwise by what is lost.
bool Scheduler::Impl::is_cheaper(const Sequence& a, const Sequence& b) const {
  const bool spare_a = a.preemptions >= limits_.max_preemptions;
  const bool spare_b = b.preemptions >= limits_.max_preemptions;
  if (spare_a != spare_b) return spare_b;
  return uncached_work(a) < uncached_work(b);
}

// Whether something runs that must give way to `newcomer` if it is in its way. The priority that a client gave is
// compared with the level of what runs: what has aged is not pushed out, and does not push out by its age. Whoever is
// pushed out has a worse priority than who did it, and so never does the same to that one, nor to what that one may be
// pushed out by: no two push each other out in turns.
bool Scheduler::Impl::may_push_out(const Sequence& newcomer) const {
  return !running_.empty() && running_.back()->level() > newcomer.priority();
}

// The running sequence of the worst level, worse than the priority of `newcomer`, whose end gives it what it needs; of
// these the cheapest, of equals the youngest. Also the oldest, when it is worse: then `newcomer` takes its place as the
// one that always advances.
Sequence* Scheduler::Impl::worse_victim(const Sequence& newcomer, Need need) const {
  Sequence* best = nullptr;
  for (size_t i = running_.size(); i-- > 0;) {
    Sequence* candidate = running_[i];
    if (candidate->level() <= newcomer.priority()) break;
    if (best != nullptr && candidate->level() < best->level()) break;
    if (need == Need::kRow && candidate->planned == 0) continue;
    if (need == Need::kBlock && !frees_a_block(*candidate)) continue;
    if (best == nullptr || is_cheaper(*candidate, *best)) best = candidate;
  }
  return best;
}

bool Scheduler::Impl::push_out(const Sequence& newcomer, Need need) {
  Sequence* victim = worse_victim(newcomer, need);
  if (victim == nullptr) return false;
  preempt(*victim);
  ++step_.counts.preemptions_for_priority;
  return true;
}

// Where tenants are served fairly: who gives its slot to `newcomer`, whose tenant holds fewer slots than its part, also
// with this one. Of a tenant that holds more than its part, also without it: so that one cannot take it back. Of the
// same level, and never one that has given way max_preemptions times, nor the oldest; of these the cheapest, of equals
// the youngest. Null when there is none.
Sequence* Scheduler::Impl::victim_for_share(const Sequence& newcomer) const {
  const Tenant* taker = newcomer.request->tenant;
  if (taker == nullptr || taker->running + 1 > fairness_.share_of(*taker, limits_.max_running)) return nullptr;
  Sequence* best = nullptr;
  for (size_t i = running_.size(); i-- > 1;) {
    Sequence* candidate = running_[i];
    const Tenant& giver = *candidate->request->tenant;
    if (candidate->level() != newcomer.level() || candidate->preemptions >= limits_.max_preemptions) continue;
    if (candidate->looked == looks_) continue;  // it has started in this very step
    if (giver.running < 1 + fairness_.share_of(giver, limits_.max_running)) continue;
    if (best == nullptr || is_cheaper(*candidate, *best)) best = candidate;
  }
  return best;
}

// Blocks for `newcomer` from what is worse than it; nobody is pushed out unless that is enough.
bool Scheduler::Impl::push_out_for_blocks(const Sequence& newcomer, const Prefix& prefix) {
  int64_t room = room_for_admission();
  for (size_t i = running_.size(); i-- > 0 && running_[i]->level() > newcomer.priority();) {
    const Sequence& victim = *running_[i];
    room += 1 + promised_to(victim);
    for (size_t k = 0; k < victim.blocks.size(); ++k) {
      const bool shared = k < hits_.size() && hits_[k] == victim.blocks[k];
      room += !shared && pool_.references(victim.blocks[k]) == 1 ? 1 : 0;
    }
  }
  if (room < blocks_to_take(newcomer, prefix)) return false;
  while (room_for_admission() < blocks_to_take(newcomer, prefix)) {
    if (!push_out(newcomer, Need::kBlock) && !push_out(newcomer, Need::kSlot)) return false;
  }
  return true;
}

// Tokens that it would have to compute again. Its blocks in the prefix cache survive, for a while at least.
uint32_t Scheduler::Impl::uncached_work(const Sequence& sequence) const {
  return sequence.computed - sequence.registered * block_size_;
}

bool Scheduler::Impl::frees_a_block(const Sequence& sequence) const {
  // From the tail: what is shared is a beginning.
  for (size_t i = sequence.blocks.size(); i-- > 0;) {
    if (pool_.references(sequence.blocks[i]) == 1) return true;
  }
  return false;
}

// For the oldest, when no other frees anything by itself: each holds only blocks that it shares. Those who share one
// that `sequence` does not hold give way together.
void Scheduler::Impl::preempt_sharers(const Sequence& sequence) {
  for (size_t i = running_.size(); i-- > 1;) {
    const size_t place = running_[i]->blocks.size() - 1;
    const BlockId block = running_[i]->blocks[place];
    const auto holds = [&](const Sequence& other) {
      return other.blocks.size() > place && other.blocks[place] == block;
    };
    if (holds(sequence)) continue;
    for (size_t k = running_.size(); k-- > 1;) {
      if (holds(*running_[k])) preempt(*running_[k]);
    }
    return;
  }
  CHECK(false, "the oldest sequence holds every block and needs more than there are");
}

void Scheduler::Impl::preempt(Sequence& sequence) {
  if (sequence.planned > 0) give_back_row(sequence);
  leave_running(sequence, /*forget_blocks=*/false);
  enqueue(sequence, step_.now);
  set_reason(sequence, WaitReason::kGaveWay);
  sequence.looked = looks_;  // it does not come straight back
  ++sequence.preemptions;
  step_.gave_way = std::min(step_.gave_way.value_or(sequence.level()), sequence.level());
  ++step_.counts.preemptions;
  ++sequence.request->summary.preemptions;
}

// Headroom: blocks that admission leaves free besides one for each running sequence, so that those who came back do
// not push each other out again. It doubles, and grows by one for each running sequence, with every step in which
// blocks run out, up to half of the pool; it falls by a 32nd, one block at least, in every other step, and to nothing
// when nothing runs. A function of the steps alone.
void Scheduler::Impl::settle_headroom() {
  if (running_.empty()) {
    headroom_ = 0;
  } else if (step_.ran_out) {
    headroom_ = std::min(2 * headroom_ + static_cast<uint32_t>(running_.size()), pool_.total() / 2);
  } else {
    headroom_ -= std::min(headroom_, 1 + headroom_ / 32);
  }
}

}  // namespace twostroke
