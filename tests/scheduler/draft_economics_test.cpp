#include "scheduler/drafts/draft_economics.h"

#include <gtest/gtest.h>

#include <limits>

namespace twostroke {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// A step takes 1 ms up to `ridge` tokens, and 1 ms / ridge for each token beyond.
CostModel with_ridge(uint32_t ridge) {
  CostCoefficients costs;
  for (size_t i = 0; i < kCostKnotCount; ++i) {
    costs.token_ns[i] = 1e6 * std::max(1.0, static_cast<double>(kCostKnots[i]) / ridge);
  }
  return {costs, CostModel::Prior::kCalibrated};
}

// A step takes 1 ms, and `token_ns` more for each token but the first.
CostModel with_price(double token_ns) {
  CostCoefficients costs;
  for (size_t i = 0; i < kCostKnotCount; ++i) costs.token_ns[i] = 1e6 + (kCostKnots[i] - 1) * token_ns;
  return {costs, CostModel::Prior::kCalibrated};
}

StepShape decodes(uint32_t rows) {
  return {.decode_rows = rows, .decode_tokens = rows, .logit_tokens = rows, .decode_context = 100 * uint64_t{rows}};
}

// How many drafts of these chances, all of one row, are sent along.
uint32_t sent(const CostModel& costs, const StepShape& step, std::vector<float> chances, uint32_t limit = 64,
              double time_max_ns = kNoLimit) {
  DraftEconomics economics(costs, step, time_max_ns);
  economics.add(chances);
  const DraftEconomics::Choice choice = economics.choose(limit);
  uint32_t count = choice.at_level;
  for (const float worth : chances) count += DraftEconomics::level_of(worth) > choice.level ? 1 : 0;
  EXPECT_LE(count, limit);
  return count;
}

TEST(DraftEconomics, SendsWhateverIsFree) {
  EXPECT_EQ(sent(with_ridge(64), decodes(1), {0.9F, 0.5F, 0.1F, 0.05F}), 4U);
}

TEST(DraftEconomics, SendsNothingWhereEveryTokenCostsAStep) {
  const CostModel costs = with_price(1e6);
  EXPECT_EQ(sent(costs, decodes(1), {1.0F, 1.0F, 1.0F}), 0U);
  EXPECT_FALSE(DraftEconomics(costs, decodes(1), kNoLimit).could_pay(8));
}

// A third of a step for each. Without the margin: 1.9 tokens in 1.33 steps, 2.6 in 1.67, 3.1 in 2, 3.4 in 2.33.
TEST(DraftEconomics, SendsWhatGivesTheMostTokensForTheTime) {
  EXPECT_EQ(sent(with_price(1e6 / 3), decodes(1), {0.9F, 0.7F, 0.5F, 0.3F, 0.1F}), 2U);
  EXPECT_EQ(sent(with_price(1e6 / 3), decodes(1), {0.3F, 0.1F}), 0U);
}

TEST(DraftEconomics, LooksBeyondADearFirstTokenToCheapOnesBehindIt) {
  CostCoefficients costs;  // two tokens cost as much as sixteen
  for (size_t i = 0; i < kCostKnotCount; ++i) {
    costs.token_ns[i] = kCostKnots[i] == 1 ? 1e6 : 2e6 * std::max(1.0, kCostKnots[i] / 16.0);
  }
  const CostModel model(costs, CostModel::Prior::kCalibrated);
  EXPECT_EQ(sent(model, decodes(1), {0.95F}), 0U);
  EXPECT_EQ(sent(model, decodes(1), {0.95F, 0.9F, 0.85F}), 3U);
  EXPECT_TRUE(DraftEconomics(model, decodes(1), kNoLimit).could_pay(3));
  EXPECT_FALSE(DraftEconomics(model, decodes(1), kNoLimit).could_pay(1));
}

TEST(DraftEconomics, SwitchesItselfOffAtALargeBatch) {
  const CostModel costs = with_ridge(16);
  const std::vector<float> good = {0.9F, 0.8F, 0.7F};
  EXPECT_EQ(sent(costs, decodes(1), good), 3U);
  EXPECT_EQ(sent(costs, decodes(13), good), 3U);
  EXPECT_EQ(sent(costs, decodes(16), good), 0U);
  EXPECT_FALSE(DraftEconomics(costs, decodes(64), kNoLimit).could_pay(64));
}

TEST(DraftEconomics, SlowsManyOnlyWhereManyGain) {
  const CostModel costs = with_price(0.3e6);
  const auto drafts_of = [&](uint32_t rows_with_drafts) {
    DraftEconomics economics(costs, decodes(8), kNoLimit);
    std::vector<float> chance(1);
    for (uint32_t row = 0; row < rows_with_drafts; ++row) economics.add(chance = {1.0F});
    return economics.choose(64).at_level;
  };
  EXPECT_EQ(drafts_of(8), 8U) << "twice the tokens in 1.77 of the time";
  EXPECT_EQ(drafts_of(1), 0U) << "7 of 8 lose a tenth";
}

TEST(DraftEconomics, CountsPrefillAmongThoseWhoAreSlowed) {
  StepShape mixed = decodes(2);
  mixed.prefill_rows = 1;
  mixed.prefill_tokens = 16;
  EXPECT_EQ(sent(with_price(0.8e6), mixed, {0.9F, 0.8F}), 2U) << "what a draft adds to a long step is little";
  EXPECT_EQ(sent(with_price(0.8e6), mixed, {0.205F}), 0U) << "but three wait for it";
  mixed.prefill_rows = 0;
  EXPECT_EQ(sent(with_price(0.8e6), mixed, {0.205F}), 1U);
}

TEST(DraftEconomics, TakesTheWorthiestOfAllRows) {
  const CostModel costs = with_ridge(64);
  DraftEconomics economics(costs, decodes(2), kNoLimit);
  std::vector<float> first = {0.9F, 0.8F, 0.7F};
  std::vector<float> second = {0.5F, 0.4F};
  economics.add(first);
  economics.add(second);
  EXPECT_GT(first[0], second[0]);
  EXPECT_GT(second[0], first[1]) << "a row's first draft doubles its tokens, its second does not";
  const DraftEconomics::Choice choice = economics.choose(2);
  EXPECT_EQ(choice.level, DraftEconomics::level_of(second[0]));
  EXPECT_EQ(choice.at_level, 1U);
}

TEST(DraftEconomics, KeepsTheLimitAmongEquals) {
  const CostModel costs = with_ridge(64);
  DraftEconomics economics(costs, decodes(10), kNoLimit);
  std::vector<float> chance;
  for (int row = 0; row < 10; ++row) economics.add(chance = {0.75F});
  const DraftEconomics::Choice choice = economics.choose(4);
  EXPECT_EQ(choice.level, DraftEconomics::level_of(chance[0]));
  EXPECT_EQ(choice.at_level, 4U);
}

TEST(DraftEconomics, KeepsAStepWithinItsTime) {
  EXPECT_EQ(sent(with_price(0.1e6), decodes(1), {0.9F, 0.9F, 0.9F, 0.9F}), 4U);
  EXPECT_EQ(sent(with_price(0.1e6), decodes(1), {0.9F, 0.9F, 0.9F, 0.9F}, 64, 1.25e6), 2U);
  EXPECT_FALSE(DraftEconomics(with_price(0.1e6), decodes(1), 1.05e6).could_pay(8));
}

}  // namespace
}  // namespace twostroke
