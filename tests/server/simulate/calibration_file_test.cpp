#include "server/simulate/calibration_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/server/simulate/simulated.h"

namespace twostroke::simulate {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// 5 ms for every step, 1 ms more for each token.
json calibration() {
  json file = {{"format", 1},     {"key", "a model on a machine"}, {"knots", kCostKnots},
               {"logit_ns", 0.0}, {"prefill_position_ns", 0.0},    {"decode_position_ns", 0.0}};
  for (const uint32_t tokens : kCostKnots) file["token_ns"].push_back(5e6 + 1e6 * tokens);
  return file;
}

TEST(CalibrationFile, GivesTheTimesThatWereMeasured) {
  const Result<CalibrationFile> file = parse_calibration(calibration().dump(), "c.json");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->key, "a model on a machine");

  Simulated simulated("CPU-2", "SmolLM2-135M");
  simulated.options.limits.costs = file->costs;
  simulated.options.calibrated = [&](const StepShape& shape) { return predict_ns(file->costs, shape) * 1e-9; };
  const SimulationResult result = simulated.run({{.time = 0, .prompt_tokens = 100, .output_tokens = 11}});
  EXPECT_NEAR(result.ttft.mean_seconds(), 0.105, 1e-6);
  EXPECT_NEAR(result.tpot.mean_seconds(), 0.006, 1e-6);
}

TEST(CalibrationFile, OthersAreRefused) {
  const auto message = [](const json& file) { return parse_calibration(file.dump(), "c.json").status().message(); };
  EXPECT_THAT(message(json::array()), HasSubstr("c.json is no calibration"));
  json file = calibration();
  file["knots"] = {1, 2};
  EXPECT_THAT(message(file), HasSubstr("no calibration"));
  file = calibration();
  file["token_ns"][3] = "fast";
  EXPECT_THAT(message(file), HasSubstr("no calibration"));
  file = calibration();
  file["logit_ns"] = -1;
  EXPECT_THAT(message(file), HasSubstr("no calibration"));
  file = calibration();
  file.erase("key");
  EXPECT_THAT(message(file), HasSubstr("no calibration"));
  EXPECT_EQ(read_calibration("none.json").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace twostroke::simulate
