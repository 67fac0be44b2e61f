// The engine, with what a request may ask for beyond sampled tokens: when masks are filled, and what comes of prompts.
#include <gtest/gtest.h>

#include "backend/sim/sim_backend.h"
#include "tests/scheduler/engine_collector.h"

namespace twostroke {
namespace {

// Notes what the masks of rows say when submit() and wait() are called.
class MaskWatcher final : public Backend {
 public:
  explicit MaskWatcher(bool late_masks) : inner_(std::move(SimBackend::create({}).value())), info_(inner_->info()) {
    info_.late_masks = late_masks;
  }
  const BackendInfo& info() const override { return info_; }
  Status submit(const StepPlan& plan) override {
    note(plan, at_submit);
    plan_ = &plan;
    return inner_->submit(plan);
  }
  Status wait(StepResult& result) override {
    note(*plan_, at_wait);
    return inner_->wait(result);
  }

  // By step; only the step thread writes. Read them when the engine is gone.
  std::vector<uint32_t> at_submit;  // the first word of the first row's mask
  std::vector<uint32_t> at_wait;

 private:
  static void note(const StepPlan& plan, std::vector<uint32_t>& notes) {
    if (!plan.rows[0].mask.empty()) notes.push_back(plan.rows[0].mask[0]);
  }
  std::unique_ptr<SimBackend> inner_;
  BackendInfo info_;
  const StepPlan* plan_ = nullptr;
};

void run_masked(MaskWatcher& backend, Collector& collector) {
  Engine engine({}, {}, backend, collector.sink());
  Request request = greedy_request(1, {1, 2, 3}, 2);
  request.allowed_tokens = {4};
  ASSERT_TRUE(engine.submit(std::move(request)).ok());
  EXPECT_EQ(collector.await_end(1).tokens.at(0), (std::vector<TokenId>{4, 4}));
}

TEST(EngineMasks, AreFilledWhileTheStepRunsWhereTheBackendCanWait) {
  MaskWatcher backend(/*late_masks=*/true);
  Collector collector;
  run_masked(backend, collector);
  EXPECT_EQ(backend.at_submit, (std::vector<uint32_t>{0, 1U << 4})) << "what the step before left";
  EXPECT_EQ(backend.at_wait, (std::vector<uint32_t>{1U << 4, 1U << 4}));
}

TEST(EngineMasks, AreFilledBeforeSubmitWhereTheBackendCannot) {
  MaskWatcher backend(/*late_masks=*/false);
  Collector collector;
  run_masked(backend, collector);
  EXPECT_EQ(backend.at_submit, (std::vector<uint32_t>{1U << 4, 1U << 4}));
}

// Takes its time for every mask, on a clock that it moves itself.
class SlowConstraint final : public TokenConstraint {
 public:
  explicit SlowConstraint(VirtualClock& clock) : clock_(clock) {}
  void fill_mask(std::span<uint32_t> mask) override {
    clock_.advance(3000);
    mask[0] = 1U << 7;
  }
  void accept(TokenId) override {}

 private:
  VirtualClock& clock_;
};

TEST(EngineMasks, HaveTheirTimeMeasured) {
  VirtualClock clock(0);
  SimOptions options;
  options.pace = SimPace::kVirtual;
  options.clock = &clock;
  const auto backend = SimBackend::create(std::move(options)).value();
  Collector collector;
  {
    Engine engine({}, {}, *backend, collector.sink(), clock);
    Request request = greedy_request(1, {1, 2, 3}, 2);
    request.constraints.push_back(std::make_unique<SlowConstraint>(clock));
    ASSERT_TRUE(engine.submit(std::move(request)).ok());
    collector.await_end(1);
    ASSERT_TRUE(engine.submit(greedy_request(2, {1, 2, 3}, 1)).ok());
    collector.await_end(2);
  }
  std::vector<TimeNs> times;
  for (const StepOutput& output : collector.outputs()) {
    if (!output.stepped) continue;
    times.push_back(output.mask_ns);
    EXPECT_GT(output.duration_ns, output.mask_ns);
  }
  EXPECT_EQ(times, (std::vector<TimeNs>{3000, 3000, 0}));
}

TEST(EnginePrompt, DeliversLogprobsAndEmbeddings) {
  const auto backend = SimBackend::create({}).value();
  Collector collector;
  Engine engine({}, {}, *backend, collector.sink());
  Request scored = greedy_request(1, {1, 2, 3, 4}, 2);
  scored.prompt_logprobs = 1;
  ASSERT_TRUE(engine.submit(std::move(scored)).ok());
  Request pooled = greedy_request(2, {1, 2, 3, 4}, 1);
  pooled.pooling = Pooling::kMean;
  ASSERT_TRUE(engine.submit(std::move(pooled)).ok());
  const Collector::Record first = collector.await_end(1);
  EXPECT_EQ(first.prompt.size(), 3U);
  EXPECT_EQ(first.tokens.at(0).size(), 2U);
  const Collector::Record second = collector.await_end(2);
  EXPECT_EQ(second.embedding.size(), 16U);
  EXPECT_TRUE(second.tokens.empty());
  EXPECT_TRUE(second.finished.empty());
  EXPECT_EQ(second.outcome, Outcome::kFinished);
}

}  // namespace
}  // namespace twostroke
