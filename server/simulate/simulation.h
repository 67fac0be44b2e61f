// run_simulation: a fleet, a router and a workload, in virtual time.
//
// A discrete-event simulation: the next thing that happens is an arrival, the end of a step of some replica, or the end
// of a transfer; of two at the same moment the arrival comes first, then what was decided earlier. So one seed gives
// one result, always. Time in queues of sockets and tokenizers is not simulated.
//
// Disaggregated fleets: a request's first token comes from its prefill replica, and is the client's first token. Then
// the prompt's KV (KV bytes per token times prompt tokens) goes over the prefill replica's link, one transfer at a
// time, in   latency + bytes / bandwidth   seconds, after all of it has been computed; the request joins the decode
// replica's queue when it has arrived. The prefill replica's memory is free as soon as the prompt is computed, so a
// link that is too slow shows as delay, not as a full prefill machine.
//
// Memory: what waits and runs (SchedulerLimits bounds it), and some histograms; not the workload.
// Thread-safety: a call uses its arguments only.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "server/simulate/fleet.h"
#include "server/simulate/histogram.h"
#include "server/simulate/machine_spec.h"
#include "server/simulate/replica.h"
#include "server/simulate/router.h"
#include "server/simulate/workload.h"

namespace twostroke::simulate {

// What a request must meet to count as good; nullopt: anything.
struct Targets {
  std::optional<double> ttft_ms;
  std::optional<double> tpot_ms;  // of requests with at least two tokens

  bool any() const { return ttft_ms || tpot_ms; }
};

struct TransferLink {
  double bytes_per_second = 50e9;  // 400 Gbit/s
  double latency_us = 20;
};

// Sees every step, for a trace.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  virtual void on_step(size_t replica, const StepRecord& step) = 0;
  virtual void on_request(RequestId id, size_t replica, TimeNs arrived, TimeNs first_token, TimeNs ended,
                          uint32_t prompt_tokens, uint32_t output_tokens) = 0;
};

struct SimulationOptions {
  SchedulerLimits limits;
  RouterPolicy router = RouterPolicy::kRoundRobin;
  Targets targets;
  TransferLink link;
  StepSeconds calibrated;  // for every replica; empty: the roofline
  // Stops as soon as so many requests have missed their targets or were refused: enough to know.
  uint64_t misses_max = UINT64_MAX;
  StepObserver* observer = nullptr;
  std::function<void(double progress)> on_progress;  // called now and then
};

struct GroupResult {
  MachineSpec spec;
  uint32_t replicas = 0;
  StepAccounts accounts;
  Replica::Counts counts;
  double kv_waiting_seconds = 0;
  double place_waiting_seconds = 0;
  double kv_used_share = 0;  // mean of the replicas
  double busy_share = 0;     // of the replicas' time, from the first arrival to the last end
};

struct SimulationResult {
  uint64_t offered = 0;
  uint64_t finished = 0;
  uint64_t refused = 0;        // the queue was full: a client would get 429
  uint64_t too_long = 0;       // beyond the context or the KV memory
  uint64_t good = 0;           // finished, and met all targets
  uint64_t ttft_missed = 0;    // had a first token, too late
  uint64_t tpot_missed = 0;    // finished, too slowly
  uint64_t prompt_tokens = 0;  // of finished requests
  uint64_t output_tokens = 0;
  double seconds = 0;          // from the workload's begin to the last end
  double arrival_seconds = 0;  // to the last arrival
  double lone_seconds = 0;     // to the last end, if each request had a machine to itself (step_terms.h)
  bool stopped = false;        // by misses_max
  Histogram ttft;
  Histogram tpot;  // a value for each request of at least two tokens
  Histogram itl;   // a value for each token but the first
  Histogram end_to_end;
  std::vector<GroupResult> groups;
  uint64_t transfers = 0;
  double transfer_bytes = 0;
  double link_seconds = 0;  // that links were busy, summed over prefill replicas

  uint64_t misses() const { return offered - good; }
  // All are too long: there is nothing to judge.
  bool none_fits() const { return !stopped && offered > 0 && too_long == offered; }
  double good_share() const { return offered == 0 ? 0 : static_cast<double>(good) / static_cast<double>(offered); }
};

// `machines` are those of the fleet's groups, in order. Errors: those of the workload (a damaged trace), and of
// backends.
Result<SimulationResult> run_simulation(const Fleet& fleet, const std::vector<MachineSpec>& machines,
                                        Workload& workload, const SimulationOptions& options);

}  // namespace twostroke::simulate
