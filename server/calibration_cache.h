// What steps cost on this machine with this model: calibrated once (scheduler/cost/calibration.h), then read from a
// small file in the cache folder. Its name and its contents hold everything that the answer depends on: the model file
// (its size and time), backend, KV type, threads, processor and version. A file that is damaged or of something else is
// ignored, with a warning, and written anew.
//
// Thread-safety: one thread, at start.
#pragma once

#include <optional>
#include <string>

#include "backend/backend.h"
#include "config/config.h"
#include "scheduler/cost/calibration.h"
#include "scheduler/cost/cost_model.h"

namespace twostroke {

// A calibration that misses its own steps by more, in the median, or during which threads of this process stood waiting
// for a processor for more of the time, says that the machine was busy: it is used, but not kept.
constexpr double kKeptCalibrationErrorMax = 0.15;
// An idle machine has up to 0.05, one more busy process makes it 0.8.
constexpr double kKeptCalibrationWaitingMax = 0.15;

// Where files go without a setting: $XDG_CACHE_HOME/twostroke or ~/.cache/twostroke; "none" without a home.
std::string default_calibration_folder();

// One text of all that a calibration depends on.
std::string calibration_key(const ServeConfig& config, const BackendInfo& info);

// Nothing where there is no file for the key, or one that cannot be used (with a warning in the log).
std::optional<CostCoefficients> load_calibration(const std::string& folder, const std::string& key);
// Makes the folder where there is none. A failure is a warning in the log: serving needs no file.
void store_calibration(const std::string& folder, const std::string& key, const CostCoefficients& costs);

// What came of a calibration, for a log. `idle`: whether the machine was, so that how far the costs are off means
// something.
void log_calibration(const Calibration& calibration, uint32_t step_tokens_max, bool idle);

// From the file, or by calibrating now; nothing where that is switched off or impossible. Logs what came of it.
std::optional<CostCoefficients> calibrated_costs(const ServeConfig& config, Backend& backend);

}  // namespace twostroke
