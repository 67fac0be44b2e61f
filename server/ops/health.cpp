#include "server/ops/health.h"

namespace twostroke {

Status Health::liveness() const {
  const Engine* engine = engine_.load();
  return engine == nullptr ? Status() : engine->health();
}

Status Health::readiness() const {
  const Engine* engine = engine_.load();
  if (engine == nullptr) return unavailable("the model is loading");
  if (draining_.load()) return unavailable("the server is draining");
  if (Status status = engine->health(); !status.ok()) return status;
  const TimeNs age = engine->step_age_ns();
  if (age > step_stall_ns_) {
    return unavailable("the current step has been running for " + std::to_string(age / kSecondNs) +
                       " s: the backend hangs");
  }
  return {};
}

}  // namespace twostroke
