// A step journal from anywhere: read to its end or its first error, and replayed. Frames are made anew around the
// bytes, since checksums would keep almost everything else out; what checksums catch is
// tests/scheduler/journal_test.cpp's.
#include <sstream>

#include "scheduler/journal/journal.h"
#include "scheduler/journal/replay.h"

namespace {

// Positions of a machine that is worth making for every input.
constexpr int64_t kPositionsMax = 1 << 16;

bool is_small(const twostroke::RecordedScheduler& header) {
  return int64_t{header.info.block_count} * header.info.block_size <= kPositionsMax &&
         header.info.vocab_size <= kPositionsMax && header.info.embedding_size <= kPositionsMax;
}

bool is_worth_replaying(const std::string& file) {
  std::istringstream in(file);
  twostroke::JournalReader reader(in);
  while (true) {
    const auto record = reader.next();
    if (!record.ok() || !record->has_value()) return true;
    if (const auto* header = std::get_if<twostroke::RecordedScheduler>(&**record); header != nullptr) {
      if (!is_small(*header)) return false;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string file = twostroke::journal_head();
  twostroke::append_journal_frame({reinterpret_cast<const char*>(data), size}, file);
  if (!is_worth_replaying(file)) return 0;
  std::istringstream in(file);
  twostroke::JournalReader reader(in);
  twostroke::Replay replay(reader);
  while (true) {
    const auto more = replay.advance();
    if (!more.ok() || !*more) return 0;
  }
}
