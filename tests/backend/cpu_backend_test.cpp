#include "backend/cpu/cpu_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "tests/backend/sim_steps.h"
#include "tests/tools/temp_file.h"
#include "tests/tools/tiny_llama.h"
#include "tests/tools/too_large_stacks.h"

namespace twostroke {
namespace {

using testing::HasSubstr;
using testing::Not;

// Of this process, that are in memory.
int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t pages_mapped = 0, pages_resident = 0;
  file >> pages_mapped >> pages_resident;
  return pages_resident * sysconf(_SC_PAGESIZE);
}

CpuBackendOptions options_for(const TempFile& file) {
  CpuBackendOptions options;
  options.model_path = file.path();
  options.threads = 2;
  options.kv_bytes = 0;
  options.block_count = 64;
  options.step_tokens_max = 128;
  options.step_rows_max = 8;
  return options;
}

std::unique_ptr<CpuBackend> create(const CpuBackendOptions& options) {
  return CpuBackend::create(options, nullptr).value();
}

Status create_error(const CpuBackendOptions& options) {
  const auto backend = CpuBackend::create(options, nullptr);
  EXPECT_FALSE(backend.ok());
  return backend.ok() ? Status() : backend.status();
}

// Samples behind `history`, computed from its start in one row over `blocks`.
RowResult sample(Backend& backend, std::vector<TokenId> history, std::vector<BlockId> blocks,
                 const SamplingParams& sampling) {
  TestStep step(1);
  step.add(std::move(history), 0, std::move(blocks), &sampling);
  StepResult result;
  EXPECT_TRUE(run_step(backend, step, result).ok());
  return result.rows.at(0);
}

TEST(CpuBackendCreate, DescribesTheModelAndItsCosts) {
  const TempFile file(tiny_llama({}).bytes());
  CpuBackendOptions options = options_for(file);
  options.isa = Isa::kScalar;
  const auto backend = create(options);
  const BackendInfo& info = backend->info();
  EXPECT_EQ(info.name, "cpu (scalar, 2 threads)");
  EXPECT_EQ(info.vocab_size, 64);
  EXPECT_EQ(info.context_max, 256);
  EXPECT_EQ(info.block_size, 16);
  EXPECT_EQ(info.block_count, 64);
  EXPECT_EQ(info.step_tokens_max, 128);
  EXPECT_EQ(info.step_rows_max, 8);
  // Two layers of q 64x64, k and v 64x32, o 64x64, gate, up and down 64x96; the output 64x64.
  const double elements = 2 * (64 * 64 + 2 * 64 * 32 + 64 * 64 + 3 * 64 * 96);
  EXPECT_EQ(info.flops_per_token, 2 * elements);
  EXPECT_EQ(info.output_flops, 2 * 64 * 64);
  EXPECT_EQ(info.attention_flops_per_position, 4 * 2 * 4 * 16);  // layers, heads, head size
  EXPECT_GE(info.weight_bytes, 4 * (elements + 64 * 64));
  EXPECT_EQ(info.embedding_size, 64);
  EXPECT_TRUE(info.scores_targets);
  EXPECT_TRUE(info.late_masks);
  EXPECT_EQ(info.kv_bytes_per_token, 2 * 2 * 2 * 16 * 2);  // layers, K and V, kv heads, head size, bytes
}

TEST(CpuBackendCreate, BlocksOfCodesTakeTheMemoryOfTheirCodesAndScales) {
  const TempFile file(tiny_llama({}).bytes());
  CpuBackendOptions options = options_for(file);
  options.kv_dtype = DType::kI8;
  options.block_count = 0;
  options.kv_bytes = 50000;
  const auto backend = create(options);
  const int vectors = 2 * 2 * 2;  // layers, K and V, kv heads
  EXPECT_EQ(backend->info().kv_bytes_per_token, vectors * (16 + 2));
  EXPECT_EQ(backend->info().block_count, 50000 / (16 * vectors * (16 + 2)));
}

TEST(CpuBackendCreate, KnowsTheMachinesPeaksWhereItIsToldToMeasureThem) {
  const TempFile file(tiny_llama({}).bytes());
  CpuBackendOptions options = options_for(file);
  EXPECT_EQ(create(options)->info().peak_flops, 0);
  EXPECT_EQ(create(options)->info().peak_bytes_per_second, 0);
  options.measure_peaks = true;
  options.kv_bytes = 1 << 20;
  const auto backend = create(options);
  EXPECT_GT(backend->info().peak_flops, 0);
  EXPECT_GT(backend->info().peak_bytes_per_second, 0);
}

TEST(CpuBackendCreate, ReportsProgressUpToTheEnd) {
  const TempFile file(tiny_llama({}).bytes());
  uint64_t last = 0, total = 0;
  ASSERT_TRUE(CpuBackend::create(options_for(file), [&](uint64_t bytes_done, uint64_t bytes_total) {
                EXPECT_GE(bytes_done, last);
                EXPECT_LE(bytes_done, bytes_total);
                last = bytes_done;
                total = bytes_total;
              }).ok());
  EXPECT_EQ(last, total);
  EXPECT_GT(total, 0u);
}

TEST(CpuBackendCreate, NamesAFileThatIsMissingOrNoModel) {
  CpuBackendOptions options;
  options.model_path = "/nonexistent/model.gguf";
  EXPECT_EQ(create_error(options).code(), StatusCode::kNotFound);
  const TempFile file("This is no model.");
  options.model_path = file.path();
  EXPECT_EQ(create_error(options).code(), StatusCode::kInvalidArgument);
}

TEST(CpuBackendCreate, SaysWhatToSetWhenTheCacheCannotHoldOneSequence) {
  const TempFile file(tiny_llama({}).bytes());
  CpuBackendOptions options = options_for(file);
  options.block_count = 0;
  options.kv_bytes = 20000;  // a block takes 4,096 bytes
  const Status status = create_error(options);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("holds 64 tokens"));
  EXPECT_THAT(status.message(), HasSubstr("may have 256"));
  EXPECT_THAT(status.message(), HasSubstr("kv_bytes (--kv-memory-mb) to at least 65536"));
  EXPECT_THAT(status.message(), HasSubstr("context_max (--context-max) to at most 64"));
  options.kv_bytes = 65536;
  EXPECT_EQ(create(options)->info().block_count, 16);
  options.kv_bytes = 20000;
  options.context_max = 64;
  EXPECT_EQ(create(options)->info().context_max, 64);
}

TEST(CpuBackendCreate, SaysHowMuchMemoryItCouldNotGet) {
  const TempFile file(tiny_llama({}).bytes());
  CpuBackendOptions options = options_for(file);
  options.block_count = std::numeric_limits<int32_t>::max();  // 8 TiB
  options.kv_dtype = DType::kF32;
  const Status status = create_error(options);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("the KV cache needs 16777215 MiB"));
}

TEST(CpuBackendCreate, ABlockThatDoesNotFitIsNamed) {
  const TempFile file(tiny_llama({}).bytes());
  CpuBackendOptions options = options_for(file);
  options.block_count = 0;
  options.kv_bytes = 4000;  // a block takes 4,096 bytes
  const Status status = create_error(options);
  EXPECT_THAT(status.message(), HasSubstr("--block-size) lower"));
  EXPECT_THAT(status.message(), Not(HasSubstr("at most 0")));
}

TEST(CpuBackendCreate, SaysHowManyThreadsItCouldHave) {
  const TempFile file(tiny_llama({}).bytes());
  const TooLargeStacks no_more_threads;
  const Status status = create_error(options_for(file));
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("1 of 2 compute threads: set threads (--threads) lower"));
}

// Steps of many rows must not cost memory that no step has used.
TEST(CpuBackendCreate, TheLogitsOfALargeStepTakeNoMemoryBeforeItComes) {
  const TempFile file(tiny_llama({}).bytes());
  CpuBackendOptions options = options_for(file);
  options.step_tokens_max = 1 << 20;
  options.step_rows_max = 1 << 16;
  options.step_drafts_max = 1 << 16;
  const int64_t before = resident_bytes();
  const auto backend = create(options);  // logits of 131,072 rows would take 32 MiB
  EXPECT_LT(resident_bytes() - before, int64_t{16} << 20);
}

TEST(CpuBackendCreate, RefusesOptionsOutOfRange) {
  const TempFile file(tiny_llama({}).bytes());
  const auto expect_refused = [&](auto set, const char* named) {
    CpuBackendOptions options = options_for(file);
    set(options);
    const Status status = create_error(options);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(named));
  };
  expect_refused([](auto& o) { o.threads = -1; }, "threads is -1");
  expect_refused([](auto& o) { o.block_count = -5; }, "block_count is -5");
  expect_refused([](auto& o) { o.block_size = 0; }, "block_size is 0");
  expect_refused([](auto& o) { o.step_tokens_max = 0; }, "step_tokens_max is 0");
  expect_refused([](auto& o) { o.step_rows_max = 0; }, "step_rows_max is 0");
  expect_refused([](auto& o) { o.context_max = 257; }, "made for 256 tokens");
  expect_refused([](auto& o) { o.kv_dtype = DType::kI32; }, "f32, f16 or 8-bit");
}

TEST(CpuBackend, SamplesExactlyTheRowsThatAskForIt) {
  const TempFile file(tiny_llama({}).bytes());
  const auto backend = create(options_for(file));
  const SamplingParams plain = greedy(), with_logprobs = greedy(3);
  TestStep step(1);
  step.add({1, 2, 3}, 0, {5}, &plain);
  step.add({4, 5, 6, 7}, 0, {6}, nullptr);
  step.add({9}, 0, {7}, &with_logprobs);
  StepResult result;
  ASSERT_TRUE(run_step(*backend, step, result).ok());
  ASSERT_EQ(result.rows.size(), 3u);
  EXPECT_GE(result.rows[0].token, 0);
  EXPECT_TRUE(result.rows[0].top.empty());
  EXPECT_EQ(result.rows[1].token, -1);
  EXPECT_EQ(result.rows[1].status, RowStatus::kOk);
  ASSERT_EQ(result.rows[2].top.size(), 3u);
  EXPECT_EQ(result.rows[2].top[0].token, result.rows[2].token);
  EXPECT_EQ(result.rows[2].top[0].logprob, result.rows[2].logprob);
  // The rows do not disturb each other.
  EXPECT_EQ(sample(*backend, {1, 2, 3}, {20}, plain).token, result.rows[0].token);
  EXPECT_EQ(sample(*backend, {9}, {21}, with_logprobs).top, result.rows[2].top);
}

TEST(CpuBackend, ContinuesASequenceFromItsBlocks) {
  const TempFile file(tiny_llama({}).bytes());
  const auto backend = create(options_for(file));
  const SamplingParams sampling = greedy(5);
  std::vector<TokenId> tokens;
  for (TokenId i = 0; i < 40; ++i) tokens.push_back((i * 7) % 64);
  const RowResult whole = sample(*backend, tokens, {1, 2, 3}, sampling);
  StepResult result;
  TestStep first(2), second(3);
  first.add({tokens.begin(), tokens.begin() + 25}, 0, {9, 4}, nullptr);
  ASSERT_TRUE(run_step(*backend, first, result).ok());
  second.add(tokens, 25, {9, 4, 12}, &sampling);
  ASSERT_TRUE(run_step(*backend, second, result).ok());
  EXPECT_EQ(result.rows[0].token, whole.token);
  EXPECT_EQ(result.rows[0].top, whole.top);
}

TEST(CpuBackend, SharesBlocksBetweenSequencesAndCopiesThemBeforeAnyRow) {
  const TempFile file(tiny_llama({}).bytes());
  const auto backend = create(options_for(file));
  const SamplingParams sampling = greedy(5);
  std::vector<TokenId> prompt;
  for (TokenId i = 0; i < 20; ++i) prompt.push_back((i * 5) % 64);
  std::vector<TokenId> left = prompt, right = prompt;
  left.push_back(3);
  right.push_back(50);
  const RowResult left_alone = sample(*backend, left, {40, 41}, sampling);
  const RowResult right_alone = sample(*backend, right, {42, 43}, sampling);
  EXPECT_NE(left_alone.top, right_alone.top);

  StepResult result;
  TestStep shared(2), split(3);
  shared.add(prompt, 0, {1, 2}, nullptr);
  ASSERT_TRUE(run_step(*backend, shared, result).ok());
  split.plan().copies = {{2, 7}, {7, 8}};  // in order: block 8 is a copy of a copy
  split.add(left, 20, {1, 2}, &sampling);
  split.add(right, 20, {1, 8}, &sampling);
  ASSERT_TRUE(run_step(*backend, split, result).ok());
  EXPECT_EQ(result.rows[0].top, left_alone.top);
  EXPECT_EQ(result.rows[1].top, right_alone.top);
}

TEST(CpuBackend, DrawsTheSameTokenWhateverTheBatch) {
  const TempFile file(tiny_llama({}).bytes());
  const auto backend = create(options_for(file));
  std::vector<SamplingParams> settings(8);
  for (size_t i = 0; i < 8; ++i) {
    settings[i].seed = 100 + i;
    settings[i].top_p = i % 2 == 0 ? 1.0f : 0.9f;
    settings[i].temperature = 1.5f;
  }
  TestStep step(1);
  for (size_t i = 0; i < 8; ++i) {
    step.add({static_cast<TokenId>(i), 11, 12}, 0, {static_cast<BlockId>(10 + i)}, &settings[i]);
  }
  StepResult batched;
  ASSERT_TRUE(run_step(*backend, step, batched).ok());
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(sample(*backend, {static_cast<TokenId>(i), 11, 12}, {0}, settings[i]).token, batched.rows[i].token);
  }
}

TEST(CpuBackend, FailsOnlyTheRowWhoseLogitsAreNotFinite) {
  TinyLlama shape;
  shape.tied_output = false;
  GgufWriter model = tiny_llama(shape);
  std::vector<float> embedding(64 * 64, 0.1f);
  for (size_t i = 0; i < embedding.size(); ++i) embedding[i] += static_cast<float>(i % 7) * 0.05f;
  embedding[5 * 64 + 3] = std::numeric_limits<float>::quiet_NaN();  // token 5 is poison
  model.set_tensor("token_embd.weight", {64, 64}, embedding);
  const TempFile file(model.bytes());
  const auto backend = create(options_for(file));
  const SamplingParams sampling = greedy();
  TestStep step(1);
  step.add({1, 2, 3}, 0, {0}, &sampling);
  step.add({1, 5, 3}, 0, {1}, &sampling);
  step.add({4, 6}, 0, {2}, &sampling);
  StepResult result;
  ASSERT_TRUE(run_step(*backend, step, result).ok());
  EXPECT_EQ(result.rows[0].status, RowStatus::kOk);
  EXPECT_EQ(result.rows[1].status, RowStatus::kNotFinite);
  EXPECT_EQ(result.rows[1].token, -1);
  EXPECT_EQ(result.rows[2].status, RowStatus::kOk);
}

struct Spoiled {
  const char* tensor;
  std::vector<uint64_t> shape;
};

TEST(CpuBackendCreate, RefusesWeightsThatAreNotFiniteByName) {
  const std::vector<Spoiled> spoiled = {{"token_embd.weight", {64, 64}},  // the output matrix, too
                                        {"blk.0.attn_norm.weight", {64}},
                                        {"blk.1.attn_k.weight", {64, 32}},
                                        {"output_norm.weight", {64}}};
  for (const float number : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    for (const auto& [name, shape] : spoiled) {
      GgufWriter model = tiny_llama({});
      uint64_t elements = 1;
      for (const uint64_t side : shape) elements *= side;
      std::vector<float> numbers(elements, 0.5f);
      numbers[elements / 2] = number;
      model.set_tensor(name, shape, numbers);
      const TempFile file(model.bytes());
      const Status status = create_error(options_for(file));
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
      EXPECT_THAT(status.message(), HasSubstr(std::string(name) + "' holds numbers that are not finite"));
    }
  }
}

TEST(CpuBackendDeathTest, ChecksThatAPlanKeepsToTheLimits) {
  const TempFile file(tiny_llama({}).bytes());
  CpuBackendOptions options = options_for(file);
  options.threads = 1;  // a death test forks
  const auto backend = create(options);
  const auto run = [&](auto edit) {
    const SamplingParams sampling = greedy();
    TestStep step(1);
    step.add({1, 2, 3}, 0, {0}, &sampling);
    edit(step.plan());
    StepResult result;
    (void)run_step(*backend, step, result);
  };
  EXPECT_DEATH(run([](StepPlan& plan) { plan.tokens[1] = 64; }), "no such token");
  EXPECT_DEATH(run([](StepPlan& plan) { plan.blocks[0] = 64; }), "exists");
  EXPECT_DEATH(run([](StepPlan& plan) { plan.rows[0].position = 14; }), "does not cover");
  EXPECT_DEATH(run([](StepPlan& plan) { plan.rows[0].token_count = 2; }), "belongs to a row");
  EXPECT_DEATH(run([](StepPlan& plan) { plan.tokens.resize(129); }), "too many tokens");
}

}  // namespace
}  // namespace twostroke
