// The end of a server over a real engine: in order where the backend comes back, and without it where it does not.
#include "server/drain.h"

#include <gtest/gtest.h>

#include <boost/asio/post.hpp>
#include <csignal>

#include "backend/sim/sim_backend.h"

namespace twostroke {
namespace {

using std::chrono::milliseconds;

enum class EndOfDrain { kNone, kEnded, kHung };

class DrainTest : public testing::Test {
 protected:
  void start(bool hangs) {
    SimOptions options;
    if (hangs) options.step_faults[1].kind = SimFault::Kind::kHang;
    backend_ = std::move(SimBackend::create(std::move(options))).value();
    engine_ = std::make_unique<Engine>(SchedulerLimits{}, EngineLimits{}, *backend_, [](StepOutput&&) {});
    Request request;
    request.id = 1;
    request.prompt = {1, 2, 3};
    request.max_tokens = 1;
    ASSERT_TRUE(engine_->submit(std::move(request)).ok());
    if (hangs) backend_->await_hang();
  }

  // Presses Ctrl-C and runs to whatever end there is.
  EndOfDrain drain(const Drain::Times& times) {
    EndOfDrain end = EndOfDrain::kNone;
    const auto hung = [&] {
      end = EndOfDrain::kHung;
      io_.stop();
    };
    Drain drain(io_, times, health_, server_,
                {.fail_requests = [&] { ++failures_; }, .on_end = [&] { end = EndOfDrain::kEnded; }, .on_hang = hung});
    drain.set_engine(engine_.get());
    std::raise(SIGINT);
    io_.run();
    return end;
  }

  boost::asio::io_context io_;
  http::HttpServer server_{io_, {}, {}, nullptr};
  Health health_{kSecondNs};
  std::unique_ptr<SimBackend> backend_;
  std::unique_ptr<Engine> engine_;
  int failures_ = 0;  // of all requests, by the drain
};

constexpr milliseconds kMoment{1};
constexpr milliseconds kAges{60'000};

TEST_F(DrainTest, EndsWhenNothingIsLeftAndTheStepThreadIsDone) {
  start(/*hangs=*/false);
  EXPECT_EQ(drain({.notice = kAges, .timeout = kAges, .flush = kAges, .hang = kAges}), EndOfDrain::kEnded);
  EXPECT_TRUE(engine_->ended());
  EXPECT_EQ(failures_, 0);
}

TEST_F(DrainTest, WaitsForAStepThatComesBack) {
  start(/*hangs=*/true);
  boost::asio::post(io_, [&] { backend_->release(); });
  EXPECT_EQ(drain({.notice = kAges, .timeout = kMoment, .flush = kMoment, .hang = kAges}), EndOfDrain::kEnded);
  EXPECT_TRUE(engine_->ended());
}

TEST_F(DrainTest, GivesUpOnABackendThatHangs) {
  start(/*hangs=*/true);
  EXPECT_EQ(drain({.notice = kAges, .timeout = kMoment, .flush = kMoment, .hang = kMoment}), EndOfDrain::kHung);
  EXPECT_FALSE(engine_->ended());
  EXPECT_EQ(failures_, 1) << "what waits for the backend gets its error from elsewhere";
  backend_->release();
}

}  // namespace
}  // namespace twostroke
