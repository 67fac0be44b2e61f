// The engine over the plug-in that is written in C: the whole step path through the C ABI.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>

#include "backend/plugin_backend.h"
#include "scheduler/engine.h"
#include "tests/scheduler/engine_collector.h"

namespace twostroke {
namespace {

using testing::HasSubstr;

std::unique_ptr<Backend> load(uint32_t blocks, const std::string& args = {}) {
  PluginOptions options;
  options.block_size = 4;
  options.kv_bytes = uint64_t{blocks} * 4 * 8;
  options.plugin_args = args;
  auto backend = load_plugin(TWOSTROKE_PLUGINS_DIR "/chain_plugin.so", options);
  EXPECT_TRUE(backend.ok()) << backend.status().message();
  return std::move(backend).value();
}

// Holds the first step until open(), so that everything submitted before that is there for the second.
class GatedBackend final : public Backend {
 public:
  explicit GatedBackend(Backend& inner) : inner_(inner) {}
  void open() { gate_.count_down(); }
  const BackendInfo& info() const override { return inner_.info(); }
  Status submit(const StepPlan& plan) override {
    gate_.wait();
    return inner_.submit(plan);
  }
  Status wait(StepResult& result) override { return inner_.wait(result); }

 private:
  Backend& inner_;
  std::latch gate_{1};
};

Request request_of(RequestId id) {
  std::vector<TokenId> prompt;
  for (RequestId i = 0; i < 5 + id * 3; ++i) prompt.push_back(static_cast<TokenId>((id / 2 + i) % 256));
  Request request = greedy_request(id, std::move(prompt), 12);
  if (id % 3 == 0) request.sampling.temperature = 1;
  request.sampling.seed = id;
  request.sampling.logprobs = 2;
  request.n = id % 4 == 0 ? 2 : 1;
  return request;
}

TEST(EngineOverAPlugin, GivesTheSameTokensAloneAndInABatchThatPreempts) {
  constexpr RequestId kRequests = 12;
  std::map<RequestId, Collector::Record> alone;
  for (RequestId id = 0; id < kRequests; ++id) {
    const auto backend = load(256);
    Collector collector;
    Engine engine({}, {}, *backend, collector.sink());
    ASSERT_TRUE(engine.submit(request_of(id)).ok());
    alone[id] = collector.await_end(id);
    EXPECT_EQ(alone[id].outcome, Outcome::kFinished) << alone[id].error.message();
  }
  SchedulerLimits limits;
  limits.max_chunk_tokens = 7;
  const auto backend = load(40);
  GatedBackend gated(*backend);
  Collector collector;
  Engine engine(limits, {}, gated, collector.sink());
  for (RequestId id = 0; id < kRequests; ++id) ASSERT_TRUE(engine.submit(request_of(id)).ok());
  gated.open();
  collector.await_ends(kRequests);
  uint32_t preemptions = 0;
  for (const auto& [id, record] : collector.records()) {
    EXPECT_EQ(record.tokens, alone[id].tokens) << "request " << id;
    preemptions += record.summary.preemptions;
  }
  EXPECT_GT(preemptions, 0U);
}

TEST(EngineOverAPlugin, ALostStepAndADeadPluginReachTheRequests) {
  const auto lossy = load(64, "wait_error=2");
  Collector collector;
  {
    Engine engine({}, {}, *lossy, collector.sink());
    ASSERT_TRUE(engine.submit(request_of(1)).ok());
    EXPECT_EQ(collector.await_end(1).error, internal_error("the backend lost a step: backend 'chain': lost step (2)"));
    ASSERT_TRUE(engine.submit(request_of(2)).ok());
    EXPECT_EQ(collector.await_end(2).outcome, Outcome::kFinished);
  }
  const auto mortal = load(64, "dead=2");
  Engine engine({}, {}, *mortal, collector.sink());
  ASSERT_TRUE(engine.submit(request_of(3)).ok());
  EXPECT_EQ(collector.await_end(3).error.code(), StatusCode::kUnavailable);
  EXPECT_THAT(engine.submit(request_of(5)).message(), HasSubstr("died in step (2)"));
}

}  // namespace
}  // namespace twostroke
