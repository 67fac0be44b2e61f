#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/scheduler/even_constraint.h"
#include "tests/scheduler/harness.h"

namespace twostroke::test {
namespace {

using ::testing::HasSubstr;

// Refused, with this in the message, and nothing of it kept.
void expect_refused(Harness& harness, Request request, StatusCode code, const std::string& message) {
  const SchedulerGauges before = harness.scheduler.gauges();
  const Status status = harness.submit(std::move(request));
  EXPECT_EQ(status.code(), code);
  EXPECT_THAT(status.message(), HasSubstr(message));
  EXPECT_EQ(harness.scheduler.gauges().requests_waiting, before.requests_waiting);
  EXPECT_EQ(harness.scheduler.gauges().waiting_prompt_tokens, before.waiting_prompt_tokens);
  EXPECT_EQ(harness.problem, "");
}

TEST(Submit, RefusesWhatIsNoRequest) {
  Harness harness;
  const auto wrong = [&](void (*change)(Request&), const std::string& message) {
    Request request = make_request(1, make_prompt(3), 4);
    change(request);
    expect_refused(harness, std::move(request), StatusCode::kInvalidArgument, message);
  };
  wrong([](Request& r) { r.prompt.clear(); }, "no tokens");
  wrong([](Request& r) { r.prompt[1] = 50; }, "token 50");
  wrong([](Request& r) { r.prompt[1] = -1; }, "token -1");
  wrong([](Request& r) { r.n = 0; }, "n is 0");
  wrong([](Request& r) { r.n = kMaxSequences + 1; }, "n is 129");
  wrong([](Request& r) { r.max_tokens = 0; }, "max_tokens");
  wrong([](Request& r) { r.tenant_weight = 0; }, "weight");
  wrong([](Request& r) { r.tenant_weight = std::nan(""); }, "weight");
  wrong([](Request& r) { r.n = 2, r.constraints.push_back(std::make_unique<EvenConstraint>()); }, "1 constraints");
  EXPECT_TRUE(harness.scheduler.idle());
}

TEST(Submit, RefusesAPromptBeyondTheContext) {
  Harness harness;
  expect_refused(harness, make_request(1, make_prompt(64), 1), StatusCode::kInvalidArgument, "context of 64");
  EXPECT_TRUE(harness.submit(make_request(2, make_prompt(63), 1)).ok());
}

// Criterion 1 of the lessons: such a prompt would wait for ever.
TEST(Submit, RefusesAPromptBeyondTheWholePool) {
  SimOptions machine = small_machine();
  machine.info.block_count = 5;
  Harness harness(small_limits(), std::move(machine));
  expect_refused(harness, make_request(1, make_prompt(20), 1), StatusCode::kInvalidArgument, "KV cache of 20");
  EXPECT_TRUE(harness.submit(make_request(2, make_prompt(19), 1)).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
}

// Criterion 12.
TEST(Submit, BoundsTheRequestsThatWait) {
  SchedulerLimits limits = small_limits();
  limits.max_waiting_requests = 2;
  Harness harness(limits);
  EXPECT_TRUE(harness.submit(make_request(1, make_prompt(3), 4)).ok());
  EXPECT_TRUE(harness.submit(make_request(2, make_prompt(3), 4)).ok());
  expect_refused(harness, make_request(3, make_prompt(3), 4), StatusCode::kResourceExhausted, "2 requests are waiting");
  harness.step();
  EXPECT_TRUE(harness.submit(make_request(3, make_prompt(3), 4)).ok()) << "the first two run now";
}

TEST(Submit, BoundsThePromptTokensThatWait) {
  SchedulerLimits limits = small_limits();
  limits.max_waiting_tokens = 30;
  Harness harness(limits);
  EXPECT_TRUE(harness.submit(make_request(1, make_prompt(20), 4)).ok());
  expect_refused(harness, make_request(2, make_prompt(11), 4), StatusCode::kResourceExhausted, "20 prompt tokens");
  EXPECT_TRUE(harness.submit(make_request(2, make_prompt(10), 4)).ok());
}

TEST(Submit, TakesALoneLongPromptWhateverTheBound) {
  SchedulerLimits limits = small_limits();
  limits.max_waiting_tokens = 5;
  Harness harness(limits);
  EXPECT_TRUE(harness.submit(make_request(1, make_prompt(20), 4)).ok()) << "or it could never run";
}

TEST(Submit, CutsMaxTokensToTheContext) {
  Harness harness;
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(60), 100)).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(harness.track(1).outputs[0].size(), 4u);
  EXPECT_EQ(harness.track(1).finished[0], FinishReason::kLength);
}

// Criterion 7: where nobody can give up blocks, the one that grows ends; it takes nothing down with it.
TEST(Submit, CutsMaxTokensToTheWholePool) {
  SimOptions machine = small_machine();
  machine.info.block_count = 5;
  Harness harness(small_limits(), std::move(machine));
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(10), 100)).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(harness.track(1).outputs[0].size(), 10u);
  EXPECT_EQ(harness.track(1).finished[0], FinishReason::kLength);
  EXPECT_EQ(harness.total.preemptions, 0u);
}

TEST(Submit, ChecksWithoutKeepingWithValidate) {
  Harness harness;
  EXPECT_EQ(harness.scheduler.validate(make_request(1, make_prompt(64), 1)).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(harness.scheduler.validate(make_request(1, make_prompt(3), 1)).ok());
  EXPECT_TRUE(harness.scheduler.idle());
}

TEST(SchedulerLimits, AreCutToWhatAStepCanCarry) {
  SchedulerLimits limits;
  limits.max_step_tokens = 1000;
  limits.max_chunk_tokens = 1000;
  limits.max_running = 1000;
  SimOptions machine = small_machine();
  machine.info.step_tokens_max = 10;
  machine.info.step_rows_max = 12;
  const Scheduler scheduler(limits, machine.info);
  EXPECT_EQ(scheduler.limits().max_step_tokens, 10u);
  EXPECT_EQ(scheduler.limits().max_chunk_tokens, 10u);
  EXPECT_EQ(scheduler.limits().max_running, 10u) << "a token in every step for each that runs";
}

TEST(SequenceSeed, IsTheRequestsOwnForTheFirstAndAnotherForEachSibling) {
  EXPECT_EQ(sequence_seed(5, 0), 5u);
  EXPECT_NE(sequence_seed(5, 1), sequence_seed(5, 2));
  EXPECT_NE(sequence_seed(5, 1), sequence_seed(6, 0)) << "not the next request's";
  EXPECT_NE(sequence_seed(5, 2), sequence_seed(6, 1));
}

}  // namespace
}  // namespace twostroke::test
