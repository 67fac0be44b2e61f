// JournalFile: the journal on disk, written by a thread of its own so that a slow disk never holds up a step.
//
// Records gather in memory for some milliseconds and go out as one frame. Where they gather faster than the disk takes
// them, beyond buffer_bytes_max, or the file would grow beyond bytes_max, or cannot be written, the journal ends: for
// good, visibly (on_end, a last record with the reason where that still fits), and nothing else happens. It then holds
// every record before the first that did not fit. It cannot be resumed, since a replay needs everything from the
// beginning.
//
// The file has mode 0600, since prompts are in it. One that is there already is kept as FILE.1, in the place of an
// older one: after a crash and a restart the journal that matters is still there.
//
// Thread-safety: append() on one thread; the rest from any.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "kernels/status.h"
#include "scheduler/journal/journal.h"

namespace twostroke {

struct JournalFileOptions {
  std::string path;
  std::string program;       // its version
  int64_t unix_seconds = 0;  // now
  uint64_t bytes_max = uint64_t{1} << 30;
  size_t buffer_bytes_max = size_t{16} << 20;  // at most kJournalFrameBytesMax
};

// Whether a journal could be created at `path`, as far as can be told without touching anything there: for a start that
// has slow things to do before it needs the file. Errors: kInvalidArgument, saying why not.
Status check_journal_path(const std::string& path);

class JournalFile final : public JournalOutput {
 public:
  // Creates the file. `on_end` is called at most once, on the writing thread, when the journal ends before it is
  // destroyed. Errors: kInvalidArgument, when the file cannot be created, saying why.
  static Result<std::unique_ptr<JournalFile>> create(JournalFileOptions options,
                                                     std::function<void(const std::string& reason)> on_end);
  ~JournalFile() override;  // writes what is left

  void append(std::string_view records) override;

  bool recording() const { return !ended_.load(std::memory_order_relaxed); }

 private:
  JournalFile(JournalFileOptions options, std::function<void(const std::string&)> on_end, int descriptor);
  void run();
  void take(std::string_view records);  // with mutex_ held and no refusal_: gathers them, or sets it
  bool write_frame(const std::string& records);
  std::string write_all(const std::string& bytes);  // why it could not; "" when it could
  void end(const std::string& reason, bool say_so);

  const JournalFileOptions options_;
  const std::function<void(const std::string&)> on_end_;
  const int descriptor_;
  std::atomic<bool> ended_{false};

  std::mutex mutex_;
  std::condition_variable wake_;  // the writing thread
  std::string gathered_;          // guarded by mutex_, like the rest
  uint64_t bytes_taken_ = 0;      // what the file will have once all of gathered_ is written
  std::string refusal_;           // why nothing more is taken; "": it is
  bool closing_ = false;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace twostroke
