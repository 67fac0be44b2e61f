#include "scheduler/journal/journal_file.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "kernels/check.h"

namespace twostroke {
namespace {

constexpr std::chrono::milliseconds kGatherTime{20};
constexpr size_t kGatherBytes = size_t{1} << 20;  // so many go out at once
constexpr size_t kEndBytes = 512;                 // kept free for the last frame

std::string error_text(int error) { return std::generic_category().message(error); }

Status not_created(const std::string& path, int error) {
  return invalid_argument("--journal " + path + " cannot be created: " + error_text(error));
}

// Whether something is there that can be set aside.
Result<bool> find_older(const std::string& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) {
    if (errno == ENOENT) return false;
    return not_created(path, errno);
  }
  if (!S_ISREG(found.st_mode)) return invalid_argument("--journal " + path + " is no file: give the path of one");
  return true;
}

std::string aside_of(const std::string& path) { return path + ".1"; }

Status not_set_aside(const std::string& path, int error) {
  return invalid_argument("--journal " + path + ": the file that is there cannot be moved to " + aside_of(path) + ": " +
                          error_text(error));
}

// Makes room at `path`: what is there moves to FILE.1.
Status set_aside(const std::string& path) {
  const Result<bool> older = find_older(path);
  if (!older.ok() || !*older) return older.status();
  if (std::rename(path.c_str(), aside_of(path).c_str()) == 0) return {};
  return not_set_aside(path, errno);
}

}  // namespace

Status check_journal_path(const std::string& path) {
  const Result<bool> older = find_older(path);
  if (!older.ok()) return older.status();
  struct stat aside {};
  if (*older && ::lstat(aside_of(path).c_str(), &aside) == 0 && S_ISDIR(aside.st_mode)) {
    return not_set_aside(path, EISDIR);
  }
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (::faccessat(AT_FDCWD, folder.empty() ? "." : folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0) return {};
  return not_created(path, errno);
}

Result<std::unique_ptr<JournalFile>> JournalFile::create(JournalFileOptions options,
                                                         std::function<void(const std::string& reason)> on_end) {
  CHECK(options.buffer_bytes_max <= kJournalFrameBytesMax, "what gathers goes out as one frame");
  if (Status status = set_aside(options.path); !status.ok()) return status;
  const int descriptor = ::open(options.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (descriptor < 0) return not_created(options.path, errno);
  return std::unique_ptr<JournalFile>(new JournalFile(std::move(options), std::move(on_end), descriptor));
}

JournalFile::JournalFile(JournalFileOptions options, std::function<void(const std::string&)> on_end, int descriptor)
    : options_(std::move(options)), on_end_(std::move(on_end)), descriptor_(descriptor) {
  bytes_taken_ = journal_head().size();
  append(journal_program_record({.version = options_.program, .unix_seconds = options_.unix_seconds}));
  thread_ = std::thread([this] { run(); });
}

JournalFile::~JournalFile() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_one();
  thread_.join();
  ::close(descriptor_);
}

void JournalFile::append(std::string_view records) {
  if (!recording()) return;
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    if (!refusal_.empty()) return;
    // The thread sleeps with nothing gathered, and lets things gather once it is awake.
    wake = gathered_.empty();
    take(records);
  }
  if (wake) wake_.notify_one();
}

void JournalFile::take(std::string_view records) {
  const size_t bytes = records.size() + (gathered_.empty() ? kJournalFrameHeaderBytes : 0);  // the first begins a frame
  if (bytes_taken_ + bytes + kEndBytes > options_.bytes_max) {
    refusal_ = "the file is full: --journal-max-mb";
  } else if (gathered_.size() + records.size() > options_.buffer_bytes_max) {
    refusal_ = "the disk takes less than there is to write";
  } else {
    gathered_.append(records);
    bytes_taken_ += bytes;
  }
}

void JournalFile::run() {
  pthread_setname_np(pthread_self(), "twostroke-jrnl");
  const std::string failure = write_all(journal_head());
  if (!failure.empty()) return end("it cannot be written: " + failure, /*say_so=*/false);
  std::string records;
  while (true) {
    std::string refusal;
    bool closing = false;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return closing_ || !gathered_.empty() || !refusal_.empty(); });
      wake_.wait_for(lock, kGatherTime, [this] { return closing_ || gathered_.size() >= kGatherBytes; });
      records.clear();
      records.swap(gathered_);
      refusal = refusal_;
      closing = closing_;
    }
    if (!records.empty() && !write_frame(records)) return;
    if (!refusal.empty()) return end(refusal, /*say_so=*/true);
    if (closing) {
      end("closed in order", /*say_so=*/true);
      return;
    }
  }
}

bool JournalFile::write_frame(const std::string& records) {
  std::string frame;
  frame.reserve(records.size() + kJournalFrameHeaderBytes);
  append_journal_frame(records, frame);
  const std::string failure = write_all(frame);
  if (failure.empty()) return true;
  end("it cannot be written: " + failure, /*say_so=*/false);
  return false;
}

std::string JournalFile::write_all(const std::string& bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::write(descriptor_, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return error_text(errno);
    done += static_cast<size_t>(count);
  }
  return {};
}

void JournalFile::end(const std::string& reason, bool say_so) {
  ended_.store(true, std::memory_order_relaxed);
  if (say_so) {
    std::string frame;
    append_journal_frame(journal_end_record(reason), frame);
    write_all(frame);
  }
  bool closing = false;
  {
    const std::lock_guard lock(mutex_);
    gathered_ = {};
    closing = closing_;
  }
  if (!closing && on_end_) on_end_(reason);
}

}  // namespace twostroke
