// calibrate: what a step costs on this machine with this model, found by running a few dozen made-up ones before the
// first request: chunks of growing size, small ones beside decodes, chunks and decodes at depth, batches of decodes.
// Short by design: the cost model learns the rest from the steps of real load.
//
// Each kind is run up to kCalibrationRepeats times, decodes a few steps on end, as far as there is time, of which none
// gets more than its part: short steps are repeated more often. The costs are fitted to the medians, made longer by
// what all steps took on average beyond those of their kinds. What would not fit into the time that is left is not
// begun; the largest chunks are the first to go, and one decode is always measured.
//
// Thread-safety: one thread, before the backend serves anyone (see step_probe.h).
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "kernels/clock.h"
#include "kernels/status.h"
#include "scheduler/cost/cost_fit.h"

namespace twostroke {

constexpr int kCalibrationRepeats = 12;
constexpr TimeNs kMeasurableStepNs = 1'000;  // a step that takes less takes no time

struct CalibrationOptions {
  TimeNs time_max_ns = 2'500 * kMillisecondNs;  // about; one step may exceed it
  uint32_t decode_rows_max = 64;                // in a step
};

struct Calibration {
  CostCoefficients costs;
  std::vector<CostSample> samples;  // what was measured
  double error_ratio = 0;           // how far the costs miss these samples themselves, in the median
  TimeNs duration_ns = 0;
};

// Errors: those of the backend; kUnsupported when its steps take no time that could be measured, as those of a
// simulation without pace.
Result<Calibration> calibrate(Backend& backend, Clock& clock, const CalibrationOptions& options = {});

}  // namespace twostroke
