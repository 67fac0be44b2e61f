#include "scheduler/order/fairness.h"

#include <cmath>

#include "kernels/check.h"

namespace twostroke {

Tenant& Fairness::join(uint64_t id, double weight) {
  Tenant& tenant = tenants_[id];
  tenant.id = id;
  if (tenant.requests > 0) busy_weight_ -= tenant.weight;
  tenant.weight = weight;
  busy_weight_ += weight;
  if (tenant.idle.is_linked()) idle_.erase(idle_.iterator_to(tenant));
  ++tenant.requests;
  return tenant;
}

void Fairness::leave(Tenant& tenant) {
  CHECK(tenant.requests > 0);
  if (--tenant.requests > 0) return;
  busy_weight_ -= tenant.weight;
  if (idle_.size() + 1 == tenants_.size()) busy_weight_ = 0;  // and no error of rounding is left
  idle_.push_back(tenant);
  if (idle_.size() <= kIdleTenantsMax) return;
  const uint64_t forgotten = idle_.front().id;
  idle_.pop_front();
  tenants_.erase(forgotten);
}

const Tenant* Fairness::find(uint64_t id) const {
  const auto found = tenants_.find(id);
  return found == tenants_.end() ? nullptr : &found->second;
}

std::string Fairness::check_invariants() const {
  if (idle_.size() > kIdleTenantsMax) return "more idle tenants are kept than may be";
  size_t busy = 0;
  double weight = 0;
  for (const auto& [id, tenant] : tenants_) {
    const std::string name = "tenant " + std::to_string(id);
    if (tenant.id != id) return name + " is filed under another id";
    if (!(tenant.service >= 0) || !(tenant.weight > 0)) return name + " has an impossible account";
    if (tenant.idle.is_linked() != (tenant.requests == 0)) return name + " is idle, or not, contrary to its requests";
    busy += tenant.requests > 0 ? 1 : 0;
    weight += tenant.requests > 0 ? tenant.weight : 0;
  }
  if (std::abs(weight - busy_weight_) > 1e-6 * (1 + weight)) return "the weight of the busy tenants is miscounted";
  if (busy + idle_.size() != tenants_.size()) return "the idle tenants are miscounted";
  return {};
}

}  // namespace twostroke
