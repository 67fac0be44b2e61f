#include <gtest/gtest.h>

#include "tests/scheduler/harness.h"

namespace twostroke::test {
namespace {

SequenceExplanation explained(const Harness& harness, RequestId id, uint32_t sequence = 0) {
  const auto explanation = harness.scheduler.explain(id);
  EXPECT_TRUE(explanation.has_value());
  return explanation ? explanation->sequences.at(sequence) : SequenceExplanation{};
}

TEST(Explain, KnowsNothingOfARequestThatNeverWasOrHasEnded) {
  Harness harness;
  EXPECT_FALSE(harness.scheduler.explain(1).has_value());
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(4), 1)).ok());
  EXPECT_TRUE(harness.scheduler.explain(1).has_value());
  harness.run();
  EXPECT_FALSE(harness.scheduler.explain(1).has_value());
}

TEST(Explain, FollowsASequenceThroughItsLife) {
  Harness harness;
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(20), 3)).ok());
  SequenceExplanation one = explained(harness, 1);
  EXPECT_EQ(one.activity, SequenceActivity::kWaiting);
  EXPECT_EQ(one.wait, WaitFor::kInbox) << "no step has seen it";
  EXPECT_EQ(one.queue_position, 0);
  harness.step();  // 16 of 20
  one = explained(harness, 1);
  EXPECT_EQ(one.activity, SequenceActivity::kPrefill);
  EXPECT_EQ(one.wait, WaitFor::kNone);
  EXPECT_EQ(one.computed, 16u);
  EXPECT_EQ(one.blocks, 4u);
  EXPECT_EQ(one.queue_position, -1);
  harness.step();
  one = explained(harness, 1);
  EXPECT_EQ(one.activity, SequenceActivity::kDecode);
  EXPECT_EQ(one.tokens, 21u);
  EXPECT_EQ(one.computed, 20u);
  EXPECT_EQ(one.output_tokens, 1u);
  const auto request = harness.scheduler.explain(1);
  EXPECT_EQ(request->step, 2u);
  EXPECT_EQ(request->max_tokens, 3u);
  EXPECT_EQ(request->summary.prompt_tokens, 20u);
  EXPECT_GE(request->summary.first_token, request->summary.first_scheduled);
}

TEST(Explain, NamesTheRunningLimit) {
  SchedulerLimits limits = small_limits();
  limits.max_running = 1;
  Harness harness(limits);
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(4), 8)).ok());
  ASSERT_TRUE(harness.submit(make_request(2, make_prompt(4, 10), 8)).ok());
  harness.step();
  EXPECT_EQ(explained(harness, 2).wait, WaitFor::kNoSlot);
  harness.run();
  EXPECT_EQ(harness.problem, "");
}

TEST(Explain, NamesAFullStepAndWhoIsBefore) {
  Harness harness;
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(20), 4)).ok());
  ASSERT_TRUE(harness.submit(make_request(2, make_prompt(9, 10), 4)).ok());
  ASSERT_TRUE(harness.submit(make_request(3, make_prompt(12, 20), 4)).ok());
  ASSERT_TRUE(harness.submit(make_request(4, make_prompt(4, 30), 4)).ok());
  harness.step();
  const SequenceExplanation one = explained(harness, 4);
  EXPECT_EQ(one.wait, WaitFor::kStepFull);
  EXPECT_EQ(one.queue_position, 1);
  EXPECT_EQ(one.queue_tokens_before, 12u);
  EXPECT_EQ(one.predicted_start_ns, -1) << "no step times are known yet";
}

// 16 blocks of 4: the first holds 10 and will hold more, and one is kept for it to grow into.
TEST(Explain, CountsTheBlocksThatAreMissing) {
  Harness harness;
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(38), 20)).ok());
  for (int i = 0; i < 3; ++i) harness.step();
  ASSERT_TRUE(harness.submit(make_request(2, make_prompt(30, 5), 4)).ok());
  harness.step();
  const SequenceExplanation one = explained(harness, 2);
  EXPECT_EQ(one.wait, WaitFor::kNoBlocks);
  const SchedulerGauges gauges = harness.scheduler.gauges();
  EXPECT_EQ(one.blocks_short, 8 - (16 - gauges.blocks_referenced - 1));
}

TEST(Explain, SaysWhoHasBecomeTooOldToBeOvertaken) {
  SchedulerLimits limits = small_limits();
  limits.max_overtakes = 1;
  Harness harness(limits);
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(38), 20)).ok());
  for (int i = 0; i < 3; ++i) harness.step();
  ASSERT_TRUE(harness.submit(make_request(2, make_prompt(30, 5), 4)).ok());
  ASSERT_TRUE(harness.submit(make_request(3, make_prompt(2, 10), 4)).ok());
  ASSERT_TRUE(harness.submit(make_request(4, make_prompt(2, 20), 4)).ok());
  harness.step();
  EXPECT_EQ(explained(harness, 2).wait, WaitFor::kNoBlocks);
  EXPECT_EQ(explained(harness, 2).overtakes, 1u);
  EXPECT_EQ(explained(harness, 3).activity, SequenceActivity::kDecode);
  EXPECT_EQ(explained(harness, 4).wait, WaitFor::kBehindOvertakeBound);
}

TEST(Explain, SiblingsWaitForTheirLeadersPrompt) {
  Harness harness;
  Request request = make_request(1, make_prompt(20), 4);
  request.n = 2;
  ASSERT_TRUE(harness.submit(std::move(request)).ok());
  harness.step();
  EXPECT_EQ(explained(harness, 1, 0).activity, SequenceActivity::kPrefill);
  EXPECT_EQ(explained(harness, 1, 1).activity, SequenceActivity::kFollowing);
  EXPECT_EQ(explained(harness, 1, 1).wait, WaitFor::kLeaderPrompt);
  EXPECT_EQ(explained(harness, 1, 1).queue_position, -1);
}

TEST(Explain, APreemptedSequenceIsInTheQueueAgain) {
  Harness harness;
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(28), 30)).ok());
  ASSERT_TRUE(harness.submit(make_request(2, make_prompt(24, 9), 30)).ok());
  while (harness.total.preemptions == 0 && harness.step()) {
  }
  ASSERT_EQ(harness.total.preemptions, 1u);
  const SequenceExplanation one = explained(harness, 2);
  EXPECT_EQ(one.activity, SequenceActivity::kPreempted);
  EXPECT_EQ(one.wait, WaitFor::kNoBlocks);
  EXPECT_EQ(one.computed, 0u);
  EXPECT_GT(one.output_tokens, 0u);
  EXPECT_EQ(harness.scheduler.explain(2)->summary.preemptions, 1u);
}

TEST(Explain, NamesAPrefixThatAnotherComputes) {
  Harness harness;
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(40), 4)).ok());
  ASSERT_TRUE(harness.submit(make_request(2, make_prompt(40), 4)).ok());
  harness.step();
  EXPECT_EQ(explained(harness, 2).wait, WaitFor::kPrefix);
}

TEST(Explain, NamesTheRunningLimitWhereAPrefixWasAwaitedBefore) {
  SchedulerLimits limits = small_limits();
  limits.max_running = 2;
  Harness harness(limits);
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(40), 8)).ok());
  ASSERT_TRUE(harness.submit(make_request(2, make_prompt(40), 4)).ok());
  ASSERT_TRUE(harness.submit(make_request(3, make_prompt(40), 4)).ok());
  harness.step();
  ASSERT_EQ(explained(harness, 3).wait, WaitFor::kPrefix);
  ASSERT_TRUE(harness.submit(make_request(4, make_prompt(4, 45), 8)).ok());  // takes the second slot
  harness.step();
  ASSERT_EQ(explained(harness, 4).activity, SequenceActivity::kDecode);
  for (int i = 0; i < 3; ++i) {
    harness.step();
    EXPECT_EQ(explained(harness, 2).wait, WaitFor::kNoSlot);
    EXPECT_EQ(explained(harness, 3).wait, WaitFor::kNoSlot);
  }
  harness.run();
  EXPECT_EQ(harness.problem, "");
}

TEST(Explain, AnswersForSeveralAtOnceInTheirOrder) {
  Harness harness;
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(4), 2)).ok());
  ASSERT_TRUE(harness.submit(make_request(2, make_prompt(5), 2)).ok());
  const std::vector<RequestId> ids = {2, 9, 1};
  const auto all = harness.scheduler.explain(ids);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0]->id, 2u);
  EXPECT_EQ(all[0]->sequences[0].queue_position, 1);
  EXPECT_FALSE(all[1].has_value());
  EXPECT_EQ(all[2]->id, 1u);
}

}  // namespace
}  // namespace twostroke::test
