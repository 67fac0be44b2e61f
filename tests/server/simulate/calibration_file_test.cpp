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

constexpr const char* kServersKey =
    "twostroke 1.2; model m.gguf, 97 bytes, changed -46416; backend cpu cpu (avx2, 2 threads) ; threads 2 of 2; "
    "activations int8; kv f16, blocks of 16; steps of 512 tokens and 64 rows; context of 8192 in 512 blocks; processor "
    "Xeon 7";

CalibrationFile keyed(const std::string& key) {
  json file = calibration();
  file["key"] = key;
  return *parse_calibration(file.dump(), "c.json");
}

TEST(CalibrationFile, SaysInWordsWhatItIsOf) {
  EXPECT_EQ(calibrated_words(keyed(kServersKey)), "m.gguf, cpu (avx2, 2 threads), Xeon 7");
  EXPECT_EQ(calibrated_words(keyed("a model on a machine")), "a model on a machine");
  EXPECT_EQ(calibrated_words(keyed(std::string(300, 'k'))).size(), 200u);
  EXPECT_EQ(calibrated_words(keyed("x; backend")), "x; backend");
}

TEST(CalibrationFile, DoubtsThatAnAcceleratorTakesAsLongAsAProcessor) {
  const auto doubt = [](const std::string& key, const char* hardware) {
    return machine_doubt(keyed(key), *find_hardware(hardware));
  };
  EXPECT_EQ(doubt(kServersKey, "CPU-2"), "");
  EXPECT_EQ(doubt(kServersKey, "L4"),
            "the calibration is of a processor, cpu (avx2, 2 threads), and L4 is none: its step times are those of "
            "another machine");
  EXPECT_NE(doubt("x; backend cpu", "H100"), "");
  EXPECT_EQ(doubt("x; backend ./cpu.so gpu (1 stream) ; threads 1", "L4"), "") << "a plug-in may drive anything";
  EXPECT_EQ(doubt("a model on a machine", "L4"), "");
  const std::string own = R"({"name": "L4", "peak_tflops": 1, "memory_gb": 9, "bandwidth_gb_per_s": 9})";
  EXPECT_EQ(machine_doubt(keyed(kServersKey), *parse_hardware(own, "own.json")), "") << "which does not say what it is";
}

TEST(CalibrationFile, SaysWhereTheLimitsOfStepsDiffer) {
  const auto doubt = [](const std::string& key, uint32_t tokens, uint32_t running) {
    SchedulerLimits limits;
    limits.max_step_tokens = tokens;
    limits.max_running = running;
    return limits_doubt(keyed(key), limits);
  };
  EXPECT_EQ(doubt(kServersKey, 512, 64), "");
  EXPECT_THAT(doubt(kServersKey, 2048, 64), HasSubstr("steps of 512 tokens and 64 sequences, and 2048 and 64 are"));
  EXPECT_THAT(doubt(kServersKey, 512, 256), HasSubstr("give --max-step-tokens 512 --max-running 64"));
  EXPECT_EQ(doubt("x; steps of 32 tokens and 32 rows", 32, 64), "") << "no more sequences than tokens";
  for (const char* key : {"a model", "x; steps of 512", "x; steps of 99999999999 tokens and 64 rows", "x; steps of "}) {
    EXPECT_EQ(doubt(key, 2048, 256), "") << key;
  }
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
  for (size_t i = 0; i < 3; ++i) file["token_ns"][i] = 1e-300;
  EXPECT_THAT(message(file), HasSubstr("or is damaged")) << "a machine that fast does anything";
  file["token_ns"][0] = file["token_ns"][1] = file["token_ns"][2] = kCalibratedStepNsMin;
  EXPECT_EQ(message(file), "");
  file = calibration();
  file.erase("key");
  EXPECT_THAT(message(file), HasSubstr("no calibration"));
  EXPECT_EQ(read_calibration("none.json").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace twostroke::simulate
