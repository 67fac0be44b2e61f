// fit_costs: the coefficients of the cost model that fit a set of measured steps best. All at once, where CostModel
// learns one by one: for calibration.
//
// Least squares of the relative errors, with no coefficient negative and f never falling (f is fitted as its increments
// from knot to knot), by coordinate descent; weakly drawn towards a guess where the steps say nothing. Beyond the
// largest step that was measured f goes on as it did over its last half.
#pragma once

#include <span>

#include "scheduler/cost/cost_model.h"

namespace twostroke {

struct CostSample {
  StepShape shape;
  TimeNs duration_ns = 0;
};

// `guess` is valid; its scale does not matter. Samples without tokens or time are left out; with none left it is
// returned as it is. Some milliseconds for a hundred samples.
CostCoefficients fit_costs(std::span<const CostSample> samples, const CostCoefficients& guess);

// The median of |predicted - measured| / measured. 0 without samples.
double median_error(std::span<const CostSample> samples, const CostCoefficients& costs);

}  // namespace twostroke
