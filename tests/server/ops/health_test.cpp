// Readiness over a real engine on the simulated backend, in a time that the test moves.
#include "server/ops/health.h"

#include <gtest/gtest.h>

#include "backend/sim/sim_backend.h"

namespace twostroke {
namespace {

constexpr TimeNs kStall = 10 * kSecondNs;

class HealthTest : public testing::Test {
 protected:
  void start(std::map<uint64_t, SimFault> faults = {}) {
    SimOptions options;
    options.step_faults = std::move(faults);
    backend_ = std::move(SimBackend::create(std::move(options))).value();
    engine_ = std::make_unique<Engine>(
        SchedulerLimits{}, EngineLimits{}, *backend_, [this](StepOutput&& output) { take(output); }, clock_);
    health_.model_loaded(*engine_);
  }

  // One request of one token.
  void submit() {
    Request request;
    request.id = ++submitted_;
    request.prompt = {1, 2, 3};
    request.max_tokens = 1;
    ASSERT_TRUE(engine_->submit(std::move(request)).ok());
  }

  void take(const StepOutput& output) {
    for (const Event& event : output.events) {
      if (event.kind != Event::Kind::kEnded) continue;
      ++ended_;
      ended_.notify_all();
    }
  }
  void await_end() { ended_.wait(submitted_ - 1); }

  VirtualClock clock_;
  std::unique_ptr<SimBackend> backend_;
  std::atomic<uint64_t> ended_{0};
  uint64_t submitted_ = 0;
  Health health_{kStall};
  std::unique_ptr<Engine> engine_;
};

TEST_F(HealthTest, IsNotReadyWhileTheModelLoads) {
  const Status loading = health_.readiness();
  EXPECT_EQ(loading.code(), StatusCode::kUnavailable);
  EXPECT_EQ(loading.message(), "the model is loading");
  start();
  EXPECT_TRUE(health_.readiness().ok());
}

TEST_F(HealthTest, IsNotReadyOnceItDrains) {
  start();
  health_.draining();
  EXPECT_EQ(health_.readiness().message(), "the server is draining");
}

TEST_F(HealthTest, AStepThatHangsMakesItNotReadyUntilItEnds) {
  start({{1, {.kind = SimFault::Kind::kHang}}});
  submit();
  backend_->await_hang();
  clock_.advance(kStall);
  EXPECT_TRUE(health_.readiness().ok()) << "not yet longer than the limit";
  clock_.advance(5 * kSecondNs);
  EXPECT_EQ(health_.readiness().message(), "the current step has been running for 15 s: the backend hangs");
  backend_->release();
  await_end();
  EXPECT_TRUE(health_.readiness().ok());
}

TEST_F(HealthTest, ADeadBackendMakesItNotReadyForGood) {
  start({{1, {.kind = SimFault::Kind::kWaitError, .error = unavailable("the device is lost")}}});
  submit();
  await_end();
  EXPECT_EQ(health_.readiness().code(), StatusCode::kUnavailable);
  EXPECT_NE(health_.readiness().message().find("the device is lost"), std::string::npos);
}

TEST_F(HealthTest, IsAliveUntilTheBackendIsDead) {
  EXPECT_TRUE(health_.liveness().ok()) << "while the model loads";
  start({{1, {.kind = SimFault::Kind::kWaitError, .error = internal_error("a step is lost")}},
         {2, {.kind = SimFault::Kind::kWaitError, .error = unavailable("the device is lost")}}});
  submit();
  await_end();
  EXPECT_TRUE(health_.liveness().ok()) << "a lost step is not the end";
  submit();
  ended_.wait(1);
  EXPECT_EQ(health_.liveness().code(), StatusCode::kUnavailable);
  EXPECT_NE(health_.liveness().message().find("the device is lost"), std::string::npos);
}

TEST_F(HealthTest, IsAliveWhileItDrainsOrAStepTakesLong) {
  start({{1, {.kind = SimFault::Kind::kHang}}});
  submit();
  backend_->await_hang();
  clock_.advance(2 * kStall);
  health_.draining();
  EXPECT_FALSE(health_.readiness().ok());
  EXPECT_TRUE(health_.liveness().ok());
  backend_->release();
  await_end();
}

}  // namespace
}  // namespace twostroke
