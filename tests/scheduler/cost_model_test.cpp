#include "scheduler/cost/cost_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "tests/scheduler/step_mix.h"

namespace twostroke {
namespace {

using test::DrawnStep;
using test::sim_profiles;
using test::SimProfile;
using test::StepDraw;
using test::StepMix;

CostModel guessed(const SimProfile& profile) { return {guess_costs(profile.info), CostModel::Prior::kGuess}; }

void learn_steps(CostModel& model, StepDraw& draw, const SimProfile& profile, const StepMix& mix, int count,
                 double noise = 0.05, double outliers = 0) {
  for (int i = 0; i < count; ++i) {
    const DrawnStep step = draw.draw(mix);
    model.learn(step.shape, draw.time(profile, step.work, noise, outliers));
  }
}

// Of predictions for steps that the model does not learn, against their times without noise.
double held_out_error(const CostModel& model, StepDraw& draw, const SimProfile& profile, const StepMix& mix) {
  std::vector<double> errors;
  for (int i = 0; i < 301; ++i) {
    const DrawnStep step = draw.draw(mix);
    const auto measured = static_cast<double>(draw.time(profile, step.work, 0));
    errors.push_back(std::abs(model.predict_ns(step.shape) - measured) / measured);
  }
  std::ranges::nth_element(errors, errors.begin() + 150);
  return errors[150];
}

StepShape batch_of(uint32_t rows, uint32_t context) {
  return {.decode_rows = rows, .decode_tokens = rows, .logit_tokens = rows, .decode_context = uint64_t{rows} * context};
}

StepShape beside_chunk(StepShape shape, uint32_t tokens, uint32_t position = 0) {
  shape.prefill_rows = 1;
  shape.prefill_tokens = tokens;
  shape.prefill_context = (uint64_t{position} * 2 + tokens + 1) * tokens / 2;
  return shape;
}

const StepMix kChat{.decode_rows_max = 32, .decode_context_max = 1000, .chunk_max = 256, .prefill_part = 0.3};
const StepMix kDocuments{.decode_rows_max = 8, .decode_context_max = 4000, .chunk_max = 512, .prefill_part = 0.9};
const StepMix kDecodes{.decode_rows_max = 64, .decode_context_max = 500, .chunk_max = 64, .prefill_part = 0};

// Flat up to the ridge, then rising.
CostCoefficients roofline(double ridge) {
  CostCoefficients c;
  for (size_t i = 0; i < kCostKnotCount; ++i) c.token_ns[i] = 1e7 * std::max(1.0, kCostKnots[i] / ridge);
  return c;
}

// A fixed cost and the same for every token.
CostCoefficients straight(double fixed_ns, double token_ns) {
  CostCoefficients c;
  for (size_t i = 0; i < kCostKnotCount; ++i) c.token_ns[i] = fixed_ns + token_ns * kCostKnots[i];
  return c;
}

TEST(CostModel, PredictsHeldOutStepsFromAGuessAfterAHundredSteps) {
  for (const SimProfile& profile : sim_profiles()) {
    for (const StepMix& mix : {kChat, kDocuments}) {
      CostModel model = guessed(profile);
      StepDraw draw(1);
      learn_steps(model, draw, profile, mix, 100);
      EXPECT_LT(held_out_error(model, draw, profile, mix), 0.15) << profile.name << ", chunks of " << mix.chunk_max;
    }
  }
}

TEST(CostModel, PredictsHeldOutStepsUnderNoiseAndOutliers) {
  for (const SimProfile& profile : sim_profiles()) {
    CostModel model = guessed(profile);
    StepDraw draw(2);
    learn_steps(model, draw, profile, kChat, 400, /*noise=*/0.1, /*outliers=*/0.05);
    EXPECT_LT(held_out_error(model, draw, profile, kChat), 0.15) << profile.name;
  }
}

TEST(CostModel, PredictsHeldOutStepsAfterTheLoadChangesCharacter) {
  for (const SimProfile& profile : sim_profiles()) {
    CostModel model = guessed(profile);
    StepDraw draw(3);
    for (const StepMix& mix : {kChat, kDecodes, kDocuments, kDecodes, kChat}) {
      learn_steps(model, draw, profile, mix, 100);
      EXPECT_LT(held_out_error(model, draw, profile, mix), 0.15)
          << profile.name << ", decodes " << mix.decode_rows_max << ", chunks " << mix.chunk_max;
    }
  }
}

TEST(CostModel, KeepsWhatItKnewOfOneLoadWhileAnotherRuns) {
  for (const SimProfile& profile : sim_profiles()) {
    CostModel model = guessed(profile);
    StepDraw draw(4);
    learn_steps(model, draw, profile, kDocuments, 300);
    learn_steps(model, draw, profile, kDecodes, 2000);
    EXPECT_LT(held_out_error(model, draw, profile, kDocuments), 0.25) << profile.name;
  }
}

TEST(CostModel, FollowsAChangeOfSpeedWithinSomeTensOfSteps) {
  for (const double factor : {1.5, 3.0, 0.3}) {
    SimProfile profile = sim_profiles()[2];
    CostModel model = guessed(profile);
    StepDraw draw(5);
    learn_steps(model, draw, profile, kDocuments, 200);
    learn_steps(model, draw, profile, kChat, 100);
    profile.machine.peak_flops /= factor;
    profile.machine.peak_bytes_per_second /= factor;
    profile.machine.step_overhead_ns = static_cast<TimeNs>(200'000 * factor);
    learn_steps(model, draw, profile, kChat, 40);
    EXPECT_LT(held_out_error(model, draw, profile, kChat), 0.15) << "a factor of " << factor;
    // Of a shape that did not come since, too.
    const StepShape unseen = beside_chunk({}, 512);
    const StepWork work{.tokens = 512, .context = 512, .attended_positions = unseen.prefill_context};
    const auto measured = static_cast<double>(draw.time(profile, work, 0));
    EXPECT_NEAR(model.predict_ns(unseen) / measured, 1, 0.35) << "a factor of " << factor;
  }
}

TEST(CostModel, KnowsWhatTheMachineDidUndisturbed) {
  const SimProfile& profile = sim_profiles().front();
  CostModel model(guess_costs(profile.info), CostModel::Prior::kCalibrated);
  const StepShape step{.prefill_rows = 1, .prefill_tokens = 64};
  const double calibrated = model.predict_ns(step);
  EXPECT_EQ(model.predict_undisturbed_ns(step), calibrated);
  for (int i = 0; i < 30; ++i) model.learn(step, static_cast<TimeNs>(4 * calibrated));
  EXPECT_GT(model.predict_ns(step), 2 * calibrated);
  EXPECT_EQ(model.predict_undisturbed_ns(step), calibrated);
  const StepShape deep{.prefill_rows = 1, .prefill_tokens = 64, .prefill_context = 64 * 100'000};
  const double position_ns = model.undisturbed_position_ns();
  for (int i = 0; i < 30; ++i) model.learn(deep, static_cast<TimeNs>(6 * model.predict_undisturbed_ns(deep)));
  EXPECT_GT(model.coefficients().prefill_position_ns, 2 * position_ns);
  EXPECT_EQ(model.undisturbed_position_ns(), position_ns);
  for (int i = 0; i < 90; ++i) model.learn(step, static_cast<TimeNs>(calibrated / 4));
  EXPECT_LT(model.predict_undisturbed_ns(step), calibrated / 2) << "the calibration was disturbed itself";
}

TEST(CostModel, ASingleSlowStepHardlyCounts) {
  const SimProfile profile = sim_profiles()[2];
  CostModel model = guessed(profile);
  StepDraw draw(6);
  learn_steps(model, draw, profile, kChat, 200, 0.02);
  const DrawnStep step = draw.draw(kChat);
  const double before = model.predict_ns(step.shape);
  model.learn(step.shape, 100 * draw.time(profile, step.work, 0));
  EXPECT_NEAR(model.predict_ns(step.shape) / before, 1, 0.08);
}

TEST(CostModel, PublishesTheMedianErrorOfPredictionsMadeBeforeLearning) {
  const SimProfile profile = sim_profiles()[0];
  CostModel model = guessed(profile);
  EXPECT_EQ(model.error_ratio(), 0);
  const StepShape shape = batch_of(4, 100);
  const double predicted = model.predict_ns(shape);
  model.learn(shape, static_cast<TimeNs>(2 * predicted));
  EXPECT_NEAR(model.error_ratio(), 0.5, 1e-6);
  StepDraw draw(7);
  learn_steps(model, draw, profile, kDecodes, 500, 0.1);
  // The noise alone has a median of 0.067.
  EXPECT_GT(model.error_ratio(), 0.04);
  EXPECT_LT(model.error_ratio(), 0.12);
}

TEST(CostModel, KnowsByHowMuchTimeMixedStepsOverranTheirPrediction) {
  CostModel model(straight(1e7, 1e5), CostModel::Prior::kCalibrated);
  EXPECT_EQ(model.overrun_ns(0.95), 0);
  StepShape mixed = batch_of(4, 100);
  mixed.prefill_rows = 1;
  // One of ten takes 5 ms longer, whatever its size.
  for (int i = 0; i < 400; ++i) {
    mixed.prefill_tokens = i % 3 == 0 ? 10 : 100;
    model.learn(mixed, static_cast<TimeNs>(model.predict_ns(mixed) + (i % 10 == 0 ? 5e6 : 0)));
    model.learn(batch_of(4, 100), static_cast<TimeNs>(model.predict_ns(batch_of(4, 100)) * (i % 2 == 0 ? 3 : 1)));
  }
  EXPECT_NEAR(model.overrun_ns(0.5), 0, 1e4) << "decodes without a chunk do not count";
  EXPECT_NEAR(model.overrun_ns(0.95), 5e6, 1e4);
}

TEST(CostModel, IsMonotoneInEverythingWhateverItLearned) {
  std::mt19937 random(8);
  const auto up_to = [&](uint32_t most) { return std::uniform_int_distribution<uint32_t>(0, most)(random); };
  const auto any_shape = [&] {
    return StepShape{.prefill_rows = 1,
                     .prefill_tokens = up_to(1U << up_to(14)),
                     .decode_rows = 1,
                     .decode_tokens = 1 + up_to(1U << up_to(9)),
                     .logit_tokens = up_to(100),
                     .prefill_context = up_to(1U << 30),
                     .decode_context = up_to(1U << 20)};
  };
  CostModel model(guess_costs({}), CostModel::Prior::kGuess);
  for (int i = 0; i < 3000; ++i) {
    // Times that have nothing to do with the shape.
    model.learn(any_shape(), 1 + static_cast<TimeNs>(std::exp(std::uniform_real_distribution<double>(0, 40)(random))));
    ASSERT_TRUE(model.coefficients().valid());
    const StepShape less = any_shape();
    StepShape more = less;
    more.prefill_tokens += up_to(50);
    more.decode_tokens += up_to(50);
    more.logit_tokens += up_to(50);
    more.prefill_context += up_to(1000);
    more.decode_context += up_to(1000);
    ASSERT_LE(model.predict_ns(less), model.predict_ns(more) * (1 + 1e-12));
    ASSERT_TRUE(std::isfinite(model.predict_ns(more)));
  }
}

TEST(CostModel, IsNotHarmedByTimesThatAreNoTimes) {
  CostModel model(guess_costs({}), CostModel::Prior::kGuess);
  const CostCoefficients before = model.coefficients();
  for (int i = 0; i < 100; ++i) {
    model.learn(batch_of(4, 100), 0);
    model.learn(batch_of(4, 100), -5);
    model.learn({}, 1000);
  }
  EXPECT_EQ(model.coefficients(), before);
  EXPECT_EQ(model.steps_learned(), 0u);
  EXPECT_FALSE(model.knows_scale());
  for (int i = 0; i < 100; ++i) model.learn(batch_of(4, 100), std::numeric_limits<TimeNs>::max());
  for (int i = 0; i < 100; ++i) model.learn(batch_of(4, 100), 1);
  EXPECT_TRUE(model.coefficients().valid());
  // And it finds back.
  const SimProfile profile = sim_profiles()[2];
  StepDraw draw(9);
  learn_steps(model, draw, profile, kChat, 300);
  EXPECT_LT(held_out_error(model, draw, profile, kChat), 0.25);
}

TEST(CostModel, TheSameStepsGiveTheSameNumbers) {
  const SimProfile profile = sim_profiles()[1];
  CostModel a = guessed(profile);
  CostModel b = guessed(profile);
  StepDraw draw_a(10);
  StepDraw draw_b(10);
  learn_steps(a, draw_a, profile, kChat, 200);
  learn_steps(b, draw_b, profile, kChat, 200);
  EXPECT_EQ(a.coefficients(), b.coefficients());
}

TEST(Ridge, IsWhereAStepBeginsToCostNoticeablyMoreThanADecode) {
  const CostModel model(roofline(192), CostModel::Prior::kCalibrated);
  EXPECT_NEAR(model.ridge_tokens({}, 8192), 192 * 1.15, 2);
  EXPECT_NEAR(model.ridge_tokens(batch_of(32, 0), 8192), 192 * 1.15, 2);
  EXPECT_EQ(model.ridge_tokens({}, 100), 100u) << "no more than a step carries";
  // Beyond the ridge already: 384 decodes take twice the time, and a seventh more of that is 57 tokens.
  EXPECT_NEAR(model.ridge_tokens(batch_of(384, 0), 8192), 384 * 1.15, 2);
}

TEST(Ridge, IsSmallWhereEveryTokenCosts) {
  const CostModel model(straight(1e6, 1e6), CostModel::Prior::kCalibrated);
  EXPECT_EQ(model.ridge_tokens({}, 8192), 1u);
  EXPECT_EQ(model.ridge_tokens(batch_of(10, 0), 8192), 11u);
}

TEST(Ridge, TheWorthwhileStepIsTheSmallestWithNearlyTheBestThroughput) {
  // The best step of 512 tokens at most takes (20 + 512) / 512 ms for a token. 0.92 of that speed has T with
  // (20 + T) / T = 1.1293: T = 155.
  const CostModel cpu(straight(20e6, 1e6), CostModel::Prior::kCalibrated);
  EXPECT_NEAR(cpu.worthwhile_tokens(512), 155, 1);
  EXPECT_EQ(cpu.worthwhile_tokens(1), 1u);
  const CostModel gpu(roofline(192), CostModel::Prior::kCalibrated);
  EXPECT_NEAR(gpu.worthwhile_tokens(8192), 0.92 * 192, 2);
  // Every size is as good as every other.
  const CostModel none(straight(0, 1e6), CostModel::Prior::kCalibrated);
  EXPECT_EQ(none.worthwhile_tokens(512), CostModel::kWorthwhileTokensMin);
  // No token costs anything.
  const CostModel flat(straight(1e6, 0), CostModel::Prior::kCalibrated);
  EXPECT_NEAR(flat.worthwhile_tokens(512), 0.92 * 512, 1);
}

// Of a CPU whose tokens per second hardly differ from 32 tokens on: by comparing knots the answer would be anything
// between 20 and 200.
TEST(Ridge, TheWorthwhileStepHardlyChangesWithNoiseInTheMeasurements) {
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> noise(0.93, 1.07);
  uint32_t least = 512;
  uint32_t most = 0;
  for (int round = 0; round < 200; ++round) {
    CostCoefficients c = straight(1.8e6, 0.41e6);
    for (double& time : c.token_ns) time *= noise(random);
    for (size_t i = 1; i < kCostKnotCount; ++i) c.token_ns[i] = std::max(c.token_ns[i], c.token_ns[i - 1]);
    const uint32_t step = CostModel(c, CostModel::Prior::kCalibrated).worthwhile_tokens(512);
    least = std::min(least, step);
    most = std::max(most, step);
  }
  EXPECT_GE(least, CostModel::kWorthwhileTokensMin);
  EXPECT_LT(most, 100u);
}

TEST(Attribution, AddsUpToTheWholeAndPureStepsAreOfOnePhase) {
  const CostModel model(straight(1e7, 1e5), CostModel::Prior::kCalibrated);
  const StepShape decode = batch_of(8, 100);
  EXPECT_EQ(model.attribute(decode, 12345).decode_ns, 12345);
  EXPECT_EQ(model.attribute(beside_chunk({}, 50), 12345).prefill_ns, 12345);
  std::mt19937 random(11);
  const auto up_to = [&](uint32_t most) { return std::uniform_int_distribution<uint32_t>(0, most)(random); };
  for (int i = 0; i < 1000; ++i) {
    const StepShape mixed = beside_chunk(batch_of(1 + up_to(64), up_to(3000)), 1 + up_to(500));
    const auto duration = static_cast<TimeNs>(up_to(1U << 31));
    const CostShares shares = model.attribute(mixed, duration);
    ASSERT_EQ(shares.prefill_ns + shares.decode_ns, duration);
    ASSERT_GE(shares.prefill_ns, 0);
    ASSERT_GE(shares.decode_ns, 0);
  }
}

TEST(Attribution, SharesEquallyWhatBothNeed) {
  // 10 ms for every step, and 0.1 ms for each token: 16 of one phase and 48 of the other have 5 + 1.6 and 5 + 4.8.
  const CostModel model(straight(1e7, 1e5), CostModel::Prior::kCalibrated);
  const CostShares shares = model.attribute(beside_chunk(batch_of(16, 0), 48), 16'400'000);
  EXPECT_NEAR(static_cast<double>(shares.decode_ns), 6.6e6, 1e3);
  EXPECT_NEAR(static_cast<double>(shares.prefill_ns), 9.8e6, 1e3);
}

TEST(Guess, HasARidgeAndIsValidWhateverTheBackendSays) {
  for (const SimProfile& profile : sim_profiles()) EXPECT_TRUE(guess_costs(profile.info).valid());
  EXPECT_TRUE(guess_costs({}).valid());
  BackendInfo odd;
  odd.flops_per_token = -1;
  odd.weight_bytes = -1;
  odd.kv_bytes_per_token = -1;
  odd.output_flops = -1;
  EXPECT_TRUE(guess_costs(odd).valid());
}

}  // namespace
}  // namespace twostroke
