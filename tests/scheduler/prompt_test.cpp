// What is read out of a prompt: log-probabilities and embeddings. The Harness compares both with what follows from the
// tokens alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scheduler/even_constraint.h"
#include "tests/scheduler/harness.h"

namespace twostroke::test {
namespace {

using ::testing::HasSubstr;

Request scored_request(RequestId id, uint32_t prompt, int32_t logprobs = 3) {
  Request request = make_request(id, make_prompt(prompt), 4);
  request.prompt_logprobs = logprobs;
  return request;
}

Request pooled_request(RequestId id, uint32_t prompt, Pooling pooling) {
  Request request = make_request(id, make_prompt(prompt), 1);
  request.pooling = pooling;
  return request;
}

TEST(PromptLogprobs, ComeInOneEventBeforeTheFirstTokenWhateverTheChunks) {
  for (const uint32_t chunk : {1u, 3u, 16u}) {
    SchedulerLimits limits = small_limits();
    limits.max_chunk_tokens = chunk;
    Harness harness(limits);
    ASSERT_TRUE(harness.submit(scored_request(1, 40)).ok());
    harness.run();
    EXPECT_EQ(harness.problem, "");
    ASSERT_TRUE(harness.track(1).prompt);
    const std::vector<TokenScore>& scores = *harness.track(1).prompt;
    ASSERT_EQ(scores.size(), 39u) << "none of the first";
    for (const TokenScore& score : scores) {
      EXPECT_LT(score.logprob, 0);
      EXPECT_GE(score.rank, 1u);
      EXPECT_EQ(score.top.size(), 3u);
    }
    EXPECT_EQ(harness.total.scored_tokens, 39u);
  }
}

TEST(PromptLogprobs, OfAPromptOfOneTokenAreNone) {
  Harness harness;
  ASSERT_TRUE(harness.submit(scored_request(1, 1)).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  ASSERT_TRUE(harness.track(1).prompt);
  EXPECT_TRUE(harness.track(1).prompt->empty());
}

TEST(PromptLogprobs, OfZeroAreThoseOfThePromptsTokensAlone) {
  Harness harness;
  ASSERT_TRUE(harness.submit(scored_request(1, 9, 0)).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_TRUE(harness.track(1).prompt->front().top.empty());
}

TEST(PromptLogprobs, ReadNothingFromThePrefixCacheButFillIt) {
  Harness harness;
  for (RequestId id = 1; id <= 2; ++id) {
    ASSERT_TRUE(harness.submit(scored_request(id, 20)).ok());
    harness.run();
    EXPECT_EQ(harness.track(id).summary.cached_tokens, 0u);
  }
  ASSERT_TRUE(harness.submit(make_request(3, make_prompt(20), 4)).ok());
  harness.run();
  EXPECT_EQ(harness.track(3).summary.cached_tokens, 16u);
  EXPECT_EQ(harness.problem, "");
}

TEST(PromptLogprobs, ComeOnceForARequestOfSeveralSequences) {
  Harness harness;
  Request request = scored_request(1, 18);
  request.n = 3;
  ASSERT_TRUE(harness.submit(std::move(request)).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(harness.total.scored_tokens, 17u) << "the leader's alone";
}

TEST(PromptLogprobs, SurvivePreemption) {
  SchedulerLimits limits = small_limits();
  limits.max_step_tokens = 8;
  limits.max_chunk_tokens = 3;
  Harness harness(limits);
  for (RequestId id = 1; id <= 4; ++id) {
    Request request = scored_request(id, 12);
    request.prompt.front() = static_cast<TokenId>(id);
    request.max_tokens = 40;
    ASSERT_TRUE(harness.submit(std::move(request)).ok());
  }
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_GT(harness.total.preemptions, 0u);
}

TEST(PromptLogprobs, AreRefusedOutOfBoundsAndWithABackendThatCannot) {
  Harness harness;
  EXPECT_EQ(harness.submit(scored_request(1, 5, kMaxPromptLogprobs + 1)).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(harness.submit(scored_request(1, 5, -2)).code(), StatusCode::kInvalidArgument);
  SimOptions machine = small_machine();
  machine.info.scores_targets = false;
  Harness other(small_limits(), std::move(machine));
  EXPECT_EQ(other.submit(scored_request(1, 5)).code(), StatusCode::kUnsupported);
}

TEST(Pooling, EndsTheRequestWithTheSameEmbeddingWhateverTheChunks) {
  for (const Pooling pooling : {Pooling::kMean, Pooling::kLast}) {
    for (const uint32_t chunk : {1u, 3u, 16u}) {
      SchedulerLimits limits = small_limits();
      limits.max_chunk_tokens = chunk;
      Harness harness(limits);
      ASSERT_TRUE(harness.submit(pooled_request(1, 40, pooling)).ok());
      harness.run();
      EXPECT_EQ(harness.problem, "");
      EXPECT_EQ(harness.track(1).outcome, Outcome::kFinished);
      EXPECT_EQ(harness.track(1).embedding.size(), 16u);
      EXPECT_EQ(harness.track(1).summary.output_tokens, 0u);
      EXPECT_EQ(harness.total.sampled_tokens, 0u);
      EXPECT_EQ(harness.scheduler.gauges().blocks_referenced, 0u);
    }
  }
}

TEST(Pooling, OfTheLastReadsThePrefixCacheAndOfTheMeanDoesNot) {
  Harness harness;
  ASSERT_TRUE(harness.submit(pooled_request(1, 20, Pooling::kMean)).ok());
  harness.run();
  ASSERT_TRUE(harness.submit(pooled_request(2, 20, Pooling::kLast)).ok());
  harness.run();
  ASSERT_TRUE(harness.submit(pooled_request(3, 20, Pooling::kMean)).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(harness.track(2).summary.cached_tokens, 16u);
  EXPECT_EQ(harness.track(3).summary.cached_tokens, 0u);
  EXPECT_EQ(harness.track(3).embedding, harness.track(1).embedding);
}

TEST(Pooling, TakesAPromptAsLongAsTheContext) {
  Harness harness;
  ASSERT_TRUE(harness.submit(pooled_request(1, 64, Pooling::kMean)).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  const Status status = harness.submit(pooled_request(2, 65, Pooling::kMean));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("the prompt has 65 tokens; it exceeds the context of 64"));
}

TEST(Pooling, RefusesWhatIsAboutOutput) {
  Harness harness;
  const auto refused = [&](auto change, const std::string& field) {
    Request request = pooled_request(1, 5, Pooling::kMean);
    change(request);
    const Status status = harness.submit(std::move(request));
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(field + " means nothing"));
  };
  refused([](Request& r) { r.n = 2; }, "n");
  refused([](Request& r) { r.constraints.push_back(std::make_unique<EvenConstraint>()); }, "a constraint");
  refused([](Request& r) { r.allowed_tokens = {1}; }, "allowed_tokens");
  refused([](Request& r) { r.bad_words = {{1}}; }, "bad_words");
  refused([](Request& r) { r.min_tokens = 1; }, "min_tokens");
  refused([](Request& r) { r.prompt_logprobs = 0; }, "prompt_logprobs");
  refused([](Request& r) { r.stop_tokens = {1}; }, "stop_tokens");
}

TEST(Pooling, IsRefusedWithABackendThatCannot) {
  SimOptions machine = small_machine();
  machine.info.embedding_size = 0;
  Harness harness(small_limits(), std::move(machine));
  const Status status = harness.submit(pooled_request(1, 5, Pooling::kLast));
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("cannot compute embeddings"));
}

// A plug-in's mistakes fail their request, and nothing else.
TEST(PromptWork, ThatTheBackendDidNotDoFailsItsRequest) {
  for (const bool pools : {false, true}) {
    Harness harness;
    ASSERT_TRUE(harness.submit(pools ? pooled_request(1, 5, Pooling::kMean) : scored_request(1, 5)).ok());
    StepCounts counts;
    harness.scheduler.schedule(0, harness.plan, counts);
    StepResult result;
    result.rows.resize(1);
    result.rows[0].token = 1;
    std::vector<Event> events;
    harness.scheduler.commit(harness.plan, result, 0, events);
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].outcome, Outcome::kFailed);
    EXPECT_THAT(events[0].error.message(),
                HasSubstr(pools ? "a state of 0 numbers, not of 16" : "0 log-probabilities for a prompt chunk of 4"));
    EXPECT_EQ(harness.scheduler.check_invariants(), "");
  }
}

TEST(PromptWork, ThatIsNotFiniteFailsItsRequest) {
  SimOptions machine = small_machine();
  machine.fault = [](const StepPlan&) { return SimFault{.kind = SimFault::Kind::kNotFinite, .rows = {0}}; };
  Harness harness(small_limits(), std::move(machine));
  ASSERT_TRUE(harness.submit(pooled_request(1, 5, Pooling::kMean)).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(harness.track(1).outcome, Outcome::kFailed);
}

}  // namespace
}  // namespace twostroke::test
