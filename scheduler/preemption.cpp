// Who gives up blocks when there are none. A victim's blocks are released, tail first, and it goes back to its place in
// the queue; later it computes again what the prefix cache no longer has.
//
// Why this always makes progress: the first of the running sequences (the oldest of the best priority; here simply the
// oldest) is never a victim, and takes blocks from all others if it must; validate() has made sure that it fits into
// the pool alone. So in every step it advances by a token at least, and ends; then the next is the oldest. A newcomer
// that goes before it may take its place, but of its own priority there are only as many as arrived before it; those of
// better priorities may keep it waiting, which is what priorities mean.
#include <algorithm>

#include "kernels/check.h"
#include "scheduler/scheduler_impl.h"

namespace twostroke {

// Makes at least one block available for `sequence`. False: it gets no row in this step, because it has given way
// itself, or waits with the blocks that it has.
bool Scheduler::Impl::make_room(Sequence& sequence) {
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

// The running sequence, other than the oldest and `sequence` itself, whose end frees a block: of the worst priority,
// and not of a better one than `sequence`; of these the one that loses the least work; of equals the youngest. Null
// when there is none.
Sequence* Scheduler::Impl::cheapest_victim(const Sequence& sequence) const {
  Sequence* best = nullptr;
  uint32_t best_loss = 0;
  for (size_t i = running_.size(); i-- > 1;) {
    Sequence* candidate = running_[i];
    const int32_t priority = candidate->request->request.priority;
    // In order of priority, from the worst: nothing comes that is as bad as what was found, or as `sequence`.
    if (priority < (best != nullptr ? best : &sequence)->request->request.priority) break;
    if (candidate == &sequence || !frees_a_block(*candidate)) continue;
    const uint32_t loss = uncached_work(*candidate);
    if (best != nullptr && loss >= best_loss) continue;
    best = candidate;
    best_loss = loss;
  }
  return best;
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
  enqueue(sequence);
  step_.preempted = true;
  ++step_.counts.preemptions;
  ++sequence.request->summary.preemptions;
}

}  // namespace twostroke
