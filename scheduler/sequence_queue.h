// SequenceQueue: the waiting sequences by priority, and in order of arrival within one. A preempted sequence goes back
// to the place that its arrival gives it, before everything of its priority that came later.
//
// An intrusive list: nothing here allocates. A newcomer passes what is of lower priority, from the end: O(1) where all
// are alike. One that comes back passes, from the front, what goes before it: few, because those were admitted earlier
// too. Thread-safety: step thread only. The sequences are the caller's and must stay where they are.
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
