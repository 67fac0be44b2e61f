#include "scheduler/cost/forecast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "scheduler/engine.h"
#include "tests/scheduler/engine_collector.h"
#include "tests/scheduler/harness.h"

namespace twostroke::test {
namespace {

using ::testing::HasSubstr;

// Of blocks of 16.
PromptNeed uncached(uint32_t tokens) { return {.length = tokens, .tokens = tokens, .blocks = (tokens + 15) / 16}; }

// One more prompt.
void add(SizedLoads& loads, uint32_t tokens) { loads[size_of_prompt(tokens)] += load_of(uncached(tokens), 1); }

PromptLoad sum_of(const SizedLoads& loads) {
  PromptLoad sum;
  for (const PromptLoad& load : loads) sum += load;
  return sum;
}

ForecastBasis basis() {
  ForecastBasis b;
  b.known = true;
  b.pace = b.pace_alone = {.token_ns = 1e6, .short_step_ns = 0, .step_tokens = 200};
  b.step_ns = 50 * kMillisecondNs;
  b.slots_free = 2;
  b.blocks_room = 1000;
  b.blocks_per_end = 10;
  b.end_interval_ns = 400 * kMillisecondNs;
  add(b.level(5).waiting, 2000);
  add(b.level(0).waiting, 500);
  b.aged.tokens = 300;
  return b;
}

TEST(Forecast, IsTheBacklogOverTheRateThenTheOwnPrompt) {
  const Forecast f = forecast(basis(), newcomer(basis(), 0, uncached(100)));
  EXPECT_EQ(f.start_ns, 850 * kMillisecondNs) << "50 ms of the step, 300 + 500 tokens";
  EXPECT_EQ(f.first_token_ns, 950 * kMillisecondNs);
  ForecastBasis with_context = basis();
  with_context.pace.position_ns = 1e4;
  EXPECT_EQ(forecast(with_context, newcomer(basis(), 0, uncached(100))).first_token_ns, 2250 * kMillisecondNs)
      << "and 100 * 100 / 2 positions, 500 * 500 / 2 before them";
  const PromptNeed last_tenth{.length = 100, .tokens = 10, .blocks = 7};
  const Forecast cached = forecast(with_context, newcomer(basis(), 0, last_tenth));
  EXPECT_EQ(cached.first_token_ns - cached.start_ns, 19'500'000) << "10 tokens, and 10 * 95 positions";
}

TEST(Forecast, CountsOnlyWhatGoesBeforeByPriority) {
  ForecastBasis b = basis();
  add(b.level(3).prefilling, 1000);
  EXPECT_EQ(newcomer(b, -1, uncached(1)).before.tokens, 300u) << "what has aged";
  EXPECT_EQ(newcomer(b, 2, uncached(1)).before.tokens, 800u) << "what runs has a worse priority";
  EXPECT_EQ(newcomer(b, 4, uncached(1)).before.tokens, 1800u);
  EXPECT_EQ(newcomer(b, 5, uncached(1000)).before.tokens, 3800u);
  EXPECT_EQ(newcomer(b, 5, uncached(1000)).before.sequences, 3u);
}

TEST(Forecast, AShortPromptSharesItsStepsWithOtherShortOnesAlone) {
  ForecastBasis b;
  b.pace = b.pace_alone = {.token_ns = 1e6, .step_tokens = 100};
  b.slots_free = 10;
  b.blocks_room = 10'000;
  ForecastLevel& level = b.level(0);
  add(level.prefilling, 6000);
  level.first_tokens = 6000;
  const auto ms = [&b](uint32_t tokens) {
    return forecast(b, newcomer(b, 0, uncached(tokens))).first_token_ns / kMillisecondNs;
  };
  EXPECT_EQ(ms(60), 200) << "half of two steps";
  EXPECT_EQ(ms(1500), 3000) << "a quarter of what the first has left";
  EXPECT_EQ(ms(5000), 11'000);
  add(level.waiting, 3000);
  EXPECT_EQ(ms(60), 200);
  add(level.waiting, 400);
  EXPECT_EQ(ms(60), 1000) << "short itself";
  add(b.level(-1).waiting, 3000);
  EXPECT_EQ(ms(60), 7000) << "of a better priority, which goes before it whatever its length";

  // Nobody is longer: all advance together at the full rate.
  ForecastBasis alike;
  alike.pace = alike.pace_alone = {.token_ns = 1e6, .step_tokens = 100};
  alike.slots_free = 10;
  alike.blocks_room = 10'000;
  add(alike.level(0).waiting, 300);
  EXPECT_EQ(forecast(alike, newcomer(alike, 0, uncached(200))).first_token_ns, 500 * kMillisecondNs);
}

TEST(Forecast, LevelsBeyondTheLastCountAsTheLast) {
  ForecastBasis b;
  for (const int32_t priority : {50, 10, 90, 20, 80, 30, 70, 40, 60, 0}) {
    add(b.level(priority).waiting, 16);
    ++b.level(priority).running;
  }
  ASSERT_EQ(b.level_count, kForecastLevels);
  EXPECT_EQ(b.levels.front().priority, 0);
  EXPECT_EQ(newcomer(b, 100, uncached(1)).before.tokens, 160u) << "nobody is lost";
  EXPECT_EQ(gives_way_to(b, -1), 10u);
  EXPECT_EQ(newcomer(b, 35, uncached(1)).before.tokens, 64u);
}

TEST(Forecast, SizesDoubleFromSixteenOn) {
  EXPECT_EQ(size_of_prompt(0), 0u);
  EXPECT_EQ(size_of_prompt(16), 0u);
  EXPECT_EQ(size_of_prompt(17), 1u);
  EXPECT_EQ(size_of_prompt(32), 1u);
  EXPECT_EQ(size_of_prompt(8192), 9u);
  EXPECT_EQ(size_of_prompt(UINT64_MAX), kForecastSizes - 1);
}

TEST(Forecast, WaitsForSlotsAndBlocksWhereTheyComeLater) {
  ForecastBasis b = basis();
  b.slots_free = 0;  // one waits before it, so two must end
  b.end_interval_ns = kSecondNs;
  EXPECT_EQ(forecast(b, newcomer(b, 0, uncached(100))).start_ns, 2050 * kMillisecondNs);
  b.slots_free = 2;
  b.blocks_room = 10;  // 39 blocks and one to grow into, 30 too many: three must end
  EXPECT_EQ(forecast(b, newcomer(b, 0, uncached(100))).start_ns, 3050 * kMillisecondNs);
  b.level(0).running = 5;  // they do not give way to their equals
  b.level(3).running = 2;
  EXPECT_EQ(forecast(b, newcomer(b, 0, uncached(100))).start_ns, 1050 * kMillisecondNs) << "two give way, one must end";
  EXPECT_EQ(gives_way_to(b, -1), 7u);
}

TEST(Forecast, AShortPromptTakesAStepAllTheSame) {
  ForecastBasis b = basis();
  // A full step of 100 tokens takes 100 ms: 40, and 0.6 for each token.
  b.levels = {};
  b.level_count = 0;
  b.pace = {.token_ns = 1e6, .short_step_ns = 40e6, .step_tokens = 100};
  b.pace_alone = {.token_ns = 0.5e6, .short_step_ns = 20e6, .step_tokens = 100};
  const auto own_ms = [&b](uint32_t tokens) {
    const Forecast f = forecast(b, newcomer(b, 0, uncached(tokens)));
    return std::pair((f.first_token_ns - f.start_ns) / kMillisecondNs, f.alone_ns / kMillisecondNs);
  };
  EXPECT_EQ(own_ms(1), std::pair(TimeNs{40}, TimeNs{20}));
  EXPECT_EQ(own_ms(50), std::pair(TimeNs{70}, TimeNs{35}));
  EXPECT_EQ(own_ms(100), std::pair(TimeNs{100}, TimeNs{50}));
  EXPECT_EQ(own_ms(250), std::pair(TimeNs{270}, TimeNs{135}));
}

TEST(Forecast, WhatOthersComputeIsSparedInWholeBlocks) {
  PromptNeed need = uncached(100);
  spare(need, 50, 16);
  EXPECT_EQ(need.tokens, 52u);
  EXPECT_EQ(need.blocks, 4u);
  spare(need, 20, 16);
  EXPECT_EQ(need.tokens, 52u) << "the longest counts";
  spare(need, 100, 16);
  EXPECT_EQ(need.tokens, 4u);
  need = uncached(96);
  spare(need, 96, 16);
  EXPECT_EQ(need.tokens, 16u) << "the last token is always computed, and with it its block";
}

TEST(Forecast, StaysANumberWhateverTheBasis) {
  ForecastBasis b = basis();
  b.pace.token_ns = 1e300;
  const Forecast f = forecast(b, newcomer(b, 5, uncached(1u << 31)));
  EXPECT_GT(f.start_ns, 0);
  EXPECT_GE(f.first_token_ns, f.start_ns);
}

TEST(DeadlineGate, OpensAgainOnlyWellBelowTheObjective) {
  DeadlineGate gate;
  EXPECT_TRUE(gate.admits(99, 10, 100));
  EXPECT_FALSE(gate.admits(101, 10, 100));
  EXPECT_FALSE(gate.admits(99, 10, 100)) << "otherwise every end of a request would let one in, to be late";
  EXPECT_TRUE(gate.admits(80, 10, 100));
  EXPECT_TRUE(gate.admits(99, 10, 100)) << "open again";
}

TEST(DeadlineGate, AnObjectiveThatCannotBeMetAloneSaysNothingAboutTheLoad) {
  DeadlineGate gate;
  EXPECT_FALSE(gate.admits(120, 110, 100));
  EXPECT_FALSE(gate.closed());
  EXPECT_TRUE(gate.admits(99, 10, 100));
  // And one that is tight but possible gets in when nothing is before it.
  EXPECT_FALSE(gate.admits(101, 10, 100));
  EXPECT_TRUE(gate.admits(95, 95, 100));
}

TEST(ForecastBasis, FollowsTheScheduler) {
  SchedulerLimits limits = small_limits();
  limits.max_running = 2;
  limits.max_chunk_tokens = 0;
  Harness harness(limits);
  EXPECT_FALSE(harness.scheduler.forecast_basis().known) << "nothing was measured";
  for (RequestId id = 1; id <= 4; ++id) {
    Request request = make_request(id, make_prompt(10, static_cast<TokenId>(id)), 12);
    request.priority = id == 4 ? -3 : 0;
    ASSERT_TRUE(harness.submit(std::move(request)).ok());
  }
  ForecastBasis b = harness.scheduler.forecast_basis();
  ASSERT_EQ(b.level_count, 2u);
  EXPECT_EQ(b.levels[0].priority, -3);
  EXPECT_EQ(b.levels[0].waiting[0].tokens, 10u);
  EXPECT_EQ(b.levels[1].waiting[0].tokens, 30u);
  EXPECT_EQ(b.levels[1].waiting[0].positions, 3 * 50u);
  EXPECT_EQ(b.levels[1].waiting[0].sequences, 3u);
  EXPECT_EQ(b.slots_free, 2u);
  for (int i = 0; i < 9; ++i) harness.step();
  b = harness.scheduler.forecast_basis();
  EXPECT_TRUE(b.known);
  EXPECT_EQ(b.slots_free, 0u);
  ASSERT_EQ(b.level_count, 2u);
  EXPECT_EQ(b.levels[0].running, 1u) << "of the best priority";
  EXPECT_EQ(b.levels[0].waiting[0].sequences, 0u);
  EXPECT_EQ(b.levels[1].running, 1u);
  EXPECT_EQ(b.levels[1].waiting[0].sequences, 2u);
  EXPECT_GT(b.pace.token_ns, 0);
  EXPECT_GT(b.pace_alone.short_step_ns, 0);
  EXPECT_GT(b.blocks_per_end, 0u);
  EXPECT_GT(b.end_interval_ns, 0) << "none has ended: as if all used their tokens";
  const auto start_of = [&](RequestId id) { return harness.scheduler.explain(id)->sequences[0].predicted_start_ns; };
  EXPECT_EQ(start_of(1), -1) << "it runs";
  EXPECT_GT(start_of(2), 0);
  EXPECT_GT(start_of(3), start_of(2));
  harness.run();
  b = harness.scheduler.forecast_basis();
  EXPECT_EQ(b.level_count, 0u);
  EXPECT_GT(b.end_interval_ns, 0) << "four have ended";
  EXPECT_EQ(harness.problem, "");
}

// 1 ms for each token, nothing else.
SchedulerLimits one_millisecond_a_token() {
  CostCoefficients costs;
  for (size_t i = 0; i < kCostKnotCount; ++i) costs.token_ns[i] = 1e6 * kCostKnots[i];
  SchedulerLimits limits;
  limits.max_waiting_requests = 8;
  limits.costs = costs;
  return limits;
}

SimOptions hanging_machine() {
  SimOptions machine;
  machine.info.context_max = 8192;
  machine.info.block_count = 4096;
  machine.info.step_tokens_max = 512;
  machine.info.step_rows_max = 64;
  machine.step_faults[1] = {.kind = SimFault::Kind::kHang};
  return machine;
}

Request with_deadline(RequestId id, uint32_t length, TimeNs ttft_ns) {
  Request request = make_request(id, std::vector<TokenId>(length, static_cast<TokenId>(id)), 4);
  request.objectives.ttft_ns = ttft_ns;
  return request;
}

TEST(EngineForecast, RefusesAtTheDoorWhatCannotMeetItsDeadline) {
  const auto backend = std::move(*SimBackend::create(hanging_machine()));
  Collector collector;
  Engine engine(one_millisecond_a_token(), EngineLimits{}, *backend, collector.sink());
  ASSERT_TRUE(engine.submit(with_deadline(1, 4000, 0)).ok());
  backend->await_hang();
  // Some 3.5 s of prompt are left, and half a second of the step.
  uint32_t retry = 0;
  const Status late = engine.submit(with_deadline(2, 2500, 3 * kSecondNs), &retry);
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(late.message(), HasSubstr("is predicted in 6."));
  EXPECT_THAT(late.message(), HasSubstr("objective of 3.00 s"));
  EXPECT_GE(retry, 3u);
  EXPECT_LE(retry, 5u);
  // Alone it would take longer than that already.
  EXPECT_THAT(engine.submit(with_deadline(3, 3000, kSecondNs)).message(), HasSubstr("even with the machine to itself"));
  EXPECT_TRUE(engine.submit(with_deadline(4, 100, 60 * kSecondNs)).ok());
  EXPECT_TRUE(engine.submit(with_deadline(5, 100, 0)).ok()) << "without an objective it may wait";
  // What is in the inbox stands before newcomers too: a short one would have its first token behind the next step, after
  // 1.0 s, but two are before it.
  EXPECT_THAT(engine.submit(with_deadline(6, 10, 1'200 * kMillisecondNs)).message(), HasSubstr("in 1.4"));
  backend->release();
  EXPECT_EQ(collector.await_end(1).outcome, Outcome::kFinished);
  collector.await_ends(3);
}

TEST(EngineForecast, AfterALongRestOneGoesThroughToShowWhetherItIsStillSlow) {
  SimOptions machine = hanging_machine();
  machine.step_faults.clear();
  const auto backend = std::move(*SimBackend::create(std::move(machine)));
  VirtualClock clock;
  Collector collector;
  Engine engine(one_millisecond_a_token(), EngineLimits{}, *backend, collector.sink(), clock);
  uint32_t retry = 7;
  const auto submit = [&](RequestId id) { return engine.submit(with_deadline(id, 2000, kSecondNs), &retry); };
  EXPECT_THAT(submit(1).message(), HasSubstr("even with the machine to itself"));
  EXPECT_EQ(retry, 0u) << "it is not worth while to try again";
  clock.advance(kForecastTrustedNs - 1);
  EXPECT_FALSE(submit(2).ok());
  clock.advance(1);
  ASSERT_TRUE(submit(3).ok());
  EXPECT_FALSE(submit(4).ok()) << "one is enough";
  collector.await_ends(1);
  EXPECT_FALSE(submit(5).ok()) << "it has just been measured";
}

// Whose steps take as long as it is told to jump.
class JumpingClock final : public Clock {
 public:
  TimeNs now() override { return time_.fetch_add(jump_) + jump_; }
  void jump(TimeNs by) { jump_ = by; }
  void advance(TimeNs by) { time_ += by; }

 private:
  std::atomic<TimeNs> time_ = 0;
  std::atomic<TimeNs> jump_ = 0;
};

TEST(EngineForecast, AfterASlowSpellItIsNotLongBeforeOneGoesThrough) {
  SimOptions machine = hanging_machine();
  machine.step_faults.clear();
  const auto backend = std::move(*SimBackend::create(std::move(machine)));
  JumpingClock clock;
  Collector collector;
  Engine engine(one_millisecond_a_token(), EngineLimits{}, *backend, collector.sink(), clock);
  clock.jump(10 * kSecondNs);  // for 512 tokens at most
  ASSERT_TRUE(engine.submit(with_deadline(1, 4000, 0)).ok());
  collector.await_ends(1);
  clock.jump(0);
  std::promise<void> rests;  // the step thread has nothing left to do
  engine.explain({}, [&rests](const auto&) { rests.set_value(); });
  rests.get_future().wait();

  uint32_t retry = 0;
  const auto submit = [&](RequestId id) { return engine.submit(with_deadline(id, 1000, 3 * kSecondNs), &retry); };
  EXPECT_THAT(submit(2).message(), HasSubstr("try again later")) << "1 s by its calibration";
  EXPECT_GE(retry, 1u);
  clock.advance(kForecastDoubtedNs);
  EXPECT_TRUE(submit(3).ok());
  collector.await_ends(2);
}

TEST(EngineForecast, WhatThePrefixCacheHasTakesNoTime) {
  SimOptions machine = hanging_machine();
  machine.step_faults.clear();
  const auto backend = std::move(*SimBackend::create(std::move(machine)));
  VirtualClock clock;  // no step takes any time, so nothing is learned
  Collector collector;
  Engine engine(one_millisecond_a_token(), EngineLimits{}, *backend, collector.sink(), clock);
  ASSERT_TRUE(engine.submit(with_deadline(1, 2000, 0)).ok());
  collector.await_ends(1);

  const auto again = [](RequestId id) {
    Request request = with_deadline(1, 2000, 100 * kMillisecondNs);
    request.id = id;
    return request;
  };
  Request longer = again(2);
  longer.prompt.insert(longer.prompt.end(), 500, 9);
  EXPECT_THAT(engine.submit(std::move(longer)).message(),
              HasSubstr("2500 tokens, of which 2000 are cached, is predicted to take 50"));
  Request secret = again(3);
  secret.cache_salt = 7;
  EXPECT_THAT(engine.submit(std::move(secret)).message(), HasSubstr("2000 tokens is predicted to take 2.00 s"));
  Request scored = again(4);
  scored.prompt_logprobs = 0;
  EXPECT_FALSE(engine.submit(std::move(scored)).ok()) << "its log-probabilities must be computed";
  EXPECT_TRUE(engine.submit(again(5)).ok());
  collector.await_ends(2);
}

TEST(ForecastBasis, CountsOfWhatWaitsOnlyWhatIsNotCached) {
  SchedulerLimits limits = small_limits();
  limits.max_running = 1;
  Harness harness(limits);
  const std::vector<TokenId> prompt = make_prompt(20, 5);
  ASSERT_TRUE(harness.submit(make_request(1, prompt, 2)).ok());
  harness.run();
  ASSERT_TRUE(harness.submit(make_request(2, make_prompt(20, 60), 9)).ok());
  harness.step();
  for (RequestId id = 3; id <= 4; ++id) ASSERT_TRUE(harness.submit(make_request(id, prompt, 2)).ok());
  const ForecastBasis b = harness.scheduler.forecast_basis();
  ASSERT_EQ(b.level_count, 1u);
  const PromptLoad level = sum_of(b.levels[0].waiting);
  const auto block_size = static_cast<uint32_t>(harness.backend->info().block_size);
  const uint32_t hits = 19 / block_size;
  ASSERT_GT(hits, 0u);
  EXPECT_EQ(level.tokens, 2 * (20 - hits * block_size));
  EXPECT_EQ(level.blocks, (20 + block_size - 1) / block_size + 1)
      << "nobody holds those that are cached; then the first does";
  EXPECT_EQ(harness.scheduler.gauges().waiting_prompt_tokens, 40u);
  harness.run();
  EXPECT_EQ(harness.problem, "");
}

TEST(EngineForecast, ABurstThatBeginsAlikeCountsItsBeginningOnce) {
  const auto backend = std::move(*SimBackend::create(hanging_machine()));
  Collector collector;
  Engine engine(one_millisecond_a_token(), EngineLimits{}, *backend, collector.sink());
  ASSERT_TRUE(engine.submit(with_deadline(1, 100, 0)).ok());
  backend->await_hang();
  const auto question = [](RequestId id, uint64_t tenant) {
    Request request = with_deadline(7, 2000, 2'500 * kMillisecondNs);
    request.prompt.resize(2032, static_cast<TokenId>(id + 20));
    request.id = id;
    request.tenant = tenant;
    return request;
  };
  // 100 ms of the step, 2,032 tokens of the first, 32 of each of the others.
  for (RequestId id = 2; id <= 6; ++id) EXPECT_TRUE(engine.submit(question(id, 0)).ok()) << id;
  EXPECT_FALSE(engine.submit(question(8, 9)).ok()) << "another tenant would not wait for it";
  backend->release();
  collector.await_ends(6);
}

TEST(ForecastBasis, CountsABeginningThatSeveralWaitWithOnce) {
  SchedulerLimits limits = small_limits();
  limits.max_running = 1;
  Harness harness(limits);
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(8, 60), 9)).ok());
  harness.step();
  for (RequestId id = 2; id <= 4; ++id) {
    std::vector<TokenId> prompt = make_prompt(16, 5);
    prompt.insert(prompt.end(), 4, static_cast<TokenId>(id));
    ASSERT_TRUE(harness.submit(make_request(id, prompt, 2)).ok());
  }
  const ForecastBasis b = harness.scheduler.forecast_basis();
  ASSERT_EQ(b.level_count, 1u);
  const PromptLoad level = sum_of(b.levels[0].waiting);
  EXPECT_EQ(level.tokens, 20u + 4 + 4) << "blocks are of 4 tokens";
  EXPECT_EQ(level.blocks, 5u + 1 + 1);
  harness.run();
  EXPECT_EQ(harness.problem, "");
}

TEST(EngineForecast, SaysWhenToComeBackToAFullQueue) {
  const auto backend = std::move(*SimBackend::create(hanging_machine()));
  Collector collector;
  Engine engine(one_millisecond_a_token(), EngineLimits{}, *backend, collector.sink());
  ASSERT_TRUE(engine.submit(with_deadline(1, 8000, 0)).ok());
  backend->await_hang();
  RequestId id = 1;
  uint32_t retry = 0;
  while (engine.submit(with_deadline(++id, 4000, 0), &retry).ok()) {
  }
  EXPECT_EQ(id, 10u) << "eight wait";
  EXPECT_NEAR(retry, (8 + 8 * 4) / 10, 1);
  backend->release();
  collector.await_ends(9);
}

}  // namespace
}  // namespace twostroke::test
