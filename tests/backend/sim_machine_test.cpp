#include <gtest/gtest.h>

#include "backend/sim/machine.h"
#include "tests/backend/sim_steps.h"

namespace twostroke {
namespace {

// Numbers that make the sums easy: 1 ns per token of arithmetic, 1 ns per byte.
SimMachine easy_machine() {
  SimMachine machine;
  machine.peak_flops = 2e9;
  machine.compute_efficiency = 0.5;
  machine.peak_bytes_per_second = 4e9;
  machine.memory_efficiency = 0.25;
  machine.step_overhead_ns = 1000;
  return machine;
}

BackendInfo easy_model() {
  BackendInfo info;
  info.block_size = 4;
  info.flops_per_token = 1;
  info.weight_bytes = 50;
  info.kv_bytes_per_token = 2;
  return info;
}

TEST(SimMachine, CountsWorkAsThePlanSays) {
  TestStep step(1);
  step.add({1, 2, 3, 4, 5}, 4, {0, 1}, nullptr);  // a decode with 4 positions before it
  step.add({1, 2, 3, 4, 5}, 2, {2, 3}, nullptr);  // a chunk of 3 behind 2
  step.plan().copies = {{4, 5}};
  const StepWork work = StepWork::of(step.plan());
  EXPECT_EQ(work.tokens, 4U);
  EXPECT_EQ(work.context, 10U);
  EXPECT_EQ(work.attended_positions, 5U + (3U + 4U + 5U));
  EXPECT_EQ(work.block_copies, 1U);
  EXPECT_EQ(work.logit_tokens, 0U);
}

TEST(SimMachine, CountsTheOutputProductForTokensWithLogitsAlone) {
  const SamplingParams sampling = greedy();
  const std::vector<TokenId> targets = {2, 3};
  TestStep step(1);
  step.add({1, 2, 3, 4, 5}, 4, {0, 1}, &sampling);
  step.add({1, 2, 3, 4, 5}, 0, {2, 3}, nullptr).targets = targets;
  const StepWork work = StepWork::of(step.plan());
  EXPECT_EQ(work.logit_tokens, 3U) << "one is sampled, two are scored";

  BackendInfo info = easy_model();
  info.weight_bytes = info.kv_bytes_per_token = 0;
  const double without = step_cost(easy_machine(), info, work).compute_seconds;
  info.output_flops = 10;
  EXPECT_NEAR(step_cost(easy_machine(), info, work).compute_seconds, without * (6 + 30) / 6, 1e-15);
}

TEST(SimMachine, AStepCostsItsOverheadAndTheGreaterOfBothLimits) {
  const StepWork decode{.tokens = 1, .context = 100, .attended_positions = 100, .block_copies = 1};
  const StepCost decode_cost = step_cost(easy_machine(), easy_model(), decode);
  EXPECT_NEAR(decode_cost.compute_seconds, 1e-9, 1e-15);
  EXPECT_NEAR(decode_cost.memory_seconds, (50 + 2 * (100 + 1 + 2 * 4)) * 1e-9, 1e-15);
  EXPECT_NEAR(static_cast<double>(decode_cost.total_ns), 1000 + 50 + 2 * (101 + 8), 1);

  const StepWork prefill{.tokens = 10'000, .context = 10'000, .attended_positions = 50'005'000};
  BackendInfo model = easy_model();
  EXPECT_NEAR(static_cast<double>(step_cost(easy_machine(), model, prefill).total_ns), 1000 + 50 + 40'000, 1);
  model.attention_flops_per_position = 0.1;
  EXPECT_NEAR(static_cast<double>(step_cost(easy_machine(), model, prefill).total_ns), 1000 + 10'000 + 5'000'500, 1);
}

TEST(SimMachine, AnAbsurdCostIsBounded) {
  BackendInfo info = easy_model();
  info.weight_bytes = 1e300;
  EXPECT_EQ(step_cost(easy_machine(), info, {.tokens = 1}).total_ns, 1000 + TimeNs{3600} * 1'000'000'000);
}

}  // namespace
}  // namespace twostroke
