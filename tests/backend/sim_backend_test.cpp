#include "backend/sim/sim_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/backend/sim_steps.h"

namespace twostroke {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::unique_ptr<SimBackend> make(SimOptions options = {}) {
  auto backend = SimBackend::create(std::move(options));
  EXPECT_TRUE(backend.ok()) << backend.status().message();
  return std::move(backend).value();
}

std::vector<TokenId> prompt_of(uint32_t count, TokenId first = 1) {
  std::vector<TokenId> tokens(count);
  for (uint32_t i = 0; i < count; ++i) tokens[i] = (first + static_cast<TokenId>(i) * 7) % 1000;
  return tokens;
}

// Greedy tokens of one sequence whose prompt is computed in chunks of `chunk`, in the given blocks.
std::vector<TokenId> generate(SimBackend& backend, std::vector<TokenId> tokens, uint32_t chunk, size_t count,
                              const std::vector<BlockId>& blocks, const SamplingParams& sampling = greedy()) {
  const auto prompt_count = static_cast<uint32_t>(tokens.size());
  uint32_t computed = 0;
  uint64_t number = backend.steps();
  StepResult result;
  while (tokens.size() < prompt_count + count) {
    const auto total = static_cast<uint32_t>(tokens.size());
    const uint32_t end = std::min(total, computed + chunk);
    TestStep step(++number);
    step.add({tokens.begin(), tokens.begin() + end}, computed, blocks, end == total ? &sampling : nullptr,
             prompt_count);
    EXPECT_TRUE(run_step(backend, step, result).ok());
    computed = end;
    if (end == total) tokens.push_back(result.rows[0].token);
  }
  return {tokens.begin() + prompt_count, tokens.end()};
}

TEST(SimBackend, GivesTheSameTokensAtEveryChunkSizeAndInEveryBlock) {
  const auto backend = make();
  const std::vector<TokenId> prompt = prompt_of(40);
  const std::vector<TokenId> expected = generate(*backend, prompt, 40, 12, {0, 1, 2, 3});
  EXPECT_EQ(generate(*backend, prompt, 1, 12, {9, 4, 60, 33}), expected);
  EXPECT_EQ(generate(*backend, prompt, 7, 12, {20, 21, 22, 63}), expected);
  EXPECT_NE(generate(*backend, prompt_of(40, 2), 40, 12, {0, 1, 2, 3}), expected);
  EXPECT_THAT(backend->faults(), IsEmpty());
}

TEST(SimBackend, ScoresAPromptsTokensAsItWouldSampleThem) {
  const auto backend = make();
  const std::vector<TokenId> prompt = prompt_of(20);
  const std::vector<TokenId> targets(prompt.begin() + 1, prompt.end());
  TestStep step(1);
  Row& row = step.add(prompt, 0, {0, 1}, nullptr);
  row.targets = targets;
  row.target_logprobs = 2;
  StepResult result;
  ASSERT_TRUE(run_step(*backend, step, result).ok());
  const std::vector<TokenScore> scores = result.rows[0].targets;
  ASSERT_EQ(scores.size(), 19U);
  for (size_t i = 0; i < scores.size(); ++i) {
    SamplingParams forced = greedy(2);
    forced.logit_bias = {{targets[i], 1000.0F}};
    TestStep alone(i + 2);
    alone.add({prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(i) + 1}, 0, {2, 3}, &forced);
    ASSERT_TRUE(run_step(*backend, alone, result).ok());
    const RowResult& sampled = result.rows[0];
    EXPECT_EQ(scores[i], (TokenScore{sampled.logprob, sampled.rank, sampled.top}));
  }
  EXPECT_THAT(backend->faults(), IsEmpty());
}

TEST(SimBackend, SumsStatesOverChunks) {
  const auto backend = make();
  const std::vector<TokenId> prompt = prompt_of(20);
  uint64_t number = 0;
  const auto pool = [&](uint32_t begin, uint32_t end, Pooling pooling) {
    TestStep step(++number);
    step.add({prompt.begin(), prompt.begin() + end}, begin, {0, 1}, nullptr).pooling = pooling;
    StepResult result;
    EXPECT_TRUE(run_step(*backend, step, result).ok());
    return result.rows.at(0).hidden;
  };
  const std::vector<float> whole = pool(0, 20, Pooling::kMean);
  const std::vector<float> first = pool(0, 13, Pooling::kMean);
  const std::vector<float> second = pool(13, 20, Pooling::kMean);
  ASSERT_EQ(whole.size(), 16U);
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(whole[i], first[i] + second[i], 1e-5);
  EXPECT_EQ(pool(19, 20, Pooling::kMean), pool(19, 20, Pooling::kLast));
  EXPECT_NE(pool(19, 20, Pooling::kLast), whole);
}

TEST(SimBackend, RefusesPromptWorkThatBreaksItsContract) {
  const auto refused = [](auto edit, const std::string& text) {
    SimOptions options;
    const auto backend = make(std::move(options));
    const SamplingParams sampling = greedy();
    const std::vector<TokenId> next = {2, 3};
    const std::vector<TokenId> wrong = {9, 3};
    const std::vector<TokenId> many = {2, 3, 4, 5};
    const std::vector<TokenId> unknown = {2, 3, 1000};
    TestStep step(1);
    edit(step.add({1, 2, 3}, 0, {0}, &sampling), next, wrong, many, unknown);
    EXPECT_THAT(backend->submit(step.plan()).message(), HasSubstr(text));
  };
  using Tokens = const std::vector<TokenId>&;
  refused([](Row& row, Tokens, Tokens wrong, Tokens, Tokens) { row.targets = wrong; }, "is not its next token");
  refused([](Row& row, Tokens, Tokens, Tokens many, Tokens) { row.targets = many; }, "more targets than tokens");
  refused([](Row& row, Tokens, Tokens, Tokens, Tokens unknown) { row.targets = unknown; }, "outside the vocabulary");
  refused([](Row& row, Tokens, Tokens, Tokens, Tokens) { row.pooling = Pooling::kMean; }, "pools and samples");
}

TEST(SimBackend, GivesTheSameTokensAloneAndInABatch) {
  const auto alone = make();
  const auto batched = make();
  const SamplingParams sampling = greedy();
  std::vector<TokenId> expected;
  TestStep batch(1);
  for (uint32_t i = 0; i < 8; ++i) {
    const std::vector<TokenId> prompt = prompt_of(5 + i, static_cast<TokenId>(i));
    expected.push_back(generate(*alone, prompt, 64, 1, {i})[0]);
    batch.add(prompt, 0, {63 - i}, &sampling);
  }
  StepResult result;
  ASSERT_TRUE(run_step(*batched, batch, result).ok());
  std::vector<TokenId> tokens;
  for (const RowResult& row : result.rows) tokens.push_back(row.token);
  EXPECT_EQ(tokens, expected);
  EXPECT_THAT(batched->faults(), IsEmpty());
}

TEST(SimBackend, AsksTheScriptForTokensAndTheModelWhereItHasNone) {
  SimOptions options;
  options.script = [](const SimRowView& view) -> std::optional<TokenId> {
    if (view.output_index < 3) return static_cast<TokenId>(100 + view.output_index);
    return std::nullopt;
  };
  const auto scripted = make(options);
  const std::vector<TokenId> tokens = generate(*scripted, prompt_of(4), 4, 4, {0});
  EXPECT_THAT(std::vector<TokenId>(tokens.begin(), tokens.begin() + 3), ElementsAre(100, 101, 102));
  std::vector<TokenId> forced = prompt_of(4);
  forced.insert(forced.end(), {100, 101, 102});
  EXPECT_EQ(tokens[3], generate(*make(), forced, 64, 1, {0})[0]);
}

TEST(SimBackend, ARowThatDoesNotSampleHasNoToken) {
  const auto backend = make();
  TestStep step(1);
  step.add(prompt_of(4), 0, {0}, nullptr);
  StepResult result;
  ASSERT_TRUE(run_step(*backend, step, result).ok());
  EXPECT_EQ(result.rows[0].token, -1);
  EXPECT_EQ(result.rows[0].status, RowStatus::kOk);
}

TEST(SimBackend, VirtualTimeAdvancesByTheRooflinesCost) {
  VirtualClock clock(500);
  SimOptions options;
  options.pace = SimPace::kVirtual;
  options.clock = &clock;
  options.step_faults[2] = {.kind = SimFault::Kind::kSlow, .slow_ns = 7'000'000};
  const auto backend = make(options);
  const std::vector<TokenId> prompt = prompt_of(6);
  StepResult result;
  TestStep first(1);
  first.add({prompt.begin(), prompt.begin() + 5}, 0, {0}, nullptr);
  ASSERT_TRUE(run_step(*backend, first, result).ok());
  const TimeNs cost = step_cost(options.machine, options.info, StepWork::of(first.plan())).total_ns;
  EXPECT_EQ(backend->last_cost().total_ns, cost);
  EXPECT_EQ(clock.now(), 500 + cost);
  TestStep second(2);
  second.add(prompt, 5, {0}, nullptr);
  ASSERT_TRUE(run_step(*backend, second, result).ok());
  EXPECT_EQ(clock.now(), 500 + cost + 7'000'000 + backend->last_cost().total_ns);
}

TEST(SimBackend, RealTimePasses) {
  SimOptions options;
  options.pace = SimPace::kReal;
  options.machine.step_overhead_ns = 2'000'000;
  const auto backend = make(options);
  TestStep step(1);
  step.add(prompt_of(1), 0, {0}, nullptr);
  StepResult result;
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(run_step(*backend, step, result).ok());
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::nanoseconds(backend->last_cost().total_ns));
}

TEST(SimBackend, InterruptEndsAStepThatWouldTakeAnHour) {
  SimOptions options;
  options.pace = SimPace::kReal;
  options.machine.step_overhead_ns = TimeNs{3600} * 1'000'000'000;
  const auto backend = make(options);
  TestStep step(1);
  step.add(prompt_of(1), 0, {0}, nullptr);
  Status status;
  StepResult result;
  ASSERT_TRUE(backend->submit(step.plan()).ok());
  std::thread waiter([&] { status = backend->wait(result); });
  backend->interrupt();
  waiter.join();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(backend->submit(step.plan()).code(), StatusCode::kUnavailable);
}

TEST(SimBackend, AStepHangsUntilReleased) {
  SimOptions options;
  options.step_faults[1] = {.kind = SimFault::Kind::kHang};
  const auto backend = make(options);
  const SamplingParams sampling = greedy();
  TestStep step(1);
  step.add(prompt_of(3), 0, {0}, &sampling);
  ASSERT_TRUE(backend->submit(step.plan()).ok());
  Status status;
  StepResult result;
  std::thread waiter([&] { status = backend->wait(result); });
  backend->await_hang();
  EXPECT_EQ(backend->steps(), 0U);
  backend->release();
  waiter.join();
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(result.rows[0].token, generate(*make(), prompt_of(3), 3, 1, {0})[0]);
}

TEST(SimBackend, InjectedErrorsLoseTheirStepAndLeaveGarbage) {
  SimOptions options;
  options.step_faults[2] = {.kind = SimFault::Kind::kSubmitError, .error = internal_error("no launch")};
  options.fault = [](const StepPlan& plan) -> std::optional<SimFault> {
    if (plan.step != 3) return std::nullopt;
    return SimFault{.kind = SimFault::Kind::kWaitError, .error = internal_error("lost")};
  };
  const auto backend = make(options);
  const SamplingParams sampling = greedy();
  const std::vector<TokenId> prompt = prompt_of(8);
  StepResult result;
  for (uint64_t number = 1; number <= 3; ++number) {
    TestStep step(number);
    step.add(prompt, 0, {0}, &sampling);
    const Status status = run_step(*backend, step, result);
    EXPECT_EQ(status.code(), number == 1 ? StatusCode::kOk : StatusCode::kInternal);
    EXPECT_EQ(status.message(), number == 1 ? "" : number == 2 ? "no launch" : "lost");
  }
  EXPECT_THAT(backend->faults(), IsEmpty());
  TestStep trusting(4);
  std::vector<TokenId> longer = prompt;
  longer.push_back(1);
  trusting.add(longer, 8, {0}, &sampling);
  EXPECT_TRUE(run_step(*backend, trusting, result).ok());
  EXPECT_THAT(backend->faults(), ElementsAre(HasSubstr("position 0 (block 0, offset 0) holds what a lost step left")));
}

TEST(SimBackend, ADeadBackendStaysDead) {
  SimOptions options;
  options.step_faults[1] = {.kind = SimFault::Kind::kWaitError, .error = unavailable("fell off the bus")};
  const auto backend = make(options);
  TestStep step(1);
  step.add(prompt_of(2), 0, {0}, nullptr);
  StepResult result;
  EXPECT_EQ(run_step(*backend, step, result), unavailable("fell off the bus"));
  step.plan().step = 2;
  EXPECT_EQ(backend->submit(step.plan()), unavailable("fell off the bus"));
}

TEST(SimBackend, NotFiniteStrikesTheNamedRowsOnly) {
  SimOptions options;
  options.step_faults[1] = {.kind = SimFault::Kind::kNotFinite, .rows = {1}};
  const auto backend = make(options);
  const SamplingParams sampling = greedy();
  TestStep step(1);
  step.add(prompt_of(2), 0, {0}, &sampling);
  step.add(prompt_of(3), 0, {1}, &sampling);
  StepResult result;
  ASSERT_TRUE(run_step(*backend, step, result).ok());
  EXPECT_EQ(result.rows[0].status, RowStatus::kOk);
  EXPECT_EQ(result.rows[1].status, RowStatus::kNotFinite);
  EXPECT_EQ(result.rows[1].token, -1);
}

TEST(SimBackend, RefusesAPlanThatBreaksItsContract) {
  const auto backend = make();
  const SamplingParams sampling = greedy();
  const auto message = [&](auto&& damage) {
    TestStep step(1);
    step.add(prompt_of(20), 4, {0, 1}, &sampling);
    damage(step.plan());
    return backend->submit(step.plan()).message();
  };
  EXPECT_THAT(message([](StepPlan& p) { p.rows.clear(); }), HasSubstr("no rows"));
  EXPECT_THAT(message([](StepPlan& p) { p.rows[0].token_count = 0; }), HasSubstr("has no tokens"));
  EXPECT_THAT(message([](StepPlan& p) { p.rows[0].token_begin = 1; }), HasSubstr("tokens are outside the plan's"));
  EXPECT_THAT(message([](StepPlan& p) { p.rows[0].block_count = 3; }), HasSubstr("blocks are outside the plan's"));
  EXPECT_THAT(message([](StepPlan& p) { p.rows[0].block_count = 1; }), HasSubstr("do not cover it"));
  EXPECT_THAT(message([](StepPlan& p) { p.rows[0].position = 2000; }), HasSubstr("beyond the context"));
  EXPECT_THAT(message([](StepPlan& p) { p.blocks[1] = 64; }), HasSubstr("unknown block"));
  EXPECT_THAT(message([](StepPlan& p) { p.copies.push_back({0, 64}); }), HasSubstr("unknown block"));
  EXPECT_THAT(message([](StepPlan& p) { p.tokens[0] = 1000; }), HasSubstr("outside the vocabulary"));
  EXPECT_THAT(message([](StepPlan& p) { p.tokens[0] = 999; }), HasSubstr("not its history's last"));
  EXPECT_THAT(message([](StepPlan& p) { p.tokens.push_back(1); }), HasSubstr("belong to no row"));
  EXPECT_THAT(message([](StepPlan& p) { p.rows[0].sampling = nullptr; }), HasSubstr("without sampling settings"));
  EXPECT_THAT(message([](StepPlan& p) { p.rows[0].prompt_count = 21; }), HasSubstr("prompt_count"));
  EXPECT_THAT(message([](StepPlan& p) { p.rows[0].history = p.rows[0].history.first(19); }), HasSubstr("history has"));
  const std::vector<uint32_t> mask(1);
  EXPECT_THAT(message([&](StepPlan& p) { p.rows[0].mask = mask; }), HasSubstr("mask"));
  EXPECT_EQ(message([](StepPlan& p) { p.rows[0].position = 4; }), "");
  EXPECT_EQ(backend->faults().size(), 15U);
}

TEST(SimBackend, RefusesImpossibleOptionsByName) {
  const auto message = [](auto&& change) {
    SimOptions options;
    change(options);
    return SimBackend::create(std::move(options)).status().message();
  };
  EXPECT_THAT(message([](SimOptions& o) { o.info.vocab_size = 0; }), HasSubstr("vocab_size must be at least 1"));
  EXPECT_THAT(message([](SimOptions& o) { o.info.block_count = -4; }), HasSubstr("block_count must be at least 1"));
  EXPECT_THAT(message([](SimOptions& o) { o.info.block_count = 1 << 30; }), HasSubstr("at most"));
  EXPECT_THAT(message([](SimOptions& o) { o.info.weight_bytes = -1; }), HasSubstr("weight_bytes"));
  EXPECT_THAT(message([](SimOptions& o) { o.machine.peak_flops = 0; }), HasSubstr("peak_flops"));
  EXPECT_THAT(message([](SimOptions& o) { o.machine.compute_efficiency = 1.5; }), HasSubstr("compute_efficiency"));
  EXPECT_THAT(message([](SimOptions& o) { o.pace = SimPace::kVirtual; }), HasSubstr("needs a clock"));
}

}  // namespace
}  // namespace twostroke
