// The files that `twostroke serve` leaves in its cache folder (server/calibration_cache.h): what steps cost on this
// machine with a model (scheduler/cost/calibration.h), as JSON. Thread-safety: thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "kernels/status.h"
#include "scheduler/cost/cost_model.h"

namespace twostroke::simulate {

// Raised when the layout changes, or what calibrations measure: older files are refused, and measured anew.
constexpr int kCalibrationFormat = 2;

struct CalibrationFile {
  std::string key;    // of which machine, model and settings it is, in words
  std::string model;  // the name of the model's file, from the key; "": it has none
  CostCoefficients costs;
};

// Errors name the file: kNotFound; kInvalidArgument for one that is damaged or of another version.
Result<CalibrationFile> read_calibration(const std::string& path);

// Why the file may not be of `model`, as --model has it (a model by name, or a file): its step times would be of
// another. By names only: that of a model is to be in the name of the calibrated file, that of a GGUF file to be the
// same. "": it is.
std::string model_doubt(const CalibrationFile& file, const std::string& model);

// The text of such a file; `source` names it in errors.
Result<CalibrationFile> parse_calibration(std::string_view json, const std::string& source);
std::string calibration_text(const std::string& key, const CostCoefficients& costs);

}  // namespace twostroke::simulate
