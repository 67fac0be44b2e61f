// StepPlan and StepResult, into and out of the C structs of plugin.h.
//
// Thread-safety: one thread. Memory grows to the largest step and is reused.
#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/plugin.h"
#include "backend/step.h"

namespace twostroke {

class PluginStep {
 public:
  // The C view of `plan`; it borrows from the plan and from this object, until the next call.
  const twostroke_step& convert(const StepPlan& plan);

 private:
  std::vector<twostroke_row> rows_;
  std::vector<twostroke_sampling> samplings_;  // of the rows that sample
  std::vector<twostroke_bias> biases_;         // of all rows
  std::vector<twostroke_copy> copies_;
  twostroke_step step_ = {};
};

// Copies what a plug-in returned for `plan` into `result`. Returns what is impossible about it, or an empty string;
// then every token is in the vocabulary and allowed by its row's mask, and every log-probability and every state that
// was asked for is there and finite.
std::string read_plugin_result(const twostroke_result* returned, const StepPlan& plan, const BackendInfo& info,
                               StepResult& result);

}  // namespace twostroke
