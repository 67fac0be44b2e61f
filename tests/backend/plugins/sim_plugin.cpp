// The sim backend as a plug-in: how a C++ backend ships as a shared object.
//
// plugin_args may name a fault, as NAME=STEP: throws, wait_error, dead, hang; or "throws_at_create".
#include <cstdlib>
#include <stdexcept>

#include "backend/plugin_export.h"
#include "backend/sim/sim_backend.h"

namespace twostroke {
namespace {

Result<std::unique_ptr<Backend>> create(const PluginOptions& from) {
  if (from.plugin_args == "throws_at_create") throw std::runtime_error("thrown by create");
  SimOptions options;
  options.info.block_size = static_cast<int32_t>(from.block_size);
  options.info.step_tokens_max = static_cast<int32_t>(from.step_tokens_max);
  options.info.step_rows_max = static_cast<int32_t>(from.step_rows_max);
  if (const size_t equals = from.plugin_args.find('='); equals != std::string::npos) {
    const std::string name = from.plugin_args.substr(0, equals);
    const uint64_t step = std::strtoull(from.plugin_args.c_str() + equals + 1, nullptr, 10);
    if (name == "throws") {
      options.fault = [step](const StepPlan& plan) -> std::optional<SimFault> {
        if (plan.step == step) throw std::runtime_error("thrown by submit");
        return std::nullopt;
      };
    } else if (name == "wait_error") {
      options.step_faults[step].error = internal_error("lost");
    } else if (name == "dead") {
      options.step_faults[step].error = unavailable("gone");
    } else if (name == "hang") {
      options.step_faults[step].kind = SimFault::Kind::kHang;
    } else {
      return invalid_argument("unknown fault " + name);
    }
  }
  auto made = SimBackend::create(std::move(options));
  if (!made.ok()) return made.status();
  return std::unique_ptr<Backend>(std::move(made).value());
}

}  // namespace
}  // namespace twostroke

TWOSTROKE_EXPORT_BACKEND(twostroke::create)
