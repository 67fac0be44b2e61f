// The order of those that wait: shortest first, aging, and short prompts beside long ones in every order.
#include "scheduler/order/order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/scheduler/harness.h"
#include "tests/scheduler/scheduler_test_peer.h"
#include "tests/scheduler/virtual_run.h"

namespace twostroke::test {
namespace {

using ::testing::ElementsAre;

std::vector<RequestId> ids_by_start(const Harness& harness) {
  std::vector<std::pair<TimeNs, RequestId>> starts;
  for (const auto& [id, track] : harness.tracks()) starts.emplace_back(track.summary.first_scheduled, id);
  std::ranges::sort(starts);
  std::vector<RequestId> order;
  for (const auto& [time, id] : starts) order.push_back(id);
  return order;
}

SchedulerLimits one_slot(Order order, uint32_t aging_ms = 0) {
  SchedulerLimits limits = small_limits();
  limits.max_running = 1;
  limits.order = order;
  limits.aging_ms = aging_ms;
  return limits;
}

Request request_of(RequestId id, uint32_t prompt, uint32_t output = 2, int32_t priority = 0) {
  Request request = make_request(id, make_prompt(prompt, static_cast<TokenId>(11 * id)), output);
  request.priority = priority;
  return request;
}

TEST(OrderNames, AreReadAsTheyAreWritten) {
  for (const Order order : {Order::kFcfs, Order::kFair, Order::kShortest})
    EXPECT_EQ(order_named(name_of(order)), order);
  EXPECT_EQ(order_named("fastest"), std::nullopt);
}

TEST(ShortestFirst, StartsInOrderOfLengthAndOfArrivalWhereEqual) {
  Harness harness(one_slot(Order::kShortest));
  const uint32_t lengths[] = {3, 20, 9, 30, 9, 4};
  for (RequestId id = 1; id <= 6; ++id) ASSERT_TRUE(harness.submit(request_of(id, lengths[id - 1])).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_THAT(ids_by_start(harness), ElementsAre(1, 6, 3, 5, 2, 4));
}

TEST(ShortestFirst, CountsOnlyWhatThePrefixCacheHasNot) {
  Harness harness(one_slot(Order::kShortest));
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(32), 2)).ok());
  harness.run();
  ASSERT_TRUE(harness.submit(make_request(2, make_prompt(12, 25), 2)).ok());
  ASSERT_TRUE(harness.submit(make_request(3, make_prompt(36), 2)).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_LT(harness.track(3).summary.first_scheduled, harness.track(2).summary.first_scheduled) << "4 of 36 to compute";
}

TEST(ShortestFirst, LooksAgainBeforeItStartsOne) {
  SimOptions machine = small_machine();
  machine.info.block_count = 12;
  Harness harness(one_slot(Order::kShortest), std::move(machine));
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(32), 2)).ok());
  harness.run();
  // What 3 would find is evicted by 2, which was there before it.
  ASSERT_TRUE(harness.submit(make_request(2, make_prompt(40, 25), 4)).ok());
  harness.step();
  ASSERT_TRUE(harness.submit(make_request(3, make_prompt(36), 2)).ok());
  ASSERT_TRUE(harness.submit(make_request(4, make_prompt(12, 17), 2)).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_LT(harness.track(4).summary.first_scheduled, harness.track(3).summary.first_scheduled);
}

TEST(ShortestFirst, TheEldestIsOvertakenOnlySoOften) {
  SchedulerLimits limits = one_slot(Order::kShortest);
  limits.max_overtakes = 3;
  Harness harness(limits);
  ASSERT_TRUE(harness.submit(request_of(1, 3, 9)).ok());
  harness.step();
  ASSERT_TRUE(harness.submit(request_of(2, 40)).ok());
  for (RequestId id = 3; id <= 12; ++id) ASSERT_TRUE(harness.submit(request_of(id, 3)).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  const auto order = ids_by_start(harness);
  EXPECT_EQ(std::ranges::find(order, 2) - order.begin(), 1 + 3);
}

// Requests of a better priority keep coming: there are always some that wait.
class BetterOnesKeepComing : public Harness {
 public:
  explicit BetterOnesKeepComing(uint32_t aging_ms) : Harness(one_slot(Order::kFcfs, aging_ms)) {}
  void steps(int count) {
    for (int i = 0; i < count && problem.empty(); ++i) {
      while (scheduler.gauges().requests_waiting < 8) EXPECT_TRUE(submit(request_of(++next_, 3, 2, -1)).ok());
      step();
    }
  }
  bool started(RequestId id) {
    const Sequence* sequence = SchedulerTestPeer::sequence(scheduler, id);
    return sequence == nullptr || sequence->request->started;
  }

 private:
  RequestId next_ = 100;
};

TEST(Aging, WithoutItAWorsePriorityWaitsForEver) {
  BetterOnesKeepComing harness(0);
  ASSERT_TRUE(harness.submit(request_of(1, 3, 2, 5)).ok());
  harness.steps(500);
  EXPECT_EQ(harness.problem, "");
  EXPECT_FALSE(harness.started(1));
}

TEST(Aging, TheLongestWaitingHasItsTurnOnceInAnInterval) {
  BetterOnesKeepComing harness(120);  // 20 steps
  for (RequestId id = 1; id <= 3; ++id) ASSERT_TRUE(harness.submit(request_of(id, 3, 2, 5)).ok());
  harness.steps(30);
  EXPECT_TRUE(harness.started(1));
  EXPECT_FALSE(harness.started(2)) << "one in each interval";
  harness.steps(20);
  EXPECT_TRUE(harness.started(2));
  EXPECT_FALSE(harness.started(3));
  harness.steps(20);
  EXPECT_TRUE(harness.started(3));
  EXPECT_EQ(harness.problem, "");
}

TEST(Aging, WhatHasAgedIsNotPushedOutByABetterPriority) {
  BetterOnesKeepComing harness(120);
  ASSERT_TRUE(harness.submit(request_of(1, 3, 30, 5)).ok());
  while (!harness.started(1)) harness.steps(1);
  ASSERT_TRUE(harness.submit(request_of(2, 3, 2, -100)).ok());
  while (harness.track(1).ends == 0) harness.steps(1);
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(harness.track(1).summary.preemptions, 0u);
}

TEST(Aging, DoesNotLetTwoPushEachOtherOutInTurns) {
  SchedulerLimits limits = one_slot(Order::kFcfs, 30);
  limits.max_running = 2;
  Harness harness(limits);
  for (RequestId id = 1; id <= 12; ++id) {
    ASSERT_TRUE(harness.submit(request_of(id, 3, 20, static_cast<int32_t>(id * 5 % 7))).ok());
    harness.step();
  }
  harness.run(2000);
  EXPECT_EQ(harness.problem, "");
  for (const auto& [id, track] : harness.tracks()) {
    EXPECT_LE(track.summary.preemptions, 11u) << "at most once by each that is better";
  }
}

TEST(Aging, AlsoOfARequestWhoseSiblingsWait) {
  BetterOnesKeepComing harness(60);
  Request request = request_of(1, 3, 4, 5);
  request.n = 3;
  ASSERT_TRUE(harness.submit(std::move(request)).ok());
  harness.steps(400);
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(harness.track(1).ends, 1u);
}

class BesideLongPrompts : public ::testing::TestWithParam<Order> {
 protected:
  SchedulerLimits limits() const {
    SchedulerLimits limits;
    limits.order = GetParam();
    limits.max_step_tokens = 512;
    limits.max_waiting_tokens = 100'000'000;
    return limits;
  }
  static Request long_request(RequestId id, uint32_t prompt = 100'000) {
    Request request;
    request.id = id;
    request.prompt.assign(prompt, static_cast<TokenId>(id));
    request.max_tokens = 4;
    return request;
  }
};

// Criterion 11, at its full size.
TEST_P(BesideLongPrompts, AShortOneWaitsForAFewChunksOnly) {
  VirtualRun run(limits());
  run.submit(long_request(1));
  for (int i = 0; i < 5; ++i) run.step();
  for (RequestId id = 2; id <= 40; ++id) {
    run.submit(long_request(id, 60));
    const uint64_t before = run.steps();
    while (!run.first_token.contains(id)) run.step();
    EXPECT_LE(run.steps() - before, 5u) << "beside decodes a step has room for 37 tokens; half of that is for it";
  }
  EXPECT_FALSE(run.first_token.contains(1));
}

// Decodes leave a step few tokens for prompts; what is short there is less than what a few steps could take.
TEST_P(BesideLongPrompts, ALessLongOneDoesNotWaitForItsEndBesideDecodes) {
  VirtualRun run(limits());
  for (RequestId id = 1; id <= 30; ++id) {
    Request request = long_request(id, 20);
    request.max_tokens = 5000;
    run.submit(std::move(request));
  }
  while (run.first_token.size() < 30) run.step();
  run.submit(long_request(31));
  for (int i = 0; i < 5; ++i) run.step();
  run.submit(long_request(32, 2000));
  const TimeNs before = run.now();
  while (!run.first_token.contains(32)) run.step();
  EXPECT_LE(run.now() - before, 400 * kMillisecondNs) << "twice what it takes alone beside them, and a little";
  EXPECT_FALSE(run.first_token.contains(31));
}

TEST_P(BesideLongPrompts, AShortOnePassesLongOnesThatRunAndLongOnesThatWait) {
  VirtualRun run(limits());
  for (RequestId id = 1; id <= 4; ++id) run.submit(long_request(id, 20'000));
  for (int i = 0; i < 10; ++i) run.step();
  for (RequestId id = 5; id <= 20; ++id) run.submit(long_request(id, 20'000));
  run.submit(long_request(21, 60));
  const uint64_t before = run.steps();
  while (!run.first_token.contains(21)) run.step();
  EXPECT_LE(run.steps() - before, 3u);
}

// Short ones keep coming, enough to fill every step.
TEST_P(BesideLongPrompts, ALongOneGoesOnWhateverComes) {
  VirtualRun run(limits());
  run.submit(long_request(1, 10'000));
  run.step();
  RequestId next = 100;
  while (!run.first_token.contains(1) && run.steps() < 400) {
    for (int i = 0; i < 12; ++i) {
      Request request = long_request(++next, 60);
      request.prompt[0] = static_cast<TokenId>(next % 999);
      request.max_tokens = 1;
      if (run.scheduler().gauges().requests_waiting < 50) run.submit(std::move(request));
    }
    run.step();
  }
  EXPECT_TRUE(run.first_token.contains(1)) << "40 steps with half of each; it may fall behind a little";
  EXPECT_LE(run.steps(), 100u);
}

INSTANTIATE_TEST_SUITE_P(Orders, BesideLongPrompts, ::testing::Values(Order::kFcfs, Order::kFair, Order::kShortest),
                         [](const auto& order) { return std::string(name_of(order.param)); });

}  // namespace
}  // namespace twostroke::test
