#include "scheduler/cost/calibration.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "scheduler/cost/step_probe.h"
#include "tests/scheduler/harness.h"
#include "tests/scheduler/step_mix.h"

namespace twostroke::test {
namespace {

// A profile's machine, with faults in what a caller does to its KV memory recorded.
struct Machine {
  VirtualClock clock;
  std::unique_ptr<SimBackend> backend;

  explicit Machine(const SimProfile& profile, uint32_t blocks = 1024, SimPace pace = SimPace::kVirtual) {
    SimOptions options;
    options.info = profile.info;
    options.info.vocab_size = 1000;
    options.info.context_max = 4096;
    options.info.block_count = static_cast<int32_t>(blocks);
    options.info.step_tokens_max = 1024;
    options.info.step_rows_max = 64;
    options.machine = profile.machine;
    options.pace = pace;
    options.clock = pace == SimPace::kVirtual ? &clock : nullptr;
    backend = std::move(*SimBackend::create(std::move(options)));
  }
};

TEST(Calibration, PredictsRandomStepsBeforeAnyIsLearned) {
  for (const SimProfile& profile : sim_profiles()) {
    Machine machine(profile);
    const auto calibration = calibrate(*machine.backend, machine.clock);
    ASSERT_TRUE(calibration.ok()) << calibration.status().message();
    EXPECT_TRUE(calibration->costs.valid());
    EXPECT_LT(calibration->error_ratio, 0.05) << profile.name;
    StepDraw draw(1);
    std::vector<CostSample> samples;
    for (const StepMix& mix : {StepMix{.decode_context_max = 1000, .chunk_max = 256}, StepMix{.decode_rows_max = 8}}) {
      for (int i = 0; i < 200; ++i) {
        const DrawnStep step = draw.draw(mix);
        samples.push_back({step.shape, draw.time(profile, step.work, 0)});
      }
    }
    EXPECT_LT(median_error(samples, calibration->costs), 0.15) << profile.name;
  }
}

TEST(Calibration, RunsSmallChunksBesideDecodesAndLargeOnesAlone) {
  Machine machine(sim_profiles().front());
  const auto calibration = calibrate(*machine.backend, machine.clock);
  ASSERT_TRUE(calibration.ok());
  int beside = 0;
  int alone = 0;
  for (const auto& [shape, duration_ns] : calibration->samples) {
    if (shape.prefill_tokens == 0) continue;
    beside += shape.decode_tokens > 0 ? 1 : 0;
    alone += shape.decode_tokens == 0 && shape.tokens() > 384 ? 1 : 0;
    EXPECT_TRUE(shape.decode_tokens == 0 || shape.tokens() <= 384) << shape.tokens();
  }
  EXPECT_GE(beside, 5);
  EXPECT_GE(alone, 2);
}

TEST(Calibration, KeepsToItsTime) {
  for (const SimProfile& profile : sim_profiles()) {
    for (const TimeNs time_max : {600 * kMillisecondNs, 2500 * kMillisecondNs}) {
      Machine machine(profile);
      const auto calibration = calibrate(*machine.backend, machine.clock, {.time_max_ns = time_max});
      ASSERT_TRUE(calibration.ok());
      EXPECT_LE(to_seconds(calibration->duration_ns), 1.3 * to_seconds(time_max)) << profile.name;
      EXPECT_EQ(calibration->duration_ns, machine.clock.now());
    }
  }
}

TEST(Calibration, LeavesNothingThatAnybodySees) {
  SimOptions options = small_machine();
  options.pace = SimPace::kVirtual;
  VirtualClock clock;
  options.clock = &clock;
  Harness harness(small_limits(), std::move(options));
  ASSERT_TRUE(calibrate(*harness.backend, clock).ok());
  EXPECT_TRUE(harness.backend->faults().empty()) << harness.backend->faults().front();
  // The harness compares what each request gets with what its tokens alone give.
  for (RequestId id = 1; id <= 5; ++id) {
    ASSERT_TRUE(harness.submit(make_request(id, make_prompt(10, static_cast<TokenId>(id)), 10)).ok());
  }
  harness.run();
  harness.check_ends();
  EXPECT_EQ(harness.problem, "");
}

TEST(Calibration, SaysSoWhereStepsTakeNoTime) {
  Machine machine(sim_profiles()[0], 1024, SimPace::kFree);
  EXPECT_EQ(calibrate(*machine.backend, machine.clock).status().code(), StatusCode::kUnsupported);
}

TEST(Calibration, WorksInTheSmallestKvMemory) {
  for (const uint32_t blocks : {1u, 2u, 3u, 8u}) {
    Machine machine(sim_profiles()[1], blocks);
    const auto calibration = calibrate(*machine.backend, machine.clock);
    EXPECT_TRUE(machine.backend->faults().empty()) << machine.backend->faults().front();
    ASSERT_TRUE(calibration.ok()) << blocks << " blocks: " << calibration.status().message();
    EXPECT_TRUE(calibration->costs.valid());
  }
}

TEST(Calibration, ReturnsTheBackendsError) {
  Machine machine(sim_profiles()[0]);
  machine.backend->interrupt();
  EXPECT_EQ(calibrate(*machine.backend, machine.clock).status().code(), StatusCode::kUnavailable);
}

// Passes steps on; the first few take very long.
class SlowBeginning final : public Backend {
 public:
  SlowBeginning(Backend& inner, VirtualClock& clock, int slow_steps, TimeNs slow_ns)
      : inner_(inner), clock_(clock), slow_steps_(slow_steps), slow_ns_(slow_ns) {}
  const BackendInfo& info() const override { return inner_.info(); }
  Status submit(const StepPlan& plan) override { return inner_.submit(plan); }
  Status wait(StepResult& result) override {
    if (slow_steps_-- > 0) clock_.advance(slow_ns_);
    return inner_.wait(result);
  }

 private:
  Backend& inner_;
  VirtualClock& clock_;
  int slow_steps_;
  const TimeNs slow_ns_;
};

TEST(Calibration, MeasuresADecodeThoughTheFirstStepsTakeAllTheTime) {
  for (const SimProfile& profile : sim_profiles()) {
    for (int slow_steps = 1; slow_steps <= 8; ++slow_steps) {
      Machine machine(profile);
      const CalibrationOptions options;
      SlowBeginning backend(*machine.backend, machine.clock, slow_steps, options.time_max_ns);
      const auto calibration = calibrate(backend, machine.clock, options);
      ASSERT_TRUE(calibration.ok()) << profile.name << ", " << slow_steps << ": " << calibration.status().message();
      const auto decodes = [](const CostSample& s) { return s.shape.decode_rows > 0 && s.shape.prefill_rows == 0; };
      EXPECT_GE(std::ranges::count_if(calibration->samples, decodes), 1) << profile.name << ", " << slow_steps;
      EXPECT_GT(calibration->costs.token_ns[0], kMeasurableStepNs) << profile.name << ", " << slow_steps;
      EXPECT_TRUE(machine.backend->faults().empty()) << machine.backend->faults().front();
    }
  }
}

TEST(StepProbe, RunsRowsOfAnyDepthBesideEachOther) {
  Machine machine(sim_profiles()[0]);
  StepProbe probe(*machine.backend, machine.clock);
  ASSERT_TRUE(probe.extend(500).ok());
  std::vector<ProbeRow> rows = {{.position = 0}, {.position = 499}, {.position = 100, .tokens = 77, .decodes = false}};
  ASSERT_TRUE(probe.fits(rows));
  for (int i = 0; i < 3; ++i) {
    const auto sample = probe.run(rows);
    ASSERT_TRUE(sample.ok());
    EXPECT_EQ(sample->shape.decode_context, 1u + 497) << "positions 0 and 496: the beginnings of their blocks";
    EXPECT_EQ(sample->shape.prefill_context, (97u + 96 + 77) * 77 / 2);
    EXPECT_GT(sample->duration_ns, 0);
  }
  EXPECT_TRUE(machine.backend->faults().empty()) << machine.backend->faults().front();
  rows.push_back({.position = 501});
  EXPECT_FALSE(probe.fits(rows)) << "beyond what is computed";
  rows.back() = {.position = 0, .tokens = 1000, .decodes = false};
  EXPECT_FALSE(probe.fits(rows)) << "more than a step carries";
}

// Passes steps on, and keeps the last one.
class PlanWatcher final : public Backend {
 public:
  explicit PlanWatcher(Backend& inner) : inner_(inner) {}
  const BackendInfo& info() const override { return inner_.info(); }
  Status submit(const StepPlan& plan) override {
    last_ = plan;
    return inner_.submit(plan);
  }
  Status wait(StepResult& result) override { return inner_.wait(result); }

  std::vector<BlockId> blocks_of(size_t row) const {
    const auto first = last_.blocks.begin() + last_.rows[row].block_begin;
    return {first, first + last_.rows[row].block_count};
  }

 private:
  Backend& inner_;
  StepPlan last_;
};

TEST(StepProbe, SpreadRowsReadNoBlockThatAnotherReads) {
  Machine machine(sim_profiles()[0]);
  PlanWatcher backend(*machine.backend);
  StepProbe probe(backend, machine.clock);
  ASSERT_TRUE(probe.extend(500).ok());
  const std::vector<ProbeRow> rows = {{.position = 320}, {.position = 160}, {.position = 320}, {.position = 160}};
  const auto shared = [&](size_t row, size_t other) {
    const std::vector<BlockId> others = backend.blocks_of(other);
    return std::ranges::any_of(backend.blocks_of(row),
                               [&](BlockId block) { return std::ranges::count(others, block) > 0; });
  };
  ASSERT_TRUE(probe.run(rows).ok());
  EXPECT_TRUE(shared(0, 1)) << "all read the chain";

  ASSERT_TRUE(probe.spread(3, 256).ok());
  ASSERT_TRUE(probe.run(rows).ok());
  EXPECT_FALSE(shared(0, 1));
  EXPECT_FALSE(shared(1, 2));
  EXPECT_TRUE(shared(0, 2)) << "beyond what was copied";
  EXPECT_FALSE(shared(1, 3));
  EXPECT_TRUE(shared(0, 3)) << "more rows than have copies";
  EXPECT_TRUE(machine.backend->faults().empty()) << machine.backend->faults().front();

  // What there is room for is filled to the last block, and a chunk beside it still fits.
  const uint32_t most = probe.spread_rows_max(496);
  EXPECT_GT(most, 4u);
  ASSERT_TRUE(probe.spread(most, 496).ok());
  std::vector<ProbeRow> many(std::min(most, 63U), {.position = 496});
  many.push_back({.position = 496, .tokens = 900, .decodes = false});
  ASSERT_TRUE(probe.fits(many));
  ASSERT_TRUE(probe.run(many).ok());
  for (size_t row = 1; row + 1 < many.size(); ++row) EXPECT_FALSE(shared(row - 1, row)) << row;
  EXPECT_TRUE(machine.backend->faults().empty()) << machine.backend->faults().front();
}

TEST(Calibration, DecodesReadMemoryOfTheirOwn) {
  Machine machine(sim_profiles().front());
  PlanWatcher backend(*machine.backend);
  const auto calibration = calibrate(backend, machine.clock);
  ASSERT_TRUE(calibration.ok());
  int deep = 0;
  for (const auto& [shape, duration_ns] : calibration->samples) {
    if (shape.prefill_tokens > 0 || shape.decode_rows < 2 || shape.decode_context <= 256) continue;
    ++deep;
    EXPECT_LE(shape.decode_context, 8192u + shape.decode_rows) << "no more than what all can have copies of";
  }
  EXPECT_GE(deep, 4);
}

TEST(CostFit, FindsTheCoefficientsThatMadeTheTimes) {
  CostCoefficients truth;
  for (size_t i = 0; i < kCostKnotCount; ++i) truth.token_ns[i] = 5e6 * std::max(1.0, kCostKnots[i] / 100.0);
  truth.logit_ns = 2e4;
  truth.prefill_position_ns = 30;
  truth.decode_position_ns = 200;
  StepDraw draw(3);
  std::vector<CostSample> samples;
  for (int i = 0; i < 100; ++i) {
    const StepShape shape = draw.draw({}).shape;
    samples.push_back({shape, static_cast<TimeNs>(predict_ns(truth, shape))});
  }
  const CostCoefficients found = fit_costs(samples, guess_costs({}));
  EXPECT_TRUE(found.valid());
  EXPECT_LT(median_error(samples, found), 0.01);
  StepShape other = draw.draw({}).shape;
  EXPECT_NEAR(predict_ns(found, other) / predict_ns(truth, other), 1, 0.03);
  // Beyond all that was measured, as it was going.
  other = {.prefill_tokens = 4096};
  EXPECT_NEAR(predict_ns(found, other) / predict_ns(truth, other), 1, 0.2);
  EXPECT_EQ(fit_costs({}, truth), truth);
}

}  // namespace
}  // namespace twostroke::test
