// Fairness: how much each tenant was served. The virtual token counter of Sheng et al., "Fairness in Serving Large
// Language Models" (OSDI 2024):
//
//     service += (kPrefillTokenCost * prefill tokens + kDecodeTokenCost * output tokens) / weight
//
// The paper charges a prompt when it is admitted; here work is charged when a step takes it on, chunk by chunk, so that
// long prompts count as they are computed, also what is computed again. Nothing is given back, but for a row that was
// taken out of its step before it ran.
//
// Whoever goes first is the tenant with the least service (SequenceQueue). A tenant that had nothing waiting does not
// save up for later: when it comes back its service is lifted to the least of those that wait, or, where nobody waits,
// of the one that was first in line last. It keeps its own where that is more.
//
// Slots are shared too: a tenant that holds fewer of them than its part takes one, at once, from a tenant that holds
// more than its own (preemption.cpp). Otherwise long prompts or answers of one would keep all of them for a long time.
//
// Tenants are kept while they have a request, and the last kIdleTenantsMax after that, the longest idle forgotten
// first: what is lost with one is what it had been served beyond the others.
// Thread-safety: step thread only.
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <string>
#include <unordered_map>

namespace twostroke {

constexpr double kPrefillTokenCost = 1;  // the paper's: what commercial APIs ask for
constexpr double kDecodeTokenCost = 2;
constexpr uint32_t kIdleTenantsMax = 1024;

struct Tenant {
  uint64_t id = 0;
  double weight = 1;
  double service = 0;
  uint32_t requests = 0;  // not ended
  uint32_t waiting = 0;   // sequences in the queue; kept by SequenceQueue
  uint32_t running = 0;   // sequences that run; kept by the scheduler
  uint64_t turn = 0;      // the last round in which its prompts got tokens
  boost::intrusive::list_member_hook<> idle;

  void charge(double cost) { service += cost / weight; }
  void lift(double least) { service = service < least ? least : service; }
};

class Fairness {
 public:
  // A request of the tenant comes, or ends. The reference is good until it has no request left.
  Tenant& join(uint64_t id, double weight);
  void leave(Tenant& tenant);

  // Its part of `slots`, by weight among the tenants that have requests.
  double share_of(const Tenant& tenant, uint32_t slots) const { return slots * tenant.weight / busy_weight_; }

  uint32_t size() const { return static_cast<uint32_t>(tenants_.size()); }
  const Tenant* find(uint64_t id) const;

  // Empty when all is well; otherwise what is broken. For tests.
  std::string check_invariants() const;

 private:
  using IdleList = boost::intrusive::list<
      Tenant, boost::intrusive::member_hook<Tenant, boost::intrusive::list_member_hook<>, &Tenant::idle>>;

  std::unordered_map<uint64_t, Tenant> tenants_;
  IdleList idle_;           // the longest idle first
  double busy_weight_ = 0;  // of those with requests
};

}  // namespace twostroke
