// The step journal: every call of a Scheduler with its arguments, and after each schedule() what was decided. As the
// scheduler has no other input, a replay (replay.h) makes the same decisions again, on any machine.
//
//   Scheduler --calls--> JournalWriter --records--> JournalOutput (a file: journal_file.h)
//   a file --> JournalReader --JournalRecord--> Replay
//
// What is in it: prompts and outputs as token ids, sampling settings, times. What is not: text, API keys, constraints
// (grammars). Of a constraint only what it came to is kept: whether it allowed anything, and the row's token.
//
// Layout of a file
//     magic     16 bytes: "twostroke-steps" and a zero
//     version   u32: kJournalFormatVersion
//     frame     any number:  length u32, CRC-32 of the records u32, CRC-32 of those 8 bytes u32, then `length` bytes of
//               whole records. A record is its kind, one byte, and its fields (journal_bytes.h, journal_records.h).
// A process that dies leaves at most one frame in part, which the reader tells from damage: all before it can be used.
//
// The decode rows of a plan mostly go on from the rows of the plan before, so those are written as one number, and a
// step of N decodes costs about 3 N bytes, for their tokens.
#pragma once

#include <array>
#include <cstdint>
#include <istream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/status.h"
#include "scheduler/journal/journal_records.h"
#include "scheduler/scheduler.h"

namespace twostroke {

constexpr uint32_t kJournalFormatVersion = 1;
constexpr std::string_view kJournalMagic{"twostroke-steps\0", 16};
constexpr size_t kJournalFrameHeaderBytes = 12;
constexpr size_t kJournalFrameBytesMax = size_t{64} << 20;  // of one frame's records

// The beginning of a file: magic and version.
std::string journal_head();
// Appends a frame that holds `records`, at most kJournalFrameBytesMax bytes of them.
void append_journal_frame(std::string_view records, std::string& out);
// One record, for the beginning of a file.
std::string journal_program_record(const RecordedProgram& program);
// One record: the orderly end.
std::string journal_end_record(const std::string& reason);

// Where a JournalWriter's records go.
class JournalOutput {
 public:
  virtual ~JournalOutput() = default;
  // Takes whole records. On the scheduler's thread, several times a step: it must not wait for anything slow. It may
  // drop them, and then drops everything that follows.
  virtual void append(std::string_view records) = 0;
};

// Turns calls into records. Thread-safety: the scheduler's thread only. Its memory is kept from call to call.
class JournalWriter {
 public:
  // `output` must outlive it.
  explicit JournalWriter(JournalOutput& output) : output_(output) {}

  void scheduler(const SchedulerLimits& limits, const BackendInfo& info);
  void submit(const Request& request, TimeNs now);  // to be followed by submitted()
  void submitted(StatusCode outcome);
  void cancel(RequestId request, TimeNs now);
  void finish_sequence(RequestId request, uint32_t sequence, TimeNs now);
  void fail_all(StatusCode code, TimeNs now);
  void schedule(TimeNs now, const StepPlan& plan, const StepCounts& counts, const StepBudget& budget);
  // To be followed by a row() for each row, then ended_step().
  void commit(TimeNs now, size_t rows);
  void row(const RecordedResult& result, std::span<const SampledToken> following);  // for result.following
  void fail(StatusCode code, TimeNs now);                                           // to be followed by ended_step()
  void ended_step(std::span<const Event> events);
  void learn(const StepShape& shape, TimeNs duration_ns);
  void drain_events();

 private:
  ByteWriter begin(size_t kind);
  void time(ByteWriter& writer, TimeNs now);
  void end();

  JournalOutput& output_;
  std::string buffer_;  // of the record that is being written
  TimeNs last_time_ = 0;
  std::vector<RecordedRow> rows_;  // of the last plan, each as its sequence's next decode row would be
  StepShape shape_;                // of the last plan
};

// Reads records from a file, or whatever else is behind a stream. Thread-safety: one thread.
class JournalReader {
 public:
  // `in` must outlive it.
  explicit JournalReader(std::istream& in) : in_(in) {}

  // The next record; nothing at the end. Errors, after each of which nothing more can be read:
  //   kInvalidArgument  no journal at all; of another format; or damaged, with the place
  Result<std::optional<JournalRecord>> next();

  // At the end: whether the file ends in the middle of a frame, as a crash leaves it.
  bool torn() const { return torn_; }
  uint64_t bytes_read() const { return bytes_read_; }

 private:
  Status read_head();
  Status read_frame();  // leaves `frame_` empty at the end
  Result<std::optional<JournalRecord>> read_record();
  bool read_bytes(char* to, size_t size);  // false, with torn_ set where some are there: not so many
  TimeNs read_time(ByteReader& reader);
  RecordedSubmit read_submit(ByteReader& reader);
  RecordedSchedule read_schedule(ByteReader& reader);
  RecordedCommit read_commit(ByteReader& reader);
  RecordedLearn read_learn(ByteReader& reader);
  Status damaged(const std::string& how) const;
  Status give_up(Status status);  // nothing more can be read; returns `status`

  std::istream& in_;
  bool head_read_ = false;
  bool torn_ = false;
  uint64_t bytes_read_ = 0;
  uint64_t frame_begin_ = 0;  // its place in the file
  std::string frame_;
  std::optional<ByteReader> records_;  // of what is left of frame_
  TimeNs last_time_ = 0;
  uint64_t step_ = 0;
  std::vector<RecordedRow> rows_;
};

}  // namespace twostroke
