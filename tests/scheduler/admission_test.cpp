#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scheduler/harness.h"

namespace twostroke::test {
namespace {

// 16 blocks of 4; one running request holds 10 of them for a long time, so that 6 are left, of which admission keeps
// one for it to grow into.
class AdmissionBeside10HeldBlocks : public ::testing::Test {
 protected:
  explicit AdmissionBeside10HeldBlocks(SchedulerLimits limits = with_overtakes(3)) : harness_(limits) {
    EXPECT_TRUE(harness_.submit(make_request(1, make_prompt(38), 20)).ok());
    for (int i = 0; i < 3; ++i) harness_.step();
    EXPECT_EQ(harness_.scheduler.gauges().blocks_referenced, 10u);
  }
  static SchedulerLimits with_overtakes(uint32_t overtakes) {
    SchedulerLimits limits = small_limits();
    limits.max_overtakes = overtakes;
    return limits;
  }
  void submit(RequestId id, uint32_t prompt) {
    ASSERT_TRUE(harness_.submit(make_request(id, make_prompt(prompt, static_cast<TokenId>(id)), 2)).ok());
  }
  bool started(RequestId id) { return harness_.row(id) != nullptr || harness_.track(id).ends > 0; }
  void TearDown() override {
    harness_.run();
    EXPECT_EQ(harness_.problem, "");
  }

  Harness harness_;
};

TEST_F(AdmissionBeside10HeldBlocks, TakesWhatFitsInOrderOfArrival) {
  submit(2, 8);
  submit(3, 8);
  submit(4, 8);
  harness_.step();
  EXPECT_TRUE(started(2));
  EXPECT_TRUE(started(3)) << "2 + 2 blocks, and one for each of two to grow into";
  EXPECT_FALSE(started(4));
}

TEST_F(AdmissionBeside10HeldBlocks, WhatDoesNotFitHoldsUpNothingThatDoes) {
  submit(2, 30);
  submit(3, 4);
  harness_.step();
  EXPECT_FALSE(started(2));
  EXPECT_TRUE(started(3));
}

TEST_F(AdmissionBeside10HeldBlocks, ButIsOvertakenOnlySoOften) {
  submit(2, 30);
  for (RequestId id = 3; id <= 8; ++id) submit(id, 3);
  harness_.step();
  EXPECT_TRUE(started(3));
  for (int i = 0; i < 4; ++i) harness_.step();
  EXPECT_TRUE(started(5)) << "the third";
  EXPECT_FALSE(started(6)) << "nothing behind it any more, though there is room";
  EXPECT_FALSE(started(2));
  while (harness_.track(1).ends == 0) harness_.step();
  harness_.step();
  EXPECT_TRUE(started(2)) << "as soon as there are blocks";
  harness_.step();
  EXPECT_TRUE(started(6));
}

class AdmissionInStrictOrder : public AdmissionBeside10HeldBlocks {
 protected:
  AdmissionInStrictOrder() : AdmissionBeside10HeldBlocks(with_overtakes(0)) {}
};

TEST_F(AdmissionInStrictOrder, HoldsUpAllBehindWhatDoesNotFit) {
  submit(2, 30);
  submit(3, 4);
  harness_.step();
  EXPECT_FALSE(started(3));
}

TEST_F(AdmissionBeside10HeldBlocks, CountsSharedBlocksAsNothing) {
  // The running request's own first 36 tokens: nine blocks that are held already.
  ASSERT_TRUE(harness_.submit(make_request(2, make_prompt(37), 2)).ok());
  harness_.step();
  EXPECT_TRUE(started(2));
  EXPECT_EQ(harness_.counts.cached_tokens, 36u);
}

TEST(Admission, APromptThatWasCutIntoChunksKeepsTheBlocksPromisedToIt) {
  SchedulerLimits limits = small_limits();
  limits.max_chunk_tokens = 4;
  Harness harness(limits);
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(50), 1)).ok());
  harness.step();
  EXPECT_EQ(harness.scheduler.gauges().blocks_referenced, 1u);
  // 15 blocks are free, but 12 of them are the first one's, and one is for its growth.
  ASSERT_TRUE(harness.submit(make_request(2, make_prompt(12, 20), 1)).ok());
  harness.step();
  EXPECT_EQ(harness.row(2), nullptr);
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(harness.total.preemptions, 0u);
}

// Criterion 2: nothing runs and nothing starts, for ever.
TEST(Admission, WithNothingRunningTheFirstInLineAlwaysStarts) {
  SimOptions machine = small_machine();
  machine.info.block_count = 4;
  Harness harness(small_limits(), std::move(machine));
  for (RequestId id = 1; id <= 5; ++id) {
    ASSERT_TRUE(harness.submit(make_request(id, make_prompt(15, static_cast<TokenId>(id)), 3)).ok());
  }
  harness.run();
  EXPECT_EQ(harness.problem, "") << "each needs the whole pool";
}

TEST(Admission, KeepsWithinTheLimitOfRunningSequences) {
  SchedulerLimits limits = small_limits();
  limits.max_running = 2;
  Harness harness(limits);
  for (RequestId id = 1; id <= 4; ++id) ASSERT_TRUE(harness.submit(make_request(id, make_prompt(2), 3)).ok());
  harness.step();
  EXPECT_EQ(harness.plan.rows.size(), 2u);
  harness.run();
  EXPECT_EQ(harness.problem, "");
}

TEST(Admission, LooksPastOnlySoManyThatDoNotFit) {
  SchedulerLimits limits = small_limits();
  limits.max_overtakes = 1000;
  Harness harness(limits);
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(38), 20)).ok());
  for (int i = 0; i < 3; ++i) harness.step();
  RequestId id = 2;
  for (uint32_t i = 0; i < 33; ++i) ASSERT_TRUE(harness.submit(make_request(id++, make_prompt(30, 9), 1)).ok());
  ASSERT_TRUE(harness.submit(make_request(id, make_prompt(2), 1)).ok());
  harness.step();
  EXPECT_EQ(harness.row(id), nullptr) << "a step's cost is bounded";
  harness.cancel(2);
  harness.step();
  EXPECT_EQ(harness.track(id).ends, 1u);
}

}  // namespace
}  // namespace twostroke::test
