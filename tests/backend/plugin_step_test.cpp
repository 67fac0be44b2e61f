#include "backend/plugin_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/backend/sim_steps.h"

namespace twostroke {
namespace {

SamplingParams full_sampling() {
  SamplingParams sampling;
  sampling.temperature = 0.5F;
  sampling.top_p = 0.9F;
  sampling.min_p = 0.1F;
  sampling.top_k = 40;
  sampling.presence_penalty = 1;
  sampling.frequency_penalty = 0.25F;
  sampling.repetition_penalty = 1.5F;
  sampling.seed = 1234567890123U;
  sampling.logprobs = 4;
  sampling.logit_bias = {{7, 1.5F}, {9, -2.0F}};
  return sampling;
}

TEST(PluginStep, CarriesEveryFieldOfAPlan) {
  const SamplingParams sampling = full_sampling();
  const SamplingParams plain;
  const std::vector<uint32_t> mask = {1, 2};
  const std::vector<TokenId> targets = {11, 12};
  TestStep test(77);
  test.plan().copies = {{1, 2}, {3, 4}};
  test.add({10, 11, 12, 13}, 0, {5}, nullptr);
  test.add({20, 21, 22}, 2, {6, 7}, &plain, 1);
  test.add({30, 31}, 0, {8}, &sampling, 2).mask = mask;
  test.add_with_drafts({40, 41}, 1, {9}, &plain, 1, std::vector<TokenId>{42, 43});
  test.plan().rows[0].targets = targets;
  test.plan().rows[0].target_logprobs = 6;
  test.plan().rows[0].pooling = Pooling::kLast;
  PluginStep converter;
  const twostroke_step& step = converter.convert(test.plan());

  EXPECT_EQ(step.struct_size, sizeof(twostroke_step));
  EXPECT_EQ(step.step, 77U);
  ASSERT_EQ(step.row_count, 4U);
  EXPECT_EQ(step.row_size, sizeof(twostroke_row));
  EXPECT_EQ(step.tokens, test.plan().tokens.data());
  EXPECT_EQ(step.token_count, 10U);
  EXPECT_EQ(step.blocks, test.plan().blocks.data());
  EXPECT_EQ(step.block_count, 5U);
  ASSERT_EQ(step.copy_count, 2U);
  EXPECT_EQ(step.copies[1].source, 3U);
  EXPECT_EQ(step.copies[1].target, 4U);

  const twostroke_row& chunk = step.rows[0];
  EXPECT_EQ(chunk.samples, 0U);
  EXPECT_EQ(chunk.sampling, nullptr);
  EXPECT_EQ(chunk.history, nullptr);
  EXPECT_EQ(chunk.mask, nullptr);
  EXPECT_EQ(chunk.token_count, 4U);
  EXPECT_EQ(chunk.targets, targets.data());
  EXPECT_EQ(chunk.target_count, 2U);
  EXPECT_EQ(chunk.target_logprobs, 6U);
  EXPECT_EQ(chunk.pooling, static_cast<uint32_t>(TWOSTROKE_POOLING_LAST));

  const twostroke_row& decode = step.rows[1];
  EXPECT_EQ(decode.struct_size, sizeof(twostroke_row));
  EXPECT_EQ(decode.samples, 1U);
  EXPECT_EQ(decode.sequence, 2U);
  EXPECT_EQ(decode.token_begin, 4U);
  EXPECT_EQ(decode.token_count, 1U);
  EXPECT_EQ(decode.position, 2U);
  EXPECT_EQ(decode.block_begin, 1U);
  EXPECT_EQ(decode.block_count, 2U);
  EXPECT_EQ(decode.prompt_count, 1U);
  EXPECT_EQ(decode.history[1], 21);
  EXPECT_EQ(decode.sampling->bias_count, 0U);
  EXPECT_EQ(decode.sampling->bias, nullptr);
  EXPECT_EQ(decode.sampling->logprobs, -1);
  EXPECT_EQ(decode.targets, nullptr);
  EXPECT_EQ(decode.target_count, 0U);
  EXPECT_EQ(decode.pooling, static_cast<uint32_t>(TWOSTROKE_POOLING_NONE));
  EXPECT_EQ(decode.draft_count, 0U);
  EXPECT_EQ(decode.drafts, nullptr);

  const twostroke_row& drafted = step.rows[3];
  EXPECT_EQ(drafted.position, 1U);
  EXPECT_EQ(drafted.token_count, 3U);
  EXPECT_EQ(drafted.draft_count, 2U);
  EXPECT_EQ(drafted.drafts, step.tokens + 8);
  EXPECT_EQ(drafted.drafts[1], 43);
  EXPECT_EQ(drafted.history[1], 41);

  const twostroke_row& last = step.rows[2];
  EXPECT_EQ(last.mask, mask.data());
  EXPECT_EQ(last.sampling->struct_size, sizeof(twostroke_sampling));
  EXPECT_EQ(last.sampling->temperature, 0.5F);
  EXPECT_EQ(last.sampling->top_p, 0.9F);
  EXPECT_EQ(last.sampling->min_p, 0.1F);
  EXPECT_EQ(last.sampling->top_k, 40);
  EXPECT_EQ(last.sampling->presence_penalty, 1);
  EXPECT_EQ(last.sampling->frequency_penalty, 0.25F);
  EXPECT_EQ(last.sampling->repetition_penalty, 1.5F);
  EXPECT_EQ(last.sampling->seed, 1234567890123U);
  EXPECT_EQ(last.sampling->logprobs, 4);
  ASSERT_EQ(last.sampling->bias_count, 2U);
  EXPECT_EQ(last.sampling->bias[1].token, 9);
  EXPECT_EQ(last.sampling->bias[1].bias, -2.0F);
}

TEST(PluginStep, ReusesItsMemoryFromStepToStep) {
  const SamplingParams sampling = full_sampling();
  const auto fill = [&](TestStep& test, uint32_t rows) {
    test.plan().copies = {{1, 2}};
    for (uint32_t i = 0; i < rows; ++i) test.add({1, 2}, 1, {i}, &sampling);
  };
  TestStep large(1), small(2);
  fill(large, 40);
  fill(small, 30);
  PluginStep converter;
  const twostroke_step first = converter.convert(large.plan());
  const twostroke_sampling* samplings = first.rows[0].sampling;
  const twostroke_bias* biases = samplings->bias;
  for (TestStep* test : {&small, &large}) {
    const twostroke_step& again = converter.convert(test->plan());
    EXPECT_EQ(again.rows, first.rows);
    EXPECT_EQ(again.copies, first.copies);
    EXPECT_EQ(again.rows[0].sampling, samplings);
    EXPECT_EQ(again.rows[0].sampling->bias, biases);
  }
}

TEST(PluginStep, ReadsRowsOfALaterVersionByTheirSize) {
  struct LaterRow {
    twostroke_row_result known;
    uint64_t added;
  };
  const twostroke_logprob top[] = {{3, -0.5F}, {4, -1.5F}};
  LaterRow rows[2] = {};
  for (uint32_t i = 0; i < 2; ++i) {
    rows[i].known.struct_size = sizeof(LaterRow);
    rows[i].known.token = static_cast<int32_t>(3 + i);
    rows[i].known.logprob = top[i].logprob;
    rows[i].known.top_count = 2;
    rows[i].known.top = top;
    rows[i].added = ~uint64_t{0};
  }
  twostroke_result returned = {};
  returned.struct_size = sizeof(returned) + 16;
  returned.row_count = 2;
  returned.rows = &rows[0].known;
  returned.row_size = sizeof(LaterRow);

  const SamplingParams sampling = greedy(2);
  TestStep test(1);
  test.add({1, 2}, 0, {0}, &sampling);
  test.add({1, 2}, 0, {1}, &sampling);
  BackendInfo info;
  info.vocab_size = 10;
  StepResult result;
  ASSERT_EQ(read_plugin_result(&returned, test.plan(), info, result), "");
  const TokenLogprob* memory = result.rows[1].top.data();
  ASSERT_EQ(read_plugin_result(&returned, test.plan(), info, result), "");
  EXPECT_EQ(result.rows[1].top.data(), memory);
  EXPECT_EQ(result.rows[0].token, 3);
  EXPECT_EQ(result.rows[1].token, 4);
  EXPECT_EQ(result.rows[1].logprob, -1.5F);
  EXPECT_THAT(result.rows[1].top, testing::ElementsAre(TokenLogprob{3, -0.5F}, TokenLogprob{4, -1.5F}));
}

}  // namespace
}  // namespace twostroke
