// Rows with drafts give what steps of one token each give, bit for bit, whichever drafts are right and whatever else is
// in the step: for every backend that takes drafts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "backend/cpu/cpu_backend.h"
#include "backend/plugin_backend.h"
#include "backend/sampler.h"
#include "backend/sim/sim_backend.h"
#include "tests/backend/sim_steps.h"
#include "tests/tools/temp_file.h"
#include "tests/tools/tiny_llama.h"

namespace twostroke {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Chooses the drafts behind a history.
using Propose = std::function<std::vector<TokenId>(std::span<const TokenId> history)>;

const Propose kNoDrafts = [](std::span<const TokenId>) { return std::vector<TokenId>(); };

struct Generated {
  std::vector<SampledToken> tokens;
  uint32_t steps = 0;
  uint32_t accepted = 0;
  RowStatus status = RowStatus::kOk;  // of the last step

  std::vector<TokenId> ids() const {
    std::vector<TokenId> ids;
    for (const SampledToken& token : tokens) ids.push_back(token.token);
    return ids;
  }
};

class Generation {
 public:
  Generation(Backend& backend, SamplingParams sampling, std::vector<TokenId> prompt)
      : backend_(backend), sampling_(std::move(sampling)), prompt_(std::move(prompt)) {}

  // Other rows in each step: chunks of the same random prompt.
  void among(uint32_t rows) { others_ = rows; }

  // `count` tokens, or fewer when a row fails.
  Generated run(size_t count, const Propose& propose) {
    Generated out;
    std::vector<TokenId> history = prompt_;
    uint32_t computed = 0;
    while (out.tokens.size() < count) {
      std::vector<TokenId> drafts = propose(history);
      drafts.resize(std::min(drafts.size(), count - out.tokens.size() - 1));
      TestStep step(++number_);
      add_others(step, 0, others_ / 2);
      const size_t own = step.plan().rows.size();
      step.add_with_drafts(history, computed, {0, 1, 2, 3, 4, 5, 6, 7}, &sampling_,
                           static_cast<uint32_t>(prompt_.size()), drafts);
      add_others(step, others_ / 2, others_);
      StepResult result;
      EXPECT_TRUE(run_step(backend_, step, result).ok());
      const RowResult& row = result.rows.at(own);
      ++out.steps;
      out.status = row.status;
      if (row.status != RowStatus::kOk) return out;
      EXPECT_LE(row.following.size(), drafts.size());
      computed = static_cast<uint32_t>(history.size() + row.following.size());
      out.accepted += static_cast<uint32_t>(row.following.size());
      add({row.token, row.logprob, row.rank, row.top}, out, history);
      for (const SampledToken& next : row.following) add(next, out, history);
    }
    return out;
  }

 private:
  static void add(SampledToken token, Generated& out, std::vector<TokenId>& history) {
    history.push_back(token.token);
    out.tokens.push_back(std::move(token));
  }
  void add_others(TestStep& step, uint32_t begin, uint32_t end) {
    for (uint32_t i = begin; i < end; ++i) step.add(prompt_, 0, {40 + 2 * i, 41 + 2 * i}, nullptr);
  }

  Backend& backend_;
  SamplingParams sampling_;
  std::vector<TokenId> prompt_;
  uint32_t others_ = 0;
  uint64_t number_ = 0;
};

// Proposes what follows in `all`, up to `count` tokens, each spoilt with a chance of one in `spoilt_of` (0: none).
Propose oracle(std::vector<TokenId> all, uint32_t count, uint32_t spoilt_of, int32_t vocab) {
  return [=, all = std::move(all), random = std::mt19937(count)](std::span<const TokenId> history) mutable {
    std::vector<TokenId> drafts;
    for (size_t i = history.size(); i < all.size() && drafts.size() < count; ++i) {
      const bool spoil = spoilt_of > 0 && random() % spoilt_of == 0;
      drafts.push_back(spoil ? (all[i] + 1) % vocab : all[i]);
    }
    return drafts;
  };
}

std::vector<std::pair<const char*, SamplingParams>> settings() {
  SamplingParams sampled = {.temperature = 0.9F, .seed = 5, .logprobs = 3};
  SamplingParams nucleus = sampled;
  nucleus.top_p = 0.8F;
  SamplingParams penalised = sampled;
  penalised.presence_penalty = 0.7F;
  penalised.frequency_penalty = 0.5F;
  penalised.repetition_penalty = 1.2F;
  SamplingParams best_of_few = sampled;
  best_of_few.top_k = 5;
  best_of_few.min_p = 0.02F;
  SamplingParams penalised_greedy = penalised;
  penalised_greedy.temperature = 0;
  SamplingParams plain = greedy();
  return {{"greedy", greedy(2)}, {"sampled", sampled},     {"nucleus", nucleus},
          {"few", best_of_few},  {"penalised", penalised}, {"penalised greedy", penalised_greedy},
          {"no logprobs", plain}};
}

// What the drafts are, how many, and who else is in the step, changes nothing but the number of steps.
void expect_identical_output(Backend& backend) {
  constexpr size_t kCount = 40;
  const int32_t vocab = backend.info().vocab_size;
  std::vector<TokenId> prompt;
  for (TokenId i = 0; i < 21; ++i) prompt.push_back((i * i * 7 + 3) % vocab);
  for (const auto& [name, sampling] : settings()) {
    SCOPED_TRACE(name);
    const Generated plain = Generation(backend, sampling, prompt).run(kCount, kNoDrafts);
    ASSERT_EQ(plain.tokens.size(), kCount);
    EXPECT_EQ(plain.steps, kCount);
    std::vector<TokenId> all = prompt;
    for (const SampledToken& token : plain.tokens) all.push_back(token.token);
    for (const uint32_t spoilt_of : {0U, 4U, 1U}) {
      for (const uint32_t count : {1U, 3U, 8U}) {
        SCOPED_TRACE(std::to_string(count) + " drafts, one of " + std::to_string(spoilt_of) + " wrong");
        Generation generation(backend, sampling, prompt);
        generation.among(count == 3 ? 4 : 0);
        const Generated drafted = generation.run(kCount, oracle(all, count, spoilt_of, vocab));
        EXPECT_EQ(drafted.tokens, plain.tokens);
        EXPECT_EQ(drafted.steps + drafted.accepted, kCount);
        if (spoilt_of == 0) {
          EXPECT_EQ(drafted.steps, (kCount + count) / (count + 1));
        }
        if (spoilt_of == 1) {
          EXPECT_EQ(drafted.accepted, 0U);
        }
      }
    }
  }
}

TEST(Drafts, TheSimBackendGivesTheOutputOfPlainDecoding) {
  const auto backend = SimBackend::create({}).value();
  expect_identical_output(*backend);
  EXPECT_THAT(backend->faults(), IsEmpty());
}

TEST(Drafts, ThePluginsGiveTheOutputOfPlainDecoding) {
  for (const char* name : {"chain_plugin", "sim_plugin"}) {
    SCOPED_TRACE(name);
    auto backend = load_plugin(std::string(TWOSTROKE_PLUGINS_DIR "/") + name + ".so", {});
    ASSERT_TRUE(backend.ok()) << backend.status().message();
    EXPECT_GE((*backend)->info().step_drafts_max, 8);
    expect_identical_output(**backend);
  }
}

class CpuDrafts : public testing::TestWithParam<GgufType> {
 protected:
  static std::unique_ptr<CpuBackend> backend_of(const TempFile& file, int32_t threads = 2) {
    CpuBackendOptions options;
    options.model_path = file.path();
    options.threads = threads;
    options.block_count = 64;
    options.step_rows_max = 8;
    return CpuBackend::create(options, nullptr).value();
  }
};

TEST_P(CpuDrafts, GiveTheOutputOfPlainDecoding) {
  TinyLlama shape;
  shape.matrix_type = GetParam();
  shape.vocab_size = 320;
  const TempFile file(tiny_llama(shape).bytes());
  for (const int32_t threads : {1, 2}) expect_identical_output(*backend_of(file, threads));
}

INSTANTIATE_TEST_SUITE_P(Layouts, CpuDrafts,
                         testing::Values(GgufType::kF32, GgufType::kF16, GgufType::kQ4_1, GgufType::kQ8_0),
                         [](const auto& type) { return gguf_type_name(static_cast<uint32_t>(type.param)); });

// A token whose embedding is NaN: as a draft it spoils what comes behind it, and no more.
TEST(Drafts, OneThatSpoilsItsLogitsEndsTheRowBeforeIt) {
  constexpr TokenId kPoison = 5;
  TinyLlama shape;
  shape.tied_output = false;
  GgufWriter model = tiny_llama(shape);
  std::vector<float> embedding(64 * 64);
  for (size_t i = 0; i < embedding.size(); ++i) embedding[i] = 0.1F + static_cast<float>(i % 7) * 0.05F;
  embedding[kPoison * 64 + 3] = std::numeric_limits<float>::quiet_NaN();
  model.set_tensor("token_embd.weight", {64, 64}, embedding);
  const TempFile file(model.bytes());
  CpuBackendOptions options;
  options.model_path = file.path();
  const auto backend = CpuBackend::create(options, nullptr).value();
  SamplingParams sampling = greedy();
  sampling.logit_bias = {{kPoison, 1000.0F}};  // nothing but the poison is ever drawn
  const auto poison = [=](std::span<const TokenId>) { return std::vector<TokenId>(4, kPoison); };
  const Generated plain = Generation(*backend, sampling, {1, 2, 3}).run(3, kNoDrafts);
  const Generated drafted = Generation(*backend, sampling, {1, 2, 3}).run(3, poison);
  EXPECT_THAT(plain.ids(), ElementsAre(kPoison));
  EXPECT_EQ(plain.status, RowStatus::kNotFinite);
  EXPECT_EQ(drafted.tokens, plain.tokens);
  EXPECT_EQ(drafted.status, RowStatus::kNotFinite);
  EXPECT_EQ(drafted.accepted, 0U);
}

TEST(Drafts, OfARowThatFailsGiveNothing) {
  SimOptions options;
  options.step_faults[1] = {.kind = SimFault::Kind::kNotFinite};
  const auto backend = SimBackend::create(std::move(options)).value();
  const SamplingParams sampling = greedy();
  TestStep step(1);
  step.add_with_drafts({1, 2, 3}, 0, {0}, &sampling, 3, std::vector<TokenId>{4, 5});
  StepResult result;
  ASSERT_TRUE(run_step(*backend, step, result).ok());
  EXPECT_EQ(result.rows[0].status, RowStatus::kNotFinite);
  EXPECT_EQ(result.rows[0].token, -1);
  EXPECT_THAT(result.rows[0].following, IsEmpty());
}

// Over many seeds, with the same drafts: the first token is distributed as its logits say, the draft is accepted as
// often as it is probable, and what follows it is distributed as the logits behind it say.
TEST(Drafts, LeaveTheDistributionOfSampledTokensAsItIs) {
  constexpr size_t kVocab = 6;
  constexpr int kDraws = 40'000;
  const std::vector<TokenId> drafts = {2, 4};
  const std::vector<float> logits = {0, 1, 2, 0.5F, -1, 1.5F, 1, 0, -0.5F, 0.25F, 2, 1, 0, 0, 1, -1, 1, 2};
  std::vector<std::vector<double>> expected(3, std::vector<double>(kVocab));
  for (size_t place = 0; place < 3; ++place) {
    double sum = 0;
    for (size_t t = 0; t < kVocab; ++t) sum += std::exp(static_cast<double>(logits[place * kVocab + t]));
    for (size_t t = 0; t < kVocab; ++t) {
      expected[place][t] = std::exp(static_cast<double>(logits[place * kVocab + t])) / sum;
    }
  }
  std::vector<std::vector<int>> seen(3, std::vector<int>(kVocab));
  Sampler sampler(kVocab);
  SamplingParams sampling;
  const std::vector<TokenId> history = {1, 2, 3};
  Row row;
  row.samples = true;
  row.sampling = &sampling;
  row.history = history;
  row.prompt_count = 3;
  row.draft_count = 2;
  RowResult result;
  for (int draw = 0; draw < kDraws; ++draw) {
    sampling.seed = static_cast<uint64_t>(draw);
    sampler.sample(row, drafts, logits, result);
    ++seen[0][static_cast<size_t>(result.token)];
    for (size_t i = 0; i < result.following.size(); ++i) {
      ++seen[i + 1][static_cast<size_t>(result.following[i].token)];
    }
  }
  for (size_t place = 0; place < 3; ++place) {
    int total = 0;
    for (const int count : seen[place]) total += count;
    // Every place is reached when, and only when, the draft before it was drawn.
    const size_t draft = place == 0 ? 0 : static_cast<size_t>(drafts[place - 1]);
    EXPECT_EQ(total, place == 0 ? kDraws : seen[place - 1][draft]);
    double chi_square = 0;
    for (size_t t = 0; t < kVocab; ++t) {
      const double mean = expected[place][t] * total;
      chi_square += (seen[place][t] - mean) * (seen[place][t] - mean) / mean;
    }
    EXPECT_LT(chi_square, 20.5) << "place " << place;  // 5 degrees of freedom: one in a thousand
  }
}

TEST(Drafts, ThatBreakTheContractAreRefused) {
  const std::vector<uint32_t> mask(32, ~0U);
  const std::vector<TokenId> targets = {2, 3};
  const auto refused = [&](const std::vector<TokenId>& drafts, auto edit, const std::string& text) {
    SimOptions options;
    options.info.step_drafts_max = 4;
    const auto backend = SimBackend::create(std::move(options)).value();
    const SamplingParams sampling = greedy();
    TestStep step(1);
    edit(step.add_with_drafts({1, 2, 3}, 0, {0}, &sampling, 3, drafts));
    EXPECT_THAT(backend->submit(step.plan()).message(), HasSubstr(text));
  };
  const auto as_it_is = [](Row&) {};
  refused({4, 5, 6, 7, 8}, as_it_is, "more drafts than step_drafts_max");
  refused({4, 1000}, as_it_is, "a token outside the vocabulary");
  refused(
      {4}, [&](Row& row) { row.mask = mask; }, "drafts under a mask");
  refused(
      {4}, [&](Row& row) { row.targets = targets; }, "drafts and targets");
  refused(
      {4}, [&](Row& row) { row.samples = false; }, "drafts, but does not sample");
  refused(
      {4, 5}, [&](Row& row) { row.draft_count = 5; }, "has drafts alone");
  refused(
      {4, 5}, [&](Row& row) { row.draft_count = 1; }, "its last known position is 3");
}

TEST(Drafts, CostTheRooflineTheirTokensAndTheirLogits) {
  const SamplingParams sampling = greedy();
  TestStep plain(1), drafted(1);
  plain.add({1, 2, 3}, 2, {0}, &sampling);
  drafted.add_with_drafts({1, 2, 3}, 2, {0}, &sampling, 3, std::vector<TokenId>{4, 5, 6});
  const StepWork without = StepWork::of(plain.plan());
  const StepWork with = StepWork::of(drafted.plan());
  EXPECT_EQ(without.tokens, 1U);
  EXPECT_EQ(with.tokens, 4U);
  EXPECT_EQ(without.logit_tokens, 1U);
  EXPECT_EQ(with.logit_tokens, 4U);
  EXPECT_EQ(with.attended_positions, 3U + 4 + 5 + 6);
  EXPECT_EQ(with.context, 6U);
}

TEST(Drafts, AreNotForABackendThatIsToldToTakeNone) {
  const TempFile file(tiny_llama({}).bytes());
  CpuBackendOptions options;
  options.model_path = file.path();
  options.step_drafts_max = 0;
  const auto backend = CpuBackend::create(options, nullptr).value();
  EXPECT_EQ(backend->info().step_drafts_max, 0);
  options.step_drafts_max = -1;
  EXPECT_THAT(CpuBackend::create(options, nullptr).status().message(), HasSubstr("step_drafts_max is -1"));
}

}  // namespace
}  // namespace twostroke
