#include "scheduler/scheduler.h"

#include <gtest/gtest.h>

#include "tests/scheduler/harness.h"

namespace twostroke::testing {
namespace {

TEST(Scheduler, RunsARequestFromPromptToLastToken) {
  Harness harness;
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(10), 5)).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(harness.track(1).ends, 1u);
  EXPECT_EQ(harness.track(1).outputs[0].size(), 5u);
  EXPECT_EQ(harness.track(1).finished[0], FinishReason::kLength);
}

TEST(Scheduler, SiblingsShareOnePromptAndDrawWithSeedsOfTheirOwn) {
  Harness harness;
  Request request = make_request(1, make_prompt(10), 5);
  request.n = 3;
  ASSERT_TRUE(harness.submit(std::move(request)).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(harness.total.prefill_tokens, 10u);
  EXPECT_EQ(harness.total.recomputed_tokens, 0u);
  EXPECT_NE(harness.track(1).outputs[0], harness.track(1).outputs[1]);
}

TEST(Scheduler, OutputIsTheSameUnderConstantPreemption) {
  Harness harness;
  for (RequestId id = 1; id <= 8; ++id) {
    ASSERT_TRUE(harness.submit(make_request(id, make_prompt(9, static_cast<TokenId>(id)), 30)).ok());
  }
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_GT(harness.total.preemptions, 0u);
  EXPECT_EQ(harness.total.prefill_tokens + harness.total.cached_tokens, 8u * 9u);
}

}  // namespace
}  // namespace twostroke::testing
