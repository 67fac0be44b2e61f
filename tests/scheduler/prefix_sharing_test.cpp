// What requests find of each other in the prefix cache, and what they never may.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scheduler/harness.h"
#include "tests/scheduler/scheduler_test_peer.h"

namespace twostroke::test {
namespace {

// Runs one request to its end and returns how many of its prompt tokens were found.
uint32_t run_alone(Harness& harness, Request request) {
  const RequestId id = request.id;
  EXPECT_TRUE(harness.submit(std::move(request)).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  return harness.track(id).summary.cached_tokens;
}

TEST(PrefixSharing, AFollowingRequestFindsTheFullBlocksOfThePrompt) {
  Harness harness;
  EXPECT_EQ(run_alone(harness, make_request(1, make_prompt(11), 1)), 0u);
  EXPECT_EQ(run_alone(harness, make_request(2, make_prompt(11), 1)), 8u);
  EXPECT_EQ(harness.total.computed_tokens, 11u + 3);
  EXPECT_EQ(harness.total.cached_tokens, 8u);
  EXPECT_EQ(harness.total.prefix_queries, 22u);
}

// There must be something to sample from.
TEST(PrefixSharing, AHitNeverCoversTheLastToken) {
  Harness harness;
  EXPECT_EQ(run_alone(harness, make_request(1, make_prompt(8), 3)), 0u);
  EXPECT_EQ(run_alone(harness, make_request(2, make_prompt(8), 3)), 4u);
  EXPECT_EQ(run_alone(harness, make_request(3, make_prompt(9), 3)), 8u);
}

TEST(PrefixSharing, OutputIsFoundToo) {
  Harness harness;
  run_alone(harness, make_request(1, make_prompt(6), 7));
  std::vector<TokenId> conversation = make_prompt(6);
  const std::vector<TokenId>& answer = harness.track(1).outputs[0];
  conversation.insert(conversation.end(), answer.begin(), answer.end());
  conversation.push_back(3);
  EXPECT_EQ(run_alone(harness, make_request(2, conversation, 2)), 12u);
}

TEST(PrefixSharing, WorksWhileBothRun) {
  Harness harness;
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(11), 20)).ok());
  harness.step();
  ASSERT_TRUE(harness.submit(make_request(2, make_prompt(11), 20)).ok());
  harness.step();
  EXPECT_EQ(harness.scheduler.gauges().blocks_referenced, 2u + 1 + 1);
  harness.run();
  EXPECT_EQ(harness.problem, "");
}

// Nobody waits for what another tenant computes, where tenants are served fairly.
TEST(PrefixSharing, TwinsComputedSideBySideEndUpWithOneSetOfBlocks) {
  SchedulerLimits limits = small_limits();
  limits.order = Order::kFair;
  Harness harness(limits);
  for (RequestId id = 1; id <= 2; ++id) {
    Request request = make_request(id, make_prompt(8), 6);
    request.tenant = id;
    ASSERT_TRUE(harness.submit(std::move(request)).ok());
  }
  harness.step();
  const Sequence& first = *SchedulerTestPeer::sequence(harness.scheduler, 1);
  const Sequence& second = *SchedulerTestPeer::sequence(harness.scheduler, 2);
  EXPECT_EQ(harness.counts.cached_tokens, 0u) << "neither could know";
  EXPECT_EQ(first.blocks, second.blocks);
  EXPECT_EQ(harness.scheduler.gauges().blocks_referenced, 2u);
  harness.run();
  EXPECT_EQ(harness.problem, "");
}

// Criterion 27.
TEST(PrefixSharing, EndsAtTheCacheSalt) {
  Harness harness;
  const auto salted = [](RequestId id, uint64_t salt) {
    Request request = make_request(id, make_prompt(11), 1);
    request.cache_salt = salt;
    return request;
  };
  EXPECT_EQ(run_alone(harness, salted(1, 7)), 0u);
  EXPECT_EQ(run_alone(harness, salted(2, 8)), 0u);
  EXPECT_EQ(run_alone(harness, salted(3, 0)), 0u);
  EXPECT_EQ(run_alone(harness, salted(4, 7)), 8u);
}

TEST(PrefixSharing, OneThatOptsOutNeitherReadsNorFills) {
  Harness harness;
  const auto private_request = [](RequestId id) {
    Request request = make_request(id, make_prompt(11), 1);
    request.use_prefix_cache = false;
    return request;
  };
  run_alone(harness, private_request(1));
  EXPECT_EQ(harness.scheduler.gauges().blocks_cached, 0u);
  EXPECT_EQ(run_alone(harness, make_request(2, make_prompt(11), 1)), 0u);
  EXPECT_EQ(run_alone(harness, private_request(3)), 0u);
  EXPECT_EQ(harness.total.prefix_queries, 11u) << "only the one that looked";
}

TEST(PrefixSharing, CanBeSwitchedOff) {
  SchedulerLimits limits = small_limits();
  limits.prefix_cache = false;
  Harness harness(limits);
  run_alone(harness, make_request(1, make_prompt(11), 1));
  EXPECT_EQ(run_alone(harness, make_request(2, make_prompt(11), 1)), 0u);
  EXPECT_EQ(harness.scheduler.gauges().blocks_free, 16u);
  EXPECT_EQ(harness.total.prefix_queries, 0u);
}

TEST(PrefixSharing, WhatWasEvictedIsComputedAgain) {
  Harness harness;
  run_alone(harness, make_request(1, make_prompt(11), 1));
  run_alone(harness, make_request(2, make_prompt(63, 20), 1));
  EXPECT_EQ(run_alone(harness, make_request(3, make_prompt(11), 1)), 0u);
}

TEST(PrefixSharing, ATailIsEvictedBeforeItsHead) {
  Harness harness;
  run_alone(harness, make_request(1, make_prompt(21), 1));
  EXPECT_EQ(harness.scheduler.gauges().blocks_cached, 5u);
  run_alone(harness, make_request(2, make_prompt(50, 25), 1));
  EXPECT_EQ(run_alone(harness, make_request(3, make_prompt(21), 1)), 12u) << "13 blocks took 2 of the 5";
}

TEST(PrefixSharing, HitsAreTakenBeforeAnythingIsAllocated) {
  Harness harness;
  run_alone(harness, make_request(1, make_prompt(33), 1));
  run_alone(harness, make_request(2, make_prompt(32, 10), 1));
  // All 16 blocks hold something; the next needs 8 known and 7 new ones.
  EXPECT_EQ(harness.scheduler.gauges().blocks_cached, 16u);
  EXPECT_EQ(run_alone(harness, make_request(3, make_prompt(60), 1)), 32u);
}

// Criterion 23: preemption must not turn a request's own work into hits.
TEST(PrefixSharing, ARequestThatComesBackAddsNoHits) {
  SchedulerLimits limits = small_limits();
  limits.max_step_tokens = 64;
  limits.max_chunk_tokens = 64;
  Harness harness(limits);
  for (RequestId id = 1; id <= 6; ++id) {
    ASSERT_TRUE(harness.submit(make_request(id, make_prompt(9, static_cast<TokenId>(8 * id)), 30)).ok());
  }
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_GT(harness.total.preemptions, 0u);
  EXPECT_EQ(harness.total.cached_tokens, 0u);
  EXPECT_EQ(harness.total.computed_tokens, 6u * 9);
  EXPECT_EQ(harness.total.prefix_queries, 6u * 9);
}

// What made its logits NaN may be in its keys and values; nobody else shall find them.
TEST(PrefixSharing, ARequestThatFailedLeavesNothingBehind) {
  SimOptions machine = small_machine();
  machine.step_faults[3] = {.kind = SimFault::Kind::kNotFinite};
  Harness harness(small_limits(), std::move(machine));
  run_alone(harness, make_request(1, make_prompt(11), 5));
  EXPECT_EQ(harness.track(1).outcome, Outcome::kFailed);
  EXPECT_EQ(harness.scheduler.gauges().blocks_cached, 0u);
  EXPECT_EQ(run_alone(harness, make_request(2, make_prompt(11), 5)), 0u);
}

TEST(PrefixSharing, AFailureTakesNothingAwayThatOthersUse) {
  SimOptions machine = small_machine();
  machine.step_faults[3] = {.kind = SimFault::Kind::kNotFinite, .rows = {1}};
  Harness harness(small_limits(), std::move(machine));
  for (RequestId id = 1; id <= 2; ++id) ASSERT_TRUE(harness.submit(make_request(id, make_prompt(8), 6)).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(harness.track(1).outcome, Outcome::kFinished);
  EXPECT_EQ(harness.track(2).outcome, Outcome::kFailed);
  EXPECT_EQ(run_alone(harness, make_request(3, make_prompt(9), 1)), 8u);
}

}  // namespace
}  // namespace twostroke::test
