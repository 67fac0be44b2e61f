// Health: what probes ask. Alive means that this process answers; ready means that it takes requests.
//
// Thread-safety: every method may be called from any thread.
#pragma once

#include <atomic>
#include <string>

#include "scheduler/engine.h"

namespace twostroke {

class Health {
 public:
  // Not ready until model_loaded(). A step that runs for longer than `step_stall_ns` makes it not ready.
  explicit Health(TimeNs step_stall_ns) : step_stall_ns_(step_stall_ns) {}

  void model_loaded(const Engine& engine) { engine_.store(&engine); }
  void draining() { draining_.store(true); }

  // OK, or kUnavailable with the reason.
  Status readiness() const;

 private:
  const TimeNs step_stall_ns_;
  std::atomic<const Engine*> engine_{nullptr};
  std::atomic<bool> draining_{false};
};

}  // namespace twostroke
