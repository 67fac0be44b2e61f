// Replay: makes a journal's decisions again, with a Scheduler of its own, and holds each against what was recorded.
//
// Constraints are not in a journal. In their place a replay has stand-ins, which allow for each row just what makes the
// recorded token come out as it did (RecordedResult::mask).
//
// A file from anywhere is safe to replay: what no scheduler can have been told is an error, never a crash. What it can
// make a replay allocate is bounded by kReplayPositionsMax positions of KV in kReplayBlocksMax blocks, which take about
// 64 bytes each, and by kReplayVocabMax tokens.
// Thread-safety: one thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "scheduler/journal/journal.h"
#include "scheduler/scheduler.h"

namespace twostroke {

constexpr uint64_t kReplayPositionsMax = uint64_t{1} << 26;
constexpr int32_t kReplayBlocksMax = 1 << 23;
constexpr int32_t kReplayVocabMax = 1 << 24;
constexpr int32_t kReplayStepMax = 1 << 20;  // tokens and rows of a step

struct ReplaySummary {
  std::optional<RecordedProgram> program;
  std::optional<RecordedScheduler> scheduler;
  uint64_t steps = 0;     // that were not empty
  uint64_t requests = 0;  // accepted
  uint64_t refused = 0;
  uint64_t finished = 0;
  uint64_t cancelled = 0;
  uint64_t failed = 0;
  uint64_t output_tokens = 0;
  uint64_t preemptions = 0;
  TimeNs first_time = -1;  // of the recorded server's clock
  TimeNs last_time = -1;
  std::optional<std::string> end_reason;  // of a journal that ended in order
};

struct ReplayDifference {
  enum class Kind : uint8_t {
    kDecision,  // another plan
    kOutcome,   // the same plan and result, but other events
    kRefusal,   // a request was taken by one and refused by the other
  };
  Kind kind = Kind::kDecision;
  uint64_t step = 0;          // the last one that was decided alike, or, for kDecision, the one that was not
  RequestId request = 0;      // kRefusal
  RecordedSchedule recorded;  // kDecision: what the journal has, and what was decided now
  RecordedSchedule replayed;
};

class Replay {
 public:
  // Called behind each schedule() whose decision is the recorded one.
  using OnDecision = std::function<void(const RecordedSchedule&, const StepPlan&, const StepCounts&)>;

  // `reader`, at its beginning, must outlive it.
  explicit Replay(JournalReader& reader, OnDecision on_decision = {});
  ~Replay();

  // Makes the next call. False: there is none, or difference() has something. Errors as JournalReader::next, and
  // kInvalidArgument for calls that no scheduler can have been given.
  Result<bool> advance();

  const ReplaySummary& summary() const { return summary_; }
  const std::optional<ReplayDifference>& difference() const { return difference_; }

  // Whose a row is. Nothing for a sequence of a request that never was, or has ended.
  struct SequenceName {
    RequestId request = 0;
    uint32_t index = 0;
    uint32_t prompt_tokens = 0;
  };
  std::optional<SequenceName> name_of(SequenceId sequence) const;

 private:
  class StandIn;
  struct LiveSequence {
    SequenceName name;
    StandIn* stand_in = nullptr;  // the request's, which is the scheduler's; null: unconstrained
  };
  struct LiveSequences {  // of one request
    SequenceId first = 0;
    uint32_t count = 0;
  };

  Status apply(RecordedProgram& record);
  Status apply(RecordedScheduler& record);
  Status apply(RecordedSubmit& record);
  Status apply(RecordedCancel& record);
  Status apply(RecordedFinish& record);
  Status apply(RecordedFailAll& record);
  Status apply(RecordedSchedule& record);
  Status apply(RecordedCommit& record);
  Status apply(RecordedFail& record);
  Status apply(RecordedLearn& record);
  Status apply(RecordedDrain& record);
  Status apply(RecordedEnd& record);
  Status ready(bool in_flight) const;
  void take_time(TimeNs now);
  void fill_result(const RecordedCommit& record);
  void take_events(uint64_t recorded_digest);
  void count_events();

  JournalReader& reader_;
  const OnDecision on_decision_;
  ReplaySummary summary_;
  std::optional<ReplayDifference> difference_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unordered_map<RequestId, LiveSequences> requests_;
  std::unordered_map<SequenceId, LiveSequence> sequences_;
  SequenceId sequences_made_ = 0;
  bool in_flight_ = false;  // a plan waits for its commit
  bool ended_ = false;
  StepPlan plan_;
  StepCounts counts_;
  StepResult result_;
  std::vector<Event> events_;
};

}  // namespace twostroke
