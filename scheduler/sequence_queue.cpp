#include "scheduler/sequence_queue.h"

#include "kernels/check.h"

namespace twostroke {

void SequenceQueue::insert(Sequence& sequence) {
  Sequence* after = nullptr;  // the one that will follow
  Sequence* before = last_;
  if (last_ != nullptr && precedes(sequence, *last_)) {
    if (sequence.request->started) {
      after = first_;
      while (precedes(*after, sequence)) after = after->next;
      before = after->previous;
    } else {
      while (before != nullptr && precedes(sequence, *before)) before = before->previous;
      after = before != nullptr ? before->next : first_;
    }
  }
  sequence.previous = before;
  sequence.next = after;
  (before != nullptr ? before->next : first_) = &sequence;
  (after != nullptr ? after->previous : last_) = &sequence;
  ++size_;
}

void SequenceQueue::remove(Sequence& sequence) {
  CHECK(sequence.state == SequenceState::kWaiting && size_ > 0);
  (sequence.previous != nullptr ? sequence.previous->next : first_) = sequence.next;
  (sequence.next != nullptr ? sequence.next->previous : last_) = sequence.previous;
  sequence.previous = sequence.next = nullptr;
  --size_;
}

}  // namespace twostroke
