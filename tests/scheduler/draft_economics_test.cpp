#include "scheduler/draft_economics.h"

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
  for (const float chance : chances) count += DraftEconomics::level_of(chance) > choice.level ? 1 : 0;
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

TEST(DraftEconomics, SendsWhatIsWorthMoreThanItCosts) {
  // A third of a step for each: chances of more than 0.37 pay, with the margin.
  EXPECT_EQ(sent(with_price(1e6 / 3), decodes(1), {0.9F, 0.7F, 0.5F, 0.3F, 0.1F}), 3U);
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

TEST(DraftEconomics, ValuesATokenByTheDecodesAloneWhateverPrefillIsBesideThem) {
  StepShape mixed = decodes(2);
  mixed.prefill_rows = 1;
  mixed.prefill_tokens = 200;
  EXPECT_EQ(sent(with_ridge(16), mixed, {0.9F, 0.8F}), 2U) << "a decode's share is 0.5 ms, a draft costs 0.06";
  EXPECT_EQ(sent(with_price(0.8e6), mixed, {0.9F, 0.8F}), 0U) << "a decode's share is 0.9 ms, a draft costs 0.8";
}

TEST(DraftEconomics, TakesTheMostProbableOfAllRows) {
  DraftEconomics economics(with_ridge(64), decodes(2), kNoLimit);
  economics.add(std::vector<float>{0.9F, 0.8F, 0.7F});
  economics.add(std::vector<float>{0.5F, 0.4F});
  const DraftEconomics::Choice choice = economics.choose(3);
  EXPECT_EQ(choice.level, DraftEconomics::level_of(0.7F));
  EXPECT_EQ(choice.at_level, 1U);
}

TEST(DraftEconomics, KeepsTheLimitAmongEquals) {
  DraftEconomics economics(with_ridge(64), decodes(10), kNoLimit);
  for (int row = 0; row < 10; ++row) economics.add(std::vector<float>{0.75F});
  const DraftEconomics::Choice choice = economics.choose(4);
  EXPECT_EQ(choice.level, DraftEconomics::level_of(0.75F));
  EXPECT_EQ(choice.at_level, 4U);
}

TEST(DraftEconomics, KeepsAStepWithinItsTime) {
  EXPECT_EQ(sent(with_price(0.1e6), decodes(1), {0.9F, 0.9F, 0.9F, 0.9F}), 4U);
  EXPECT_EQ(sent(with_price(0.1e6), decodes(1), {0.93F, 0.91F, 0.89F, 0.87F}, 64, 1.25e6), 2U);
  EXPECT_FALSE(DraftEconomics(with_price(0.1e6), decodes(1), 1.05e6).could_pay(8));
}

}  // namespace
}  // namespace twostroke
