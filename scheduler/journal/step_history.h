// StepHistory: the last steps, in short, for people who ask what the engine has been doing.
//
// Its memory is fixed by its capacity. Thread-safe.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "scheduler/engine.h"

namespace twostroke {

constexpr size_t kStepHistoryMax = 4096;  // steps that are kept

struct StepRecord {
  uint64_t step = 0;  // StepPlan::step
  TimeNs began = 0;   // of the engine's clock
  TimeNs duration_ns = 0;
  TimeNs mask_ns = 0;
  StepClass step_class = StepClass::kDecode;
  StepCounts counts;
  SchedulerGauges gauges;  // after it
};

class StepHistory {
 public:
  explicit StepHistory(size_t capacity = kStepHistoryMax) : capacity_(capacity) { records_.reserve(capacity); }

  // Takes the step of an output, if it has one.
  void add(const StepOutput& output);

  // The last `count` steps at most, oldest first.
  std::vector<StepRecord> last(size_t count) const;
  size_t capacity() const { return capacity_; }

 private:
  const size_t capacity_;
  mutable std::mutex mutex_;
  std::vector<StepRecord> records_;  // a ring, once it is full
  size_t next_ = 0;                  // where the next one goes
};

// "prefill", "decode", "mixed".
const char* step_class_name(StepClass step_class);

}  // namespace twostroke
