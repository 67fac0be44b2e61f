// The files that `twostroke serve` leaves in its cache folder (server/calibration_cache.h): what steps cost on this
// machine with a model (scheduler/cost/calibration.h), as JSON. Thread-safety: thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "kernels/status.h"
#include "scheduler/cost/calibration.h"
#include "scheduler/cost/cost_model.h"
#include "scheduler/scheduler.h"
#include "server/simulate/hardware.h"

namespace twostroke::simulate {

// Raised when the layout changes, or what calibrations measure: older files are refused, and measured anew.
constexpr int kCalibrationFormat = 2;

// A machine whose steps take less, or more, is none that serves: the file is damaged.
constexpr double kCalibratedStepNsMin = static_cast<double>(kMeasurableStepNs);
constexpr double kCalibratedStepNsMax = 1e14;  // a day, for the largest step

struct CalibrationFile {
  std::string key;  // of which machine, model and settings it is, in words
  // From the key; "" and 0: it does not say.
  std::string model;      // the name of the model's file
  std::string backend;    // "cpu cpu (avx2, 2 threads)": as set, and by its own name
  std::string processor;  // of the machine
  uint32_t step_tokens_max = 0;
  uint32_t step_rows_max = 0;
  CostCoefficients costs;
};

// Errors name the file: kNotFound; kUnsupported for one of another version; kInvalidArgument for one that is damaged,
// or no regular file.
Result<CalibrationFile> read_calibration(const std::string& path);

// Model, backend and processor, for people; the beginning of a key that names none of them.
std::string calibrated_words(const CalibrationFile& file);

// Why the file may not be of `model`, as --model has it (a model by name, or a file): its step times would be of
// another. By names only: that of a model is to be in the name of the calibrated file, that of a GGUF file to be the
// same. "": it is.
std::string model_doubt(const CalibrationFile& file, const std::string& model);
// Likewise of a machine: what a processor takes, no accelerator does.
std::string machine_doubt(const CalibrationFile& file, const Hardware& hardware);
// Likewise of the limits of a step, which shape what a server does.
std::string limits_doubt(const CalibrationFile& file, const SchedulerLimits& limits);

// The text of such a file; `source` names it in errors.
Result<CalibrationFile> parse_calibration(std::string_view json, const std::string& source);
std::string calibration_text(const std::string& key, const CostCoefficients& costs);

}  // namespace twostroke::simulate
