// Prompts that begin like one that is being computed wait for that beginning.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scheduler/harness.h"
#include "tests/scheduler/scheduler_test_peer.h"

namespace twostroke::test {
namespace {

SchedulerLimits chunks_of_8() {
  SchedulerLimits limits = small_limits();
  limits.max_chunk_tokens = 8;
  return limits;
}

uint32_t awaiting(const Harness& harness) {
  return harness.scheduler.gauges().sequences_by_reason[static_cast<size_t>(WaitReason::kPrefix)];
}

// The first `shared` tokens are everybody's; then each goes its own way.
Request like_others(RequestId id, uint32_t shared, uint32_t length, uint32_t output = 3) {
  std::vector<TokenId> prompt = make_prompt(shared);
  for (uint32_t i = shared; i < length; ++i) prompt.push_back(static_cast<TokenId>((id * 13 + i) % 50));
  return make_request(id, std::move(prompt), output);
}

TEST(PrefixWaiting, ASharedBeginningIsComputedOnce) {
  SimOptions machine = small_machine();
  machine.info.block_count = 64;
  Harness harness(chunks_of_8(), std::move(machine));
  for (RequestId id = 1; id <= 5; ++id) ASSERT_TRUE(harness.submit(like_others(id, 24, 27)).ok());
  harness.step();
  EXPECT_EQ(harness.plan.rows.size(), 1u);
  EXPECT_EQ(awaiting(harness), 4u);
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(harness.total.computed_tokens, 24u + 5 * 3);
  EXPECT_EQ(harness.total.cached_tokens, 4u * 24);
}

TEST(PrefixWaiting, EndsAsSoonAsTheSharedPartIsThere) {
  SimOptions machine = small_machine();
  machine.info.block_count = 64;
  Harness harness(chunks_of_8(), std::move(machine));
  ASSERT_TRUE(harness.submit(like_others(1, 8, 60)).ok());
  ASSERT_TRUE(harness.submit(like_others(2, 8, 12)).ok());
  harness.step();
  EXPECT_EQ(harness.row(2), nullptr);
  harness.step();
  ASSERT_NE(harness.row(2), nullptr) << "though the first has far to go";
  EXPECT_EQ(harness.row(2)->position, 8u);
  EXPECT_TRUE(harness.track(1).outputs[0].empty());
  harness.run();
  EXPECT_EQ(harness.problem, "");
}

TEST(PrefixWaiting, HoldsUpNobodyElse) {
  Harness harness(chunks_of_8());
  ASSERT_TRUE(harness.submit(like_others(1, 24, 30)).ok());
  ASSERT_TRUE(harness.submit(like_others(2, 24, 27)).ok());
  ASSERT_TRUE(harness.submit(make_request(3, make_prompt(4, 30), 3)).ok());
  harness.step();
  EXPECT_EQ(harness.row(2), nullptr);
  EXPECT_NE(harness.row(3), nullptr);
  EXPECT_EQ(SchedulerTestPeer::sequence(harness.scheduler, 2)->overtakes, 0u) << "it is not passed over";
  harness.run();
  EXPECT_EQ(harness.problem, "");
}

TEST(PrefixWaiting, EndsWithTheOneThatComputes) {
  Harness harness(chunks_of_8());
  ASSERT_TRUE(harness.submit(like_others(1, 24, 30)).ok());
  ASSERT_TRUE(harness.submit(like_others(2, 24, 27)).ok());
  ASSERT_TRUE(harness.submit(like_others(3, 24, 27)).ok());
  harness.step();
  EXPECT_EQ(awaiting(harness), 2u);
  harness.cancel(1);
  harness.step();
  ASSERT_NE(harness.row(2), nullptr);
  EXPECT_EQ(harness.row(2)->position, 8u) << "what was computed of it is found";
  EXPECT_EQ(harness.row(3), nullptr) << "and the next waits for this one";
  harness.run();
  EXPECT_EQ(harness.problem, "");
}

TEST(PrefixWaiting, IsForOneFullBlockAtLeast) {
  Harness harness(chunks_of_8());
  ASSERT_TRUE(harness.submit(like_others(1, 3, 20)).ok());
  ASSERT_TRUE(harness.submit(like_others(2, 3, 6)).ok());
  harness.step();
  EXPECT_NE(harness.row(2), nullptr);
  harness.run();
  EXPECT_EQ(harness.problem, "");
}

TEST(PrefixWaiting, EndsAtTheCacheSaltAndWhereTheCacheIsNotRead) {
  Harness harness(chunks_of_8());
  ASSERT_TRUE(harness.submit(like_others(1, 12, 20)).ok());
  Request salted = like_others(2, 12, 13);
  salted.cache_salt = 5;
  ASSERT_TRUE(harness.submit(std::move(salted)).ok());
  Request apart = like_others(3, 12, 13);
  apart.use_prefix_cache = false;
  ASSERT_TRUE(harness.submit(std::move(apart)).ok());
  harness.step();
  harness.step();
  EXPECT_EQ(awaiting(harness), 0u);
  EXPECT_EQ(harness.scheduler.gauges().sequences_waiting, 0u);
  harness.run();
  EXPECT_EQ(harness.problem, "");
}

TEST(PrefixWaiting, NeverOfABetterPriorityForAWorseOne) {
  SchedulerLimits limits = chunks_of_8();
  Harness harness(limits);
  Request worse = like_others(1, 24, 30);
  worse.priority = 5;
  ASSERT_TRUE(harness.submit(std::move(worse)).ok());
  harness.step();
  ASSERT_TRUE(harness.submit(like_others(2, 24, 27)).ok());
  harness.step();
  EXPECT_NE(harness.row(2), nullptr);
  harness.run();
  EXPECT_EQ(harness.problem, "");
}

TEST(PrefixWaiting, NorOnAnotherTenantWhereServiceIsFair) {
  SchedulerLimits limits = chunks_of_8();
  limits.order = Order::kFair;
  Harness harness(limits);
  for (RequestId id = 1; id <= 2; ++id) {
    Request request = like_others(id, 24, 27);
    request.tenant = id;
    ASSERT_TRUE(harness.submit(std::move(request)).ok());
  }
  harness.step();
  EXPECT_NE(harness.row(2), nullptr);
  harness.run();
  EXPECT_EQ(harness.problem, "");
}

}  // namespace
}  // namespace twostroke::test
