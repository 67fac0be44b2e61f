// MemoryJournal and what tests do to one.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "scheduler/journal/journal.h"
#include "scheduler/journal/replay.h"

namespace twostroke::test {

// A journal as it would be on disk, each record in a frame of its own.
class MemoryJournal final : public JournalOutput {
 public:
  void append(std::string_view records) override { records_.emplace_back(records); }

  // May be changed: a test's own story.
  std::vector<std::string>& records() { return records_; }
  std::string file() const {
    std::string bytes = journal_head();
    for (const std::string& record : records_) append_journal_frame(record, bytes);
    return bytes;
  }

 private:
  std::vector<std::string> records_;
};

// What a replay of a file came to.
struct Replayed {
  Status status;  // why it could not go on
  std::optional<ReplayDifference> difference;
  ReplaySummary summary;
  bool torn = false;
};

inline Replayed replay_of(const std::string& file) {
  std::istringstream in(file);
  JournalReader reader(in);
  Replay replay(reader);
  Replayed result;
  while (true) {
    const Result<bool> more = replay.advance();
    if (!more.ok()) result.status = more.status();
    if (!more.ok() || !*more) break;
  }
  result.difference = replay.difference();
  result.summary = replay.summary();
  result.torn = reader.torn();
  return result;
}

// Empty when the replay decided everything alike.
inline std::string replay_problem(const std::string& file) {
  const Replayed replayed = replay_of(file);
  if (!replayed.status.ok()) return "the journal cannot be replayed: " + replayed.status.message();
  if (!replayed.difference) return {};
  const char* kinds[] = {"decision", "outcome", "refusal"};
  return std::string("the replay's ") + kinds[static_cast<int>(replayed.difference->kind)] + " differs at step " +
         std::to_string(replayed.difference->step);
}

}  // namespace twostroke::test
