#include "scheduler/journal/step_history.h"

#include <algorithm>

namespace twostroke {

void StepHistory::add(const StepOutput& output) {
  if (!output.stepped) return;
  const StepRecord record{.step = output.step,
                          .began = output.began,
                          .duration_ns = output.duration_ns,
                          .mask_ns = output.mask_ns,
                          .step_class = output.step_class,
                          .counts = output.counts,
                          .gauges = output.gauges};
  const std::lock_guard lock(mutex_);
  if (records_.size() < capacity_) {
    records_.push_back(record);
  } else {
    records_[next_] = record;
  }
  next_ = (next_ + 1) % capacity_;
}

std::vector<StepRecord> StepHistory::last(size_t count) const {
  const std::lock_guard lock(mutex_);
  count = std::min(count, records_.size());
  std::vector<StepRecord> found;
  found.reserve(count);
  // Until the ring is full, next_ is its end too.
  const size_t size = records_.size();
  for (size_t i = 0; i < count; ++i) found.push_back(records_[(next_ + size - count + i) % size]);
  return found;
}

const char* step_class_name(StepClass step_class) {
  switch (step_class) {
    case StepClass::kPrefill:
      return "prefill";
    case StepClass::kDecode:
      return "decode";
    case StepClass::kMixed:
      return "mixed";
  }
  return "mixed";
}

}  // namespace twostroke
