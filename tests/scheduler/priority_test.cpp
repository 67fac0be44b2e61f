#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/scheduler/harness.h"
#include "tests/scheduler/scheduler_test_peer.h"

namespace twostroke::test {
namespace {

Request ranked(RequestId id, int32_t priority, uint32_t prompt = 5, uint32_t output = 3) {
  Request request = make_request(id, make_prompt(prompt, static_cast<TokenId>(7 * id)), output);
  request.priority = priority;
  return request;
}

// Ids in the order in which they first took part in a step.
std::vector<RequestId> order_of_start(const Harness& harness) {
  std::vector<std::pair<TimeNs, RequestId>> starts;
  for (const auto& [id, track] : harness.tracks()) starts.emplace_back(track.summary.first_scheduled, id);
  std::ranges::sort(starts);
  std::vector<RequestId> order;
  for (const auto& [time, id] : starts) order.push_back(id);
  return order;
}

SchedulerLimits one_at_a_time() {
  SchedulerLimits limits = small_limits();
  limits.max_running = 1;
  return limits;
}

TEST(Priority, TheLowerGoesFirstAndEqualsGoByArrival) {
  Harness harness(one_at_a_time());
  const int32_t priorities[] = {5, 0, -3, 5, 0, -3, 9};
  for (RequestId id = 1; id <= 7; ++id) ASSERT_TRUE(harness.submit(ranked(id, priorities[id - 1])).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(order_of_start(harness), (std::vector<RequestId>{3, 6, 2, 5, 1, 4, 7}));
}

// Criterion 10.
TEST(Priority, ABetterOneGetsItsSlotWithinOneStep) {
  SchedulerLimits limits = small_limits();
  limits.max_running = 3;
  Harness harness(limits);
  for (RequestId id = 1; id <= 3; ++id) ASSERT_TRUE(harness.submit(ranked(id, id == 2 ? 7 : 5, 5, 9)).ok());
  harness.step();
  ASSERT_EQ(harness.plan.rows.size(), 3u);
  ASSERT_TRUE(harness.submit(ranked(4, 0)).ok());
  harness.step();
  EXPECT_NE(harness.row(4), nullptr);
  EXPECT_EQ(harness.row(2), nullptr) << "the worst gives way";
  EXPECT_EQ(harness.plan.rows.size(), 3u);
  EXPECT_EQ(harness.counts.preemptions_for_priority, 1u);
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(harness.total.preemptions, 1u);
}

TEST(Priority, ABetterOneGetsTheOnlySlotThereIs) {
  Harness harness(one_at_a_time());
  ASSERT_TRUE(harness.submit(ranked(1, 5)).ok());
  harness.step();
  ASSERT_TRUE(harness.submit(ranked(2, 0)).ok());
  harness.step();
  EXPECT_NE(harness.row(2), nullptr);
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_LT(harness.track(2).summary.ended, harness.track(1).summary.ended);
}

// A step that decodes fill to the last token has none for a prompt.
TEST(Priority, ABetterOneGetsATokenOfAStepFullOfDecodes) {
  SchedulerLimits limits = small_limits();
  limits.max_step_tokens = 4;
  Harness harness(limits);
  for (RequestId id = 1; id <= 4; ++id) ASSERT_TRUE(harness.submit(ranked(id, 5, 1, 20)).ok());
  while (harness.counts.shape.decode_rows < 4) ASSERT_TRUE(harness.step());
  ASSERT_TRUE(harness.submit(ranked(5, 0, 4)).ok());
  harness.step();
  EXPECT_NE(harness.row(5), nullptr);
  EXPECT_EQ(harness.counts.preemptions, 1u);
  harness.run();
  EXPECT_EQ(harness.problem, "");
}

TEST(Priority, ABetterOneGetsTheBlocksThatItNeedsOrDisturbsNobody) {
  Harness harness;  // 16 blocks
  ASSERT_TRUE(harness.submit(ranked(1, 0, 20, 20)).ok());
  ASSERT_TRUE(harness.submit(ranked(2, 5, 12, 20)).ok());
  ASSERT_TRUE(harness.submit(ranked(3, 5, 9, 20)).ok());
  while (harness.counts.shape.decode_rows < 3) ASSERT_TRUE(harness.step());
  ASSERT_TRUE(harness.submit(ranked(4, 2, 60, 2)).ok());
  harness.step();
  EXPECT_EQ(harness.counts.preemptions, 0u) << "all that it may take is not enough";
  EXPECT_EQ(SchedulerTestPeer::sequence(harness.scheduler, 4)->reason, WaitReason::kBlocks);
  ASSERT_TRUE(harness.submit(ranked(5, 2, 24, 2)).ok());
  harness.step();
  EXPECT_NE(harness.row(5), nullptr);
  EXPECT_NE(harness.row(1), nullptr) << "of a better priority";
  EXPECT_GT(harness.counts.preemptions_for_priority, 0u);
  harness.run();
  EXPECT_EQ(harness.problem, "");
}

TEST(Priority, EqualsAreNotPushedOut) {
  Harness harness(one_at_a_time());
  ASSERT_TRUE(harness.submit(ranked(1, 5)).ok());
  harness.step();
  ASSERT_TRUE(harness.submit(ranked(2, 5)).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(harness.total.preemptions, 0u);
}

// Six requests that outgrow the pool; the three of the better priority fit into it.
TEST(Priority, WhoGivesWayIsOfTheWorstPriority) {
  SchedulerLimits limits;
  limits.max_step_tokens = 64;
  limits.max_running = 16;
  Harness harness(limits);
  for (RequestId id = 1; id <= 6; ++id) {
    ASSERT_TRUE(harness.submit(ranked(id, id % 2 == 1 ? 1 : 0, 5, 14)).ok());
  }
  harness.run();
  EXPECT_EQ(harness.problem, "");
  uint32_t worse = 0;
  uint32_t better = 0;
  for (const auto& [id, track] : harness.tracks()) (id % 2 == 1 ? worse : better) += track.summary.preemptions;
  EXPECT_GT(worse, 0u);
  EXPECT_EQ(better, 0u) << "there was always one of the worse to give way";
}

TEST(Priority, AnyMixOfThemEnds) {
  Harness harness;
  for (RequestId id = 1; id <= 20; ++id) {
    ASSERT_TRUE(
        harness.submit(ranked(id, static_cast<int32_t>(id * 7 % 5) - 2, 1 + static_cast<uint32_t>(id) % 9, 25)).ok());
  }
  harness.run(10'000);
  EXPECT_EQ(harness.problem, "");
}

TEST(Priority, ExtremesAreOrderedToo) {
  Harness harness(one_at_a_time());
  ASSERT_TRUE(harness.submit(ranked(1, std::numeric_limits<int32_t>::max())).ok());
  ASSERT_TRUE(harness.submit(ranked(2, 0)).ok());
  ASSERT_TRUE(harness.submit(ranked(3, std::numeric_limits<int32_t>::min())).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(order_of_start(harness), (std::vector<RequestId>{3, 2, 1}));
}

}  // namespace
}  // namespace twostroke::test
