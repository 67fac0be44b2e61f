// How requests end: exactly once, whatever happens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scheduler/even_constraint.h"
#include "tests/scheduler/harness.h"
#include "tests/scheduler/scheduler_test_peer.h"

namespace twostroke::test {
namespace {

using ::testing::HasSubstr;

void expect_cancelled_at_once(Harness& harness, RequestId id) {
  const uint32_t referenced_by_others = [&] {
    uint32_t count = 0;
    for (const Sequence* sequence : SchedulerTestPeer::impl(harness.scheduler).running_) {
      count += sequence->request->request.id != id ? static_cast<uint32_t>(sequence->blocks.size()) : 0;
    }
    return count;
  }();
  harness.cancel(id);
  EXPECT_EQ(harness.scheduler.gauges().blocks_referenced, referenced_by_others);
  EXPECT_EQ(SchedulerTestPeer::sequence(harness.scheduler, id), nullptr);
  harness.step();
  EXPECT_EQ(harness.track(id).ends, 1u);
  EXPECT_EQ(harness.track(id).outcome, Outcome::kCancelled);
  EXPECT_EQ(harness.problem, "");
}

// Criterion 14: a request that nobody waits for is gone at once, in whatever state it is.
TEST(Cancel, EndsARequestThatWaits) {
  Harness harness;
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(10), 5)).ok());
  expect_cancelled_at_once(harness, 1);
  EXPECT_EQ(harness.track(1).summary.first_scheduled, -1);
}

TEST(Cancel, EndsARequestInMidPrompt) {
  Harness harness;
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(40), 5)).ok());
  harness.step();
  expect_cancelled_at_once(harness, 1);
  EXPECT_EQ(harness.track(1).summary.first_token, -1);
}

TEST(Cancel, EndsARequestThatDecodes) {
  Harness harness;
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(10), 5)).ok());
  harness.step();
  harness.step();
  expect_cancelled_at_once(harness, 1);
  EXPECT_EQ(harness.track(1).summary.output_tokens, 2u);
}

TEST(Cancel, EndsAllSequencesLeadersAndFollowers) {
  for (int steps = 0; steps <= 4; ++steps) {
    SchedulerLimits limits = small_limits();
    limits.max_chunk_tokens = 8;
    limits.max_running = 2;
    Harness harness(limits);
    Request request = make_request(1, make_prompt(10), 5);
    request.n = 3;
    ASSERT_TRUE(harness.submit(std::move(request)).ok());
    for (int i = 0; i < steps; ++i) harness.step();
    expect_cancelled_at_once(harness, 1);
    EXPECT_TRUE(harness.scheduler.idle());
  }
}

TEST(Cancel, EndsARequestThatWasPreempted) {
  Harness harness;
  for (RequestId id = 1; id <= 6; ++id) {
    ASSERT_TRUE(harness.submit(make_request(id, make_prompt(5, static_cast<TokenId>(7 * id)), 30)).ok());
  }
  while (harness.step() && harness.counts.preemptions == 0) {
  }
  const Sequence* victim = SchedulerTestPeer::impl(harness.scheduler).waiting_.first();
  ASSERT_NE(victim, nullptr);
  ASSERT_GT(victim->request->summary.preemptions, 0u);
  expect_cancelled_at_once(harness, victim->request->request.id);
  harness.run();
  EXPECT_EQ(harness.problem, "");
}

// Criterion 6, at every step of a request's life.
TEST(Cancel, EndsExactlyOnceWhereverItMeetsTheEnd) {
  for (int steps = 0; steps <= 10; ++steps) {
    Harness harness;
    ASSERT_TRUE(harness.submit(make_request(1, make_prompt(20), 5)).ok());
    for (int i = 0; i < steps; ++i) harness.step();
    const bool ended = harness.track(1).ends == 1;
    EXPECT_EQ(ended, steps >= 6);
    harness.cancel(1);
    harness.cancel(1);
    harness.run();
    EXPECT_EQ(harness.problem, "");
    EXPECT_EQ(harness.track(1).ends, 1u);
    EXPECT_EQ(harness.scheduler.gauges().blocks_free + harness.scheduler.gauges().blocks_cached, 16u);
  }
}

// Criterion 15.
TEST(Cancel, TouchesNobodyElse) {
  Harness harness;
  for (RequestId id = 1; id <= 4; ++id) ASSERT_TRUE(harness.submit(make_request(id, make_prompt(9), 8)).ok());
  harness.step();
  harness.step();
  harness.cancel(2);
  harness.cancel(77);
  harness.run();
  EXPECT_EQ(harness.problem, "");
  for (const RequestId id : {1, 3, 4}) EXPECT_EQ(harness.track(id).outputs[0].size(), 8u);
}

// Criterion 16.
TEST(Cancel, TenThousandOfThemLeaveNothing) {
  Harness harness;
  for (RequestId id = 1; id <= 10'000; ++id) {
    Request request = make_request(id, make_prompt(10), 5);
    request.n = 1 + static_cast<uint32_t>(id) % 3;
    ASSERT_TRUE(harness.scheduler.submit(std::move(request), 0).ok());
    if (id % 4 == 0) {
      StepCounts counts;
      harness.scheduler.schedule(0, harness.plan, counts);
      ASSERT_TRUE(harness.backend->submit(harness.plan).ok());
      ASSERT_TRUE(harness.backend->wait(harness.result).ok());
      harness.scheduler.commit(harness.plan, harness.result, 0, harness.events);
      harness.events.clear();
    }
    harness.scheduler.cancel(id, 0);
    harness.scheduler.drain_events(harness.events);
    ASSERT_EQ(harness.events.size(), 1u);
    harness.events.clear();
  }
  EXPECT_TRUE(harness.scheduler.idle());
  EXPECT_EQ(harness.scheduler.check_invariants(), "");
  EXPECT_EQ(harness.scheduler.gauges().blocks_referenced, 0u);
  EXPECT_EQ(harness.scheduler.gauges().sequences_waiting, 0u);
  EXPECT_EQ(harness.scheduler.gauges().waiting_prompt_tokens, 0u);
  const auto& impl = SchedulerTestPeer::impl(harness.scheduler);
  EXPECT_TRUE(impl.requests_.empty());
  EXPECT_TRUE(impl.ended_.empty());
  EXPECT_EQ(impl.waiting_.size(), 0u);
}

TEST(Cancel, IsHeardOfWithTheNextCommitOrWhenAskedFor) {
  Harness harness;
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(10), 5)).ok());
  ASSERT_TRUE(harness.submit(make_request(2, make_prompt(10), 5)).ok());
  harness.cancel(1);
  harness.step();
  ASSERT_EQ(harness.events.size(), 2u);
  EXPECT_EQ(harness.events[0].kind, Event::Kind::kEnded);
  EXPECT_EQ(harness.events[1].kind, Event::Kind::kToken);
  harness.scheduler.cancel(2, 0);
  std::vector<Event> events;
  harness.scheduler.drain_events(events);
  EXPECT_EQ(events.size(), 1u);
  harness.scheduler.drain_events(events);
  EXPECT_EQ(events.size(), 1u) << "once";
}

TEST(FinishSequence, EndsOneSequenceWithStopAndLeavesItsSiblings) {
  Harness harness;
  Request request = make_request(1, make_prompt(10), 8);
  request.n = 3;
  ASSERT_TRUE(harness.submit(std::move(request)).ok());
  for (int i = 0; i < 3; ++i) harness.step();
  harness.finish_sequence(1, 1);
  harness.finish_sequence(1, 1);
  harness.finish_sequence(1, 9);
  harness.finish_sequence(5, 0);
  harness.run();
  EXPECT_EQ(harness.problem, "");
  const Harness::Track& track = harness.track(1);
  EXPECT_EQ(track.outputs[1].size(), 2u);
  EXPECT_EQ(track.finished[1], FinishReason::kStop);
  EXPECT_EQ(track.outputs[0].size(), 8u);
  EXPECT_EQ(track.outputs[2].size(), 8u);
  EXPECT_EQ(track.outcome, Outcome::kFinished);
}

TEST(FinishSequence, OfTheLastSequenceEndsTheRequest) {
  Harness harness;
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(10), 8)).ok());
  harness.step();
  harness.finish_sequence(1, 0);
  EXPECT_TRUE(harness.scheduler.idle());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(harness.track(1).outcome, Outcome::kFinished);
}

TEST(Finish, AStopTokenEndsASequenceAndIsItsLastToken) {
  SimOptions machine = small_machine();
  machine.script = [](const SimRowView& view) { return static_cast<TokenId>(10 + view.output_index); };
  Harness harness(small_limits(), std::move(machine));
  Request request = make_request(1, make_prompt(10), 8);
  request.stop_tokens = {12, 13};
  ASSERT_TRUE(harness.submit(std::move(request)).ok());
  while (harness.step()) {
  }
  EXPECT_THAT(harness.track(1).outputs[0], ::testing::ElementsAre(10, 11, 12));
  EXPECT_EQ(harness.track(1).finished[0], FinishReason::kStop);
}

TEST(Finish, AStopTokenBehindATextThatIsNotWholeCountsAsTheLength) {
  SimOptions machine = small_machine();
  machine.script = [](const SimRowView& view) { return static_cast<TokenId>(10 + 2 * view.output_index); };
  Harness harness(small_limits(), std::move(machine));
  Request request = make_request(1, make_prompt(10), 8);
  request.stop_tokens = {12};
  request.constraints.push_back(std::make_unique<EvenConstraint>(nullptr, /*ends_whole=*/false));
  ASSERT_TRUE(harness.submit(std::move(request)).ok());
  while (harness.step()) {
  }
  EXPECT_THAT(harness.track(1).outputs[0], ::testing::ElementsAre(10, 12));
  EXPECT_EQ(harness.track(1).finished[0], FinishReason::kLength);
}

TEST(Finish, AStopTokenInTheLastPlaceIsAStopAllTheSame) {
  SimOptions machine = small_machine();
  machine.script = [](const SimRowView& view) { return static_cast<TokenId>(10 + view.output_index); };
  Harness harness(small_limits(), std::move(machine));
  Request request = make_request(1, make_prompt(10), 3);
  request.stop_tokens = {12};
  ASSERT_TRUE(harness.submit(std::move(request)).ok());
  while (harness.step()) {
  }
  EXPECT_EQ(harness.track(1).finished[0], FinishReason::kStop);
}

TEST(Finish, EventsTellWhenEachTokenCame) {
  Harness harness;
  harness.now = 100 * kMillisecondNs;
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(20), 2)).ok());
  std::vector<Event> tokens;
  while (harness.step()) {
    for (const Event& event : harness.events) {
      if (event.kind == Event::Kind::kToken) tokens.push_back(event);
    }
  }
  // Steps begin after 1 ms and take 5 ms.
  ASSERT_EQ(tokens.size(), 2u);
  EXPECT_EQ(tokens[0].time, 112 * kMillisecondNs);
  EXPECT_EQ(tokens[0].gap_ns, -1);
  EXPECT_EQ(tokens[1].gap_ns, 6 * kMillisecondNs);
  const RequestSummary& summary = harness.track(1).summary;
  EXPECT_EQ(summary.submitted, 100 * kMillisecondNs);
  EXPECT_EQ(summary.first_scheduled, 101 * kMillisecondNs);
  EXPECT_EQ(summary.first_token, 112 * kMillisecondNs);
  EXPECT_EQ(summary.ended, 118 * kMillisecondNs);
}

// Criterion 7.
TEST(Failure, ARowThatIsNotFiniteFailsItsRequestAlone) {
  SimOptions machine = small_machine();
  machine.step_faults[3] = {.kind = SimFault::Kind::kNotFinite, .rows = {1}};
  Harness harness(small_limits(), std::move(machine));
  for (RequestId id = 1; id <= 3; ++id) {
    ASSERT_TRUE(harness.submit(make_request(id, make_prompt(5, static_cast<TokenId>(9 * id)), 6)).ok());
  }
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(harness.track(2).outcome, Outcome::kFailed);
  EXPECT_EQ(harness.track(2).error.code(), StatusCode::kInternal);
  EXPECT_THAT(harness.track(2).error.message(), HasSubstr("not finite"));
  EXPECT_EQ(harness.track(2).outputs[0].size(), 2u) << "what it had before stays";
  EXPECT_EQ(harness.track(1).outcome, Outcome::kFinished);
  EXPECT_EQ(harness.track(3).outcome, Outcome::kFinished);
}

TEST(Failure, OfOneSiblingEndsAllOfThem) {
  SimOptions machine = small_machine();
  machine.step_faults[4] = {.kind = SimFault::Kind::kNotFinite, .rows = {0}};
  Harness harness(small_limits(), std::move(machine));
  Request request = make_request(1, make_prompt(5), 6);
  request.n = 3;
  ASSERT_TRUE(harness.submit(std::move(request)).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(harness.track(1).outcome, Outcome::kFailed);
  EXPECT_EQ(harness.track(1).ends, 1u);
  EXPECT_EQ(harness.track(1).outputs[2].size(), 2u) << "its token of the failed step is dropped";
}

TEST(Failure, ALostStepFailsThoseWhoTookPartAndNobodyElse) {
  for (const SimFault::Kind kind : {SimFault::Kind::kSubmitError, SimFault::Kind::kWaitError}) {
    SimOptions machine = small_machine();
    machine.step_faults[2] = {.kind = kind};
    SchedulerLimits limits = small_limits();
    limits.max_running = 2;
    Harness harness(limits, std::move(machine));
    for (RequestId id = 1; id <= 4; ++id) ASSERT_TRUE(harness.submit(make_request(id, make_prompt(5), 6)).ok());
    harness.run();
    EXPECT_EQ(harness.problem, "");
    for (const RequestId id : {1, 2}) {
      EXPECT_EQ(harness.track(id).outcome, Outcome::kFailed);
      EXPECT_EQ(harness.track(id).error, internal_error("injected fault"));
    }
    for (const RequestId id : {3, 4}) EXPECT_EQ(harness.track(id).outcome, Outcome::kFinished);
  }
}

// A plug-in's mistakes are no reason to take the server down.
TEST(Failure, AResultOfTheWrongSizeFailsTheStep) {
  Harness harness;
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(5), 6)).ok());
  StepCounts counts;
  harness.scheduler.schedule(0, harness.plan, counts);
  std::vector<Event> events;
  harness.scheduler.commit(harness.plan, StepResult{}, 0, events);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].outcome, Outcome::kFailed);
  EXPECT_THAT(events[0].error.message(), HasSubstr("0 rows for a step of 1"));
  EXPECT_TRUE(harness.scheduler.idle());
}

TEST(Failure, ATokenOutsideTheVocabularyFailsItsRequest) {
  for (const TokenId token : {-1, 50}) {
    Harness harness;
    ASSERT_TRUE(harness.submit(make_request(1, make_prompt(5), 6)).ok());
    StepCounts counts;
    harness.scheduler.schedule(0, harness.plan, counts);
    StepResult result;
    result.rows.resize(1);
    result.rows[0].token = token;
    std::vector<Event> events;
    harness.scheduler.commit(harness.plan, result, 0, events);
    ASSERT_EQ(events.size(), 1u);
    EXPECT_THAT(events[0].error.message(), HasSubstr("token " + std::to_string(token)));
    EXPECT_EQ(harness.scheduler.check_invariants(), "");
  }
}

// Criterion 13.
TEST(Failure, FailAllEndsEverythingInOrderOfArrival) {
  SchedulerLimits limits = small_limits();
  limits.max_running = 2;
  Harness harness(limits);
  for (RequestId id = 5; id >= 1; --id) ASSERT_TRUE(harness.submit(make_request(id, make_prompt(5), 6)).ok());
  harness.step();
  harness.scheduler.fail_all(unavailable("the server is shutting down"), harness.now);
  EXPECT_TRUE(harness.scheduler.idle());
  std::vector<Event> events;
  harness.scheduler.drain_events(events);
  ASSERT_EQ(events.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(events[i].request, 5 - i);
    EXPECT_EQ(events[i].outcome, Outcome::kFailed);
    EXPECT_EQ(events[i].error.code(), StatusCode::kUnavailable);
  }
  EXPECT_EQ(harness.scheduler.check_invariants(), "");
  EXPECT_EQ(harness.scheduler.gauges().blocks_referenced, 0u);
}

}  // namespace
}  // namespace twostroke::test
