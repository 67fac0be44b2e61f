// Service shared fairly among tenants: the counters themselves, who starts when, and what a flood does to others.
#include "scheduler/order/fairness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/scheduler/harness.h"
#include "tests/scheduler/scheduler_test_peer.h"
#include "tests/scheduler/virtual_run.h"

namespace twostroke::test {
namespace {

Request of_tenant(RequestId id, uint64_t tenant, uint32_t prompt = 5, uint32_t output = 3) {
  Request request = make_request(id, make_prompt(prompt, static_cast<TokenId>(7 * id)), output);
  request.tenant = tenant;
  return request;
}

SchedulerLimits fair_limits(uint32_t max_running = 1) {
  SchedulerLimits limits = small_limits();
  limits.order = Order::kFair;
  limits.max_running = max_running;
  limits.aging_ms = 0;
  return limits;
}

// How many of the first `count` starts were this tenant's.
uint32_t starts_of(const Harness& harness, const std::map<RequestId, uint64_t>& tenants, uint64_t tenant,
                   uint32_t count) {
  std::vector<std::pair<TimeNs, RequestId>> starts;
  for (const auto& [id, track] : harness.tracks()) starts.emplace_back(track.summary.first_scheduled, id);
  std::ranges::sort(starts);
  uint32_t found = 0;
  for (uint32_t i = 0; i < count; ++i) found += tenants.at(starts[i].second) == tenant ? 1 : 0;
  return found;
}

TEST(Fairness, TheIdleAreRememberedUpToABoundTheLongestIdleForgottenFirst) {
  Fairness fairness;
  fairness.join(1, 1).service = 77;
  fairness.leave(fairness.join(1, 1));
  EXPECT_EQ(fairness.find(1)->requests, 1u);
  for (uint64_t id = 2; id <= kIdleTenantsMax + 1; ++id) fairness.leave(fairness.join(id, 1));
  EXPECT_EQ(fairness.size(), kIdleTenantsMax + 1);
  fairness.leave(fairness.join(9999, 1));
  EXPECT_EQ(fairness.find(2), nullptr);
  EXPECT_EQ(fairness.join(1, 1).service, 77) << "it was never idle";
  EXPECT_EQ(fairness.check_invariants(), "");
}

TEST(Fairness, WeighsOutputDoubleAndDividesByTheWeight) {
  Harness harness(fair_limits());
  Request request = of_tenant(1, 8, 5, 3);
  request.tenant_weight = 2;
  ASSERT_TRUE(harness.submit(std::move(request)).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(SchedulerTestPeer::impl(harness.scheduler).fairness_.find(8)->service, (5 * 1 + 3 * 2) / 2.0);
}

TEST(Fairness, TenantsTakeTurnsWhateverOneHasInTheQueue) {
  Harness harness(fair_limits());
  std::map<RequestId, uint64_t> tenants;
  for (RequestId id = 1; id <= 30; ++id) {
    tenants[id] = id <= 20 ? 1 : 2;
    ASSERT_TRUE(harness.submit(of_tenant(id, tenants[id])).ok());
  }
  harness.run();
  EXPECT_EQ(harness.problem, "");
  for (uint32_t count = 2; count <= 20; count += 2) EXPECT_EQ(starts_of(harness, tenants, 2, count), count / 2);
  EXPECT_EQ(starts_of(harness, tenants, 1, 30), 20u) << "and alone it gets everything";
}

TEST(Fairness, SharesGoByWeight) {
  Harness harness(fair_limits());
  std::map<RequestId, uint64_t> tenants;
  for (RequestId id = 1; id <= 40; ++id) {
    tenants[id] = id % 2;
    Request request = of_tenant(id, tenants[id]);
    request.tenant_weight = tenants[id] == 1 ? 3 : 1;
    ASSERT_TRUE(harness.submit(std::move(request)).ok());
  }
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_NEAR(starts_of(harness, tenants, 1, 24), 18, 1);
}

TEST(Fairness, LongRequestsCountForWhatTheyCost) {
  Harness harness(fair_limits());
  std::map<RequestId, uint64_t> tenants;
  for (RequestId id = 1; id <= 40; ++id) {
    tenants[id] = id % 2;
    ASSERT_TRUE(harness.submit(tenants[id] == 1 ? of_tenant(id, 1, 32, 8) : of_tenant(id, 0, 8, 2)).ok());
  }
  harness.run(2000);
  EXPECT_EQ(harness.problem, "");
  EXPECT_NEAR(starts_of(harness, tenants, 0, 20), 16, 1) << "four short ones to a long one";
}

// Neither who comes late nor who paused has saved anything up.
TEST(Fairness, WhoComesLateIsLiftedToTheLeastOfThoseThatWait) {
  Harness harness(fair_limits());
  std::map<RequestId, uint64_t> tenants;
  const auto submit = [&](RequestId first, RequestId last, uint64_t tenant) {
    for (RequestId id = first; id <= last; ++id) {
      tenants[id] = tenant;
      ASSERT_TRUE(harness.submit(of_tenant(id, tenant)).ok());
    }
  };
  submit(1, 30, 1);
  while (harness.track(10).ends == 0) harness.step();
  submit(31, 50, 2);
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(starts_of(harness, tenants, 2, 10), 0u);
  EXPECT_NEAR(starts_of(harness, tenants, 2, 30), 10, 1) << "turn about from when it came";
}

TEST(Fairness, WhoWasServedMoreKeepsThatWhileIdle) {
  Harness harness(fair_limits(2));
  ASSERT_TRUE(harness.submit(of_tenant(1, 1, 40, 20)).ok());
  ASSERT_TRUE(harness.submit(of_tenant(2, 2, 5, 50)).ok());
  while (harness.track(1).ends == 0) harness.step();
  ASSERT_TRUE(harness.submit(of_tenant(3, 2)).ok());
  ASSERT_TRUE(harness.submit(of_tenant(4, 1)).ok());
  EXPECT_GE(SchedulerTestPeer::impl(harness.scheduler).fairness_.find(1)->service, 40 + 2 * 20);
  harness.run();
  EXPECT_EQ(harness.problem, "");
}

// Both prompts are longer than a step.
TEST(Fairness, OfTheRunningPromptsTheLeastServedTenantsGoesFirst) {
  Harness harness(fair_limits(4));
  ASSERT_TRUE(harness.submit(of_tenant(1, 1, 30, 2)).ok());
  harness.step();
  ASSERT_TRUE(harness.submit(of_tenant(2, 2, 30, 2)).ok());
  harness.step();
  auto& impl = SchedulerTestPeer::impl(harness.scheduler);
  const auto service = [&](uint64_t tenant) { return impl.fairness_.find(tenant)->service; };
  while (harness.track(1).outputs[0].empty() && harness.track(2).outputs[0].empty()) {
    const bool first = service(1) < service(2) || (service(1) == service(2) && harness.row(1) != nullptr);
    const double before[] = {service(1), service(2)};
    harness.step();
    const double got[] = {service(1) - before[0], service(2) - before[1]};
    EXPECT_GE(got[first ? 0 : 1], 8) << "half of the step at least";
  }
  harness.run();
  EXPECT_EQ(harness.problem, "");
}

TEST(Fairness, OnesThatDoNotFitDoNotHideOtherTenants) {
  Harness harness(fair_limits(8));
  ASSERT_TRUE(harness.submit(of_tenant(1, 3, 38, 20)).ok());
  for (int i = 0; i < 4; ++i) harness.step();
  for (RequestId id = 2; id <= 21; ++id) ASSERT_TRUE(harness.submit(of_tenant(id, 1, 50, 2)).ok());
  ASSERT_TRUE(harness.submit(of_tenant(22, 2, 3, 2)).ok());
  harness.step();
  EXPECT_NE(harness.row(22), nullptr);
  harness.run();
  EXPECT_EQ(harness.problem, "");
}

// One takes all slots before the other comes, with answers that are long.
TEST(Fairness, ATenantBelowItsPartOfTheSlotsTakesOneFromWhoHasMoreWithinOneStep) {
  Harness harness(fair_limits(4));
  for (RequestId id = 1; id <= 4; ++id) ASSERT_TRUE(harness.submit(of_tenant(id, 1, 3, 10)).ok());
  harness.step();
  for (RequestId id = 5; id <= 8; ++id) ASSERT_TRUE(harness.submit(of_tenant(id, 2, 3, 10)).ok());
  for (int i = 0; i < 6; ++i) {
    harness.step();
    EXPECT_EQ(SchedulerTestPeer::impl(harness.scheduler).fairness_.find(2)->running, i == 0 ? 1u : 2u);
  }
  EXPECT_EQ(harness.total.preemptions, 2u) << "half each, and it stays so";
  harness.run();
  EXPECT_EQ(harness.problem, "");
}

// --- A flood, in virtual time.

constexpr uint64_t kQuiet = 1;
constexpr uint64_t kFlood = 2;

struct Traffic {
  uint32_t prompt_min;
  uint32_t prompt_max;
  uint32_t output_min;
  uint32_t output_max;
};

// The p99 of the times to the first token of a tenant with open-loop arrivals, alone on a machine of this speed or
// beside a tenant whose queue is never empty.
double quiet_ttft_p99(Order order, double speed, double requests_per_second, const Traffic& quiet, const Traffic* flood,
                      uint64_t seed) {
  SchedulerLimits limits;
  limits.order = order;
  limits.max_step_tokens = 512;
  limits.max_running = flood != nullptr ? 32 : 16;  // the slots are shared too
  limits.max_waiting_requests = 10'000;
  limits.max_waiting_tokens = 100'000'000;
  VirtualRun run(limits, virtual_machine(speed));
  std::mt19937_64 random(seed);  // for the quiet one: the same requests whatever is beside it
  std::mt19937_64 flood_random(seed + 100);
  RequestId last = 0;
  const auto submit = [&](const Traffic& traffic, uint64_t tenant) {
    const auto between = [&](uint32_t low, uint32_t high) {
      return low + static_cast<uint32_t>((tenant == kQuiet ? random : flood_random)() % (high - low + 1));
    };
    Request request;
    request.id = ++last;
    request.prompt.assign(between(traffic.prompt_min, traffic.prompt_max), static_cast<TokenId>(last % 1000));
    request.max_tokens = between(traffic.output_min, traffic.output_max);
    request.tenant = tenant;
    run.submit(std::move(request));
  };
  constexpr uint32_t kRequests = 300;
  std::vector<std::pair<RequestId, TimeNs>> arrivals;
  TimeNs next = kSecondNs;
  while (arrivals.size() < kRequests ||
         !std::ranges::all_of(arrivals, [&](const auto& arrival) { return run.first_token.contains(arrival.first); })) {
    while (flood != nullptr && run.scheduler().gauges().requests_waiting < 1000) submit(*flood, kFlood);
    while (run.now() >= next && arrivals.size() < kRequests) {
      submit(quiet, kQuiet);
      arrivals.emplace_back(last, next);
      next += static_cast<TimeNs>(std::exponential_distribution<double>(requests_per_second)(random) * kSecondNs);
    }
    run.step(next);
  }
  std::vector<double> waits;
  for (const auto& [id, arrival] : arrivals) waits.push_back(to_seconds(run.first_token.at(id) - arrival));
  std::ranges::sort(waits);
  return waits[waits.size() * 99 / 100];
}

struct Flood {
  const char* name;
  Traffic quiet;
  Traffic flood;
  double requests_per_second;
  friend void PrintTo(const Flood& flood, std::ostream* out) { *out << flood.name; }
};

class UnderAFlood : public ::testing::TestWithParam<Flood> {};

// Criterion: a tenant that floods cannot raise another's p99 time to the first token above one and a half times what it
// is alone with its fair share, a machine half as fast with half of the slots.
TEST_P(UnderAFlood, AQuietTenantHardlyNotices) {
  const Flood& flood = GetParam();
  for (const uint64_t seed : {1, 2, 3}) {
    const double alone = quiet_ttft_p99(Order::kFair, 0.5, flood.requests_per_second, flood.quiet, nullptr, seed);
    const double beside = quiet_ttft_p99(Order::kFair, 1, flood.requests_per_second, flood.quiet, &flood.flood, seed);
    const double unfair = quiet_ttft_p99(Order::kFcfs, 1, flood.requests_per_second, flood.quiet, &flood.flood, seed);
    std::printf("%s: p99 TTFT alone %.0f ms, beside the flood %.0f ms (%.2f), first come first served %.0f ms\n",
                flood.name, alone * 1e3, beside * 1e3, beside / alone, unfair * 1e3);
    EXPECT_LE(beside, 1.5 * alone) << "seed " << seed;
    EXPECT_GT(unfair, 1.5 * alone) << "otherwise this shows nothing";
  }
}

INSTANTIATE_TEST_SUITE_P(Floods, UnderAFlood,
                         ::testing::Values(Flood{"AlikeRequests", {100, 400, 10, 60}, {100, 400, 10, 60}, 12},
                                           Flood{"LongPrompts", {100, 400, 10, 60}, {2000, 8000, 10, 60}, 12},
                                           Flood{"LongAnswers", {100, 400, 10, 60}, {20, 60, 200, 600}, 12},
                                           Flood{"ShortRequests", {300, 900, 10, 40}, {20, 60, 1, 4}, 8}),
                         [](const auto& flood) { return flood.param.name; });

}  // namespace
}  // namespace twostroke::test
