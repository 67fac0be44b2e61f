#include "scheduler/cost/step_budget.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/scheduler/harness.h"

namespace twostroke::test {
namespace {

// 10 ms for every step, 0.1 ms for each token, 0.001 ms for each position that a chunk attends to.
CostModel straight_costs() {
  CostCoefficients c;
  for (size_t i = 0; i < kCostKnotCount; ++i) c.token_ns[i] = 1e7 + 1e5 * kCostKnots[i];
  c.prefill_position_ns = 1e3;
  return {c, CostModel::Prior::kCalibrated};
}

// Flat to 192 tokens.
CostModel ridge_costs() {
  CostCoefficients c;
  for (size_t i = 0; i < kCostKnotCount; ++i) c.token_ns[i] = 1e7 * std::max(1.0, kCostKnots[i] / 192.0);
  return {c, CostModel::Prior::kCalibrated};
}

StepShape streams_of(uint32_t rows) { return {.decode_rows = rows, .decode_tokens = rows, .logit_tokens = rows}; }

TEST(StepBudget, IsTheMostWhosePredictedStepMeetsTheObjective) {
  const CostModel costs = straight_costs();
  for (const TimeNs objective : {20, 25, 40}) {
    StepBudgetInput input{
        .decodes = streams_of(10), .step_tokens_max = 1000, .objective_ns = objective * kMillisecondNs};
    const StepBudget budget = decide_budget(costs, input);
    EXPECT_EQ(budget.reason, ChunkReason::kObjective);
    const auto time = [&](uint32_t tokens) { return costs.predict_ns(with_chunk(input.decodes, tokens, 0)); };
    EXPECT_LE(time(budget.prefill_tokens), static_cast<double>(input.objective_ns));
    EXPECT_GT(time(budget.prefill_tokens + 1), static_cast<double>(input.objective_ns));
  }
}

TEST(StepBudget, ShrinksWithTheContextThatTheChunkReads) {
  StepBudgetInput input{.decodes = streams_of(10), .step_tokens_max = 1000, .objective_ns = 30 * kMillisecondNs};
  const uint32_t at_the_beginning = decide_budget(straight_costs(), input).prefill_tokens;
  input.position = 100;  // each token costs twice as much
  const uint32_t behind = decide_budget(straight_costs(), input).prefill_tokens;
  EXPECT_LT(behind, at_the_beginning * 3 / 4);
  EXPECT_GT(behind, at_the_beginning / 3);
}

TEST(StepBudget, KeepsAMarginForStepsThatTakeLongerThanForeseen) {
  const CostModel exact = straight_costs();
  CostModel unsure = straight_costs();
  const StepShape mixed = with_chunk(streams_of(10), 50, 0);
  for (int i = 0; i < 100; ++i) {
    const double predicted = unsure.predict_ns(mixed);
    unsure.learn(mixed, static_cast<TimeNs>(predicted + (i % 10 == 0 ? 6e6 : 0)));
  }
  const StepBudgetInput input{.decodes = streams_of(10), .step_tokens_max = 1000, .objective_ns = 25 * kMillisecondNs};
  const double planned = unsure.predict_ns(with_chunk(input.decodes, decide_budget(unsure, input).prefill_tokens, 0));
  EXPECT_NEAR(planned, 25e6 - 6e6, 2e5);
  EXPECT_GT(exact.predict_ns(with_chunk(input.decodes, decide_budget(exact, input).prefill_tokens, 0)), 24.8e6);
  for (int i = 0; i < 100; ++i) unsure.learn(mixed, kSecondNs);
  EXPECT_NEAR(objective_limit_ns(unsure, 25 * kMillisecondNs), 25e6 * (1 - kOverrunPartMax), 1);
}

TEST(StepBudget, NeverStarvesPrefill) {
  StepBudgetInput input{.decodes = streams_of(100), .step_tokens_max = 1000, .objective_ns = 1};
  EXPECT_EQ(decide_budget(straight_costs(), input), (StepBudget{kPrefillFloorTokens, ChunkReason::kFloor}));
  input.step_tokens_max = 104;
  EXPECT_EQ(decide_budget(straight_costs(), input), (StepBudget{4, ChunkReason::kFloor}))
      << "no more than the step has left";
  input.step_tokens_max = 100;
  EXPECT_EQ(decide_budget(straight_costs(), input).prefill_tokens, 0u);
  input.step_tokens_max = 10;
  EXPECT_EQ(decide_budget(straight_costs(), input).prefill_tokens, 0u) << "decodes beyond the step are no less than 0";
}

TEST(StepBudget, WithoutAnObjectiveFillsTheStepToTheRidge) {
  StepBudgetInput input{.decodes = streams_of(32), .step_tokens_max = 4096};
  const StepBudget budget = decide_budget(ridge_costs(), input);
  EXPECT_EQ(budget.reason, ChunkReason::kRidge);
  EXPECT_NEAR(budget.prefill_tokens, 192 * 1.15 - 32, 2);
  // Decodes beyond the ridge leave a quarter of a worthwhile step.
  input.decodes = streams_of(300);
  const StepBudget beyond = decide_budget(ridge_costs(), input);
  EXPECT_EQ(beyond.reason, ChunkReason::kFloor);
  EXPECT_NEAR(beyond.prefill_tokens, 300 * 1.15 / 4, 1);
}

TEST(StepBudget, DoesNotBelieveThatTinyChunksAreWorthwhile) {
  CostCoefficients c;  // every token costs the same: a step of one is as efficient as any
  for (size_t i = 0; i < kCostKnotCount; ++i) c.token_ns[i] = 1e6 * kCostKnots[i];
  const CostModel costs(c, CostModel::Prior::kCalibrated);
  EXPECT_EQ(decide_budget(costs, {.decodes = streams_of(4), .step_tokens_max = 512}),
            (StepBudget{CostModel::kWorthwhileTokensMin - 4, ChunkReason::kRidge}));
}

TEST(StepBudget, FillsTheStepWhereNothingDecodesOrTheOperatorChose) {
  const CostModel costs = straight_costs();
  EXPECT_EQ(decide_budget(costs, {.step_tokens_max = 512, .objective_ns = 1}),
            (StepBudget{512, ChunkReason::kNothingDecodes}));
  EXPECT_EQ(decide_budget(costs, {.decodes = streams_of(12), .step_tokens_max = 512, .fixed = true}),
            (StepBudget{500, ChunkReason::kFixed}));
  EXPECT_EQ(decide_budget(costs, {.decodes = streams_of(12), .step_tokens_max = 512, .objective_ns = kSecondNs}),
            (StepBudget{500, ChunkReason::kStepTokens}));
  EXPECT_EQ(decide_budget(costs, {.decodes = streams_of(12), .step_tokens_max = 512, .objective_ns = 1, .fixed = true})
                .reason,
            ChunkReason::kFloor)
      << "an objective holds for chosen chunks too";
}

TEST(StepBudget, ReasonsHaveNamesOfTheirOwn) {
  std::vector<std::string> names;
  for (size_t i = 0; i < kChunkReasons; ++i) names.emplace_back(chunk_reason_name(static_cast<ChunkReason>(i)));
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::unique(names).size(), 0u);
  EXPECT_EQ(std::ranges::count(names, "unknown"), 0);
}

// --- In the scheduler

SimOptions large_machine() {
  SimOptions machine;
  machine.info.vocab_size = 50;
  machine.info.block_count = 2048;
  machine.info.context_max = 4096;
  machine.info.step_tokens_max = 1024;
  machine.info.step_rows_max = 64;
  return machine;
}

SchedulerLimits with_costs(const CostModel& costs) {
  SchedulerLimits limits;
  limits.max_step_tokens = 1024;
  limits.costs = costs.coefficients();
  return limits;
}

// Prefill tokens of the next step, with `streams` that decode and a long prompt.
uint32_t chunk_beside(Harness& harness, const std::vector<Objectives>& streams) {
  RequestId id = 0;
  for (const Objectives& objectives : streams) {
    Request request = make_request(++id, make_prompt(4), 1000);
    request.objectives = objectives;
    EXPECT_TRUE(harness.submit(std::move(request)).ok());
  }
  harness.step();
  harness.scheduler.learn({}, 1);  // teaches nothing
  EXPECT_TRUE(harness.submit(make_request(99, std::vector<TokenId>(3000, 3), 1)).ok());
  harness.step();
  EXPECT_EQ(harness.problem, "");
  return harness.counts.shape.prefill_tokens;
}

TEST(ChunkOfAStep, FollowsTheTightestObjectiveOfWhatDecodes) {
  // The harness's machine has another speed than the coefficients: it must not be learned here.
  const auto chunk = [](TimeNs target, const std::vector<Objectives>& streams) {
    SchedulerLimits limits = with_costs(straight_costs());
    limits.itl_target_ns = target;
    Harness harness(limits, large_machine());
    harness.slowness = 0;
    return chunk_beside(harness, streams);
  };
  const Objectives none;
  const Objectives tight{.tpot_ns = 15 * kMillisecondNs};
  const Objectives wide{.tpot_ns = 60 * kMillisecondNs};
  const uint32_t wide_chunk = chunk(0, {wide, wide});
  const uint32_t tight_chunk = chunk(0, {wide, tight});
  EXPECT_LT(tight_chunk, wide_chunk / 2);
  EXPECT_EQ(chunk(0, {tight, none}), tight_chunk);
  EXPECT_EQ(chunk(tight.tpot_ns, {none, none}), tight_chunk);
  EXPECT_EQ(chunk(tight.tpot_ns, {wide, wide}), wide_chunk) << "a request's own objective stands in the server's place";
}

TEST(ChunkOfAStep, IsPublishedWithItsReasonThePredictionAndTheRidge) {
  SchedulerLimits limits = with_costs(ridge_costs());
  Harness harness(limits, large_machine());
  harness.slowness = 0;
  const uint32_t chunk = chunk_beside(harness, {{}, {}});
  const SchedulerGauges gauges = harness.scheduler.gauges();
  EXPECT_EQ(gauges.prefill_chunk_tokens, chunk);
  EXPECT_EQ(gauges.chunk_reason, ChunkReason::kRidge);
  EXPECT_EQ(gauges.ridge_tokens, chunk + 2);
  EXPECT_EQ(harness.counts.predicted_ns,
            static_cast<TimeNs>(harness.scheduler.cost_model().predict_ns(harness.counts.shape)));
  EXPECT_GT(harness.counts.predicted_ns, 10 * kMillisecondNs);
}

TEST(ChunkOfAStep, IsSharedByAllPromptsOfTheStep) {
  SchedulerLimits limits = with_costs(ridge_costs());
  Harness harness(limits, large_machine());
  harness.slowness = 0;
  const uint32_t alone = chunk_beside(harness, {{}, {}});
  ASSERT_TRUE(harness.submit(make_request(100, std::vector<TokenId>(3000, 4), 1)).ok());
  ASSERT_TRUE(harness.submit(make_request(101, std::vector<TokenId>(3000, 5), 1)).ok());
  for (int i = 0; i < 5; ++i) {
    harness.step();
    EXPECT_EQ(harness.counts.shape.prefill_tokens, alone);
  }
}

TEST(ChunkOfAStep, EveryStreamDecodesInEveryStepWhateverTheObjective) {
  SchedulerLimits limits = with_costs(straight_costs());
  limits.itl_target_ns = 1;
  Harness harness(limits, large_machine());
  EXPECT_EQ(chunk_beside(harness, std::vector<Objectives>(8)), kPrefillFloorTokens);
  uint32_t steps = 0;
  for (; harness.track(99).ends == 0 && harness.step(); ++steps) EXPECT_EQ(harness.counts.shape.decode_rows, 8u);
  EXPECT_EQ(harness.problem, "");
  EXPECT_LE(steps, 3000 / kPrefillFloorTokens) << "and the prompt advances in every step";
}

}  // namespace
}  // namespace twostroke::test
