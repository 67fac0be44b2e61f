// What is read out of a prompt, log-probabilities and hidden states, by the CPU backend: on stories260K against the
// logits that come with it, which nobody here computed. A state is compared by what it must give: the model's output
// matrix times the state is the logits, and that of the sum of states is the sum of the logits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <sstream>

#include "backend/cpu/cpu_backend.h"
#include "tests/backend/sim_steps.h"
#include "tests/tools/stories_to_gguf.h"
#include "tests/tools/temp_file.h"
#include "tests/tools/tiny_llama.h"

namespace twostroke {
namespace {

constexpr uint32_t kPositions = 200;
constexpr size_t kStoriesVocab = 512;

std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<float> floats_of(const void* data, size_t bytes) {
  std::vector<float> numbers(bytes / sizeof(float));
  std::memcpy(numbers.data(), data, bytes);
  return numbers;
}

// Slices of the tail are of 4 tokens at most: as many as a step may have rows.
std::unique_ptr<CpuBackend> backend_of(const TempFile& file) {
  CpuBackendOptions options;
  options.model_path = file.path();
  options.threads = 2;
  options.block_count = 64;
  options.kv_dtype = DType::kF32;
  options.step_tokens_max = 256;
  options.step_rows_max = 4;
  return CpuBackend::create(options, nullptr).value();
}

std::vector<BlockId> table_of(uint32_t tokens) {
  std::vector<BlockId> blocks;
  for (BlockId i = 0; i < (tokens + 15) / 16; ++i) blocks.push_back(40 - i);
  return blocks;
}

class StoriesPrompt : public testing::Test {
 protected:
  void SetUp() override {
    const Result<GgufWriter> model = stories_to_gguf(directory_);
    if (!model.ok()) GTEST_SKIP() << "no stories260K in the shared test data: " << model.status().message();
    file_ = std::make_unique<TempFile>(model->bytes());
    std::istringstream ids(read_bytes(directory_ + "/greedy_ids.txt"));
    greedy_ = {std::istream_iterator<TokenId>(ids), {}};
    const std::string logits = read_bytes(directory_ + "/greedy_logits_pos0-199.f32");
    logits_ = floats_of(logits.data(), logits.size());
    ASSERT_EQ(logits_.size(), kPositions * kStoriesVocab);
    prompt_ = {1};
    prompt_.insert(prompt_.end(), greedy_.begin(), greedy_.end() - 1);
    backend_ = backend_of(*file_);
  }

  std::span<const float> logits_at(size_t position) const {
    return std::span(logits_).subspan(position * kStoriesVocab, kStoriesVocab);
  }

  // The prompt's rows, in chunks, each changed by `edit(row)`; their results.
  std::vector<RowResult> run_in_chunks(uint32_t chunk, const std::function<void(Row&)>& edit) {
    std::vector<RowResult> results;
    StepResult result;
    for (uint32_t begin = 0, number = 1; begin < kPositions; begin += chunk, ++number) {
      const uint32_t end = std::min(begin + chunk, kPositions);
      TestStep step(number);
      edit(step.add({prompt_.begin(), prompt_.begin() + end}, begin, table_of(end), nullptr));
      EXPECT_TRUE(run_step(*backend_, step, result).ok());
      EXPECT_EQ(result.rows[0].status, RowStatus::kOk);
      results.push_back(result.rows[0]);
    }
    return results;
  }
  // Of any tokens, not only those that follow.
  std::vector<TokenScore> scores_of(const std::vector<TokenId>& targets, uint32_t chunk) {
    std::vector<TokenScore> scores;
    for (RowResult& row : run_in_chunks(chunk, [&](Row& row) {
           row.targets = std::span(targets).subspan(row.position, row.token_count);
           row.target_logprobs = 3;
         })) {
      scores.insert(scores.end(), row.targets.begin(), row.targets.end());
    }
    return scores;
  }

  // output matrix * state
  std::vector<double> logits_of(const std::vector<double>& state) const {
    const std::unique_ptr<GgufFile> file = GgufFile::open(file_->path()).value();
    const GgufTensor* output = file->find_tensor("output.weight");
    if (output == nullptr) output = file->find_tensor("token_embd.weight");
    const std::vector<float> matrix = floats_of(output->data.data(), output->data.size());
    EXPECT_EQ(matrix.size(), kStoriesVocab * state.size());
    std::vector<double> logits(kStoriesVocab);
    for (size_t t = 0; t < kStoriesVocab; ++t) {
      for (size_t i = 0; i < state.size(); ++i) {
        logits[t] += static_cast<double>(matrix[t * state.size() + i]) * state[i];
      }
    }
    return logits;
  }

  const std::string directory_ = std::string(TWOSTROKE_SHARED_DIR) + "/models/stories260K";
  std::unique_ptr<TempFile> file_;
  std::unique_ptr<CpuBackend> backend_;
  std::vector<TokenId> greedy_;  // [200]: greedy_[i] is the most probable behind prompt_[0, i]
  std::vector<TokenId> prompt_;  // [200]
  std::vector<float> logits_;    // [200, 512]
};

TEST_F(StoriesPrompt, LogprobsAndRanksAreThoseOfTheReferencesLogits) {
  std::vector<TokenId> others;
  for (uint32_t i = 0; i < kPositions; ++i) others.push_back(static_cast<TokenId>((i * 37 + 11) % kStoriesVocab));
  for (const std::vector<TokenId>& targets : {greedy_, others}) {
    const std::vector<TokenScore> scores = scores_of(targets, 50);
    ASSERT_EQ(scores.size(), kPositions);
    for (size_t i = 0; i < kPositions; ++i) {
      const std::span<const float> logits = logits_at(i);
      const auto own = static_cast<double>(logits[static_cast<size_t>(targets[i])]);
      double mass = 0;
      uint32_t surely_more = 0;
      uint32_t maybe_more = 0;
      for (const float logit : logits) {
        mass += std::exp(static_cast<double>(logit));
        surely_more += static_cast<double>(logit) > own + 2e-3 ? 1 : 0;
        maybe_more += static_cast<double>(logit) > own - 2e-3 ? 1 : 0;
      }
      EXPECT_NEAR(static_cast<double>(scores[i].logprob), own - std::log(mass), 1e-3) << "position " << i;
      EXPECT_GT(scores[i].rank, surely_more);
      EXPECT_LE(scores[i].rank, maybe_more);
      ASSERT_EQ(scores[i].top.size(), 3u);
      EXPECT_EQ(scores[i].top[0].token, greedy_[i]);
    }
  }
}

TEST_F(StoriesPrompt, LogprobsAreTheSameBitsWhateverTheChunks) {
  const std::vector<TokenScore> whole = scores_of(greedy_, kPositions);
  for (const uint32_t chunk : {1u, 7u, 64u}) EXPECT_EQ(scores_of(greedy_, chunk), whole) << "chunks of " << chunk;
}

TEST_F(StoriesPrompt, TheLastTokensStateGivesTheReferencesLogits) {
  const std::vector<RowResult> rows = run_in_chunks(23, [](Row& row) { row.pooling = Pooling::kLast; });
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t last = std::min<size_t>(23 * (i + 1), kPositions) - 1;
    const std::vector<double> logits = logits_of({rows[i].hidden.begin(), rows[i].hidden.end()});
    for (size_t t = 0; t < kStoriesVocab; ++t) {
      ASSERT_NEAR(logits[t], static_cast<double>(logits_at(last)[t]), 1e-3) << "position " << last << ", token " << t;
    }
  }
}

TEST_F(StoriesPrompt, TheMeanOfStatesGivesTheMeanOfTheReferencesLogitsWhateverTheChunks) {
  std::vector<double> expected(kStoriesVocab);
  for (size_t i = 0; i < logits_.size(); ++i)
    expected[i % kStoriesVocab] += static_cast<double>(logits_[i]) / kPositions;
  std::vector<double> first_mean;
  for (const uint32_t chunk : {1u, 7u, 64u, 200u}) {
    std::vector<double> mean(static_cast<size_t>(backend_->info().embedding_size));
    for (const RowResult& row : run_in_chunks(chunk, [](Row& row) { row.pooling = Pooling::kMean; })) {
      ASSERT_EQ(row.hidden.size(), mean.size());
      for (size_t i = 0; i < mean.size(); ++i) mean[i] += static_cast<double>(row.hidden[i]) / kPositions;
    }
    const std::vector<double> logits = logits_of(mean);
    for (size_t t = 0; t < kStoriesVocab; ++t) ASSERT_NEAR(logits[t], expected[t], 1e-3) << "token " << t;
    if (first_mean.empty()) first_mean = mean;
    for (size_t i = 0; i < mean.size(); ++i) EXPECT_NEAR(mean[i], first_mean[i], 1e-5) << "chunks of " << chunk;
  }
}

TEST(PromptWork, DisturbsNoOtherRowOfItsStep) {
  const TempFile file(tiny_llama({}).bytes());
  const auto backend = backend_of(file);
  const SamplingParams sampling = greedy(5);
  const std::vector<TokenId> history = {1, 2, 3, 4, 5, 6, 7};
  const std::vector<TokenId> targets = {2, 3, 4, 5, 6, 7};
  const auto run = [&](bool prompt_work) {
    TestStep step(1);
    step.add({9, 8}, 0, {10}, &sampling);
    Row& scored = step.add(history, 0, {11}, &sampling);
    if (prompt_work) scored.targets = targets;
    Row& pooled = step.add(history, 0, {12}, nullptr);
    if (prompt_work) pooled.pooling = Pooling::kMean;
    step.add({4, 4, 4}, 0, {13}, &sampling);
    StepResult result;
    EXPECT_TRUE(run_step(*backend, step, result).ok());
    return result.rows;
  };
  const std::vector<RowResult> plain = run(false);
  const std::vector<RowResult> with = run(true);
  for (const size_t row : {0, 1, 3}) {
    EXPECT_EQ(with[row].token, plain[row].token);
    EXPECT_EQ(with[row].top, plain[row].top);
  }
  EXPECT_EQ(with[1].targets.size(), 6u);
  EXPECT_EQ(with[2].hidden.size(), 64u);
  EXPECT_TRUE(plain[1].targets.empty());
  EXPECT_TRUE(plain[2].hidden.empty());
}

TEST(PromptWork, FailsOnlyTheRowsWhoseNumbersAreNotFinite) {
  TinyLlama shape;
  shape.tied_output = false;
  GgufWriter model = tiny_llama(shape);
  std::vector<float> embedding(64 * 64, 0.1f);
  for (size_t i = 0; i < embedding.size(); ++i) embedding[i] += static_cast<float>(i % 7) * 0.05f;
  embedding[5 * 64 + 3] = std::numeric_limits<float>::quiet_NaN();  // token 5 is poison
  model.set_tensor("token_embd.weight", {64, 64}, embedding);
  const TempFile file(model.bytes());
  const auto backend = backend_of(file);
  const std::vector<TokenId> targets = {5, 3};
  const std::vector<TokenId> sound = {2, 3};
  TestStep step(1);
  step.add({1, 2, 3}, 0, {0}, nullptr).targets = sound;
  step.add({1, 5, 3}, 0, {1}, nullptr).targets = targets;
  step.add({1, 5, 3}, 0, {2}, nullptr).pooling = Pooling::kMean;
  step.add({1, 2, 3}, 0, {3}, nullptr).pooling = Pooling::kLast;
  StepResult result;
  ASSERT_TRUE(run_step(*backend, step, result).ok());
  EXPECT_EQ(result.rows[0].status, RowStatus::kOk);
  EXPECT_EQ(result.rows[1].status, RowStatus::kNotFinite);
  EXPECT_EQ(result.rows[2].status, RowStatus::kNotFinite);
  EXPECT_EQ(result.rows[3].status, RowStatus::kOk);
}

}  // namespace
}  // namespace twostroke
