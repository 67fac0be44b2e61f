#include "server/openai/event_queue.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/strand.hpp>
#include <utility>

namespace twostroke::openai {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;

StepOutput step_with_token(RequestId request, TokenId token) {
  StepOutput output;
  output.events.push_back({.kind = Event::Kind::kToken, .request = request, .token = token});
  return output;
}

// What a client on a strand of its own has got: one list of tokens for each time it was woken.
class Client {
 public:
  explicit Client(asio::io_context& io, size_t events_max = 100)
      : strand_(asio::make_strand(io)), queue(std::make_shared<EventQueue>(strand_, events_max, [] {})) {}

  // Takes events until the queue is closed or `times` have been taken.
  void start(size_t times, milliseconds timeout = milliseconds(0)) {
    asio::co_spawn(strand_, take(times, timeout), asio::detached);
  }

 private:
  asio::awaitable<void> take(size_t times, milliseconds timeout) {
    for (size_t i = 0; i < times; ++i) {
      const std::vector<Event> events = co_await queue->next(timeout);
      if (queue->closed()) {
        gone = true;
        co_return;
      }
      std::vector<TokenId> tokens;
      for (const Event& event : events) tokens.push_back(event.token);
      taken.push_back(std::move(tokens));
    }
  }

  const asio::strand<asio::io_context::executor_type> strand_;

 public:
  const std::shared_ptr<EventQueue> queue;
  std::vector<std::vector<TokenId>> taken;
  bool gone = false;
};

using Taken = std::vector<std::vector<TokenId>>;

// One I/O thread answers within the hub's own handler, several do not; clients see the same.
class RequestHubTest : public testing::TestWithParam<size_t> {
 protected:
  asio::io_context io_;
  const asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(io_);
  std::vector<uint64_t> observed_;
  RequestHub hub_{io_, [this](const StepOutput& output) { observed_.push_back(output.step); }, GetParam()};
};

INSTANTIATE_TEST_SUITE_P(IoThreads, RequestHubTest, testing::Values(1, 2));

TEST_P(RequestHubTest, StepsThatWaitForTheThreadTogetherReachAClientTogether) {
  Client client(io_);
  hub_.attach(7, client.queue);
  client.start(2);
  io_.poll();
  for (const TokenId token : {1, 2, 3}) hub_.deliver(step_with_token(7, token));
  EXPECT_TRUE(client.taken.empty()) << "not on the step thread";
  io_.poll();
  EXPECT_EQ(client.taken, (Taken{{1, 2, 3}}));
  hub_.deliver(step_with_token(7, 4));
  io_.poll();
  EXPECT_EQ(client.taken, (Taken{{1, 2, 3}, {4}}));
}

TEST_P(RequestHubTest, EveryStepIsObservedInItsOrder) {
  for (const uint64_t step : {1, 2, 3}) {
    StepOutput output;
    output.step = step;
    hub_.deliver(std::move(output));
    if (step == 2) io_.poll();
  }
  io_.poll();
  EXPECT_EQ(observed_, (std::vector<uint64_t>{1, 2, 3}));
}

TEST_P(RequestHubTest, AStepThatIsDeliveredWhileOthersAreTakenIsTakenToo) {
  Client client(io_);
  RequestHub* itself = nullptr;
  const auto deliver_another = [&](const StepOutput& output) {
    if (output.events.empty()) itself->deliver(step_with_token(7, 6));
  };
  RequestHub hub(io_, deliver_another, GetParam());
  itself = &hub;
  hub.attach(7, client.queue);
  client.start(1);
  hub.deliver(StepOutput{});
  io_.poll();
  EXPECT_EQ(client.taken, (Taken{{6}}));
}

TEST_P(RequestHubTest, AClientThatLeavesWithinItsOwnWakeUpTakesNobodyAlong) {
  Client leaves(io_);
  Client stays(io_);
  hub_.attach(1, leaves.queue);
  hub_.attach(2, stays.queue);
  leaves.start(1);
  stays.start(1);
  io_.poll();
  leaves.queue->close();
  StepOutput output = step_with_token(1, 10);
  output.events.push_back({.kind = Event::Kind::kToken, .request = 2, .token = 20});
  hub_.deliver(std::move(output));
  io_.poll();
  EXPECT_TRUE(leaves.gone);
  EXPECT_EQ(stays.taken, (Taken{{20}}));
}

TEST(EventQueue, GivesNothingWhenItsTimeIsOver) {
  asio::io_context io;
  Client client(io);
  client.start(2, milliseconds(1));
  io.run();
  EXPECT_EQ(client.taken, (Taken{{}, {}}));
}

TEST(EventQueue, AShorterWaitBehindALongOneEndsInItsOwnTime) {
  asio::io_context io;
  Client client(io);
  client.start(1, std::chrono::hours(1));
  io.poll();
  client.queue->push({.kind = Event::Kind::kToken, .token = 1});
  io.poll();
  ASSERT_EQ(client.taken, (Taken{{1}}));
  client.start(1, milliseconds(1));
  io.restart();
  io.run();
  EXPECT_EQ(client.taken, (Taken{{1}, {}}));
}

TEST(EventQueue, ClosingWakesWhatWaitsButNotWithinTheCall) {
  asio::io_context io;
  Client client(io);
  client.start(1);
  io.poll();
  client.queue->close();
  EXPECT_FALSE(client.gone);
  io.restart();
  io.poll();
  EXPECT_TRUE(client.gone);
}

TEST(EventQueue, DropsTokensBeyondItsBoundAndNothingElse) {
  asio::io_context io;
  size_t overflows = 0;
  const auto queue = std::make_shared<EventQueue>(io.get_executor(), 2, [&] { ++overflows; });
  for (const TokenId token : {1, 2, 3, 4}) queue->push({.kind = Event::Kind::kToken, .token = token});
  queue->push({.kind = Event::Kind::kEnded});
  EXPECT_EQ(overflows, 1U);
  EXPECT_TRUE(queue->overflowed());
  std::vector<Event> events;
  const auto take = [&]() -> asio::awaitable<void> {
    std::vector<Event> all = co_await queue->next(milliseconds(0));
    events = std::move(all);
  };
  asio::co_spawn(io, take, asio::detached);
  io.run();
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events.back().kind, Event::Kind::kEnded);
}

}  // namespace
}  // namespace twostroke::openai
