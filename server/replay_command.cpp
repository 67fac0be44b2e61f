#include "server/replay_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <new>
#include <optional>
#include <sstream>

#include "scheduler/journal/replay.h"
#include "server/ops/logging.h"

namespace twostroke {
namespace {

constexpr int kDiffers = 1;
constexpr int kUnusable = 2;  // the arguments, the file, or the place where the output goes

// The bar appears when a replay has taken so long, and moves no more often.
constexpr std::chrono::milliseconds kProgressInterval{200};
constexpr int kProgressWidth = 40;

// Steps to print, both included.
struct StepRange {
  uint64_t first = 1;
  uint64_t last = 0;
  bool contains(uint64_t step) const { return step >= first && step <= last; }
};

// "A-B" or "A"; nothing for anything else.
std::optional<StepRange> parse_range(const std::string& text) {
  const char* const end = text.data() + text.size();
  StepRange range;
  auto [rest, error] = std::from_chars(text.data(), end, range.first);
  if (error != std::errc()) return std::nullopt;
  range.last = range.first;
  if (rest != end) {
    if (*rest != '-') return std::nullopt;
    const auto [second_rest, second_error] = std::from_chars(rest + 1, end, range.last);
    if (second_error != std::errc() || second_rest != end) return std::nullopt;
  }
  if (range.first < 1 || range.last < range.first) return std::nullopt;
  return range;
}

std::string seconds_text(TimeNs duration) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(3) << to_seconds(duration) << " s";
  return text.str();
}

std::string utc_text(int64_t unix_seconds) {
  const std::time_t time = unix_seconds;
  std::tm parts{};
  if (gmtime_r(&time, &parts) == nullptr) return "at an unknown time";
  std::ostringstream text;
  text << std::put_time(&parts, "%Y-%m-%dT%H:%M:%SZ");
  return text.str();
}

std::string count_text(uint64_t count, const char* one, const char* many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

// "decode   request 3, sequence 2: position 45, 4 drafts"
std::string row_text(const RecordedRow& row, const Replay& replay) {
  const auto name = replay.name_of(row.sequence);
  const bool decode =
      name && row.token_count - row.draft_count == 1 && row.samples && row.position >= name->prompt_tokens;
  std::string text = decode ? "decode   " : "prefill  ";
  if (name) {
    text += "request " + std::to_string(name->request);
    if (name->index > 0) text += ", sequence " + std::to_string(name->index);
  } else {
    text += "unknown sequence " + std::to_string(row.sequence);
  }
  if (decode) {
    text += ": position " + std::to_string(row.position);
    return row.draft_count == 0 ? text : text + ", " + count_text(row.draft_count, "draft", "drafts");
  }
  text += ": positions [" + std::to_string(row.position) + ", " + std::to_string(row.position + row.token_count) + ")";
  if (name) text += " of a prompt of " + std::to_string(name->prompt_tokens);
  return text;
}

std::string step_text(const RecordedSchedule& decision) {
  uint64_t tokens = 0;
  for (const RecordedRow& row : decision.rows) tokens += row.token_count;
  return count_text(decision.rows.size(), "row", "rows") + ", " + count_text(tokens, "token", "tokens") + ", " +
         count_text(decision.preemptions, "preemption", "preemptions") + "; prefill might take " +
         std::to_string(decision.budget.prefill_tokens) + " (" + chunk_reason_name(decision.budget.reason) + ")";
}

void print_step(const RecordedSchedule& decision, const Replay& replay, std::ostream& out) {
  out << "step " << decision.step << " at " << seconds_text(decision.now - replay.summary().first_time) << ": "
      << step_text(decision) << "\n";
  for (const RecordedRow& row : decision.rows) out << "  " << row_text(row, replay) << "\n";
}

// Rows of both in turn: "  " those that are alike, "- " those of the journal alone, "+ " those of the replay alone.
void print_both(const ReplayDifference& difference, const Replay& replay, std::ostream& out) {
  const auto& recorded = difference.recorded.rows;
  const auto& replayed = difference.replayed.rows;
  out << "- recorded: " << step_text(difference.recorded) << "\n+ replayed: " << step_text(difference.replayed) << "\n";
  if (recorded == replayed) {
    out << "The rows are alike; blocks, copies, sampling or counts are not.\n";
    return;
  }
  for (size_t i = 0; i < std::max(recorded.size(), replayed.size()); ++i) {
    const bool alike = i < recorded.size() && i < replayed.size() && recorded[i] == replayed[i];
    if (alike) {
      out << "  " << row_text(recorded[i], replay) << "\n";
      continue;
    }
    if (i < recorded.size()) out << "- " << row_text(recorded[i], replay) << "\n";
    if (i < replayed.size()) out << "+ " << row_text(replayed[i], replay) << "\n";
  }
}

void print_difference(const Replay& replay, std::ostream& out) {
  const ReplayDifference& difference = *replay.difference();
  switch (difference.kind) {
    case ReplayDifference::Kind::kDecision:
      out << "result    step " << difference.step << " was decided otherwise\n";
      print_both(difference, replay, out);
      break;
    case ReplayDifference::Kind::kOutcome:
      out << "result    step " << difference.step << " was decided alike, but its events are not those recorded\n";
      break;
    case ReplayDifference::Kind::kRefusal:
      out << "result    behind step " << difference.step << " request " << difference.request
          << " was taken by one and refused by the other\n";
      break;
  }
}

std::string chunk_text(const SchedulerLimits& limits) {
  std::string text = limits.max_chunk_tokens == 0 ? "chunks by cost"
                                                  : "chunks of " + std::to_string(limits.max_chunk_tokens) + " tokens";
  if (limits.itl_target_ns > 0) text += ", " + seconds_text(limits.itl_target_ns) + " between tokens";
  return text;
}

void print_summary(const Replay& replay, const JournalReader& reader, std::ostream& out) {
  const ReplaySummary& summary = replay.summary();
  if (summary.program) {
    out << "journal   twostroke " << log_text(summary.program->version) << ", begun "
        << utc_text(summary.program->unix_seconds) << "\n";
  }
  if (summary.scheduler) {
    const BackendInfo& info = summary.scheduler->info;
    const SchedulerLimits& limits = summary.scheduler->limits;
    out << "backend   " << log_text(info.name) << ", " << info.block_count << " KV blocks of " << info.block_size
        << " positions\nlimits    " << limits.max_step_tokens << " tokens a step, " << limits.max_running
        << " sequences running, " << chunk_text(limits) << "\n";
  }
  out << "steps     " << summary.steps << " in "
      << seconds_text(std::max<TimeNs>(summary.last_time - summary.first_time, 0)) << "\nrequests  " << summary.requests
      << " accepted, " << summary.refused << " refused by the scheduler; " << summary.finished << " finished, "
      << summary.cancelled << " cancelled, " << summary.failed << " failed\noutput    "
      << count_text(summary.output_tokens, "token", "tokens") << ", "
      << count_text(summary.preemptions, "preemption", "preemptions") << "\n";
  if (summary.end_reason) {
    out << "end       " << log_text(*summary.end_reason) << "\n";
  } else if (reader.torn()) {
    out << "end       cut off at byte " << reader.bytes_read() << ", as a crash leaves it; all before was replayed\n";
  } else if (!replay.difference()) {
    out << "end       not closed: the server still runs, or was killed\n";
  }
}

// Moves on a terminal, and is gone when the replay is done.
class ProgressBar {
 public:
  ProgressBar(uint64_t total, std::ostream& err) : total_(total), err_(err) {}
  ~ProgressBar() {
    if (shown_) err_ << "\r\x1b[K" << std::flush;
  }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void show(uint64_t done) {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < kProgressInterval) return;
    last_ = now;
    shown_ = true;
    const double share = total_ > 0 ? std::min(1.0, static_cast<double>(done) / static_cast<double>(total_)) : 0;
    const int full = static_cast<int>(share * kProgressWidth);
    err_ << "\r[" << std::string(static_cast<size_t>(full), '#')
         << std::string(static_cast<size_t>(kProgressWidth - full), ' ') << "] " << static_cast<int>(share * 100) << "%"
         << std::flush;
  }

 private:
  const uint64_t total_;
  std::ostream& err_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  bool shown_ = false;
};

int run_replay(const std::string& path, const StepRange& range, std::ostream& out, std::ostream& err) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    err << path << " cannot be read: is it there, and yours to read?\n";
    return kUnusable;
  }
  std::error_code no_size;
  const uint64_t size = std::filesystem::file_size(path, no_size);
  JournalReader reader(file);
  const Replay* self = nullptr;
  Replay replay(reader, [&](const RecordedSchedule& decision, const StepPlan&, const StepCounts&) {
    if (range.contains(decision.step)) print_step(decision, *self, out);
  });
  self = &replay;
  {
    // Steps that are printed to the same terminal show progress enough.
    std::optional<ProgressBar> progress;
    if (!no_size && range.last == 0 && &err == &std::cerr && isatty(STDERR_FILENO) != 0) progress.emplace(size, err);
    while (true) {
      const Result<bool> more = replay.advance();
      if (!more.ok()) {
        progress.reset();
        err << path << ": " << more.status().message() << "\n";
        if (const uint64_t steps = replay.summary().steps; steps > 0) {
          err << count_text(steps, "step", "steps") << " before that replayed, all decided alike.\n";
        } else if (reader.bytes_read() > journal_head().size()) {  // it is a journal
          err << "No step comes before that.\n";
        }
        return kUnusable;
      }
      if (!*more) break;
      if (progress) progress->show(reader.bytes_read());
    }
  }
  print_summary(replay, reader, out);
  if (range.last > 0 && range.first > replay.summary().steps && !replay.difference()) {
    err << "twostroke replay: there is no step " << range.first << "; the last one is " << replay.summary().steps
        << "\n";
    return kUnusable;
  }
  if (!replay.difference()) {
    out << "result    every decision is the recorded one\n";
    return 0;
  }
  print_difference(replay, out);
  return kDiffers;
}

}  // namespace

int replay_command(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err) {
  CLI::App app(
      "Makes the decisions of a server again, from the file of its --journal, and says whether each is the same:\n"
      "exit code 0 when all are, 1 when one is not, 2 when that cannot be said: the file cannot be read or is "
      "damaged,\n"
      "the arguments are wrong, or the output cannot be written.",
      "twostroke replay");
  std::string path, steps;
  app.add_option("FILE", path, "The journal")->required();
  app.add_option("--steps", steps, "Print the decisions of these steps: A-B, or A");
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // CLI11 takes a vector from its end
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    return app.exit(error, out, err) == 0 ? 0 : kUnusable;
  }
  StepRange range;
  if (!steps.empty()) {
    const auto parsed = parse_range(steps);
    if (!parsed) {
      err << "twostroke replay: --steps takes A-B or A, steps from 1 on, not '" << steps << "'\n";
      return kUnusable;
    }
    range = *parsed;
  }
  try {
    const int code = run_replay(path, range, out, err);
    out.flush();
    return out.good() ? code : kUnusable;
  } catch (const std::bad_alloc&) {
    err << path << ": this machine has not enough memory for what the recorded server had: replay it on a larger one\n";
    return kUnusable;
  }
}

}  // namespace twostroke
