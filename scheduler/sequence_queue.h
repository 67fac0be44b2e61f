// SequenceQueue: the waiting sequences in order of arrival. A preempted sequence goes back to the place that its
// arrival gives it, before everything that came later.
//
// An intrusive list: nothing here allocates. Appending is O(1); going back is O(waiting sequences that arrived
// earlier), which are few, because those were admitted earlier too. Thread-safety: step thread only. The sequences are
// the caller's and must stay where they are.
#pragma once

#include <cstdint>

#include "scheduler/sequence.h"

namespace twostroke {

class SequenceQueue {
 public:
  void insert(Sequence& sequence);
  void remove(Sequence& sequence);

  Sequence* first() const { return first_; }
  static Sequence* next(const Sequence& sequence) { return sequence.next; }
  uint32_t size() const { return size_; }

 private:
  Sequence* first_ = nullptr;
  Sequence* last_ = nullptr;
  uint32_t size_ = 0;
};

}  // namespace twostroke
