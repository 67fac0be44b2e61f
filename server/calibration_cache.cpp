#include "server/calibration_cache.h"

#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/cpu/worker_pool.h"
#include "scheduler/cost/calibration.h"
#include "server/ops/logging.h"
#include "server/version.h"

namespace twostroke {
namespace {

namespace fs = std::filesystem;

constexpr int kCalibrationFormat = 1;
constexpr uintmax_t kCalibrationBytesMax = 64 << 10;
constexpr double kCalibratedStepNsMax = 1e14;  // a day: no machine that serves takes longer for the largest step

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

// FNV-1a: a file's name only, what is in the file is compared.
std::string name_of(const std::string& key) {
  uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  char name[64];
  std::snprintf(name, sizeof name, "calibration-%016llx.json", static_cast<unsigned long long>(hash));
  return name;
}

fs::path path_of(const std::string& folder, const std::string& key) { return fs::path(folder) / name_of(key); }

nlohmann::json to_json(const std::string& key, const CostCoefficients& costs) {
  return {{"format", kCalibrationFormat},
          {"key", key},
          {"knots", kCostKnots},
          {"token_ns", costs.token_ns},
          {"logit_ns", costs.logit_ns},
          {"prefill_position_ns", costs.prefill_position_ns},
          {"decode_position_ns", costs.decode_position_ns}};
}

// Why the text is no calibration for this key; empty when it is one.
std::string read_json(const std::string& text, const std::string& key, CostCoefficients& costs) {
  const nlohmann::json file = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!file.is_object()) return "it is damaged";
  const auto number = [&file](const char* name, double& value) {
    const auto found = file.find(name);
    if (found == file.end() || !found->is_number()) return false;
    value = found->get<double>();
    return true;
  };
  if (file.value("format", nlohmann::json()) != kCalibrationFormat) return "it has another format";
  if (file.value("key", nlohmann::json()) != key) return "it is of another model, machine or version";
  if (file.value("knots", nlohmann::json()) != nlohmann::json(kCostKnots)) return "it has another format";
  const nlohmann::json tokens = file.value("token_ns", nlohmann::json());
  bool complete = tokens.is_array() && tokens.size() == kCostKnotCount;
  for (size_t i = 0; complete && i < kCostKnotCount; ++i) {
    complete = tokens[i].is_number();
    if (complete) costs.token_ns[i] = tokens[i].get<double>();
  }
  complete = complete && number("logit_ns", costs.logit_ns) &&
             number("prefill_position_ns", costs.prefill_position_ns) &&
             number("decode_position_ns", costs.decode_position_ns);
  const bool plausible =
      complete && costs.valid() && costs.token_ns.back() <= kCalibratedStepNsMax &&
      std::max({costs.logit_ns, costs.prefill_position_ns, costs.decode_position_ns}) <= kCalibratedStepNsMax;
  return plausible ? std::string() : "it is damaged";
}

// How often the system has taken a processor from this process that was not done with it.
int64_t lost_processors() {
  struct rusage usage {};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_nivcsw : 0;
}

std::optional<CostCoefficients> calibrate_now(const ServeConfig& config, Backend& backend, bool& keep) {
  const auto rows = static_cast<uint32_t>(backend.info().step_rows_max);
  const int64_t lost_before = lost_processors();
  const Result<Calibration> calibration =
      calibrate(backend, steady_clock(),
                {.time_max_ns = config.calibration_ms * kMillisecondNs, .decode_rows_max = std::min(rows, 64U)});
  if (!calibration.ok()) {
    spdlog::info("not calibrated: {}; step times are learned from the first requests",
                 log_text(calibration.status().message()));
    return std::nullopt;
  }
  const CostModel model(calibration->costs, CostModel::Prior::kCalibrated);
  const auto most = static_cast<uint32_t>(backend.info().step_tokens_max);
  spdlog::info(
      "calibrated in {:.1f} s with {} steps: a decode takes {:.2f} ms, a step of {} tokens is worthwhile; off by "
      "{:.0f} "
      "% (median)",
      to_seconds(calibration->duration_ns), calibration->samples.size(), 1e-6 * calibration->costs.token_ns[0],
      model.worthwhile_tokens(most), 100 * calibration->error_ratio);
  const double switches = static_cast<double>(lost_processors() - lost_before) / to_seconds(calibration->duration_ns);
  spdlog::debug("{:.0f} processors a second were lost to others meanwhile", switches);
  keep = calibration->error_ratio <= kKeptCalibrationErrorMax && switches <= kKeptCalibrationSwitchesMax;
  if (!keep) spdlog::warn("the machine was busy during the calibration: it is used, but not kept");
  return calibration->costs;
}

}  // namespace

std::string default_calibration_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/') {
    return (fs::path(cache) / "twostroke").string();
  }
  const char* home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? (fs::path(home) / ".cache" / "twostroke").string() : "none";
}

std::string calibration_key(const ServeConfig& config, const BackendInfo& info) {
  std::error_code error;
  const fs::path model = fs::weakly_canonical(config.model, error);
  const uintmax_t bytes = fs::file_size(config.model, error);
  const auto changed = fs::last_write_time(config.model, error).time_since_epoch().count();
  std::string key = std::string("twostroke ") + kVersion;
  key += "; model " + model.filename().string() + ", " + std::to_string(bytes) + " bytes, changed " +
         std::to_string(changed);
  key += "; backend " + config.backend + " " + info.name + " " + config.plugin_args;
  key += "; threads " + std::to_string(config.threads) + " of " + std::to_string(allowed_processors());
  key += "; activations " + config.activations;
  key += "; kv " + config.kv_dtype + ", blocks of " + std::to_string(info.block_size);
  // What a calibration can reach: a larger step or a longer context than it had is not in its costs.
  key += "; steps of " + std::to_string(info.step_tokens_max) + " tokens and " + std::to_string(info.step_rows_max) +
         " rows; context of " + std::to_string(info.context_max) + " in " + std::to_string(info.block_count) +
         " blocks";
  key += "; processor " + processor_name();
  return key;
}

std::optional<CostCoefficients> load_calibration(const std::string& folder, const std::string& key) {
  const fs::path path = path_of(folder, key);
  std::error_code error;
  const uintmax_t bytes = fs::file_size(path, error);
  if (error) return std::nullopt;
  std::string problem = bytes > kCalibrationBytesMax ? "it is too large" : std::string();
  CostCoefficients costs;
  if (problem.empty()) {
    std::ifstream file(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    problem = file.good() || file.eof() ? read_json(text, key, costs) : "it cannot be read";
  }
  if (problem.empty()) return costs;
  spdlog::warn("the calibration in '{}' is ignored: {}", log_text(path.string()), problem);
  return std::nullopt;
}

void store_calibration(const std::string& folder, const std::string& key, const CostCoefficients& costs) {
  const fs::path path = path_of(folder, key);
  // Renamed when complete: another server that starts at the same time reads all of it or nothing.
  const fs::path part = path.string() + "." + std::to_string(getpid()) + ".part";
  std::error_code error;
  fs::create_directories(folder, error);
  std::ofstream file(part, std::ios::binary);
  file << to_json(key, costs).dump(1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  file.close();
  if (file.good()) fs::rename(part, path, error);
  if (file.good() && !error) return;
  spdlog::warn("the calibration could not be kept in '{}': {}", log_text(path.string()),
               error ? error.message() : "writing failed");
  fs::remove(part, error);
}

std::optional<CostCoefficients> calibrated_costs(const ServeConfig& config, Backend& backend) {
  if (config.calibration_ms == 0) return std::nullopt;
  const std::string folder = config.calibration_cache.empty() ? default_calibration_folder() : config.calibration_cache;
  const std::string key = calibration_key(config, backend.info());
  if (folder != "none") {
    if (const auto costs = load_calibration(folder, key)) {
      spdlog::info("step times are known from an earlier calibration: a decode takes {:.2f} ms",
                   1e-6 * costs->token_ns[0]);
      return costs;
    }
  }
  bool keep = false;
  const auto costs = calibrate_now(config, backend, keep);
  if (keep && folder != "none") store_calibration(folder, key, *costs);
  return costs;
}

}  // namespace twostroke
