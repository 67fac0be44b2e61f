#include "scheduler/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <optional>
#include <thread>

#include "backend/sim/sim_backend.h"
#include "tests/scheduler/engine_collector.h"

namespace twostroke {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr uint64_t kFirstStep = 1;

// An engine over a sim backend in virtual time. With `hang_step` that step waits for release().
class EngineTest : public testing::Test {
 protected:
  void start(SimOptions options = {}, SchedulerLimits limits = {}, EngineLimits engine_limits = {}) {
    options.pace = SimPace::kVirtual;
    options.clock = &clock_;
    backend_ = SimBackend::create(std::move(options)).value();
    engine_ = std::make_unique<Engine>(limits, engine_limits, *backend_, collector_.sink(), clock_);
  }
  static SimOptions hanging_in(uint64_t step) {
    SimOptions options;
    options.step_faults[step].kind = SimFault::Kind::kHang;
    return options;
  }
  void TearDown() override {
    engine_.reset();
    EXPECT_THAT(backend_->faults(), IsEmpty());
    for (const auto& [id, record] : collector_.records()) {
      EXPECT_EQ(record.ends, 1U) << "request " << id;
      EXPECT_FALSE(record.event_after_end) << "request " << id;
    }
  }
  std::vector<TokenId> expected(std::vector<TokenId> prompt, size_t count) {
    return expected_tokens(std::move(prompt), count, backend_->info().vocab_size);
  }

  VirtualClock clock_{1000};
  Collector collector_;
  std::unique_ptr<SimBackend> backend_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineTest, RunsARequestToItsEnd) {
  start();
  ASSERT_TRUE(engine_->submit(greedy_request(7, {1, 2, 3}, 5)).ok());
  const Collector::Record record = collector_.await_end(7);
  EXPECT_EQ(record.tokens.at(0), expected({1, 2, 3}, 5));
  EXPECT_EQ(record.outcome, Outcome::kFinished);
  EXPECT_EQ(record.finished.at(0), FinishReason::kLength);
  EXPECT_EQ(record.summary.submitted, 1000);
  EXPECT_EQ(record.summary.ended, clock_.now());
  EXPECT_EQ(record.summary.output_tokens, 5U);
}

TEST_F(EngineTest, PostsOncePerStepWithItsClassAndDuration) {
  start();
  ASSERT_TRUE(engine_->submit(greedy_request(1, {1, 2, 3}, 4)).ok());
  collector_.await_end(1);
  const std::vector<StepOutput> outputs = collector_.outputs();
  ASSERT_THAT(outputs, SizeIs(4));  // a prefill that gives the first token, and three decodes
  EXPECT_EQ(backend_->steps(), 4U);
  EXPECT_THAT(collector_.event_counts(), ElementsAre(1, 1, 1, 3));
  TimeNs total_ns = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_TRUE(outputs[i].stepped);
    EXPECT_EQ(outputs[i].step_class, i == 0 ? StepClass::kPrefill : StepClass::kDecode);
    EXPECT_EQ(outputs[i].counts.computed_tokens, i == 0 ? 3U : 0U);
    EXPECT_GT(outputs[i].duration_ns, 0);
    total_ns += outputs[i].duration_ns;
  }
  EXPECT_EQ(clock_.now(), 1000 + total_ns);
  EXPECT_EQ(outputs.back().duration_ns, backend_->last_cost().total_ns);
  EXPECT_EQ(outputs.back().gauges.blocks_referenced, 0U);
}

TEST_F(EngineTest, EightStreamsGetTheirTokenInEveryMixedStep) {
  start(hanging_in(kFirstStep));
  std::vector<TokenId> long_prompt(600, 3);
  ASSERT_TRUE(engine_->submit(greedy_request(100, {9}, 1)).ok());
  backend_->await_hang();  // everything below arrives in one batch
  for (RequestId id = 1; id <= 8; ++id) {
    ASSERT_TRUE(engine_->submit(greedy_request(id, {static_cast<TokenId>(id)}, 20)).ok());
  }
  ASSERT_TRUE(engine_->submit(greedy_request(50, long_prompt, 2)).ok());
  backend_->release();
  collector_.await_ends(10);
  uint32_t mixed = 0;
  for (const StepOutput& output : collector_.outputs()) {
    if (output.step_class != StepClass::kMixed) continue;
    ++mixed;
    EXPECT_EQ(output.counts.shape.decode_rows, 8U);
  }
  EXPECT_GE(mixed, 1U);
  const auto records = collector_.records();
  for (RequestId id = 1; id <= 8; ++id) {
    EXPECT_EQ(records.at(id).tokens.at(0), expected({static_cast<TokenId>(id)}, 20));
  }
  EXPECT_EQ(records.at(50).tokens.at(0), expected(long_prompt, 2));
}

TEST_F(EngineTest, EveryStepsWorkAndTimeBelongToItsPhases) {
  start(hanging_in(kFirstStep));
  ASSERT_TRUE(engine_->submit(greedy_request(1, {9}, 20)).ok());
  backend_->await_hang();
  ASSERT_TRUE(engine_->submit(greedy_request(2, std::vector<TokenId>(600, 3), 20)).ok());
  backend_->release();
  collector_.await_ends(2);
  for (const StepOutput& output : collector_.outputs()) {
    if (!output.stepped) continue;
    EXPECT_EQ(output.attributed.prefill_ns + output.attributed.decode_ns, output.duration_ns);
    EXPECT_EQ(output.attributed.prefill_ns > 0, output.step_class != StepClass::kDecode);
    EXPECT_EQ(output.attributed.decode_ns > 0, output.step_class != StepClass::kPrefill);
    EXPECT_EQ(output.work.prefill.flops > 0, output.step_class != StepClass::kDecode);
    EXPECT_EQ(output.work.decode.flops > 0, output.step_class != StepClass::kPrefill);
    const BackendInfo& info = backend_->info();
    EXPECT_GE(output.work.total().read_bytes, info.weight_bytes);
    EXPECT_EQ(output.work.total().written_bytes, output.counts.shape.tokens() * info.kv_bytes_per_token);
  }
}

TEST_F(EngineTest, RefusesWhatCanNeverRun) {
  start();
  EXPECT_EQ(engine_->submit(greedy_request(1, {}, 5)).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(engine_->submit(greedy_request(1, {1000}, 5)).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(engine_->submit(greedy_request(1, std::vector<TokenId>(1024, 1), 5)).code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(collector_.records(), IsEmpty());
}

TEST_F(EngineTest, RefusesExactlyTheRequestsBeyondTheBound) {
  SchedulerLimits limits;
  limits.max_waiting_requests = 5;
  limits.max_running = 1;
  start(hanging_in(kFirstStep), limits);
  EXPECT_EQ(engine_->limits().max_waiting_requests, 5U);
  ASSERT_TRUE(engine_->submit(greedy_request(100, {1}, 2)).ok());
  backend_->await_hang();  // it runs, and waits no more
  for (RequestId id = 1; id <= 5; ++id) EXPECT_TRUE(engine_->submit(greedy_request(id, {1}, 2)).ok()) << id;
  const Status status = engine_->submit(greedy_request(6, {1}, 2));
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("5 requests are waiting"));
  backend_->release();
  collector_.await_ends(6);
  for (const auto& [id, record] : collector_.records()) EXPECT_EQ(record.outcome, Outcome::kFinished) << id;
  EXPECT_TRUE(engine_->submit(greedy_request(7, {1}, 2)).ok());
}

TEST_F(EngineTest, RefusesExactlyThePromptTokensBeyondTheBound) {
  SchedulerLimits limits;
  limits.max_waiting_tokens = 10;
  limits.max_running = 1;
  start(hanging_in(kFirstStep), limits);
  ASSERT_TRUE(engine_->submit(greedy_request(100, {1}, 2)).ok());
  backend_->await_hang();
  EXPECT_TRUE(engine_->submit(greedy_request(1, {1, 2, 3, 4, 5, 6}, 1)).ok());
  EXPECT_TRUE(engine_->submit(greedy_request(2, {1, 2, 3, 4}, 1)).ok());
  const Status status = engine_->submit(greedy_request(3, {1}, 1));
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("10 prompt tokens are waiting"));
  backend_->release();
  collector_.await_ends(3);
  // A lone long prompt is never refused for its length.
  EXPECT_TRUE(engine_->submit(greedy_request(4, std::vector<TokenId>(50, 1), 1)).ok());
}

TEST_F(EngineTest, TheInboxIsBoundedForSubmitsAndTakesEveryCancel) {
  start(hanging_in(kFirstStep), {}, {.max_inbox_commands = 3});
  ASSERT_TRUE(engine_->submit(greedy_request(100, {1}, 50)).ok());
  backend_->await_hang();
  for (RequestId id = 1; id <= 3; ++id) EXPECT_TRUE(engine_->submit(greedy_request(id, {1}, 50)).ok());
  EXPECT_THAT(engine_->submit(greedy_request(4, {1}, 50)).message(), HasSubstr("max_inbox_commands is 3"));
  for (RequestId id : {1, 2, 3, 100}) engine_->cancel(id);
  backend_->release();
  collector_.await_ends(4);
  for (const auto& [id, record] : collector_.records()) EXPECT_EQ(record.outcome, Outcome::kCancelled) << id;
}

TEST_F(EngineTest, ACancelFreesTheBlocksWithinAStep) {
  start(hanging_in(5));
  ASSERT_TRUE(engine_->submit(greedy_request(1, {1, 2, 3}, 500)).ok());
  backend_->await_hang();
  engine_->cancel(1);
  backend_->release();
  const Collector::Record record = collector_.await_end(1);
  EXPECT_EQ(record.outcome, Outcome::kCancelled);
  EXPECT_EQ(record.tokens.at(0), expected({1, 2, 3}, 5));  // the step in flight was finished
  EXPECT_EQ(backend_->steps(), 5U);
  EXPECT_EQ(collector_.last_gauges().blocks_referenced, 0U);
  EXPECT_FALSE(collector_.outputs().back().stepped);
}

TEST_F(EngineTest, ACancelOfWhatHasEndedOrNeverWasIsIgnored) {
  start();
  engine_->cancel(1);
  ASSERT_TRUE(engine_->submit(greedy_request(2, {1}, 1)).ok());
  EXPECT_EQ(collector_.await_end(2).outcome, Outcome::kFinished);
  engine_->cancel(2);
  engine_->finish_sequence(2, 0);
  ASSERT_TRUE(engine_->submit(greedy_request(3, {1}, 1)).ok());
  collector_.await_end(3);
  EXPECT_THAT(collector_.records(), SizeIs(2));
}

TEST_F(EngineTest, TheIoSideCanFinishASequenceEvenFromTheSink) {
  backend_ = SimBackend::create({}).value();
  const auto stop_after_three = [this, sink = collector_.sink(), count = 0](StepOutput&& output) mutable {
    for (const Event& event : output.events) {
      if (event.kind == Event::Kind::kToken && ++count == 3) engine_->finish_sequence(event.request, event.sequence);
    }
    sink(std::move(output));
  };
  engine_ = std::make_unique<Engine>(SchedulerLimits{}, EngineLimits{}, *backend_, stop_after_three);
  ASSERT_TRUE(engine_->submit(greedy_request(1, {1}, 500)).ok());
  const Collector::Record record = collector_.await_end(1);
  EXPECT_EQ(record.outcome, Outcome::kFinished);
  EXPECT_EQ(record.finished.at(0), FinishReason::kStop);
  EXPECT_EQ(record.tokens.at(0), expected({1}, 3));
}

TEST_F(EngineTest, ALostStepFailsItsRequestsAndNoOthers) {
  std::latch in_step(1), go_on(1);
  SimOptions options;
  options.fault = [&](const StepPlan& plan) -> std::optional<SimFault> {
    if (plan.step != kFirstStep) return std::nullopt;
    in_step.count_down();
    go_on.wait();
    return SimFault{.kind = SimFault::Kind::kWaitError, .error = internal_error("bit flip")};
  };
  start(options);
  ASSERT_TRUE(engine_->submit(greedy_request(1, {1, 2}, 5)).ok());
  in_step.wait();
  ASSERT_TRUE(engine_->submit(greedy_request(2, {1, 2}, 5)).ok());
  go_on.count_down();
  const Collector::Record lost = collector_.await_end(1);
  EXPECT_EQ(lost.outcome, Outcome::kFailed);
  EXPECT_EQ(lost.error, internal_error("the backend lost a step: bit flip"));
  EXPECT_EQ(collector_.await_end(2).tokens.at(0), expected({1, 2}, 5));
  EXPECT_TRUE(engine_->health().ok());
  EXPECT_FALSE(collector_.outputs().front().stepped);
}

TEST_F(EngineTest, ARowWithoutProbabilitiesFailsItsRequestAlone) {
  SimOptions options = hanging_in(kFirstStep);
  options.step_faults[3] = {.kind = SimFault::Kind::kNotFinite, .rows = {0}};
  start(options);
  ASSERT_TRUE(engine_->submit(greedy_request(100, {9}, 1)).ok());
  backend_->await_hang();
  ASSERT_TRUE(engine_->submit(greedy_request(1, {1}, 5)).ok());
  ASSERT_TRUE(engine_->submit(greedy_request(2, {2}, 5)).ok());
  backend_->release();
  collector_.await_ends(3);
  const auto records = collector_.records();
  EXPECT_EQ(records.at(1).outcome, Outcome::kFailed);
  EXPECT_EQ(records.at(2).outcome, Outcome::kFinished);
  EXPECT_EQ(records.at(2).tokens.at(0), expected({2}, 5));
}

TEST_F(EngineTest, ADeadBackendFailsEverythingAndRefusesWhatComesLater) {
  std::latch in_step(1), go_on(1);
  SimOptions options;
  options.fault = [&](const StepPlan& plan) -> std::optional<SimFault> {
    if (plan.step != 2) return std::nullopt;
    in_step.count_down();
    go_on.wait();
    return SimFault{.kind = SimFault::Kind::kSubmitError, .error = unavailable("fell off the bus")};
  };
  SchedulerLimits limits;
  limits.max_running = 1;
  start(options, limits);
  ASSERT_TRUE(engine_->submit(greedy_request(1, {1, 2}, 5)).ok());  // runs
  in_step.wait();
  ASSERT_TRUE(engine_->submit(greedy_request(2, {1, 2}, 5)).ok());  // is in the inbox
  EXPECT_TRUE(engine_->health().ok());
  go_on.count_down();
  collector_.await_ends(2);
  const Status expected_error = unavailable("the backend has failed for good: fell off the bus");
  for (const auto& [id, record] : collector_.records()) {
    EXPECT_EQ(record.outcome, Outcome::kFailed) << id;
    EXPECT_EQ(record.error, expected_error) << id;
  }
  EXPECT_EQ(engine_->health(), expected_error);
  EXPECT_EQ(engine_->submit(greedy_request(3, {1}, 1)), expected_error);
  EXPECT_EQ(collector_.last_gauges().blocks_referenced, 0U);
}

TEST_F(EngineTest, AHangingStepShowsInItsAge) {
  start(hanging_in(2));
  EXPECT_EQ(engine_->step_age_ns(), 0);
  ASSERT_TRUE(engine_->submit(greedy_request(1, {1}, 2)).ok());
  backend_->await_hang();
  clock_.advance(5 * kSecondNs);
  EXPECT_EQ(engine_->step_age_ns(), 5 * kSecondNs);
  EXPECT_TRUE(engine_->health().ok());
  backend_->release();
  collector_.await_end(1);
  EXPECT_EQ(engine_->step_age_ns(), 0);
  EXPECT_GT(collector_.outputs().back().duration_ns, 5 * kSecondNs);
}

TEST_F(EngineTest, TheWaitInTheInboxCountsAsQueueTime) {
  start(hanging_in(kFirstStep));
  ASSERT_TRUE(engine_->submit(greedy_request(1, {1}, 1)).ok());
  backend_->await_hang();
  const TimeNs submitted = clock_.now();
  ASSERT_TRUE(engine_->submit(greedy_request(2, {1}, 1)).ok());
  clock_.advance(3 * kSecondNs);
  backend_->release();
  const Collector::Record record = collector_.await_end(2);
  EXPECT_EQ(record.summary.submitted, submitted);
  EXPECT_GE(record.summary.first_scheduled, submitted + 3 * kSecondNs);
}

TEST_F(EngineTest, DrainingRefusesNewRequestsAndFinishesTheOthers) {
  start(hanging_in(kFirstStep));
  ASSERT_TRUE(engine_->submit(greedy_request(1, {1}, 3)).ok());
  backend_->await_hang();
  ASSERT_TRUE(engine_->submit(greedy_request(2, {1}, 3)).ok());
  EXPECT_FALSE(engine_->drained());
  engine_->begin_drain();
  EXPECT_FALSE(engine_->drained());
  EXPECT_EQ(engine_->submit(greedy_request(3, {1}, 3)), unavailable("the server is shutting down"));
  backend_->release();
  collector_.await_ends(2);
  while (!engine_->drained()) std::this_thread::yield();
  for (const auto& [id, record] : collector_.records()) EXPECT_EQ(record.outcome, Outcome::kFinished) << id;
}

TEST_F(EngineTest, StoppingEndsEverythingThatIsLeft) {
  SchedulerLimits limits;
  limits.max_running = 1;
  start(hanging_in(3), limits);
  ASSERT_TRUE(engine_->submit(greedy_request(1, {1}, 50)).ok());  // running
  ASSERT_TRUE(engine_->submit(greedy_request(2, {1}, 50)).ok());  // waiting
  backend_->await_hang();
  ASSERT_TRUE(engine_->submit(greedy_request(3, {1}, 50)).ok());  // in the inbox
  engine_->stop();
  const Status shutting_down = unavailable("the server is shutting down");
  EXPECT_EQ(engine_->submit(greedy_request(4, {1}, 50)), shutting_down);
  backend_->release();
  engine_.reset();
  EXPECT_THAT(collector_.records(), SizeIs(3));
  for (const auto& [id, record] : collector_.records()) {
    EXPECT_EQ(record.outcome, Outcome::kFailed) << id;
    EXPECT_EQ(record.error, shutting_down) << id;
  }
  EXPECT_EQ(collector_.last_gauges().blocks_referenced, 0U);
}

TEST_F(EngineTest, AnEngineWithoutRequestsStopsAtOnceAndPostsNothing) {
  start();
  engine_.reset();
  EXPECT_THAT(collector_.outputs(), IsEmpty());
}

}  // namespace
}  // namespace twostroke
