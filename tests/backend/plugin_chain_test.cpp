// The plug-in that is written in C, through load_plugin.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "backend/plugin_backend.h"
#include "tests/backend/sim_steps.h"

namespace twostroke {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

std::unique_ptr<Backend> load(const std::string& args = {}) {
  PluginOptions options;
  options.plugin_args = args;
  options.block_size = 4;
  options.step_rows_max = 8;
  auto backend = load_plugin(TWOSTROKE_PLUGINS_DIR "/chain_plugin.so", options);
  EXPECT_TRUE(backend.ok()) << backend.status().message();
  return std::move(backend).value();
}

// What the row's settings choose behind a fixed prompt.
RowResult sample(Backend& backend, const SamplingParams& sampling, std::span<const uint32_t> mask = {},
                 std::vector<TokenId> history = {5, 6, 7}, uint32_t prompt_count = 3) {
  TestStep step(1);
  step.add(std::move(history), 0, {0, 1}, &sampling, prompt_count).mask = mask;
  StepResult result;
  EXPECT_TRUE(run_step(backend, step, result).ok());
  return result.rows.at(0);
}

TEST(ChainPlugin, TellsItsNumbers) {
  PluginOptions options;
  options.block_size = 32;
  options.context_max = 77;
  options.kv_bytes = 32 * 8 * 10;
  options.step_tokens_max = 99;
  options.step_rows_max = 3;
  auto backend = load_plugin(TWOSTROKE_PLUGINS_DIR "/chain_plugin.so", options);
  ASSERT_TRUE(backend.ok());
  const BackendInfo& info = (*backend)->info();
  EXPECT_EQ(info.name, "chain");
  EXPECT_EQ(info.vocab_size, 256);
  EXPECT_EQ(info.context_max, 77);
  EXPECT_EQ(info.block_size, 32);
  EXPECT_EQ(info.block_count, 10);
  EXPECT_EQ(info.step_tokens_max, 99);
  EXPECT_EQ(info.step_rows_max, 3);
  EXPECT_EQ(info.kv_bytes_per_token, 8);
  EXPECT_EQ(info.embedding_size, 8);
  EXPECT_TRUE(info.scores_targets);
  EXPECT_TRUE(info.late_masks);
}

TEST(ChainPlugin, ScoresAPromptsTokensAsItWouldSampleThem) {
  const auto backend = load();
  const std::vector<TokenId> prompt = {9, 8, 7, 6, 5, 4};
  const std::vector<TokenId> targets(prompt.begin() + 1, prompt.end());
  const SamplingParams plain = greedy(4);
  TestStep step(1);
  step.add({1, 2}, 0, {5}, &plain);
  Row& row = step.add(prompt, 0, {0, 1}, nullptr);
  row.targets = targets;
  row.target_logprobs = 4;
  StepResult result;
  ASSERT_TRUE(run_step(*backend, step, result).ok());
  const std::vector<TokenScore> scores = result.rows[1].targets;
  ASSERT_EQ(scores.size(), 5U);
  for (size_t i = 0; i < scores.size(); ++i) {
    // Forced by a bias, the same token is sampled behind the same beginning.
    SamplingParams forced = greedy(4);
    forced.logit_bias = {{targets[i], 1000.0F}};
    const std::vector<TokenId> begin(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    const RowResult sampled = sample(*backend, forced, {}, begin, 1);
    EXPECT_EQ(sampled.token, targets[i]);
    EXPECT_EQ(scores[i], (TokenScore{sampled.logprob, sampled.rank, sampled.top}));
  }
}

TEST(ChainPlugin, SumsStatesOverChunks) {
  const auto backend = load();
  const std::vector<TokenId> prompt = {9, 8, 7, 6, 5, 4};
  const auto pool = [&](uint32_t begin, uint32_t end, Pooling pooling) {
    TestStep step(1);
    step.add({prompt.begin(), prompt.begin() + end}, begin, {0, 1}, nullptr).pooling = pooling;
    StepResult result;
    EXPECT_TRUE(run_step(*backend, step, result).ok());
    return result.rows.at(0).hidden;
  };
  const std::vector<float> whole = pool(0, 6, Pooling::kMean);
  const std::vector<float> first = pool(0, 4, Pooling::kMean);
  const std::vector<float> second = pool(4, 6, Pooling::kMean);
  const std::vector<float> last = pool(5, 6, Pooling::kLast);
  ASSERT_EQ(whole.size(), 8U);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_NEAR(whole[i], first[i] + second[i], 1e-6);
    EXPECT_NE(last[i], whole[i]);
  }
  EXPECT_EQ(last, pool(5, 6, Pooling::kMean)) << "of one token, the sum is its state";
}

TEST(ChainPlugin, RefusesOptionsThatItCannotMeet) {
  PluginOptions options;
  options.kv_bytes = 8;
  const Status status = load_plugin(TWOSTROKE_PLUGINS_DIR "/chain_plugin.so", options).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("refuses its options: kv_bytes does not hold one block"));
}

TEST(ChainPlugin, GivesTheSameTokensInChunksInOtherBlocksAndBehindCopies) {
  const auto backend = load();
  const SamplingParams sampling = greedy();
  const std::vector<TokenId> prompt = {9, 8, 7, 6, 5, 4};
  StepResult result;

  TestStep whole(1);
  whole.add(prompt, 0, {0, 1}, &sampling);
  ASSERT_TRUE(run_step(*backend, whole, result).ok());
  const TokenId expected = result.rows[0].token;

  TestStep first(2);
  first.add({9, 8, 7, 6, 5}, 0, {9, 3}, nullptr);
  ASSERT_TRUE(run_step(*backend, first, result).ok());
  EXPECT_EQ(result.rows[0].token, -1);
  TestStep second(3);
  second.plan().copies = {{3, 4}, {4, 5}};
  second.add({1, 2, 3}, 0, {20}, &sampling);
  second.add(prompt, 5, {9, 5}, &sampling);
  ASSERT_TRUE(run_step(*backend, second, result).ok());
  EXPECT_EQ(result.rows[1].token, expected);

  TestStep other(4);
  other.add({9, 8, 7, 6, 4, 4}, 0, {0, 1}, &sampling);
  ASSERT_TRUE(run_step(*backend, other, result).ok());
  EXPECT_NE(result.rows[0].token, expected);
}

TEST(ChainPlugin, HonoursEverySamplingSetting) {
  const auto backend = load();
  const RowResult best = sample(*backend, greedy(256));
  ASSERT_EQ(best.top.size(), 256U);
  EXPECT_EQ(best.top[0], (TokenLogprob{best.token, best.logprob}));
  double sum = 0;
  for (const TokenLogprob& top : best.top) sum += std::exp(top.logprob);
  EXPECT_NEAR(sum, 1, 1e-4);

  SamplingParams sampling;
  std::set<TokenId> drawn;
  for (sampling.seed = 0; sampling.seed < 40; ++sampling.seed) {
    const TokenId token = sample(*backend, sampling).token;
    EXPECT_EQ(sample(*backend, sampling).token, token);
    drawn.insert(token);
  }
  EXPECT_GT(drawn.size(), 1U);
  const auto always_the_best = [&] {
    for (sampling.seed = 0; sampling.seed < 40; ++sampling.seed) {
      if (sample(*backend, sampling).token != best.token) return false;
    }
    return true;
  };
  sampling.top_p = 0.001F;
  EXPECT_TRUE(always_the_best());
  sampling = {};
  sampling.min_p = 1;
  EXPECT_TRUE(always_the_best());
  sampling = {};
  sampling.top_k = 1;
  EXPECT_TRUE(always_the_best());

  sampling = greedy();
  sampling.logit_bias = {{best.token, -100.0F}};
  EXPECT_EQ(sample(*backend, sampling).token, best.top[1].token);
  std::vector<uint32_t> mask(8);
  mask[1] = 3;
  EXPECT_THAT(sample(*backend, greedy(), mask).token, AnyOf(32, 33));
  EXPECT_EQ(sample(*backend, greedy(), std::vector<uint32_t>(8)).status, RowStatus::kNotFinite);
}

TEST(ChainPlugin, PenalisesOutputAndRepetitionOfThePrompt) {
  const auto backend = load();
  for (const bool in_output : {false, true}) {
    std::vector<TokenId> history = {5, 6, 7};
    const uint32_t prompt_count = in_output ? 2 : 3;
    // Finds a history whose last token would be repeated.
    for (history[2] = 0; sample(*backend, greedy(), {}, history, prompt_count).token != history[2];) {
      ASSERT_LT(++history[2], 256) << "no token repeats itself behind this prompt; choose another";
      if (history[2] == 255) history[0]++, history[2] = 0;
      ASSERT_LT(history[0], 256);
    }
    SamplingParams sampling = greedy();
    sampling.repetition_penalty = 5;
    EXPECT_NE(sample(*backend, sampling, {}, history, prompt_count).token, history[2]);
    sampling = greedy();
    sampling.presence_penalty = 2;
    sampling.frequency_penalty = 2;
    // The best of 256 uniform logits is nearly always less than 4 ahead.
    EXPECT_EQ(sample(*backend, sampling, {}, history, prompt_count).token == history[2], !in_output);
  }
}

TEST(ChainPlugin, ALostStepIsReportedAndTheNextWorks) {
  for (const char* fault : {"submit_error=2", "wait_error=2"}) {
    const auto backend = load(fault);
    StepResult result;
    for (uint64_t number = 1; number <= 3; ++number) {
      TestStep step(number);
      step.add({1, 2}, 0, {0}, nullptr);
      const Status status = run_step(*backend, step, result);
      EXPECT_EQ(status.code(), number == 2 ? StatusCode::kInternal : StatusCode::kOk);
      if (number == 2) {
        EXPECT_THAT(status.message(), HasSubstr("step (2)"));
      }
    }
  }
}

TEST(ChainPlugin, ADeadBackendIsNotAskedAgain) {
  const auto backend = load("dead=1");
  TestStep step(1);
  step.add({1, 2}, 0, {0}, nullptr);
  StepResult result;
  const Status died = run_step(*backend, step, result);
  EXPECT_EQ(died, unavailable("backend 'chain': died in step (1)"));
  EXPECT_EQ(backend->submit(step.plan()), died);
}

TEST(ChainPlugin, ARowThatIsNotFiniteFailsAlone) {
  const auto backend = load("not_finite=1");
  const SamplingParams sampling = greedy();
  TestStep step(1);
  step.add({1, 2}, 0, {0}, nullptr);
  step.add({1, 2}, 0, {1}, &sampling);
  StepResult result;
  ASSERT_TRUE(run_step(*backend, step, result).ok());
  EXPECT_EQ(result.rows[0].status, RowStatus::kOk);
  EXPECT_EQ(result.rows[1].status, RowStatus::kNotFinite);
}

TEST(ChainPlugin, RefusesMoreRowsThanItSaid) {
  const auto backend = load();
  TestStep step(1);
  for (BlockId block = 0; block < 9; ++block) step.add({1, 2}, 0, {block}, nullptr);
  EXPECT_THAT(backend->submit(step.plan()).message(), HasSubstr("more rows than step_rows_max (9)"));
}

}  // namespace
}  // namespace twostroke
