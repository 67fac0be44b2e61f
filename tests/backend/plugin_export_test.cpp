// The sim backend, exported as a plug-in and loaded again, against itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <list>
#include <random>

#include "backend/plugin_backend.h"
#include "backend/sim/sim_backend.h"
#include "tests/backend/sim_steps.h"

namespace twostroke {
namespace {

using testing::HasSubstr;

PluginOptions plugin_options(const std::string& args = {}) {
  PluginOptions options;
  options.plugin_args = args;
  return options;
}

Result<std::unique_ptr<Backend>> load_exported(const std::string& args = {}) {
  return load_plugin(TWOSTROKE_PLUGINS_DIR "/sim_plugin.so", plugin_options(args));
}

SamplingParams random_sampling(std::mt19937& random) {
  const auto chance = [&](uint32_t of) { return random() % of == 0; };
  SamplingParams sampling;
  sampling.seed = random();
  sampling.temperature = chance(3) ? 0.0F : 0.8F;
  if (chance(3)) sampling.top_p = 0.7F;
  if (chance(3)) sampling.min_p = 0.1F;
  if (chance(3)) sampling.top_k = 4;
  if (chance(3)) sampling.presence_penalty = 1;
  if (chance(3)) sampling.frequency_penalty = 0.5F;
  if (chance(3)) sampling.repetition_penalty = 1.3F;
  sampling.logprobs = static_cast<int32_t>(random() % 12) - 1;
  for (uint32_t i = static_cast<uint32_t>(random() % 4); i > 0; --i) {
    sampling.logit_bias.emplace_back(static_cast<TokenId>(i * 200), static_cast<float>(random() % 30));
  }
  return sampling;
}

std::vector<TokenId> random_tokens(std::mt19937& random, uint32_t count) {
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % 1000);
  return tokens;
}

TEST(PluginExport, GivesTheSameNumbersAndResultsAsTheBackendItself) {
  auto loaded = load_exported();
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  auto direct = SimBackend::create({});
  ASSERT_TRUE(direct.ok());
  const BackendInfo& info = (*loaded)->info();
  const BackendInfo& expected_info = (*direct)->info();
  EXPECT_EQ(info.name, expected_info.name);
  EXPECT_EQ(info.vocab_size, expected_info.vocab_size);
  EXPECT_EQ(info.context_max, expected_info.context_max);
  EXPECT_EQ(info.block_count, expected_info.block_count);
  EXPECT_EQ(info.flops_per_token, expected_info.flops_per_token);
  EXPECT_EQ(info.weight_bytes, expected_info.weight_bytes);
  EXPECT_GT(info.peak_flops, 0);
  EXPECT_EQ(info.peak_flops, expected_info.peak_flops);
  EXPECT_EQ(info.peak_bytes_per_second, expected_info.peak_bytes_per_second);
  EXPECT_EQ(info.kv_bytes_per_token, expected_info.kv_bytes_per_token);
  EXPECT_EQ(info.embedding_size, expected_info.embedding_size);
  EXPECT_EQ(info.scores_targets, expected_info.scores_targets);
  EXPECT_EQ(info.late_masks, expected_info.late_masks);
  EXPECT_EQ(info.step_drafts_max, expected_info.step_drafts_max);

  std::mt19937 random(1);
  StepResult result, expected;
  for (uint64_t number = 1; number <= 50; ++number) {
    std::vector<SamplingParams> samplings(1 + random() % 8);
    const std::vector<uint32_t> mask(32, 0x00f00f00);
    TestStep step(number);
    std::list<std::vector<TokenId>> targets;
    step.plan().copies = {{62, 63}, {61, 62}};
    for (uint32_t i = 0; i < samplings.size(); ++i) {
      samplings[i] = random_sampling(random);
      const uint32_t length = 1 + static_cast<uint32_t>(random() % 40);
      const bool samples = random() % 4 != 0;
      Row& row = step.add(random_tokens(random, length), 0, {3 * i, 3 * i + 1, 3 * i + 2},
                          samples ? &samplings[i] : nullptr, 1 + static_cast<uint32_t>(random() % length));
      if (samples && random() % 3 == 0) row.mask = mask;
      if (random() % 3 == 0) {
        row.targets = std::span(step.plan().tokens).subspan(row.token_begin + 1);
        targets.emplace_back(row.targets.begin(), row.targets.end());
        row.targets = targets.back();
        row.target_logprobs = static_cast<uint32_t>(random() % 5);
      }
      if (!samples && random() % 2 == 0) row.pooling = random() % 2 == 0 ? Pooling::kMean : Pooling::kLast;
    }
    ASSERT_TRUE(run_step(**direct, step, expected).ok());
    ASSERT_TRUE(run_step(**loaded, step, result).ok());
    ASSERT_EQ(result.rows.size(), expected.rows.size());
    for (size_t i = 0; i < result.rows.size(); ++i) {
      EXPECT_EQ(result.rows[i].status, expected.rows[i].status);
      EXPECT_EQ(result.rows[i].token, expected.rows[i].token);
      EXPECT_EQ(result.rows[i].logprob, expected.rows[i].logprob);
      EXPECT_EQ(result.rows[i].top, expected.rows[i].top);
      EXPECT_EQ(result.rows[i].rank, expected.rows[i].rank);
      EXPECT_EQ(result.rows[i].targets, expected.rows[i].targets);
      EXPECT_EQ(result.rows[i].hidden, expected.rows[i].hidden);
      EXPECT_EQ(result.rows[i].following, expected.rows[i].following);
    }
  }
}

// What step number 1 gives, and what the next one does.
std::pair<Status, Status> two_steps(const std::string& args) {
  auto loaded = load_exported(args);
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  StepResult result;
  TestStep first(1), second(2);
  first.add({1, 2}, 0, {0}, nullptr);
  second.add({1, 2}, 0, {0}, nullptr);
  const Status status = run_step(**loaded, first, result);
  return {status, run_step(**loaded, second, result)};
}

TEST(PluginExport, CarriesErrorsAcross) {
  const auto [lost, after] = two_steps("wait_error=1");
  EXPECT_EQ(lost, internal_error("backend 'sim': lost"));
  EXPECT_TRUE(after.ok());
  const auto [gone, still_gone] = two_steps("dead=1");
  EXPECT_EQ(gone, unavailable("backend 'sim': gone"));
  EXPECT_EQ(still_gone, gone);
  const Status refused = load_exported("nonsense=1").status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("unknown fault nonsense"));
}

TEST(PluginExport, LetsNoExceptionCross) {
  const auto [thrown, after] = two_steps("throws=1");
  EXPECT_EQ(thrown, unavailable("backend 'sim': thrown by submit"));
  EXPECT_EQ(after, thrown);
  const Status refused = load_exported("throws_at_create").status();
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  EXPECT_THAT(refused.message(), HasSubstr("thrown by create"));
}

TEST(PluginExport, APlanThatBreaksItsContractIsALostStep) {
  auto loaded = load_exported();
  ASSERT_TRUE(loaded.ok());
  TestStep step(1);
  step.add({1, 2}, 0, {64}, nullptr);
  EXPECT_THAT((*loaded)->submit(step.plan()).message(), HasSubstr("row 0: names an unknown block"));
}

}  // namespace
}  // namespace twostroke
