#include "server/calibration_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "backend/sim/sim_backend.h"

namespace twostroke {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

// A folder of its own for each test, gone afterwards.
class CalibrationCache : public ::testing::Test {
 protected:
  CalibrationCache() : folder_(fs::temp_directory_path() / ("twostroke_calibration_test_" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    costs_.logit_ns = 1.0 / 3;
    costs_.decode_position_ns = 12.5;
    for (size_t i = 0; i < kCostKnotCount; ++i) costs_.token_ns[i] = 1e7 + 1234.5678 * static_cast<double>(i);
  }
  ~CalibrationCache() override { fs::remove_all(folder_); }

  fs::path file() const { return fs::directory_iterator(folder_)->path(); }
  std::string text() const {
    std::ifstream stream(file());
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  void write(const std::string& text) const { std::ofstream(file()) << text; }
  std::optional<CostCoefficients> load(const std::string& key = "a key") const {
    return load_calibration(folder_.string(), key);
  }

  const fs::path folder_;
  CostCoefficients costs_;
};

TEST_F(CalibrationCache, GivesBackWhatWasKept) {
  EXPECT_FALSE(load());
  store_calibration(folder_.string(), "a key", costs_);
  ASSERT_TRUE(load());
  EXPECT_EQ(*load(), costs_) << "to the last bit";
  EXPECT_FALSE(load("another key"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1) << "no part of it is left";
}

TEST_F(CalibrationCache, IgnoresAFileThatIsDamagedOrOfSomethingElse) {
  store_calibration(folder_.string(), "a key", costs_);
  const std::string good = text();
  const auto with = [&](const std::string& what, const std::string& instead) {
    std::string changed = good;
    const size_t at = changed.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    return changed.replace(at, what.size(), instead);
  };
  const std::string broken[] = {
      "",
      "{",
      "[]",
      "\xff\xfe",
      good.substr(0, good.size() / 2),
      with("a key", "b key"),
      with("\"format\": 2", "\"format\": 1"),
      with("\"logit_ns\": 0", "\"logit_ns\": -1"),
      with("\"logit_ns\"", "\"logit\""),
      with("\"decode_position_ns\": 12.5", "\"decode_position_ns\": null"),
      with("\"decode_position_ns\": 12.5", "\"decode_position_ns\": 1e300"),
      with("8192", "8193"),
      with("10000000.0", "1e300"),
      with("10000000.0", "1e-300"),
      std::string(100'000, ' ') + good,
  };
  for (const std::string& text : broken) {
    write(text);
    EXPECT_FALSE(load()) << text.substr(0, 80);
  }
  write(good);
  EXPECT_TRUE(load());
  CostCoefficients endless = costs_;
  endless.token_ns.back() = 1e300;
  store_calibration(folder_.string(), "a key", endless);
  EXPECT_FALSE(load()) << "a machine that slow refuses every objective";
  store_calibration(folder_.string(), "a key", costs_);
}

// What is logged while it lives.
class Log {
 public:
  Log() : before_(spdlog::default_logger()) {
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(lines_);
    auto logger = std::make_shared<spdlog::logger>("test", std::move(sink));
    logger->set_pattern("%l %v");
    spdlog::set_default_logger(std::move(logger));
  }
  ~Log() { spdlog::set_default_logger(before_); }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  std::string text() const { return lines_.str(); }

 private:
  std::ostringstream lines_;
  std::shared_ptr<spdlog::logger> before_;
};

TEST_F(CalibrationCache, TheLogSaysWhyAFileIsMeasuredAnew) {
  store_calibration(folder_.string(), "a key", costs_);
  const std::string good = text();
  const auto reason = [&](const std::string& what, const std::string& instead) {
    std::string changed = good;
    write(changed.replace(changed.find(what), what.size(), instead));
    const Log log;
    EXPECT_FALSE(load());
    return log.text();
  };
  EXPECT_THAT(reason("\"format\": 2", "\"format\": 1"),
              MatchesRegex("warning the calibration in '.*json' is of another version: measured anew\n"));
  EXPECT_THAT(reason("\"logit_ns\"", "\"logit\""), HasSubstr("' is damaged: measured anew"));
  EXPECT_THAT(reason("a key", "b key"), HasSubstr("' is of another model, machine or version: measured anew"));
  write(good);
  const Log log;
  EXPECT_TRUE(load());
  EXPECT_FALSE(load("another key"));
  EXPECT_EQ(log.text(), "") << "no file is nothing to tell of";
}

TEST_F(CalibrationCache, WhatIsNoFileIsWarnedOfAndNeverWaitedFor) {
  store_calibration(folder_.string(), "a key", costs_);
  const fs::path place = file();
  fs::remove(place);
  ASSERT_EQ(mkfifo(place.c_str(), 0600), 0);
  {
    const Log log;
    EXPECT_FALSE(load());
    EXPECT_THAT(log.text(), HasSubstr("warning the calibration in '" + place.string() + "' is no regular file"));
  }
  store_calibration(folder_.string(), "a key", costs_);
  EXPECT_TRUE(load()) << "a file has taken its place";
  fs::remove(place);
  fs::create_directory(place);
  const Log log;
  EXPECT_FALSE(load());
  EXPECT_THAT(log.text(), HasSubstr("is no regular file"));
}

TEST_F(CalibrationCache, OfABusyMachineTheLogClaimsNoPrecisionAndSaysWhatFollows) {
  Calibration calibration;
  calibration.costs = costs_;
  calibration.samples.resize(10);
  calibration.error_ratio = 0.02;
  calibration.duration_ns = 2500 * kMillisecondNs;
  {
    const Log log;
    log_calibration(calibration, 512, /*idle=*/true);
    EXPECT_THAT(log.text(), HasSubstr("info calibrated in 2.5 s with 10 kinds of step: a decode takes 10.00 ms, "));
    EXPECT_THAT(log.text(), HasSubstr("; off by 2 % (median)"));
    EXPECT_THAT(log.text(), Not(HasSubstr("warning")));
  }
  const Log log;
  log_calibration(calibration, 512, /*idle=*/false);
  EXPECT_THAT(log.text(), HasSubstr("a decode takes 10.00 ms, "));
  EXPECT_THAT(log.text(), Not(HasSubstr("off by")));
  EXPECT_THAT(log.text(), HasSubstr("warning the machine was busy during the calibration: predicted times may be far "
                                    "off until requests have run"));
  EXPECT_THAT(log.text(), HasSubstr("the next start measures again"));
}

TEST_F(CalibrationCache, AFolderThatCannotBeWrittenIsNoFault) {
  std::ofstream(folder_.string()) << "a file";
  store_calibration((folder_ / "below").string(), "a key", costs_);
  EXPECT_FALSE(load_calibration((folder_ / "below").string(), "a key"));
  fs::remove(folder_);
}

TEST_F(CalibrationCache, TheKeyChangesWithAllThatMatters) {
  fs::create_directories(folder_);
  const std::string model = (folder_ / "m.gguf").string();
  std::ofstream(model) << "weights";
  ServeConfig config;
  config.model = model;
  const BackendInfo info{.name = "cpu (avx2, 2 threads)", .block_size = 16};
  const std::string key = calibration_key(config, info);
  EXPECT_EQ(calibration_key(config, info), key);
  const auto differs = [&](auto change) {
    ServeConfig other = config;
    change(other);
    return calibration_key(other, info) != key;
  };
  EXPECT_TRUE(differs([](ServeConfig& c) { c.threads = 1; }));
  EXPECT_TRUE(differs([](ServeConfig& c) { c.kv_dtype = "f32"; }));
  EXPECT_TRUE(differs([](ServeConfig& c) { c.backend = "./plugin.so"; }));
  EXPECT_FALSE(differs([](ServeConfig& c) { c.port = 1; }));
  EXPECT_TRUE(differs([](ServeConfig& c) { c.activations = "f32"; }));
  EXPECT_NE(calibration_key(config, {.name = "cpu (scalar, 2 threads)", .block_size = 16}), key);
  for (int32_t BackendInfo::*const member :
       {&BackendInfo::context_max, &BackendInfo::block_size, &BackendInfo::block_count, &BackendInfo::step_tokens_max,
        &BackendInfo::step_rows_max}) {
    BackendInfo other = info;
    other.*member += 1;
    EXPECT_NE(calibration_key(config, other), key);
  }
  std::ofstream(model) << "other weights";
  EXPECT_NE(calibration_key(config, info), key);
}

TEST_F(CalibrationCache, ABackendThatFailsIsNotCalibratedAndNothingIsKept) {
  const auto backend = std::move(*SimBackend::create({}));
  backend->interrupt();
  ServeConfig config;
  config.calibration_cache = folder_.string();
  EXPECT_FALSE(calibrated_costs(config, *backend));
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(CalibrationCache, ASecondStartRunsNoSteps) {
  SimOptions options;
  options.pace = SimPace::kReal;
  options.machine.step_overhead_ns = 100'000;
  const auto backend = std::move(*SimBackend::create(std::move(options)));
  ServeConfig config;
  config.calibration_cache = folder_.string();
  config.calibration_ms = 100;
  store_calibration(folder_.string(), calibration_key(config, backend->info()), costs_);
  EXPECT_EQ(calibrated_costs(config, *backend), costs_);
  EXPECT_EQ(backend->steps(), 0u);
  config.calibration_ms = 0;
  EXPECT_FALSE(calibrated_costs(config, *backend)) << "switched off";
}

}  // namespace
}  // namespace twostroke
