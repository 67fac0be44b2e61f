#include "server/simulate/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/simulate/synthetic.h"
#include "tests/server/simulate/named_file.h"
#include "tests/server/simulate/simulated.h"

namespace twostroke::simulate {
namespace {

using ::testing::HasSubstr;

// Prompt tokens that were to be computed, however they came to be there.
uint64_t accounted_prompt_tokens(const SimulationResult& result) {
  uint64_t sum = 0;
  for (const GroupResult& group : result.groups) {
    sum += group.counts.computed_tokens + group.counts.cached_tokens + group.counts.remote_tokens;
  }
  return sum;
}

TEST(Simulation, ALoneRequestTakesWhatTheRooflineSays) {
  Simulated simulated("H100");
  const SimulationResult result = simulated.run({{.time = 0, .prompt_tokens = 1000, .output_tokens = 11}});
  ASSERT_EQ(result.finished, 1u);
  const Model model = *find_model("Llama-3.1-8B", "", "f16");
  const double bandwidth = 3.35e12 * 0.85;
  const double flops = 989.4e12 * 0.65;
  // All of the prompt in one step, bound by arithmetic.
  const double layers = 2 * model.shape.layer_parameters() * 1000;
  const double attention = 4.0 * 32 * 4096 * 1000 * 1001 / 2;
  const double prefill = (layers + attention + 2 * model.shape.output_parameters()) / flops + 500e-6;
  EXPECT_NEAR(result.ttft.mean_seconds(), prefill, 1e-8);
  // Ten steps of one token, bound by bandwidth; a KV read of 1,001 to 1,010 tokens, and a write of one.
  const double decode = (model.step_bytes + 131072 * (1005.5 + 1)) / bandwidth + 500e-6;
  EXPECT_NEAR(result.tpot.mean_seconds(), decode, 1e-8);
  EXPECT_NEAR(result.end_to_end.mean_seconds(), prefill + 10 * decode, 1e-7);
  const GroupResult& group = result.groups[0];
  EXPECT_EQ(group.accounts.steps, 11u);
  EXPECT_EQ(group.accounts.mixed_steps, 0u);
  EXPECT_NEAR(group.accounts.prefill.bound.compute, prefill - 500e-6, 1e-8);
  EXPECT_EQ(group.accounts.prefill.bound.memory, 0);
  EXPECT_NEAR(group.accounts.decode.bound.memory, 10 * (decode - 500e-6), 1e-7);
  EXPECT_NEAR(group.busy_share, 1, 1e-6);
}

TEST(Simulation, EveryRequestEndsOnceAndEveryTokenIsCounted) {
  for (const char* fleet : {"2xL4", "prefill=H100,decode=2xL4", "4xH100:tp2"}) {
    SCOPED_TRACE(fleet);
    Simulated simulated(fleet);
    SyntheticOptions options = mixed_requests(20, 400);
    const SimulationResult result = simulated.run(*make_synthetic(options));
    EXPECT_EQ(result.offered, 400u);
    EXPECT_EQ(result.finished, 400u);
    EXPECT_EQ(result.refused + result.too_long, 0u);
    EXPECT_EQ(result.ttft.count(), 400u);
    EXPECT_EQ(result.end_to_end.count(), 400u);
    EXPECT_EQ(result.itl.count(), result.output_tokens - 400);
    // A decode machine computes the first token once more, behind the prompt that was sent to it.
    const uint64_t handed_over = result.transfers;
    uint64_t transferred = 0;
    for (const GroupResult& group : result.groups) transferred += group.counts.remote_tokens;
    EXPECT_EQ(accounted_prompt_tokens(result) - transferred, result.prompt_tokens + handed_over);
  }
}

TEST(Simulation, BoundSecondsAddUpToTheBusyTime) {
  Simulated simulated("4xH100:tp2");
  const SimulationResult result = simulated.run(*make_synthetic(mixed_requests(20, 200)));
  const StepAccounts& accounts = result.groups[0].accounts;
  EXPECT_GT(accounts.mixed_steps, 0u);
  for (const PhaseAccount* phase : {&accounts.prefill, &accounts.decode}) {
    EXPECT_NEAR(phase->bound.total(), phase->seconds, 1e-9 * phase->seconds);
    EXPECT_GT(phase->bound.link, 0);
    EXPECT_GT(phase->bound.overhead, 0);
  }
}

TEST(Simulation, TheSameSeedGivesTheSameResult) {
  for (const char* fleet : {"3xL4", "prefill=H100,decode=2xL4"}) {
    const auto text = [&](uint64_t seed) {
      Simulated simulated(fleet);
      simulated.options.router = RouterPolicy::kPrefixAware;
      SyntheticOptions options = mixed_requests(30, 300);
      options.seed = seed;
      options.prefix_tokens = 200;
      options.prefix_groups = 5;
      return simulated.json(simulated.run(*make_synthetic(options)));
    };
    EXPECT_EQ(text(1), text(1));
    EXPECT_NE(text(1), text(2));
  }
}

TEST(Simulation, RequestsBeyondTheContextAreTooLongAndMiss) {
  Simulated simulated("H100");
  simulated.machine.context_max = 500;
  const SimulationResult result = simulated.run(
      {{.time = 0, .prompt_tokens = 500, .output_tokens = 1}, {.time = 0, .prompt_tokens = 499, .output_tokens = 100}});
  EXPECT_EQ(result.too_long, 1u);
  EXPECT_EQ(result.finished, 1u);
  EXPECT_EQ(result.output_tokens, 1u);
  EXPECT_EQ(result.good, 1u);
  EXPECT_EQ(result.misses(), 1u);
}

TEST(Simulation, AFullQueueRefuses) {
  Simulated simulated("L4");
  simulated.options.limits.max_waiting_requests = 5;
  simulated.options.limits.max_running = 1;
  std::vector<Arrival> burst(20, {.time = 0, .prompt_tokens = 100, .output_tokens = 10});
  const SimulationResult result = simulated.run(burst);
  EXPECT_GT(result.refused, 0u);
  EXPECT_EQ(result.refused + result.finished, 20u);
}

TEST(Simulation, GoodRequestsMeetEveryTarget) {
  Simulated simulated("L4");
  std::vector<Arrival> arrivals(6, {.time = 0, .prompt_tokens = 1500, .output_tokens = 5});
  for (size_t i = 0; i < arrivals.size(); ++i) arrivals[i].time = static_cast<TimeNs>(i) * kMillisecondNs;
  const SimulationResult all = simulated.run(arrivals);
  EXPECT_EQ(all.good, 6u);
  simulated.options.targets.ttft_ms = all.ttft.quantile_seconds(0.5) * 1e3 * 1.01;
  EXPECT_EQ(simulated.run(arrivals).good, 3u);
  simulated.options.targets.tpot_ms = 0.001;
  EXPECT_EQ(simulated.run(arrivals).good, 0u);
  simulated.options.misses_max = 0;
  EXPECT_TRUE(simulated.run(arrivals).stopped);
}

TEST(Simulation, WithTooFewBlocksKvMemoryBinds) {
  Simulated simulated("H100");
  simulated.machine.kv_memory_mb = 600;  // about 4,800 tokens
  std::vector<Arrival> burst(60, {.time = 0, .prompt_tokens = 600, .output_tokens = 200});
  const SimulationResult result = simulated.run(burst);
  EXPECT_EQ(result.finished, 60u);
  EXPECT_STREQ(binding_of(result.groups[0]).resource, "KV memory");
  EXPECT_GT(result.groups[0].kv_used_share, 0.7);
  simulated.machine.kv_memory_mb = 0;
  EXPECT_EQ(simulated.run(burst).groups[0].kv_waiting_seconds, 0);
}

TEST(Simulation, EqualRunsOfTokensAreComputedOnce) {
  Simulated simulated("H100");
  Arrival arrival{.time = 0, .prompt_tokens = 1024, .output_tokens = 2, .prompt = {{1, 512}, {2, 512}}};
  std::vector<Arrival> arrivals = {arrival, arrival};
  arrivals[1].time = kSecondNs;
  arrivals[1].prompt[1].seed = 3;
  EXPECT_EQ(simulated.run(arrivals).groups[0].counts.cached_tokens, 512u);
  simulated.options.limits.prefix_cache = false;
  EXPECT_EQ(simulated.run(arrivals).groups[0].counts.cached_tokens, 0u);
}

TEST(Simulation, APrefixAwareRouterFindsMoreInCaches) {
  const auto cached = [](RouterPolicy policy) {
    Simulated simulated("4xL4");
    simulated.options.router = policy;
    simulated.machine.kv_memory_mb = 1200;  // not enough for all prefixes on each replica
    SyntheticOptions options = mixed_requests(4, 400);
    options.kinds = {*parse_kind("1/50/20")};
    options.prefix_tokens = 1500;
    options.prefix_groups = 12;
    const SimulationResult result = simulated.run(*make_synthetic(options));
    EXPECT_EQ(result.finished, 400u);
    return result.groups[0].counts.cached_tokens;
  };
  EXPECT_GT(cached(RouterPolicy::kPrefixAware), cached(RouterPolicy::kRoundRobin) * 3 / 2);
}

TEST(Simulation, LeastLoadedEvensOutWhatTurnsDoNot) {
  const auto ttft_p99 = [](RouterPolicy policy) {
    Simulated simulated("2xL4");
    simulated.options.router = policy;
    std::vector<Arrival> arrivals;  // every other request is long: turns give them all to one replica
    for (int i = 0; i < 100; ++i) {
      arrivals.push_back({.time = i * 150 * kMillisecondNs,
                          .prompt_tokens = i % 2 == 0 ? 1900u : 20u,
                          .output_tokens = i % 2 == 0 ? 60u : 2u});
    }
    return simulated.run(arrivals).ttft.quantile_seconds(0.99);
  };
  EXPECT_LT(ttft_p99(RouterPolicy::kLeastLoaded), ttft_p99(RouterPolicy::kRoundRobin) * 0.8);
}

TEST(Simulation, EndsWithAnErrorWhereTimeWould) {
  // A rate so low that the requests come over 3,000 years.
  Simulated simulated("H100");
  const auto late = make_synthetic(mixed_requests(1e-8, 1000));
  const Status too_late = simulated.try_run(*late).status();
  EXPECT_EQ(too_late.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(too_late.message(), HasSubstr("arrives later"));

  const NamedFile slow(R"({"name": "slow", "peak_tflops": 1e-6, "compute_efficiency": 1e-6,
                           "bandwidth_gb_per_s": 1e-6, "memory_efficiency": 1e-6, "memory_gb": 48})",
                       ".json");
  Simulated abacus(slow.path());
  const auto requests = make_synthetic(mixed_requests(1, 10));
  const Status too_slow = abacus.try_run(*requests).status();
  EXPECT_EQ(too_slow.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(too_slow.message(), HasSubstr("a step or a transfer takes too long"));

  Simulated apart("prefill=H100,decode=H100");
  apart.options.link.bytes_per_second = 1e-9;
  const auto transferred = make_synthetic(mixed_requests(1, 10));
  EXPECT_THAT(apart.try_run(*transferred).status().message(), HasSubstr("a step or a transfer takes too long"));
}

TEST(Disaggregation, AnswersComeFromTheDecodeMachineAfterTheTransfer) {
  Simulated simulated("prefill=H100,decode=H100");
  simulated.options.link = {.bytes_per_second = 1e9, .latency_us = 1000};
  const SimulationResult result = simulated.run({{.time = 0, .prompt_tokens = 1000, .output_tokens = 5}});
  ASSERT_EQ(result.finished, 1u);
  EXPECT_EQ(result.transfers, 1u);
  EXPECT_EQ(result.transfer_bytes, 131072e3);
  EXPECT_EQ(result.groups[0].counts.computed_tokens, 1000u);
  EXPECT_EQ(result.groups[1].counts.remote_tokens, 1000u);
  EXPECT_EQ(result.groups[1].counts.computed_tokens, 1u);
  const double transfer = 0.131072 + 0.001;
  EXPECT_GT(result.itl.max_seconds(), transfer);
  EXPECT_LT(result.itl.max_seconds(), transfer + 0.01);
  EXPECT_EQ(result.groups[1].accounts.steps, 4u);
}

TEST(Disaggregation, ARequestForOneTokenStaysOnThePrefillMachine) {
  Simulated simulated("prefill=H100,decode=H100");
  const SimulationResult result = simulated.run({{.time = 0, .prompt_tokens = 1000, .output_tokens = 1}});
  EXPECT_EQ(result.finished, 1u);
  EXPECT_EQ(result.transfers, 0u);
  EXPECT_EQ(result.groups[1].accounts.steps, 0u);
}

// Why one does it: a long prompt does not hold up anybody's answer.
TEST(Disaggregation, PromptsDoNotStretchTheGapsOfAnswers) {
  const auto itl_p99 = [](const char* fleet) {
    Simulated simulated(fleet);
    simulated.options.limits.max_step_tokens = simulated.options.limits.max_chunk_tokens = 8192;  // whole prompts
    SyntheticOptions options = mixed_requests(6, 300);
    options.kinds = {*parse_kind("1/6000/150")};
    return simulated.run(*make_synthetic(options)).itl.quantile_seconds(0.99);
  };
  EXPECT_LT(itl_p99("prefill=H100,decode=H100"), itl_p99("2xH100") / 3);
}

}  // namespace
}  // namespace twostroke::simulate
