#include "server/calibration_cache.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "kernels/cpu/worker_pool.h"
#include "scheduler/cost/calibration.h"
#include "server/ops/logging.h"
#include "server/simulate/calibration_file.h"
#include "server/version.h"

namespace twostroke {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kCalibrationBytesMax = 64 << 10;

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

// How long this process's threads have stood waiting for a processor, in seconds. 0 where the system does not say.
double waited_seconds() {
  double waited_ns = 0;
  std::error_code error;
  for (fs::directory_iterator task("/proc/self/task", error), end; !error && task != end; task.increment(error)) {
    std::ifstream file(task->path() / "schedstat");  // time run, time waited, slices; in ns
    double ran_ns = 0;
    double task_waited_ns = 0;
    if (file >> ran_ns >> task_waited_ns) waited_ns += task_waited_ns;
  }
  return waited_ns * 1e-9;
}

std::optional<CostCoefficients> calibrate_now(const ServeConfig& config, Backend& backend, bool& keep) {
  const auto rows = static_cast<uint32_t>(backend.info().step_rows_max);
  const double waited_before = waited_seconds();
  const Result<Calibration> calibration =
      calibrate(backend, steady_clock(),
                {.time_max_ns = config.calibration_ms * kMillisecondNs, .decode_rows_max = std::min(rows, 64U)});
  if (!calibration.ok()) {
    spdlog::info("not calibrated: {}; step times are learned from the first requests",
                 log_text(calibration.status().message()));
    return std::nullopt;
  }
  const double waiting = (waited_seconds() - waited_before) / to_seconds(calibration->duration_ns);
  spdlog::debug("threads waited for a processor during {:.1f} % of it", 100 * waiting);
  keep = calibration->error_ratio <= kKeptCalibrationErrorMax && waiting <= kKeptCalibrationWaitingMax;
  log_calibration(*calibration, static_cast<uint32_t>(backend.info().step_tokens_max), keep);
  return calibration->costs;
}

}  // namespace

void log_calibration(const Calibration& calibration, uint32_t step_tokens_max, bool idle) {
  const CostModel model(calibration.costs, CostModel::Prior::kCalibrated);
  const std::string error =
      idle ? fmt::format("; off by {:.0f} % (median)", 100 * calibration.error_ratio) : std::string();
  spdlog::info(
      "calibrated in {:.1f} s with {} kinds of step: a decode takes {:.2f} ms, a step of {} tokens is "
      "worthwhile{}",
      to_seconds(calibration.duration_ns), calibration.samples.size(), 1e-6 * calibration.costs.token_ns[0],
      model.worthwhile_tokens(step_tokens_max), error);
  if (idle) return;
  spdlog::warn(
      "the machine was busy during the calibration: predicted times may be far off until requests have run, and it is "
      "not kept: the next start measures again");
}

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
  const auto ignore = [&path](std::string_view reason) {
    spdlog::warn("the calibration in '{}' {}: measured anew", log_text(path.string()), reason);
    return std::nullopt;
  };
  std::error_code error;
  const fs::file_status found = fs::status(path, error);
  if (found.type() == fs::file_type::not_found) return std::nullopt;
  if (error) return ignore("cannot be read (" + error.message() + ")");
  if (!fs::is_regular_file(found)) return ignore("is no regular file");
  const uintmax_t bytes = fs::file_size(path, error);
  if (error) return ignore("cannot be read (" + error.message() + ")");
  if (bytes > kCalibrationBytesMax) return ignore("is too large");
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return ignore("cannot be read");
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const auto file = simulate::parse_calibration(text, path.string());
  if (file.status().code() == StatusCode::kUnsupported) return ignore("is of another version");
  if (!file.ok()) return ignore("is damaged");
  if (file->key != key) return ignore("is of another model, machine or version");
  return file->costs;
}

void store_calibration(const std::string& folder, const std::string& key, const CostCoefficients& costs) {
  const fs::path path = path_of(folder, key);
  // Renamed when complete: another server that starts at the same time reads all of it or nothing.
  const fs::path part = path.string() + "." + std::to_string(getpid()) + ".part";
  std::error_code error;
  fs::create_directories(folder, error);
  std::ofstream file(part, std::ios::binary);
  file << simulate::calibration_text(key, costs);
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
