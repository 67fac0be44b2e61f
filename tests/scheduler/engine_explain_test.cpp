// Engine::explain from other threads: what it answers, when, and that it never leaves anybody waiting.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "backend/sim/sim_backend.h"
#include "tests/scheduler/engine_collector.h"

namespace twostroke {
namespace {

using testing::HasSubstr;

class EngineExplainTest : public testing::Test {
 protected:
  void start(bool hang, EngineLimits limits = {}) {
    SimOptions options;
    options.pace = SimPace::kVirtual;
    options.clock = &clock_;
    if (hang) options.step_faults[1].kind = SimFault::Kind::kHang;
    backend_ = SimBackend::create(std::move(options)).value();
    engine_ = std::make_unique<Engine>(SchedulerLimits{}, limits, *backend_, collector_.sink(), clock_);
  }
  std::future<Result<Engine::Explanations>> ask(std::vector<RequestId> requests) {
    auto answer = std::make_shared<std::promise<Result<Engine::Explanations>>>();
    auto future = answer->get_future();
    engine_->explain(std::move(requests),
                     [answer](Result<Engine::Explanations> got) { answer->set_value(std::move(got)); });
    return future;
  }
  static bool answered(std::future<Result<Engine::Explanations>>& future) {
    return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

  VirtualClock clock_{1000};
  Collector collector_;
  std::unique_ptr<SimBackend> backend_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineExplainTest, WhileAStepRunsTheAnswerComesBehindIt) {
  start(/*hang=*/true);
  ASSERT_TRUE(engine_->submit(greedy_request(1, {1, 2, 3}, 50)).ok());
  backend_->await_hang();
  ASSERT_TRUE(engine_->submit(greedy_request(2, {4, 5}, 50)).ok());
  auto future = ask({1, 2, 3});
  EXPECT_FALSE(answered(future));
  backend_->release();
  const Result<Engine::Explanations> answer = future.get();
  ASSERT_TRUE(answer.ok());
  ASSERT_EQ(answer->size(), 3U);
  EXPECT_EQ((*answer)[0]->sequences[0].activity, SequenceActivity::kDecode);
  EXPECT_EQ((*answer)[0]->sequences[0].output_tokens, 1U) << "the step that hung has been committed, and none since";
  EXPECT_EQ((*answer)[1]->sequences[0].wait, WaitFor::kInbox) << "it has come behind that step";
  EXPECT_EQ((*answer)[1]->summary.submitted, 1000);
  EXPECT_FALSE((*answer)[2].has_value());
}

TEST_F(EngineExplainTest, AnswersWhileNothingRuns) {
  start(/*hang=*/false);
  const Result<Engine::Explanations> answer = ask({7}).get();
  ASSERT_TRUE(answer.ok());
  EXPECT_FALSE(answer->front().has_value());
}

TEST_F(EngineExplainTest, QuestionsThatNobodyAnswersAreBounded) {
  start(/*hang=*/true, {.max_explains_pending = 2});
  ASSERT_TRUE(engine_->submit(greedy_request(1, {1}, 5)).ok());
  backend_->await_hang();
  auto first = ask({1});
  auto second = ask({1});
  const Result<Engine::Explanations> refused = ask({1}).get();
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.status().message(), HasSubstr("2 such questions"));
  backend_->release();
  EXPECT_TRUE(first.get().ok());
  EXPECT_TRUE(second.get().ok());
  EXPECT_TRUE(ask({1}).get().ok());
}

TEST_F(EngineExplainTest, WhatWasAskedBeforeTheStopIsAnsweredAndNothingAfterIt) {
  start(/*hang=*/true);
  ASSERT_TRUE(engine_->submit(greedy_request(1, {1}, 5)).ok());
  backend_->await_hang();
  auto before = ask({1});
  engine_->stop();
  const Result<Engine::Explanations> after = ask({1}).get();
  EXPECT_EQ(after.status().code(), StatusCode::kUnavailable);
  backend_->release();
  EXPECT_TRUE(before.get().ok());
}

}  // namespace
}  // namespace twostroke
