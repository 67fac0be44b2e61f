#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scheduler/even_constraint.h"
#include "tests/scheduler/harness.h"

namespace twostroke::test {
namespace {

using ::testing::HasSubstr;

TEST(Planning, RunsARequestFromPromptToLastToken) {
  Harness harness;
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(10), 5)).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(harness.track(1).ends, 1u);
  EXPECT_EQ(harness.track(1).outcome, Outcome::kFinished);
  EXPECT_EQ(harness.track(1).outputs[0].size(), 5u);
  EXPECT_EQ(harness.steps, 5u + 1) << "the prompt's step gives the first token; the last call finds nothing to do";
}

TEST(Planning, CutsAPromptIntoChunksOfWhichOnlyTheLastSamples) {
  SchedulerLimits limits = small_limits();
  limits.max_chunk_tokens = 4;
  Harness harness(limits);
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(10), 2)).ok());
  std::vector<uint32_t> chunks;
  std::vector<bool> samples;
  while (harness.step()) {
    chunks.push_back(harness.plan.rows[0].token_count);
    samples.push_back(harness.plan.rows[0].samples);
  }
  EXPECT_THAT(chunks, ::testing::ElementsAre(4, 4, 2, 1));
  EXPECT_THAT(samples, ::testing::ElementsAre(false, false, true, true));
  EXPECT_EQ(harness.problem, "");
}

// Both phases at once: each stream gets its token in every step while a long prompt is worked off beside it.
TEST(Planning, EveryStreamGetsItsTokenWhileALongPromptIsPrefilled) {
  SimOptions machine;
  machine.info.block_count = 512;
  machine.info.context_max = 2048;
  SchedulerLimits limits;
  limits.max_step_tokens = 128;
  limits.max_chunk_tokens = 128;
  Harness harness(limits, std::move(machine));
  constexpr RequestId kStreams = 8;
  for (RequestId id = 1; id <= kStreams; ++id) {
    ASSERT_TRUE(harness.submit(make_request(id, make_prompt(5, static_cast<TokenId>(id)), 100)).ok());
  }
  harness.step();
  ASSERT_TRUE(harness.submit(make_request(99, std::vector<TokenId>(1500, 3), 1)).ok());
  uint32_t mixed = 0;
  while (harness.step() && harness.track(99).ends == 0) {
    ++mixed;
    EXPECT_EQ(harness.counts.shape.decode_rows, kStreams);
    EXPECT_EQ(harness.counts.shape.prefill_rows, 1u);
    EXPECT_EQ(harness.plan.tokens.size(), 128u - (harness.plan.rows.back().samples ? 60 : 0)) << "the step is full";
  }
  EXPECT_EQ(mixed, 1500 / 120) << "and one more, in which it ended";
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(harness.total.computed_tokens + harness.total.cached_tokens, kStreams * 5 + 1500);
}

TEST(Planning, DecodesComeFirstWhateverTheyArrivedAfter) {
  SchedulerLimits limits = small_limits();
  limits.max_chunk_tokens = 4;
  Harness harness(limits);
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(40), 5)).ok());
  ASSERT_TRUE(harness.submit(make_request(2, make_prompt(2), 5)).ok());
  harness.step();
  harness.step();
  ASSERT_EQ(harness.plan.rows.size(), 2u);
  EXPECT_EQ(&harness.plan.rows[0], harness.row(2));
  EXPECT_EQ(&harness.plan.rows[1], harness.row(1));
}

// Criterion 11: with chunks smaller than the step, a long prompt leaves room for those behind it.
TEST(Planning, AShortRequestBehindALongPrefillStartsInTheNextStep) {
  SchedulerLimits limits = small_limits();
  limits.max_chunk_tokens = 8;
  Harness harness(limits);
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(45), 5)).ok());
  harness.step();
  ASSERT_TRUE(harness.submit(make_request(2, make_prompt(3, 20), 5)).ok());
  harness.step();
  EXPECT_EQ(harness.track(2).outputs[0].size(), 1u);
  EXPECT_EQ(harness.track(1).outputs[0].size(), 0u) << "the long one is still being prefilled";
}

// "chunk minus decodes" must not go below nothing.
TEST(Planning, AStepFullOfDecodesLeavesNothingForPrefill) {
  SchedulerLimits limits = small_limits();
  limits.max_step_tokens = 2;
  Harness harness(limits);
  for (RequestId id = 1; id <= 3; ++id) ASSERT_TRUE(harness.submit(make_request(id, make_prompt(2), 5)).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
}

TEST(Planning, WorksWithAStepOfOneToken) {
  SchedulerLimits limits = small_limits();
  limits.max_step_tokens = 1;
  Harness harness(limits);
  for (RequestId id = 1; id <= 3; ++id) ASSERT_TRUE(harness.submit(make_request(id, make_prompt(7), 5)).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(harness.total.sampled_tokens, 15u);
}

TEST(Planning, SamplingRowsSayAllThatASamplerNeeds) {
  Harness harness;
  Request request = make_request(1, make_prompt(3), 5);
  request.sampling.temperature = 0.5f;
  request.sampling.seed = 77;
  request.sampling.logprobs = 2;
  request.sampling.logit_bias = {{4, 1.5f}};
  const SamplingParams sampling = request.sampling;
  ASSERT_TRUE(harness.submit(std::move(request)).ok());
  harness.step();
  harness.step();
  const Row& row = harness.plan.rows[0];
  ASSERT_NE(row.sampling, nullptr);
  EXPECT_EQ(*row.sampling, sampling);
  EXPECT_EQ(row.prompt_count, 3u);
  EXPECT_TRUE(row.mask.empty());
  ASSERT_EQ(harness.events.size(), 1u);
  EXPECT_EQ(harness.events[0].top.size(), 2u);
  EXPECT_LT(harness.events[0].logprob, 0);
  EXPECT_EQ(harness.events[0].top, harness.result.rows[0].top);
}

TEST(Planning, AConstraintMasksEveryRowThatSamplesAndHearsEveryToken) {
  Harness harness;
  std::vector<TokenId> accepted;
  Request request = make_request(1, make_prompt(20), 6);
  request.constraints.push_back(std::make_unique<EvenConstraint>(&accepted));
  ASSERT_TRUE(harness.submit(std::move(request)).ok());
  harness.step();
  EXPECT_TRUE(harness.plan.rows[0].mask.empty()) << "a chunk in mid-prompt samples nothing";
  harness.step();
  EXPECT_EQ(harness.plan.rows[0].mask.size(), 2u) << "50 tokens";
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(accepted, harness.track(1).outputs[0]);
}

TEST(Planning, SaysNothingWhenThereIsNothingToDo) {
  Harness harness;
  EXPECT_FALSE(harness.step());
  EXPECT_EQ(harness.problem, "");
  EXPECT_TRUE(harness.plan.empty());
}

TEST(Planning, TheSameInputsGiveTheSamePlans) {
  const auto play = [] {
    Harness harness;
    std::vector<std::vector<BlockId>> blocks;
    std::vector<std::vector<TokenId>> tokens;
    for (RequestId id = 1; id <= 6; ++id) {
      Request request = make_request(id, make_prompt(11, static_cast<TokenId>(id % 3)), 20);
      request.n = 1 + static_cast<uint32_t>(id) % 2;
      EXPECT_TRUE(harness.submit(std::move(request)).ok());
    }
    while (harness.step()) {
      blocks.push_back(harness.plan.blocks);
      tokens.push_back(harness.plan.tokens);
    }
    EXPECT_GT(harness.total.preemptions, 0u);
    return std::pair(blocks, tokens);
  };
  EXPECT_EQ(play(), play());
}

TEST(Planning, CountsRowsTokensAndContextByPhase) {
  Harness harness;
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(6), 5)).ok());
  harness.step();
  EXPECT_EQ(harness.counts.shape.prefill_rows, 1u);
  EXPECT_EQ(harness.counts.computed_tokens, 6u);
  EXPECT_EQ(harness.counts.prefix_queries, 6u);
  EXPECT_EQ(harness.counts.shape.prefill_context, 1u + 2 + 3 + 4 + 5 + 6);
  EXPECT_EQ(harness.counts.sampled_tokens, 1u);
  harness.step();
  EXPECT_EQ(harness.counts.shape.decode_rows, 1u);
  EXPECT_EQ(harness.counts.computed_tokens, 0u);
  EXPECT_EQ(harness.counts.prefix_queries, 0u);
  EXPECT_EQ(harness.counts.shape.decode_context, 7u);
  EXPECT_EQ(harness.counts.sampled_tokens, 1u);
}

TEST(Planning, GaugesFollowEveryState) {
  SchedulerLimits limits = small_limits();
  limits.max_running = 2;
  Harness harness(limits);
  Request request = make_request(1, make_prompt(10), 5);
  request.n = 2;
  ASSERT_TRUE(harness.submit(std::move(request)).ok());
  ASSERT_TRUE(harness.submit(make_request(2, make_prompt(6, 20), 5)).ok());
  ASSERT_TRUE(harness.submit(make_request(3, make_prompt(7), 5)).ok());
  SchedulerGauges gauges = harness.scheduler.gauges();
  EXPECT_EQ(gauges.requests_waiting, 3u);
  EXPECT_EQ(gauges.sequences_waiting, 4u);
  EXPECT_EQ(gauges.waiting_prompt_tokens, 23u);
  EXPECT_EQ(gauges.blocks_total, 16u);
  harness.step();
  gauges = harness.scheduler.gauges();
  EXPECT_EQ(gauges.requests_running, 2u);
  EXPECT_EQ(gauges.requests_waiting, 1u);
  EXPECT_EQ(gauges.sequences_running, 2u);
  EXPECT_EQ(gauges.sequences_waiting, 2u);
  EXPECT_EQ(gauges.waiting_prompt_tokens, 7u);
  EXPECT_EQ(gauges.blocks_referenced, 3u + 2);
  EXPECT_EQ(gauges.blocks_free, 11u);
}

TEST(Planning, AStepInFlightMustBeCommittedBeforeAnythingElse) {
  Harness harness;
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(6), 5)).ok());
  StepCounts counts;
  harness.scheduler.schedule(0, harness.plan, counts);
  // Criterion 3: blocks cannot be given back while a step may touch them.
  EXPECT_DEATH(harness.scheduler.cancel(1, 0), "cancel\\(\\) between");
  EXPECT_DEATH(harness.scheduler.finish_sequence(1, 0, 0), "finish_sequence\\(\\) between");
  EXPECT_DEATH(harness.scheduler.fail_all(internal_error("x"), 0), "fail_all\\(\\) between");
  EXPECT_DEATH((void)harness.scheduler.submit(make_request(2, make_prompt(6), 5), 0), "submit\\(\\) between");
  EXPECT_DEATH(harness.scheduler.schedule(0, harness.plan, counts), "before the last plan");
}

}  // namespace
}  // namespace twostroke::test
