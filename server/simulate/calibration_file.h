// Calibrations that `twostroke serve` leaves in its cache folder: what steps cost on this machine with a model
// (scheduler/cost/calibration.h). Thread-safety: thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "kernels/status.h"
#include "scheduler/cost/cost_model.h"

namespace twostroke::simulate {

struct CalibrationFile {
  std::string key;  // of which machine, model and settings it is, in words
  CostCoefficients costs;
};

// Errors name the file: kNotFound; kInvalidArgument for one that is damaged or of another version.
Result<CalibrationFile> read_calibration(const std::string& path);

// The text of such a file; `source` names it in errors.
Result<CalibrationFile> parse_calibration(std::string_view json, const std::string& source);

}  // namespace twostroke::simulate
