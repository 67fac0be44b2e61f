// Many threads at the engine's door: whatever they do and whenever, each accepted request ends exactly once and nothing
// is left behind. Meant to be run under the thread sanitizer too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <random>
#include <thread>

#include "backend/sim/sim_backend.h"
#include "scheduler/engine.h"
#include "tests/scheduler/engine_collector.h"

namespace twostroke {
namespace {

using testing::IsEmpty;

void expect_nothing_left(const Collector& collector, size_t accepted) {
  const auto records = collector.records();
  EXPECT_EQ(records.size(), accepted);
  for (const auto& [id, record] : records) {
    EXPECT_EQ(record.ends, 1U) << "request " << id;
    EXPECT_FALSE(record.event_after_end) << "request " << id;
  }
  const SchedulerGauges gauges = collector.last_gauges();
  EXPECT_EQ(gauges.requests_waiting, 0U);
  EXPECT_EQ(gauges.requests_running, 0U);
  EXPECT_EQ(gauges.sequences_waiting, 0U);
  EXPECT_EQ(gauges.sequences_running, 0U);
  EXPECT_EQ(gauges.waiting_prompt_tokens, 0U);
  EXPECT_EQ(gauges.blocks_referenced, 0U);
  EXPECT_EQ(gauges.blocks_free + gauges.blocks_cached, gauges.blocks_total);
}

TEST(EngineRace, TenThousandSubmitsAndCancelsReturnEverything) {
  const auto backend = SimBackend::create({}).value();
  Collector collector;
  std::atomic<size_t> accepted = 0;
  constexpr RequestId kThreads = 4, kEach = 2500;
  SchedulerLimits limits;
  limits.max_waiting_requests = kThreads * kEach;
  {
    Engine engine(limits, {.max_inbox_commands = 2 * kThreads * kEach}, *backend, collector.sink());
    std::vector<std::thread> clients;
    for (RequestId t = 0; t < kThreads; ++t) {
      clients.emplace_back([&, t] {
        for (RequestId i = 0; i < kEach; ++i) {
          const RequestId id = t * kEach + i;
          if (engine.submit(greedy_request(id, {static_cast<TokenId>(id % 1000), 1, 2}, 100)).ok()) ++accepted;
          engine.cancel(id);
        }
      });
    }
    for (std::thread& client : clients) client.join();
    collector.await_ends(accepted);
    EXPECT_EQ(accepted, kThreads * kEach);
  }
  expect_nothing_left(collector, accepted);
  EXPECT_THAT(backend->faults(), IsEmpty());
}

TEST(EngineRace, NothingThatWasAcceptedIsRefusedLater) {
  SimOptions options;
  options.info.block_count = 8;  // scarce: preempted requests wait again, beside new ones
  const auto backend = SimBackend::create(options).value();
  SchedulerLimits limits;
  limits.max_waiting_requests = 6;
  limits.max_waiting_tokens = 100;
  Collector collector;
  std::atomic<size_t> accepted = 0;
  {
    Engine engine(limits, {}, *backend, collector.sink());
    std::vector<std::thread> clients;
    for (RequestId t = 0; t < 4; ++t) {
      clients.emplace_back([&, t] {
        for (RequestId i = 0; i < 200; ++i) {
          const Status status =
              engine.submit(greedy_request(t * 1000 + i, std::vector<TokenId>(1 + (i * 7 + t) % 40, 5), 20));
          EXPECT_TRUE(status.ok() || status.code() == StatusCode::kResourceExhausted) << status.message();
          if (status.ok()) ++accepted;
        }
      });
    }
    for (std::thread& client : clients) client.join();
    collector.await_ends(accepted);
  }
  for (const auto& [id, record] : collector.records()) EXPECT_EQ(record.outcome, Outcome::kFinished) << id;
  expect_nothing_left(collector, accepted);
  EXPECT_THAT(backend->faults(), IsEmpty());
}

TEST(EngineRace, EveryRequestEndsOnceWhateverHappensToIt) {
  for (uint32_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimOptions options;
    options.fault = [seed](const StepPlan& plan) -> std::optional<SimFault> {
      switch ((plan.step * 2654435761U + seed) % 40) {
        case 0:
          return SimFault{.kind = SimFault::Kind::kSubmitError};
        case 1:
          return SimFault{.kind = SimFault::Kind::kWaitError};
        case 2:
          return SimFault{.kind = SimFault::Kind::kNotFinite, .rows = {0}};
        default:
          return std::nullopt;
      }
    };
    const auto backend = SimBackend::create(options).value();
    Collector collector;
    std::atomic<size_t> accepted = 0;
    std::latch half_way(3);
    {
      Engine engine({}, {}, *backend, collector.sink());
      std::vector<std::thread> clients;
      for (uint32_t t = 0; t < 3; ++t) {
        clients.emplace_back([&, t] {
          std::mt19937 generator(seed * 10 + t);
          const auto random = [&] { return static_cast<uint32_t>(generator()); };
          for (RequestId i = 0; i < 200; ++i) {
            if (i == 100) half_way.count_down();
            const RequestId id = t * 1000 + i;
            Request request = greedy_request(id, std::vector<TokenId>(1 + random() % 30, 7), 1 + random() % 20);
            request.n = 1 + random() % 3;
            if (random() % 2 == 0) request.objectives.ttft_ns = kSecondNs;  // looked up in the prefix cache
            if (engine.submit(std::move(request)).ok()) ++accepted;
            const RequestId other = t * 1000 + random() % (i + 1);
            if (random() % 3 == 0) engine.cancel(other);
            if (random() % 3 == 0) engine.finish_sequence(other, random() % 3);
          }
        });
      }
      half_way.wait();
      if (seed % 2 == 0) engine.stop();  // in the middle of it all
      for (std::thread& client : clients) client.join();
    }
    expect_nothing_left(collector, accepted);
    EXPECT_THAT(backend->faults(), IsEmpty());
  }
}

}  // namespace
}  // namespace twostroke
