// Health: what probes ask. Alive means that this process answers and is worth keeping; ready means that it takes
// requests. Once the backend has died for good only a new process helps, so that it is not alive any more: an
// orchestrator then restarts it. What may pass (loading, draining, a step that takes long) does not count against it.
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

  // Each OK, or kUnavailable with the reason.
  Status liveness() const;
  Status readiness() const;

 private:
  const TimeNs step_stall_ns_;
  std::atomic<const Engine*> engine_{nullptr};
  std::atomic<bool> draining_{false};
};

}  // namespace twostroke
