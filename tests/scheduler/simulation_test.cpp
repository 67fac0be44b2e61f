// The scheduler in thousands of random scenarios. How many: 10,000 in an optimised build, fewer where a sanitizer or
// an unoptimised build makes each slower; TWOSTROKE_SCENARIOS=N sets another number, TWOSTROKE_SCENARIO_SEED=S runs
// scenario S alone.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/scheduler/scenario.h"

namespace twostroke::test {
namespace {

constexpr uint64_t kShards = 4;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(NDEBUG)
constexpr uint64_t kScenarios = 2'000;
#else
constexpr uint64_t kScenarios = 10'000;
#endif

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::strtoull(value, nullptr, 10) : otherwise;
}

class Simulation : public ::testing::TestWithParam<uint64_t> {};

TEST_P(Simulation, KeepsEveryPromiseInRandomScenarios) {
  ScenarioStats stats;
  if (const uint64_t seed = from_environment("TWOSTROKE_SCENARIO_SEED", 0)) {
    EXPECT_EQ(run_scenario(seed, stats), "") << "seed " << seed;
    return;
  }
  const uint64_t scenarios = from_environment("TWOSTROKE_SCENARIOS", kScenarios) / kShards;
  for (uint64_t i = 0; i < scenarios; ++i) {
    const uint64_t seed = 1 + GetParam() * scenarios + i;
    ASSERT_EQ(run_scenario(seed, stats), "") << "run it alone with TWOSTROKE_SCENARIO_SEED=" << seed;
  }
  // They have reached what they are for.
  EXPECT_EQ(stats.scenarios, scenarios);
  EXPECT_GT(stats.mixed_steps, scenarios);
  EXPECT_GT(stats.requests_finished, scenarios);
  EXPECT_GT(stats.requests_failed, scenarios / 100);
  EXPECT_GT(stats.requests_refused, scenarios / 100);
  EXPECT_GT(stats.cancels_waiting, scenarios / 100);
  EXPECT_GT(stats.cancels_prefilling, scenarios / 100);
  EXPECT_GT(stats.cancels_decoding, scenarios / 100);
  EXPECT_GT(stats.sequences_told_to_finish, scenarios / 100);
  EXPECT_GT(stats.preemptions, scenarios / 100);
  EXPECT_GT(stats.pushed_out, scenarios / 100);
  EXPECT_GT(stats.waited_for_prefix, scenarios / 100);
  EXPECT_GT(stats.waited_aged, scenarios / 100);
  for (const uint64_t steps : stats.steps_by_order) EXPECT_GT(steps, scenarios);
  EXPECT_GT(stats.cached_tokens, scenarios);
  EXPECT_GT(stats.remote_tokens, scenarios / 10);
  EXPECT_GT(stats.recomputed_tokens, scenarios / 100);
  EXPECT_GT(stats.copies, scenarios / 100);
  EXPECT_GT(stats.masked_rows, scenarios / 100);
  EXPECT_GT(stats.requests_stuck, scenarios / 100);
  EXPECT_GT(stats.prompts_scored, scenarios / 100);
  EXPECT_GT(stats.embeddings, scenarios / 100);
  EXPECT_GT(stats.drafts, scenarios / 5);
  EXPECT_GT(stats.accepted_drafts, scenarios / 50);
  std::printf(
      "%llu scenarios, %llu steps, %llu preemptions, %llu tokens cached, %llu recomputed, %llu copies, "
      "%llu drafts, %llu accepted\n",
      static_cast<unsigned long long>(stats.scenarios), static_cast<unsigned long long>(stats.steps),
      static_cast<unsigned long long>(stats.preemptions), static_cast<unsigned long long>(stats.cached_tokens),
      static_cast<unsigned long long>(stats.recomputed_tokens), static_cast<unsigned long long>(stats.copies),
      static_cast<unsigned long long>(stats.drafts), static_cast<unsigned long long>(stats.accepted_drafts));
}

INSTANTIATE_TEST_SUITE_P(Shards, Simulation, ::testing::Range<uint64_t>(0, kShards));

}  // namespace
}  // namespace twostroke::test
