#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/plugin_backend.h"
#include "tests/backend/sim_steps.h"

namespace twostroke {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string plugin(const std::string& name) { return TWOSTROKE_PLUGINS_DIR "/" + name + ".so"; }

Status load_error(const std::string& name, const std::string& args = {}) {
  PluginOptions options;
  options.plugin_args = args;
  return load_plugin(plugin(name), options).status();
}

void expect_error(const Status& status, StatusCode code, const std::string& text) {
  EXPECT_EQ(status.code(), code) << status.message();
  EXPECT_THAT(status.message(), HasSubstr(text));
}

TEST(LoadPlugin, SaysWhenThereIsNoFile) {
  const Status status = load_error("absent");
  expect_error(status, StatusCode::kNotFound, "No such file");
  EXPECT_THAT(status.message(), HasSubstr("absent.so"));
}

TEST(LoadPlugin, LooksForABareNameInTheWorkingDirectoryOnly) {
  expect_error(load_plugin("libm.so.6", {}).status(), StatusCode::kNotFound, "libm.so.6");
}

TEST(LoadPlugin, RefusesWhatIsNoSharedObject) {
  expect_error(load_plugin(TWOSTROKE_TESTS_DIR "/CMakeLists.txt", {}).status(), StatusCode::kUnsupported,
               "cannot be loaded");
  expect_error(load_plugin(TWOSTROKE_TESTS_DIR, {}).status(), StatusCode::kUnsupported, "cannot be loaded");
}

TEST(LoadPlugin, RefusesASharedObjectThatIsNoPlugin) {
  expect_error(load_error("broken_symbol_plugin"), StatusCode::kUnsupported, "does not export twostroke_plugin()");
}

TEST(LoadPlugin, RefusesAnotherVersionOfTheInterface) {
  const Status status = load_error("broken_version_plugin");
  expect_error(status, StatusCode::kUnsupported, "was built for version 2");
  EXPECT_THAT(status.message(), HasSubstr("this server has version 1"));
}

TEST(LoadPlugin, RefusesAnInterfaceThatIsIncomplete) {
  expect_error(load_error("broken_size_plugin"), StatusCode::kInternal, "twostroke_api has 16 bytes");
  expect_error(load_error("broken_function_plugin"), StatusCode::kInternal, "a function of twostroke_api is null");
  expect_error(load_error("broken_api_plugin"), StatusCode::kInternal, "returned null");
}

TEST(LoadPlugin, PassesOnWhyAPluginCouldNotStart) {
  expect_error(load_error("broken_plugin", "no_device"), StatusCode::kUnavailable, "(code 2): no device found");
  expect_error(load_error("broken_plugin", "no_message"), StatusCode::kUnavailable, "it gave no message");
  expect_error(load_error("broken_plugin", "no_backend"), StatusCode::kInternal, "returned no backend");
  expect_error(load_error("broken_plugin", "no_terminator"), StatusCode::kInvalidArgument, "refuses its options: xxx");
  expect_error(load_error("chain_plugin", "gibberish"), StatusCode::kInvalidArgument, "unknown arguments");
}

TEST(LoadPlugin, RefusesImpossibleNumbersByName) {
  const auto refused = [](const std::string& fault, const std::string& text) {
    expect_error(load_error("broken_plugin", fault), StatusCode::kInternal, text);
  };
  refused("null_info", "info() returned null");
  refused("small_info", "struct_size is too small");
  refused("null_name", "info.name is null");
  refused("zero_blocks", "info.block_count is 0; it must be from 1 to");
  refused("huge_blocks", "info.block_count is 4294967295; it must be from 1 to");
  refused("huge_pool", "info.block_count * info.block_size is more than");
  refused("huge_vocab", "info.vocab_size is 2147483648; it must be from 1 to 16777216");
  refused("zero_vocab", "info.vocab_size is 0");
  refused("zero_rows", "info.step_rows_max is 0");
  refused("huge_context", "info.context_max is 4294967295");
  refused("nan_cost", "info.weight_bytes must be finite");
  refused("nan_output_cost", "info.output_flops must be finite");
  refused("negative_peak", "info.peak_bytes_per_second must be finite and 0 or more");
  refused("huge_drafts", "info.step_drafts_max is 4294967295; it must be at most");
  refused("huge_embedding", "info.embedding_size is 4294967295; it must be at most");
  PluginOptions options;
  options.context_max = 100;
  expect_error(load_plugin(plugin("broken_plugin"), options).status(), StatusCode::kInternal,
               "info.context_max is greater than the option");
}

class PluginResult : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(PluginResult, ThatIsImpossibleLosesTheStepAndNothingElse) {
  const auto& [fault, text] = GetParam();
  PluginOptions options;
  options.plugin_args = fault;
  auto backend = load_plugin(plugin("broken_plugin"), options);
  ASSERT_TRUE(backend.ok()) << backend.status().message();
  SamplingParams sampling = greedy(3);
  const std::vector<uint32_t> mask = {1, 0};  // token 0 alone
  StepResult result;
  for (uint64_t number = 1; number <= 2; ++number) {
    TestStep step(number);
    step.add({1, 2}, 0, {0}, nullptr);
    step.add({1, 2}, 0, {1}, &sampling).mask = mask;
    const Status status = run_step(**backend, step, result);
    expect_error(status, StatusCode::kInternal, text);
    EXPECT_THAT(status.message(), HasSubstr("backend 'broken'"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    LoadPlugin, PluginResult,
    testing::Values(std::pair{"null_result", "the result is null"}, std::pair{"small_result", "struct_size"},
                    std::pair{"few_rows", "has 1 rows, the step has 2"}, std::pair{"many_rows", "has 4294967295 rows"},
                    std::pair{"null_rows", "rows are null"}, std::pair{"small_row_size", "row_size is too small"},
                    std::pair{"small_row", "row 1: its struct_size"}, std::pair{"unknown_status", "unknown status 9"},
                    std::pair{"negative_token", "row 1: token -1 is outside the vocabulary of 64"},
                    std::pair{"huge_token", "row 1: token 64 is outside"}, std::pair{"masked_token", "mask forbids"},
                    std::pair{"nan_logprob", "row 1: its log-probability is not finite"},
                    std::pair{"many_top", "has 4294967295 top tokens where 3 were asked for"},
                    std::pair{"null_top", "top tokens are null"}, std::pair{"bad_top_token", "a top token is outside"},
                    std::pair{"bad_top_logprob", "a top token's log-probability"},
                    std::pair{"huge_rank", "row 1: its rank is greater than the vocabulary"},
                    std::pair{"unknown_code", "(unknown code 77)"}),
    [](const auto& test) { return std::string(test.param.first); });

class PluginPromptWork : public testing::TestWithParam<std::pair<const char*, const char*>> {};

// One row with targets, one that pools.
TestStep prompt_step(std::span<const TokenId> targets) {
  TestStep step(1);
  Row& scored = step.add({1, 2, 3}, 0, {0}, nullptr);
  scored.targets = targets;
  scored.target_logprobs = 1;
  step.add({1, 2}, 0, {1}, nullptr).pooling = Pooling::kMean;
  return step;
}

TEST_P(PluginPromptWork, ThatIsImpossibleLosesTheStep) {
  const auto& [fault, text] = GetParam();
  PluginOptions options;
  options.plugin_args = fault;
  auto backend = load_plugin(plugin("broken_plugin"), options);
  ASSERT_TRUE(backend.ok()) << backend.status().message();
  const std::vector<TokenId> targets = {2, 3};
  TestStep step = prompt_step(targets);
  StepResult result;
  expect_error(run_step(**backend, step, result), StatusCode::kInternal, text);
}

INSTANTIATE_TEST_SUITE_P(LoadPlugin, PluginPromptWork,
                         testing::Values(std::pair{"few_targets", "row 0: it has 1 targets, not 2"},
                                         std::pair{"null_targets", "row 0: its targets are null"},
                                         std::pair{"nan_target", "row 0: a target's log-probability is not finite"},
                                         std::pair{"huge_target_rank", "row 0: a target's rank is greater"},
                                         std::pair{"many_target_top", "has 4294967295 top tokens where 1 were asked"},
                                         std::pair{"null_target_top", "row 0: its top tokens are null"},
                                         std::pair{"null_hidden", "row 1: its hidden state is null"},
                                         std::pair{"nan_hidden", "row 1: its hidden state is not finite"}),
                         [](const auto& test) { return std::string(test.param.first); });

class PluginDrafts : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(PluginDrafts, WhoseResultIsImpossibleLoseTheStep) {
  const auto& [fault, text] = GetParam();
  PluginOptions options;
  options.plugin_args = fault;
  auto backend = load_plugin(plugin("broken_plugin"), options);
  ASSERT_TRUE(backend.ok()) << backend.status().message();
  const SamplingParams sampling = greedy(3);
  TestStep step(1);
  step.add_with_drafts({1, 2}, 0, {0}, &sampling, 2, std::vector<TokenId>{0, 0});
  StepResult result;
  expect_error(run_step(**backend, step, result), StatusCode::kInternal, text);
}

INSTANTIATE_TEST_SUITE_P(
    LoadPlugin, PluginDrafts,
    testing::Values(std::pair{"many_following", "it has 3 tokens behind its first, and only 2 drafts"},
                    std::pair{"null_following", "the tokens behind its first are null"},
                    std::pair{"wrong_following", "goes on behind token 1, which is not its draft 0"},
                    std::pair{"huge_following", "token 64 is outside the vocabulary"},
                    std::pair{"nan_following", "log-probability is not finite"},
                    std::pair{"many_following_top", "has 4294967295 top tokens where 3 were asked for"}),
    [](const auto& test) { return std::string(test.param.first); });

TEST(LoadPlugin, ReadsWhatFollowsDraftsWhereThereIsNoFault) {
  auto backend = load_plugin(plugin("broken_plugin"), {});
  ASSERT_TRUE(backend.ok()) << backend.status().message();
  EXPECT_EQ((*backend)->info().step_drafts_max, 3);
  const SamplingParams sampling = greedy(3);
  TestStep step(1);
  step.add_with_drafts({1, 2}, 0, {0}, &sampling, 2, std::vector<TokenId>{0, 0});
  StepResult result;
  ASSERT_TRUE(run_step(**backend, step, result).ok());
  EXPECT_EQ(result.rows[0].token, 0);
  EXPECT_THAT(result.rows[0].following,
              testing::ElementsAre(SampledToken{0, -1, 2, {{0, -1}}}, SampledToken{0, -2, 3, {{0, -1}}}));
}

TEST(LoadPlugin, ReadsPromptWorkWhereThereIsNoFault) {
  auto backend = load_plugin(plugin("broken_plugin"), {});
  ASSERT_TRUE(backend.ok()) << backend.status().message();
  EXPECT_TRUE((*backend)->info().scores_targets);
  EXPECT_FALSE((*backend)->info().late_masks);
  EXPECT_EQ((*backend)->info().embedding_size, 2);
  EXPECT_EQ((*backend)->info().output_flops, 5);
  EXPECT_EQ((*backend)->info().attention_flops_per_position, 6);
  EXPECT_EQ((*backend)->info().peak_flops, 7);
  EXPECT_EQ((*backend)->info().peak_bytes_per_second, 8);
  const std::vector<TokenId> targets = {2, 3};
  TestStep step = prompt_step(targets);
  StepResult result;
  ASSERT_TRUE(run_step(**backend, step, result).ok());
  EXPECT_THAT(result.rows[0].targets, testing::ElementsAre(TokenScore{-2, 3, {{0, -1}}}, TokenScore{-2, 3, {{0, -1}}}));
  EXPECT_TRUE(result.rows[0].hidden.empty());
  EXPECT_THAT(result.rows[1].hidden, testing::ElementsAre(0.5F, -0.5F));
}

// Built before prompt log-probabilities, pooling and ranks were added: its structs are shorter.
TEST(LoadPlugin, TakesAPluginOfTheFirstVersionForWhatItCanDo) {
  PluginOptions options;
  options.plugin_args = "first_version";
  auto backend = load_plugin(plugin("broken_plugin"), options);
  ASSERT_TRUE(backend.ok()) << backend.status().message();
  EXPECT_FALSE((*backend)->info().scores_targets);
  EXPECT_FALSE((*backend)->info().late_masks);
  EXPECT_EQ((*backend)->info().embedding_size, 0);
  EXPECT_EQ((*backend)->info().step_drafts_max, 0);
  EXPECT_EQ((*backend)->info().output_flops, 0);
  SamplingParams sampling = greedy(3);
  TestStep step(1);
  step.add({1, 2}, 0, {0}, &sampling);
  StepResult result;
  ASSERT_TRUE(run_step(**backend, step, result).ok());
  EXPECT_EQ(result.rows[0].token, 0);
  EXPECT_EQ(result.rows[0].rank, 0U) << "not known";
}

// Built before a device's peaks were added.
TEST(LoadPlugin, TakesPeaksThatAPluginDoesNotKnowAsUnknown) {
  PluginOptions options;
  options.plugin_args = "second_version";
  auto backend = load_plugin(plugin("broken_plugin"), options);
  ASSERT_TRUE(backend.ok()) << backend.status().message();
  EXPECT_EQ((*backend)->info().output_flops, 5);
  EXPECT_EQ((*backend)->info().attention_flops_per_position, 0);
  EXPECT_EQ((*backend)->info().peak_flops, 0);
  EXPECT_EQ((*backend)->info().peak_bytes_per_second, 0);
}

TEST(LoadPlugin, AcceptsThePluginWhoseFaultsAreAllOff) {
  auto backend = load_plugin(plugin("broken_plugin"), {});
  ASSERT_TRUE(backend.ok()) << backend.status().message();
  EXPECT_EQ((*backend)->info().name, "broken");
  EXPECT_EQ((*backend)->info().vocab_size, 64);
  SamplingParams sampling = greedy(3);
  TestStep step(1);
  step.add({1, 2}, 0, {0}, &sampling);
  StepResult result;
  ASSERT_TRUE(run_step(**backend, step, result).ok());
  EXPECT_EQ(result.rows[0].token, 0);
  EXPECT_EQ(result.rows[0].logprob, -1);
  EXPECT_EQ(result.rows[0].rank, 1U);
  EXPECT_THAT(result.rows[0].top, testing::ElementsAre(TokenLogprob{0, -1}, TokenLogprob{1, -2}, TokenLogprob{2, -3}));
}

}  // namespace
}  // namespace twostroke
