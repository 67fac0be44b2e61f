// n sequences of one request: one computes the prompt, the others fork from it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scheduler/harness.h"
#include "tests/scheduler/scheduler_test_peer.h"

namespace twostroke::test {
namespace {

Request siblings(uint32_t n, uint32_t prompt, uint32_t output) {
  Request request = make_request(1, make_prompt(prompt), output);
  request.n = n;
  request.sampling.seed = 5;
  return request;
}

TEST(Fork, SiblingsShareOnePromptAndDrawWithSeedsOfTheirOwn) {
  Harness harness;
  ASSERT_TRUE(harness.submit(siblings(3, 10, 5)).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(harness.total.computed_tokens, 10u) << "counted and computed once";
  EXPECT_EQ(harness.total.cached_tokens, 0u);
  EXPECT_EQ(harness.total.recomputed_tokens, 0u);
  EXPECT_EQ(harness.track(1).summary.prompt_tokens, 10u);
  EXPECT_EQ(harness.track(1).summary.output_tokens, 15u);
  EXPECT_NE(harness.track(1).outputs[0], harness.track(1).outputs[1]);
  EXPECT_NE(harness.track(1).outputs[1], harness.track(1).outputs[2]);
}

// Without the prefix cache nobody else has the prompt when the leader ends on its first token.
TEST(Fork, ASiblingTakesOverThePromptOfTheLastThatHasIt) {
  for (const uint32_t prompt : {1u, 8u, 9u, 10u, 12u}) {  // blocks of 4
    SchedulerLimits limits = small_limits();
    limits.prefix_cache = false;
    Harness harness(limits);
    ASSERT_TRUE(harness.submit(siblings(4, prompt, 1)).ok());
    harness.run();
    EXPECT_EQ(harness.problem, "");
    EXPECT_EQ(harness.total.computed_tokens, prompt);
    EXPECT_EQ(harness.total.recomputed_tokens, 0u) << "prompt of " << prompt;
    EXPECT_EQ(harness.track(1).summary.output_tokens, 4u);
  }
}

TEST(Fork, FollowersWaitUntilTheWholePromptIsComputed) {
  SchedulerLimits limits = small_limits();
  limits.max_chunk_tokens = 4;
  Harness harness(limits);
  ASSERT_TRUE(harness.submit(siblings(3, 10, 5)).ok());
  for (int i = 0; i < 3; ++i) {
    harness.step();
    EXPECT_EQ(harness.plan.rows.size(), 1u);
  }
  harness.step();
  EXPECT_EQ(harness.plan.rows.size(), 3u);
}

TEST(Fork, SharesFullBlocksAndCopiesThePartialOne) {
  Harness harness;
  ASSERT_TRUE(harness.submit(siblings(3, 10, 5)).ok());
  harness.step();
  harness.step();
  const Sequence& leader = *SchedulerTestPeer::sequence(harness.scheduler, 1, 0);
  const Sequence& second = *SchedulerTestPeer::sequence(harness.scheduler, 1, 1);
  const Sequence& third = *SchedulerTestPeer::sequence(harness.scheduler, 1, 2);
  EXPECT_THAT(harness.plan.copies, ::testing::ElementsAre(BlockCopy{leader.blocks[2], second.blocks[2]},
                                                          BlockCopy{leader.blocks[2], third.blocks[2]}));
  EXPECT_EQ(leader.blocks[0], second.blocks[0]);
  EXPECT_EQ(leader.blocks[1], third.blocks[1]);
  EXPECT_EQ(harness.scheduler.gauges().blocks_referenced, 2u + 3);
  EXPECT_EQ(harness.scheduler.gauges().positions_used, 8u + 3 + 2 + 2) << "shared blocks hold their tokens once";
  EXPECT_EQ(harness.scheduler.gauges().positions_unused, 1u + 2 + 2);
  // Each follower computes the last prompt token alone, for its own first sample.
  const Row* row = harness.row(1, 1);
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->position, 9u);
  EXPECT_EQ(row->token_count, 1u);
  EXPECT_EQ(harness.counts.shape.decode_rows, 1u);
  EXPECT_EQ(harness.counts.shape.prefill_rows, 2u);
  EXPECT_EQ(harness.counts.computed_tokens, 0u);
}

TEST(Fork, CopiesABlockThatThePromptFillsExactly) {
  Harness harness;
  ASSERT_TRUE(harness.submit(siblings(2, 8, 5)).ok());
  harness.step();
  harness.step();
  EXPECT_EQ(harness.plan.copies.size(), 1u) << "its last position is computed again";
  const Sequence& leader = *SchedulerTestPeer::sequence(harness.scheduler, 1, 0);
  const Sequence& second = *SchedulerTestPeer::sequence(harness.scheduler, 1, 1);
  EXPECT_EQ(leader.blocks[1], second.blocks[1]) << "and then both hold the same: one block is enough";
  harness.run();
  EXPECT_EQ(harness.problem, "");
}

TEST(Fork, OfAPromptOfOneTokenSharesNothing) {
  Harness harness;
  ASSERT_TRUE(harness.submit(siblings(3, 1, 5)).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(harness.total.computed_tokens, 1u);
}

TEST(Fork, NeedsNoPrefixCache) {
  Harness harness;
  Request request = siblings(3, 10, 5);
  request.use_prefix_cache = false;
  ASSERT_TRUE(harness.submit(std::move(request)).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(harness.total.computed_tokens, 10u);
  EXPECT_EQ(harness.total.recomputed_tokens, 0u);
  EXPECT_EQ(harness.scheduler.gauges().blocks_cached, 0u);
}

TEST(Fork, MoreSiblingsThanMayRunTakeTurns) {
  SchedulerLimits limits = small_limits();
  limits.max_running = 2;
  Harness harness(limits);
  ASSERT_TRUE(harness.submit(siblings(5, 10, 5)).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(harness.total.computed_tokens, 10u);
}

TEST(Fork, AnotherLeadsWhenTheLeaderEndsInMidPrompt) {
  SchedulerLimits limits = small_limits();
  limits.max_chunk_tokens = 4;
  Harness harness(limits);
  ASSERT_TRUE(harness.submit(siblings(3, 10, 5)).ok());
  harness.step();
  harness.finish_sequence(1, 0);
  EXPECT_EQ(harness.scheduler.gauges().blocks_referenced, 0u);
  harness.step();
  EXPECT_EQ(harness.row(1, 1)->position, 4u) << "it goes on behind the block that its predecessor left in the cache";
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(harness.track(1).outputs[0].size(), 0u);
  EXPECT_EQ(harness.track(1).outputs[1].size(), 5u);
  EXPECT_EQ(harness.total.computed_tokens + harness.total.cached_tokens, 10u);
}

TEST(Fork, SiblingsGoOnByThemselvesWhenTheLeaderEndsWithItsFirstToken) {
  Harness harness;
  ASSERT_TRUE(harness.submit(siblings(3, 10, 1)).ok());
  harness.step();
  EXPECT_EQ(harness.track(1).finished[0], FinishReason::kLength);
  EXPECT_EQ(harness.scheduler.gauges().blocks_referenced, 0u);
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(harness.total.computed_tokens, 10u);
  EXPECT_LE(harness.total.recomputed_tokens, 2u) << "the prefix cache had the rest";
}

TEST(Fork, AllSequencesOfARequestEndBeforeItDoes) {
  Harness harness;
  ASSERT_TRUE(harness.submit(siblings(3, 10, 5)).ok());
  std::vector<Event::Kind> kinds;
  while (harness.step()) {
    for (const Event& event : harness.events) kinds.push_back(event.kind);
  }
  EXPECT_EQ(std::ranges::count(kinds, Event::Kind::kSequenceFinished), 3);
  EXPECT_EQ(std::ranges::count(kinds, Event::Kind::kEnded), 1);
  EXPECT_EQ(kinds.back(), Event::Kind::kEnded);
}

}  // namespace
}  // namespace twostroke::test
