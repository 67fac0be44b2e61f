#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "backend/sim/fake_model.h"

namespace twostroke {
namespace {

using testing::AnyOf;
using testing::Each;

constexpr int32_t kVocab = 100;

class FakeModelTest : public testing::Test {
 protected:
  RowResult sample(uint64_t chain) {
    Row row;
    row.samples = true;
    row.sampling = &sampling_;
    row.history = history_;
    row.prompt_count = prompt_count_;
    row.mask = mask_;
    RowResult result;
    model_.sample(chain, row, result);
    return result;
  }
  void allow(std::initializer_list<TokenId> tokens) {
    mask_.assign((kVocab + 31) / 32, 0);
    for (const TokenId token : tokens) mask_[token / 32] |= 1U << (token % 32);
  }
  TokenId best(uint64_t chain) {
    const float temperature = std::exchange(sampling_.temperature, 0.0F);
    const TokenId token = sample(chain).token;
    sampling_.temperature = temperature;
    return token;
  }

  FakeModel model_{kVocab};
  SamplingParams sampling_;
  std::vector<TokenId> history_ = {1, 2, 3};
  uint32_t prompt_count_ = 3;
  std::vector<uint32_t> mask_;
};

TEST_F(FakeModelTest, LogProbabilitiesOfAllTokensAddUpToOne) {
  sampling_.logprobs = kVocab;
  const RowResult result = sample(42);
  ASSERT_EQ(result.top.size(), static_cast<size_t>(kVocab));
  double sum = 0;
  std::set<TokenId> tokens;
  for (size_t i = 0; i < result.top.size(); ++i) {
    sum += std::exp(result.top[i].logprob);
    tokens.insert(result.top[i].token);
    if (i > 0) {
      EXPECT_LE(result.top[i].logprob, result.top[i - 1].logprob);
    }
  }
  EXPECT_NEAR(sum, 1, 1e-5);
  EXPECT_EQ(tokens.size(), static_cast<size_t>(kVocab));
}

TEST_F(FakeModelTest, ReportsAsManyLogProbabilitiesAsAsked) {
  sampling_.temperature = 0;
  EXPECT_EQ(sample(42).logprob, 0);
  sampling_.logprobs = 0;
  EXPECT_LT(sample(42).logprob, 0);
  EXPECT_TRUE(sample(42).top.empty());
  sampling_.logprobs = 3;
  const RowResult result = sample(42);
  ASSERT_EQ(result.top.size(), 3U);
  EXPECT_EQ(result.top[0], (TokenLogprob{result.token, result.logprob}));
}

TEST_F(FakeModelTest, TemperatureZeroIgnoresTheSeed) {
  sampling_.temperature = 0;
  sampling_.logprobs = 1;
  for (uint64_t chain = 0; chain < 50; ++chain) {
    sampling_.seed = 0;
    const RowResult first = sample(chain);
    sampling_.seed = chain + 1;
    EXPECT_EQ(sample(chain).token, first.token);
    EXPECT_EQ(first.token, first.top[0].token);
  }
}

TEST_F(FakeModelTest, TheSeedChoosesTheTokenAndNothingElseDoes) {
  std::set<TokenId> drawn;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    sampling_.seed = seed;
    const TokenId token = sample(42).token;
    EXPECT_EQ(sample(42).token, token);
    drawn.insert(token);
  }
  EXPECT_GT(drawn.size(), 3U);
}

TEST_F(FakeModelTest, DrawsByItsOwnProbabilities) {
  const TokenId best_token = best(42);
  int hits = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    sampling_.seed = seed;
    hits += sample(42).token == best_token ? 1 : 0;
  }
  EXPECT_NEAR(hits / 2000.0, 0.5, 0.05);  // 4 standard deviations
}

TEST_F(FakeModelTest, NarrowSettingsLeaveTheBestTokenOnly) {
  const TokenId best_token = best(42);
  const auto all_best = [&] {
    for (uint64_t seed = 0; seed < 50; ++seed) {
      sampling_.seed = seed;
      if (sample(42).token != best_token) return false;
    }
    return true;
  };
  EXPECT_FALSE(all_best());
  sampling_.top_k = 1;
  EXPECT_TRUE(all_best());
  sampling_ = {};
  sampling_.top_p = 0.4F;
  EXPECT_TRUE(all_best());
  sampling_ = {};
  sampling_.min_p = 0.6F;
  EXPECT_TRUE(all_best());
}

TEST_F(FakeModelTest, TheMaskAllowsNothingElse) {
  std::vector<TokenId> tokens;
  allow({17, 64});
  for (uint64_t chain = 0; chain < 50; ++chain) tokens.push_back(sample(chain).token);
  EXPECT_THAT(tokens, Each(AnyOf(17, 64)));
}

TEST_F(FakeModelTest, AMaskThatAllowsNothingFailsTheRow) {
  allow({});
  const RowResult result = sample(1);
  EXPECT_EQ(result.status, RowStatus::kNotFinite);
  EXPECT_EQ(result.token, -1);
}

TEST_F(FakeModelTest, ABiasForcesAndForbidsTokens) {
  sampling_.temperature = 0;
  const TokenId best_token = best(42);
  sampling_.logit_bias = {{77, 100.0F}};
  EXPECT_EQ(sample(42).token, 77);
  sampling_.logit_bias = {{best_token, -100.0F}};
  EXPECT_NE(sample(42).token, best_token);
  sampling_.logit_bias.clear();
  for (TokenId token = 0; token < kVocab; ++token) {
    if (token != 5) sampling_.logit_bias.emplace_back(token, -100.0F);
  }
  EXPECT_EQ(sample(42).token, 5);
}

TEST_F(FakeModelTest, PenaltiesCountOutputAndRepetitionCountsThePromptToo) {
  sampling_.temperature = 0;
  const TokenId best_token = best(42);
  history_ = {best_token, 2, 3};
  sampling_.presence_penalty = 2;
  EXPECT_EQ(sample(42).token, best_token);  // in the prompt only
  sampling_.repetition_penalty = 1.5F;
  EXPECT_NE(sample(42).token, best_token);
  sampling_ = {};
  sampling_.temperature = 0;
  history_.push_back(best_token);
  EXPECT_EQ(sample(42).token, best_token);
  sampling_.frequency_penalty = 1;
  EXPECT_NE(sample(42).token, best_token);
  sampling_.frequency_penalty = 0;
  sampling_.presence_penalty = 1;
  EXPECT_NE(sample(42).token, best_token);
}

TEST(FakeModel, WorksWithAVocabularyOfOne) {
  FakeModel model(1);
  SamplingParams sampling;
  sampling.logprobs = 5;
  const std::vector<TokenId> history = {0};
  Row row;
  row.samples = true;
  row.sampling = &sampling;
  row.history = history;
  row.prompt_count = 1;
  RowResult result;
  model.sample(7, row, result);
  EXPECT_EQ(result.token, 0);
  EXPECT_EQ(result.logprob, 0);
  EXPECT_EQ(result.top.size(), 1U);
}

}  // namespace
}  // namespace twostroke
