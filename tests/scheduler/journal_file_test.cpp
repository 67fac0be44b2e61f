#include "scheduler/journal/journal_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <future>

#include "tests/scheduler/journal_tools.h"

namespace twostroke::test {
namespace {

using testing::HasSubstr;

class JournalFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() / ("twostroke_journal_" + std::to_string(::getpid()) + "_" +
                                                  ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path() const { return (folder_ / "journal").string(); }
  static std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  JournalFileOptions options() const { return {.path = path(), .program = "1.2.3", .unix_seconds = 99}; }
  std::unique_ptr<JournalFile> create(JournalFileOptions options) {
    auto file = JournalFile::create(std::move(options), [this](const std::string& reason) { end_.set_value(reason); });
    EXPECT_TRUE(file.ok()) << file.status().message();
    return std::move(*file);
  }
  // A cancel of this request, which is a record of some bytes.
  static void write_cancels(JournalOutput& output, uint32_t count) {
    JournalWriter writer(output);
    for (uint32_t i = 0; i < count; ++i) writer.cancel(i, i);
  }
  // Records of a kind in the file, and whether it ends in order.
  template <typename T>
  static size_t count_records(const std::string& bytes, std::string* end_reason = nullptr) {
    std::istringstream in(bytes);
    JournalReader reader(in);
    size_t count = 0;
    while (true) {
      auto record = reader.next();
      EXPECT_TRUE(record.ok()) << record.status().message();
      if (!record.ok() || !record->has_value()) break;
      if (std::holds_alternative<T>(**record)) ++count;
      if (const auto* end = std::get_if<RecordedEnd>(&**record); end != nullptr && end_reason != nullptr) {
        *end_reason = end->reason;
      }
    }
    return count;
  }

  std::filesystem::path folder_;
  std::promise<std::string> end_;
};

TEST_F(JournalFileTest, HoldsWhatWasAppendedInItsOrderAndItsEnd) {
  {
    const auto file = create(options());
    write_cancels(*file, 1000);
    EXPECT_TRUE(file->recording());
  }
  const std::string bytes = read(path());
  std::string reason;
  EXPECT_EQ(count_records<RecordedCancel>(bytes, &reason), 1000u);
  EXPECT_EQ(reason, "closed in order");
  std::istringstream in(bytes);
  JournalReader reader(in);
  const auto first = reader.next();
  const auto& program = std::get<RecordedProgram>(**first);
  EXPECT_EQ(program.version, "1.2.3");
  EXPECT_EQ(program.unix_seconds, 99);
  for (RequestId id = 0; id < 1000; ++id) {
    const auto record = reader.next();
    ASSERT_EQ(std::get<RecordedCancel>(**record).request, id);
  }
}

TEST_F(JournalFileTest, IsForItsOwnerAlone) {
  const auto file = create(options());
  struct stat found {};
  ASSERT_EQ(::stat(path().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
}

TEST_F(JournalFileTest, KeepsTheOneBeforeIt) {
  for (const char* program : {"1", "2", "3"}) {
    JournalFileOptions mine = options();
    mine.program = program;
    create(mine);
  }
  EXPECT_THAT(read(path()).substr(0, 60), HasSubstr("3"));
  EXPECT_EQ(replay_of(read(path())).summary.program->version, "3");
  EXPECT_EQ(replay_of(read(path() + ".1")).summary.program->version, "2");
}

TEST_F(JournalFileTest, EndsVisiblyWhereItIsFull) {
  JournalFileOptions mine = options();
  mine.bytes_max = 2000;
  const auto file = create(mine);
  write_cancels(*file, 2000);
  EXPECT_THAT(end_.get_future().get(), HasSubstr("--journal-max-mb"));
  EXPECT_FALSE(file->recording());
  write_cancels(*file, 10);  // goes nowhere
  const std::string bytes = read(path());
  EXPECT_LE(bytes.size(), 2000u);
  std::string reason;
  count_records<RecordedCancel>(bytes, &reason);
  EXPECT_THAT(reason, HasSubstr("full"));
}

TEST_F(JournalFileTest, WhatIsLeftOfItsRoomIsFilledByABurstThatIsLarger) {
  constexpr uint32_t kBytesMax = 20'000;
  constexpr uint32_t kBytesOfTheEnd = 512;  // that much stays free for it
  constexpr uint32_t kBytesOfACancel = 16;  // and less
  JournalFileOptions mine = options();
  mine.bytes_max = kBytesMax;
  const auto file = create(mine);
  write_cancels(*file, kBytesMax);  // most likely before anything was written
  end_.get_future().wait();
  const std::string bytes = read(path());
  EXPECT_LE(bytes.size(), kBytesMax);
  EXPECT_GT(bytes.size(), kBytesMax - kBytesOfTheEnd - kBytesOfACancel);
  EXPECT_GT(count_records<RecordedCancel>(bytes), kBytesMax / kBytesOfACancel / 2);
}

TEST_F(JournalFileTest, EndsVisiblyWhereTheDiskIsTooSlow) {
  JournalFileOptions mine = options();
  mine.buffer_bytes_max = 500;  // less than gathers before the disk gets anything
  const auto file = create(mine);
  write_cancels(*file, 2000);
  EXPECT_THAT(end_.get_future().get(), HasSubstr("disk"));
  std::string reason;
  const size_t kept = count_records<RecordedCancel>(read(path()), &reason);
  EXPECT_GT(kept, 0u);
  EXPECT_LT(kept, 2000u);
  EXPECT_THAT(reason, HasSubstr("disk"));
}

TEST_F(JournalFileTest, WhereNoneCanBeItSaysWhy) {
  JournalFileOptions mine = options();
  mine.path = (folder_ / "no" / "such" / "folder").string();
  EXPECT_THAT(JournalFile::create(mine, {}).status().message(), HasSubstr("No such file"));
  EXPECT_THAT(check_journal_path(mine.path).message(), HasSubstr("No such file"));
  for (const std::string& path : {folder_.string(), std::string("/dev/null")}) {
    mine.path = path;
    EXPECT_THAT(JournalFile::create(mine, {}).status().message(), HasSubstr("is no file"));
    EXPECT_THAT(check_journal_path(path).message(), HasSubstr("is no file"));
  }
}

TEST_F(JournalFileTest, APathIsCheckedWithoutTouchingWhatIsThere) {
  EXPECT_TRUE(check_journal_path(path()).ok());
  EXPECT_FALSE(std::filesystem::exists(path()));
  create(options());
  const std::string before = read(path());
  EXPECT_TRUE(check_journal_path(path()).ok());
  EXPECT_EQ(read(path()), before);
  EXPECT_FALSE(std::filesystem::exists(path() + ".1"));
  std::filesystem::create_directory(path() + ".1");
  EXPECT_THAT(check_journal_path(path()).message(), HasSubstr("cannot be moved"));
  EXPECT_EQ(JournalFile::create(options(), {}).status(), check_journal_path(path()));
}

}  // namespace
}  // namespace twostroke::test
