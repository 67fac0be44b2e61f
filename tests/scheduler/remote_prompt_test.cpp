// A prompt whose keys and values another server has computed (Request::remote_tokens): what this one still computes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scheduler/harness.h"

namespace twostroke::test {
namespace {

using ::testing::HasSubstr;

Request remote_request(RequestId id, uint32_t prompt, uint32_t remote, uint32_t max_tokens = 4) {
  Request request = make_request(id, make_prompt(prompt), max_tokens);
  request.remote_tokens = remote;
  return request;
}

TEST(RemotePrompt, OnlyTheLastTokenIsComputed) {
  Harness harness;
  ASSERT_TRUE(harness.submit(remote_request(1, 14, 14)).ok());
  harness.step();
  ASSERT_NE(harness.row(1), nullptr);
  EXPECT_EQ(harness.row(1)->position, 13u);
  EXPECT_EQ(harness.row(1)->imported.size(), 13u);
  EXPECT_EQ(harness.counts.remote_tokens, 13u);
  EXPECT_EQ(harness.counts.computed_tokens, 1u);
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(harness.track(1).summary.remote_tokens, 13u);
}

TEST(RemotePrompt, WhatIsMissingBehindItIsComputedInChunks) {
  SchedulerLimits limits = small_limits();
  limits.max_chunk_tokens = 3;
  Harness harness(limits);
  ASSERT_TRUE(harness.submit(remote_request(1, 14, 6)).ok());
  harness.step();
  EXPECT_EQ(harness.row(1)->position, 6u);
  EXPECT_EQ(harness.row(1)->token_count, 3u);
  harness.step();
  EXPECT_TRUE(harness.row(1)->imported.empty());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(harness.total.computed_tokens, 8u);
}

TEST(RemotePrompt, TakesFromThePrefixCacheWhatIsThereAlready) {
  Harness harness;
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(9), 1)).ok());
  harness.run();
  ASSERT_TRUE(harness.submit(remote_request(2, 14, 14)).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(harness.track(2).summary.cached_tokens, 8u);
  EXPECT_EQ(harness.track(2).summary.remote_tokens, 5u);
}

TEST(RemotePrompt, ItsBlocksServeOthersOnceItsFirstStepHasRun) {
  Harness harness;
  ASSERT_TRUE(harness.submit(remote_request(1, 14, 14)).ok());
  harness.step();
  ASSERT_TRUE(harness.submit(make_request(2, make_prompt(14), 4)).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(harness.track(2).summary.cached_tokens, 12u);
}

TEST(RemotePrompt, WaitsForBlocksLikeEveryOther) {
  Harness harness;
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(40), 2)).ok());
  harness.step();
  Request second = make_request(2, make_prompt(30, 45), 4);
  second.remote_tokens = 30;
  ASSERT_TRUE(harness.submit(std::move(second)).ok());
  harness.step();
  EXPECT_EQ(harness.row(2), nullptr);
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(harness.track(2).summary.remote_tokens, 29u);
}

TEST(RemotePrompt, IsComputedHereAfterAPreemption) {
  SchedulerLimits limits = small_limits();
  limits.prefix_cache = false;
  Harness harness(limits);
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(30), 30)).ok());
  harness.step();
  harness.step();
  ASSERT_TRUE(harness.submit(remote_request(2, 20, 20, 40)).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  ASSERT_GT(harness.track(2).summary.preemptions, 0u);
  EXPECT_EQ(harness.track(2).summary.remote_tokens, 19u);
  EXPECT_GE(harness.track(2).summary.recomputed_tokens, 19u);
}

TEST(RemotePrompt, IsRefusedWhereItCannotBe) {
  Harness harness;
  EXPECT_THAT(harness.submit(remote_request(1, 5, 6)).message(), HasSubstr("more than the prompt's 5"));
  Request scored = remote_request(2, 5, 5);
  scored.prompt_logprobs = 0;
  EXPECT_EQ(harness.submit(std::move(scored)).code(), StatusCode::kInvalidArgument);

  SimOptions machine = small_machine();
  machine.info.imports_kv = false;
  Harness without(small_limits(), machine);
  EXPECT_EQ(without.submit(remote_request(1, 5, 5)).code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace twostroke::test
