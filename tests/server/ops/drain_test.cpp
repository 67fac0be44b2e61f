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
    Drain drain(
        io_, times, health_, server_, [&] { end = EndOfDrain::kEnded; },
        [&] {
          end = EndOfDrain::kHung;
          io_.stop();
        });
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
};

constexpr milliseconds kMoment{1};
constexpr milliseconds kAges{60'000};

TEST_F(DrainTest, EndsWhenNothingIsLeftAndTheStepThreadIsDone) {
  start(/*hangs=*/false);
  EXPECT_EQ(drain({.notice = kAges, .timeout = kAges, .flush = kAges, .hang = kAges}), EndOfDrain::kEnded);
  EXPECT_TRUE(engine_->ended());
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
  backend_->release();
}

}  // namespace
}  // namespace twostroke
