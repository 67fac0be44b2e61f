// The journal's format, and replays of it. That every random scenario replays alike is simulation_test.cpp's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "tests/scheduler/even_constraint.h"
#include "tests/scheduler/harness.h"
#include "tests/scheduler/journal_tools.h"

namespace twostroke::test {
namespace {

using testing::HasSubstr;

std::string record_of(const Request& request) {
  MemoryJournal journal;
  JournalWriter writer(journal);
  writer.submit(request, 5);
  writer.submitted(StatusCode::kOk);
  return journal.records().at(0);
}

JournalRecord read_back(const std::vector<std::string>& records, size_t index) {
  MemoryJournal journal;
  journal.records() = records;
  std::istringstream in(journal.file());
  JournalReader reader(in);
  for (size_t i = 0; i < index; ++i) EXPECT_TRUE(reader.next().ok());
  auto record = reader.next();
  EXPECT_TRUE(record.ok()) << record.status().message();
  EXPECT_TRUE(record->has_value());
  return std::move(**record);
}

// A run with a bit of everything: chunks, siblings, a hit, a preemption, a constraint, a cancel, a stop.
class RecordedRun : public ::testing::Test {
 protected:
  void SetUp() override {
    harness_.scheduler.record_to(journal_);
    Request siblings = make_request(1, make_prompt(20), 12);
    siblings.n = 3;
    ASSERT_TRUE(harness_.submit(std::move(siblings)).ok());
    ASSERT_TRUE(harness_.submit(make_request(2, make_prompt(18, 7), 30)).ok());
    ASSERT_TRUE(harness_.submit(make_request(3, make_prompt(20), 5)).ok());
    Request even = make_request(4, make_prompt(5, 2), 10);
    even.constraints.push_back(std::make_unique<EvenConstraint>());
    ASSERT_TRUE(harness_.submit(std::move(even)).ok());
    EXPECT_FALSE(harness_.submit(make_request(5, make_prompt(64), 1)).ok()) << "beyond the context";
    for (int i = 0; i < 6; ++i) ASSERT_TRUE(harness_.step());
    harness_.cancel(3);
    harness_.finish_sequence(1, 1);
    harness_.run();
    ASSERT_EQ(harness_.problem, "");
    ASSERT_GT(harness_.total.preemptions, 0u);
  }
  // The indices of all records of one kind.
  template <typename T>
  std::vector<size_t> records_of() {
    std::vector<size_t> found;
    std::istringstream in(journal_.file());
    JournalReader reader(in);
    for (size_t i = 0; i < journal_.records().size(); ++i) {
      const auto record = reader.next();
      EXPECT_TRUE(record.ok() && record->has_value());
      if (std::holds_alternative<T>(**record)) found.push_back(i);
    }
    return found;
  }

  MemoryJournal journal_;  // outlives the scheduler
  Harness harness_;
};

TEST_F(RecordedRun, IsReplayedAlikeToItsEnd) {
  const Replayed replayed = replay_of(journal_.file());
  EXPECT_TRUE(replayed.status.ok()) << replayed.status.message();
  EXPECT_FALSE(replayed.difference.has_value());
  EXPECT_FALSE(replayed.torn);
  const ReplaySummary& summary = replayed.summary;
  EXPECT_EQ(summary.requests, 4u);
  EXPECT_EQ(summary.refused, 1u);
  EXPECT_EQ(summary.finished, 3u);
  EXPECT_EQ(summary.cancelled, 1u);
  EXPECT_EQ(summary.preemptions, harness_.total.preemptions);
  EXPECT_EQ(summary.output_tokens, harness_.total.sampled_tokens);
  EXPECT_EQ(summary.last_time, harness_.now);
}

TEST_F(RecordedRun, ACallThatIsLeftOutIsNoticed) {
  const std::vector<std::string> records = journal_.records();
  for (const size_t i :
       {records_of<RecordedSubmit>().at(1), records_of<RecordedCancel>().at(0), records_of<RecordedFinish>().at(0)}) {
    journal_.records() = records;
    journal_.records().erase(journal_.records().begin() + static_cast<ptrdiff_t>(i));
    const Replayed replayed = replay_of(journal_.file());
    EXPECT_TRUE(replayed.difference.has_value()) << "without record " << i;
  }
}

TEST_F(RecordedRun, AnotherTokenIsNoticed) {
  const size_t i = records_of<RecordedCommit>().at(3);
  auto commit = std::get<RecordedCommit>(read_back(journal_.records(), i));
  MemoryJournal changed;
  JournalWriter writer(changed);
  writer.commit(0, commit.rows.size());
  ASSERT_GE(commit.rows.at(0).token, 0);
  commit.rows[0].token ^= 1;
  for (const RecordedResult& row : commit.rows) writer.row(row, {});
  // The record's time is relative, and its last eight bytes are the digest of its events.
  std::string& record = journal_.records()[i];
  const std::string digest = record.substr(record.size() - 8);
  writer.ended_step({});
  std::string rows = changed.records().at(0).substr(2);  // kind, and a time of 0
  rows.resize(rows.size() - 8);
  size_t time_end = 1;
  while ((record[time_end] & 0x80) != 0) ++time_end;
  record = record.substr(0, time_end + 1) + rows + digest;
  const Replayed replayed = replay_of(journal_.file());
  EXPECT_TRUE(replayed.status.ok()) << replayed.status.message();
  ASSERT_TRUE(replayed.difference.has_value());
  EXPECT_EQ(replayed.difference->kind, ReplayDifference::Kind::kOutcome);
  EXPECT_EQ(replayed.difference->step, 4u);
}

TEST_F(RecordedRun, AnotherDecisionIsShownBesideTheRecordedOne) {
  const size_t i = records_of<RecordedSchedule>().at(2);
  const auto recorded = std::get<RecordedSchedule>(read_back(journal_.records(), i));
  // The digest stands behind the kind and the time.
  std::string& record = journal_.records()[i];
  size_t place = 1;
  while ((record[place] & 0x80) != 0) ++place;
  record[place + 1] ^= 1;
  const Replayed replayed = replay_of(journal_.file());
  ASSERT_TRUE(replayed.difference.has_value());
  EXPECT_EQ(replayed.difference->kind, ReplayDifference::Kind::kDecision);
  EXPECT_EQ(replayed.difference->step, 3u);
  EXPECT_EQ(replayed.difference->recorded.rows, recorded.rows);
  EXPECT_EQ(replayed.difference->replayed.rows, recorded.rows);
  EXPECT_EQ(replayed.difference->replayed.digest, recorded.digest);
}

TEST_F(RecordedRun, OtherLimitsDecideOtherwise) {
  auto header = std::get<RecordedScheduler>(read_back(journal_.records(), 0));
  header.limits.max_chunk_tokens = 5;
  MemoryJournal changed;
  JournalWriter(changed).scheduler(header.limits, header.info);
  journal_.records()[0] = changed.records().at(0);
  const Replayed replayed = replay_of(journal_.file());
  ASSERT_TRUE(replayed.difference.has_value());
  EXPECT_EQ(replayed.difference->step, 1u);
  EXPECT_NE(replayed.difference->recorded.rows, replayed.difference->replayed.rows);
}

TEST_F(RecordedRun, CutOffAnywhereItIsGoodUpToThere) {
  const std::string file = journal_.file();
  const size_t head = journal_head().size();
  uint64_t steps = 0;
  for (size_t size = head; size < file.size(); ++size) {
    const Replayed replayed = replay_of(file.substr(0, size));
    ASSERT_TRUE(replayed.status.ok()) << "at byte " << size << ": " << replayed.status.message();
    ASSERT_FALSE(replayed.difference.has_value()) << "at byte " << size;
    ASSERT_GE(replayed.summary.steps, steps) << "at byte " << size;
    steps = replayed.summary.steps;
  }
  EXPECT_EQ(steps, replay_of(file).summary.steps) << "the last frame is the last step's end";
  EXPECT_TRUE(replay_of(file.substr(0, file.size() - 1)).torn);
  EXPECT_THAT(replay_of(file.substr(0, head - 1)).status.message(), HasSubstr("no step journal"));
}

TEST_F(RecordedRun, EveryFlippedBitIsNoticed) {
  const std::string file = journal_.file();
  for (size_t i = 0; i < file.size(); ++i) {
    std::string damaged = file;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
    const Replayed replayed = replay_of(damaged);
    ASSERT_FALSE(replayed.status.ok()) << "byte " << i;
  }
}

TEST(Journal, OfAnotherFormatSaysSo) {
  std::string file = journal_head();
  file[kJournalMagic.size()] = 99;
  EXPECT_THAT(replay_of(file).status.message(), HasSubstr("format 99"));
  EXPECT_THAT(replay_of("what is this, then?").status.message(), HasSubstr("no step journal"));
  EXPECT_THAT(replay_of("").status.message(), HasSubstr("no step journal"));
}

// What a replay says of a journal that holds what `write` writes behind a good header.
std::string error_of(const std::function<void(JournalWriter&)>& write, bool header = true) {
  MemoryJournal journal;
  JournalWriter writer(journal);
  if (header) writer.scheduler(small_limits(), small_machine().info);
  write(writer);
  return replay_of(journal.file()).status.message();
}

void write_submit(JournalWriter& writer, const Request& request) {
  writer.submit(request, 0);
  writer.submitted(StatusCode::kOk);
}

TEST(Journal, CallsThatNoSchedulerCanGetAreErrors) {
  const auto good_header = [](JournalWriter& writer) { writer.scheduler(small_limits(), small_machine().info); };
  EXPECT_EQ(error_of(good_header, /*header=*/false), "");
  EXPECT_THAT(error_of([](JournalWriter& writer) { writer.cancel(1, 0); }, /*header=*/false),
              HasSubstr("before the scheduler was made"));
  EXPECT_THAT(error_of(good_header), HasSubstr("two schedulers"));
  const auto huge = [](JournalWriter& writer) {
    BackendInfo info = small_machine().info;
    info.block_count = INT32_MAX;
    writer.scheduler(small_limits(), info);
  };
  EXPECT_THAT(error_of(huge, /*header=*/false), HasSubstr("impossible size"));
  const auto crumbs = [](JournalWriter& writer) {  // as many positions as are allowed, each a block
    BackendInfo info = small_machine().info;
    info.block_size = 1;
    info.block_count = 1 << 26;
    writer.scheduler(small_limits(), info);
  };
  EXPECT_THAT(error_of(crumbs, /*header=*/false), HasSubstr("impossible size"));
  const auto empty = [](JournalWriter& writer) {
    SchedulerLimits limits = small_limits();
    limits.max_running = 0;
    writer.scheduler(limits, small_machine().info);
  };
  EXPECT_THAT(error_of(empty, /*header=*/false), HasSubstr("limits of 0"));
  const auto costs = [](JournalWriter& writer) {
    BackendInfo info = small_machine().info;
    info.flops_per_token = std::numeric_limits<double>::quiet_NaN();
    info.weight_bytes = std::numeric_limits<double>::infinity();
    writer.scheduler(small_limits(), info);
  };
  EXPECT_THAT(error_of(costs, /*header=*/false), HasSubstr("no numbers"));
  const auto twice = [](JournalWriter& writer) {
    for (int i = 0; i < 2; ++i) write_submit(writer, make_request(1, {1}, 1));
  };
  EXPECT_THAT(error_of(twice), HasSubstr("used twice"));
  const auto unsorted = [](JournalWriter& writer) {
    Request request = make_request(1, {1}, 1);
    request.stop_tokens = {3, 2};
    write_submit(writer, request);
  };
  EXPECT_THAT(error_of(unsorted), HasSubstr("out of order"));
  EXPECT_THAT(error_of([](JournalWriter& writer) { writer.fail_all(StatusCode::kOk, 0); }),
              HasSubstr("without an error"));
}

TEST(Journal, AnEmptyStepMayBeCommittedAndFailedToo) {
  MemoryJournal journal;
  Scheduler scheduler(small_limits(), small_machine().info);
  scheduler.record_to(journal);
  StepPlan plan;
  StepCounts counts;
  std::vector<Event> events;
  scheduler.schedule(1, plan, counts);
  ASSERT_TRUE(plan.empty());
  scheduler.commit(plan, {}, 2, events);
  scheduler.schedule(3, plan, counts);
  scheduler.fail(plan, internal_error("lost"), 4, events);
  EXPECT_EQ(replay_problem(journal.file()), "");
}

// What a backend may get wrong is decided alike, too.
TEST(Journal, KeepsTheFaultsOfABackend) {
  for (int fault = 0; fault < 6; ++fault) {
    MemoryJournal journal;
    Scheduler scheduler(small_limits(), small_machine().info);
    scheduler.record_to(journal);
    Request constrained = make_request(1, make_prompt(4), 3);
    constrained.constraints.push_back(std::make_unique<EvenConstraint>());
    ASSERT_TRUE(scheduler.submit(std::move(constrained), 1).ok());
    ASSERT_TRUE(scheduler.submit(make_request(2, make_prompt(4, 9), 3), 2).ok());
    StepPlan plan;
    StepCounts counts;
    std::vector<Event> events;
    for (TimeNs now = 10; !scheduler.idle(); now += 10) {
      scheduler.schedule(now, plan, counts);
      scheduler.fill_masks(plan);
      StepResult result;
      result.rows.resize(plan.rows.size());
      for (RowResult& row : result.rows) row.token = 2;
      if (now == 20 && fault == 0) result.rows[0].token = 3;   // against its mask
      if (now == 20 && fault == 1) result.rows[0].token = -7;  // no token at all
      if (now == 20 && fault == 2) result.rows[1].token = 5000;
      if (now == 20 && fault == 3) result.rows[1].status = RowStatus::kNotFinite;
      if (now == 20 && fault == 4) result.rows.pop_back();
      if (now == 20 && fault == 5) {
        scheduler.fail(plan, internal_error("lost"), now + 5, events);
      } else {
        scheduler.commit(plan, result, now + 5, events);
      }
    }
    const Replayed replayed = replay_of(journal.file());
    EXPECT_EQ(replay_problem(journal.file()), "") << "fault " << fault;
    EXPECT_EQ(replayed.summary.failed, fault < 4 ? 1u : 2u) << "fault " << fault;
  }
}

TEST(Journal, KeepsTheEndOfTheServer) {
  MemoryJournal journal;
  Scheduler scheduler(small_limits(), small_machine().info);
  scheduler.record_to(journal);
  ASSERT_TRUE(scheduler.submit(make_request(1, make_prompt(4), 3), 1).ok());
  scheduler.fail_all(unavailable("shutting down"), 2);
  std::vector<Event> events;
  scheduler.drain_events(events);
  journal.append(journal_end_record("closed in order"));
  const Replayed replayed = replay_of(journal.file());
  EXPECT_TRUE(replayed.status.ok()) << replayed.status.message();
  EXPECT_EQ(replayed.summary.failed, 1u);
  EXPECT_EQ(replayed.summary.end_reason, "closed in order");
  scheduler.drain_events(events);
  EXPECT_THAT(replay_of(journal.file()).status.message(), HasSubstr("behind its end"));
}

// Every field of a request makes a difference, and comes back.
TEST(Journal, KeepsEveryFieldOfARequest) {
  const std::vector<std::function<void(Request&)>> changes = {
      [](Request& r) { r.id = 77; },
      [](Request& r) {
        r.prompt = {-1, 300, 5};
      },
      [](Request& r) { r.max_tokens = UINT32_MAX; },
      [](Request& r) { r.n = 5; },
      [](Request& r) { r.sampling.temperature = 0.25F; },
      [](Request& r) { r.sampling.top_p = 0.5F; },
      [](Request& r) { r.sampling.min_p = 0.5F; },
      [](Request& r) { r.sampling.top_k = -4; },
      [](Request& r) { r.sampling.presence_penalty = 1; },
      [](Request& r) { r.sampling.frequency_penalty = 1; },
      [](Request& r) { r.sampling.repetition_penalty = 2; },
      [](Request& r) { r.sampling.seed = UINT64_MAX; },
      [](Request& r) { r.sampling.logprobs = 3; },
      [](Request& r) {
        r.sampling.logit_bias = {{4, -1.5F}, {5, 2.0F}};
      },
      [](Request& r) {
        r.stop_tokens = {1, 2};
      },
      [](Request& r) { r.cache_salt = 9; },
      [](Request& r) { r.use_prefix_cache = false; },
      [](Request& r) { r.remote_tokens = 1; },
      [](Request& r) { r.allowed_tokens = {1}; },
      [](Request& r) {
        r.bad_words = {{1, 2}, {}};
      },
      [](Request& r) { r.min_tokens = 2; },
      [](Request& r) { r.prompt_logprobs = 0; },
      [](Request& r) { r.pooling = Pooling::kLast; },
      [](Request& r) { r.priority = -3; },
      [](Request& r) { r.objectives.ttft_ns = 7; },
      [](Request& r) { r.objectives.tpot_ns = 7; },
      [](Request& r) { r.tenant = UINT64_MAX; },
      [](Request& r) { r.tenant_weight = 1.5; },
      [](Request& r) { r.constraints.push_back(std::make_unique<EvenConstraint>()); },
  };
  const std::string plain = record_of(make_request(1, {1, 2, 3}, 4));
  for (size_t i = 0; i < changes.size(); ++i) {
    Request request = make_request(1, {1, 2, 3}, 4);
    changes[i](request);
    const std::string record = record_of(request);
    EXPECT_NE(record, plain) << "change " << i;
    auto back = std::get<RecordedSubmit>(read_back({record}, 0));
    for (uint32_t k = 0; k < back.constraints; ++k) {
      back.request.constraints.push_back(std::make_unique<EvenConstraint>());
    }
    EXPECT_EQ(record_of(back.request), record) << "change " << i;
    EXPECT_EQ(back.now, 5);
  }
}

}  // namespace
}  // namespace twostroke::test
