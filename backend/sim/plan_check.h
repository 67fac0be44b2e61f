// What a StepPlan promises to a backend, checked: sizes, ranges and agreement between its parts. A real backend relies
// on all of this; the sim checks it, so that a scheduler that breaks a promise is found by its tests.
#pragma once

#include <string>

#include "backend/backend.h"
#include "backend/step.h"

namespace twostroke {

// Empty when all is well; otherwise what is broken, naming the row.
std::string check_plan(const StepPlan& plan, const BackendInfo& info);

}  // namespace twostroke
