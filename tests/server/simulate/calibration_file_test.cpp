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
  json file = {{"format", kCalibrationFormat}, {"key", "a model on a machine"},
               {"knots", kCostKnots},          {"logit_ns", 0.0},
               {"prefill_position_ns", 0.0},   {"decode_position_ns", 0.0}};
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

TEST(CalibrationFile, SaysWhereItMayBeOfAnotherModel) {
  json file = calibration();
  const auto doubt = [&file](const std::string& key, const std::string& model) {
    file["key"] = key;
    return model_doubt(*parse_calibration(file.dump(), "c.json"), model);
  };
  const std::string key =
      "twostroke 1.2; model SmolLM2-135M-Instruct, tuned.Q4_1.gguf, 97 bytes, changed 12; backend cpu; kv f16";
  EXPECT_EQ(doubt(key, "SmolLM2-135M"), "");
  EXPECT_EQ(doubt(key, "smollm2-135m"), "");
  EXPECT_EQ(doubt(key, "/some/where/SmolLM2-135M-Instruct, tuned.Q4_1.gguf"), "");
  EXPECT_THAT(doubt(key, "/some/where/SmolLM2-135M.gguf"), HasSubstr("'SmolLM2-135M-Instruct, tuned.Q4_1.gguf'"));
  EXPECT_THAT(doubt(key, "Llama-3.1-8B"), HasSubstr("'Llama-3.1-8B' is simulated"));
  EXPECT_THAT(doubt("a model on a machine", "Llama-3.1-8B"), HasSubstr("does not say of which model"));
  EXPECT_THAT(doubt("x; model ; threads 2, 7 bytes, changed 1", "x"), HasSubstr("does not say of which model"));
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
  file["format"] = 1;
  EXPECT_THAT(message(file), HasSubstr("c.json is a calibration of another version"));
  file = calibration();
  file.erase("format");
  EXPECT_THAT(message(file), HasSubstr("no calibration"));
  file = calibration();
  file["token_ns"][19] = 1e300;
  EXPECT_THAT(message(file), HasSubstr("no calibration")) << "a machine that slow refuses everything";
  file = calibration();
  file.erase("key");
  EXPECT_THAT(message(file), HasSubstr("no calibration"));
  EXPECT_EQ(read_calibration("none.json").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace twostroke::simulate
