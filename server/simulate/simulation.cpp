#include "server/simulate/simulation.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "kernels/check.h"
#include "server/simulate/simulated_time.h"

namespace twostroke::simulate {
namespace {

constexpr uint64_t kProgressEvery = 1 << 14;  // things that happened

// A request between its arrival and its end.
struct InFlight {
  TimeNs arrived = 0;
  TimeNs first_token = -1;
  TimeNs last_token = -1;
  uint32_t prompt_tokens = 0;
  uint32_t output_tokens = 0;  // wanted
  uint32_t made_tokens = 0;
  size_t replica = 0;  // that has it now
  Router::Choice choice;
  bool prompt_pending = true;  // the router still counts its prompt
  bool missed = false;
  TokenId first_token_id = 0;
  std::vector<TokenRun> prompt;  // of a disaggregated fleet, for the second replica
};

struct Happening {
  TimeNs time = 0;
  uint64_t order = 0;
  bool transfer = false;  // else the end of a step
  size_t replica = 0;
  RequestId request = 0;

  friend bool operator>(const Happening& a, const Happening& b) {
    return a.time != b.time ? a.time > b.time : a.order > b.order;
  }
};

class Simulation {
 public:
  Simulation(const Fleet& fleet, const std::vector<MachineSpec>& machines, Workload& workload,
             const SimulationOptions& options)
      : fleet_(fleet), machines_(machines), workload_(workload), options_(options) {}

  Status run();
  SimulationResult take_result();

 private:
  struct Server {
    std::unique_ptr<Replica> replica;
    size_t group = 0;
    TimeNs link_free = 0;
  };

  Status make_servers();
  Result<bool> fetch();
  Status beyond_time(bool arrives) const;
  void arrive();
  double lone_seconds(uint32_t prompt_tokens, uint32_t output_tokens) const;
  void start(size_t index, TimeNs now);
  Status end_step(size_t index, TimeNs now);
  void take_events(size_t index);
  void on_token(const Event& event);
  void on_ended(size_t index, const Event& event);
  void hand_over(RequestId id, InFlight& request, size_t from, TimeNs now);
  void deliver(RequestId id, TimeNs now);
  void drop(RequestId id, const Status& status);
  void finish(RequestId id, InFlight& request, TimeNs now);
  void miss(InFlight& request);
  void prompt_done(InFlight& request);

  Role role(size_t index) const { return machines_[servers_[index].group].role; }
  Router& router_of(size_t index) { return role(index) == Role::kDecode ? *second_router_ : *first_router_; }

  const Fleet& fleet_;
  const std::vector<MachineSpec>& machines_;
  Workload& workload_;
  const SimulationOptions& options_;

  std::vector<Server> servers_;
  std::vector<StepPricer> pricers_;        // of groups
  size_t decode_begin_ = 0;                // the first decode replica of a disaggregated fleet
  std::unique_ptr<Router> first_router_;   // of arrivals
  std::unique_ptr<Router> second_router_;  // of what prefill replicas hand over
  uint32_t length_max_ = 0;                // of a sequence, on every replica

  std::priority_queue<Happening, std::vector<Happening>, std::greater<>> queue_;
  std::unordered_map<RequestId, InFlight> in_flight_;
  uint64_t order_ = 0;
  RequestId last_id_ = 0;
  Arrival next_;
  bool more_ = false;
  uint64_t missed_ = 0;
  std::vector<Replica::Refusal> refusals_;
  std::vector<Event> events_;
  SimulationResult result_;
};

Status Simulation::make_servers() {
  std::vector<uint64_t> first_kv;
  std::vector<uint64_t> second_kv;
  length_max_ = sequence_tokens_max(machines_);
  for (size_t g = 0; g < fleet_.groups.size(); ++g) {
    const BackendInfo& info = machines_[g].info;
    const uint64_t kv_tokens =
        uint64_t{static_cast<uint32_t>(info.block_count)} * static_cast<uint32_t>(info.block_size);
    if (fleet_.groups[g].role == Role::kDecode) decode_begin_ = servers_.size();
    pricers_.emplace_back(machines_[g], options_.calibrated);
    for (uint32_t i = 0; i < fleet_.groups[g].replicas; ++i) {
      Result<std::unique_ptr<Replica>> replica = Replica::create(machines_[g], options_.limits, options_.calibrated);
      if (!replica.ok()) return replica.status();
      servers_.push_back({.replica = std::move(*replica), .group = g});
      (fleet_.groups[g].role == Role::kDecode ? second_kv : first_kv).push_back(kv_tokens);
    }
  }
  first_router_ = std::make_unique<Router>(options_.router, std::move(first_kv));
  if (!second_kv.empty()) second_router_ = std::make_unique<Router>(options_.router, std::move(second_kv));
  return {};
}

Result<bool> Simulation::fetch() {
  const Result<bool> more = workload_.next(next_);
  if (more.ok()) more_ = *more;
  return more;
}

// Nothing real takes so long: a number is not what was meant.
Status Simulation::beyond_time(bool arrives) const {
  const double years = to_seconds(kSimulatedTimeMax) / (365.25 * 86400);
  return invalid_argument(
      "the simulation passes " + std::to_string(static_cast<int>(years)) + " years: " +
      (arrives
           ? "request " + std::to_string(result_.offered + 1) + " arrives later; simulate fewer, or at a higher rate"
           : "a step or a transfer takes too long; check the machine's numbers, --calibration and the link"));
}

Status Simulation::run() {
  if (Status status = make_servers(); !status.ok()) return status;
  if (const Result<bool> more = fetch(); !more.ok()) return more.status();
  for (uint64_t happened = 0; more_ || !queue_.empty(); ++happened) {
    if (missed_ > options_.misses_max) {
      result_.stopped = true;
      return {};
    }
    if (options_.on_progress && happened % kProgressEvery == 0) options_.on_progress(workload_.progress());
    const bool arrives = more_ && (queue_.empty() || next_.time <= queue_.top().time);
    if ((arrives ? next_.time : queue_.top().time) >= kSimulatedTimeMax) return beyond_time(arrives);
    if (arrives) {
      arrive();
      if (const Result<bool> more = fetch(); !more.ok()) return more.status();
      continue;
    }
    const Happening happening = queue_.top();
    queue_.pop();
    if (happening.transfer) {
      deliver(happening.request, happening.time);
    } else if (Status status = end_step(happening.replica, happening.time); !status.ok()) {
      return status;
    }
  }
  CHECK(in_flight_.empty(),
        "nothing happens any more, but " + std::to_string(in_flight_.size()) + " requests are left");
  return {};
}

void Simulation::arrive() {
  const RequestId id = ++last_id_;
  ++result_.offered;
  result_.arrival_seconds = to_seconds(next_.time);
  if (next_.prompt_tokens >= length_max_) {
    ++result_.too_long;
    ++missed_;
    return;
  }
  InFlight& request = in_flight_[id];
  request.arrived = next_.time;
  request.prompt_tokens = next_.prompt_tokens;
  request.output_tokens = std::min(next_.output_tokens, length_max_ - next_.prompt_tokens);
  result_.lone_seconds = std::max(result_.lone_seconds,
                                  result_.arrival_seconds + lone_seconds(request.prompt_tokens, request.output_tokens));
  request.choice = first_router_->choose(next_.prompt);
  request.replica = request.choice.replica;
  const bool hands_over = fleet_.disaggregated();
  if (hands_over) request.prompt = next_.prompt;
  servers_[request.replica].replica->push({.id = id,
                                           .arrived = next_.time,
                                           .prompt = next_.prompt,
                                           .output_tokens = hands_over ? 1 : request.output_tokens});
  if (!servers_[request.replica].replica->stepping()) start(request.replica, next_.time);
}

double Simulation::lone_seconds(uint32_t prompt_tokens, uint32_t output_tokens) const {
  const SchedulerLimits& limits = options_.limits;
  const uint32_t chunk_tokens =
      limits.max_chunk_tokens == 0 ? limits.max_step_tokens : std::min(limits.max_step_tokens, limits.max_chunk_tokens);
  double seconds = lone_prompt_seconds(pricers_.front(), prompt_tokens, chunk_tokens) +
                   lone_answer_seconds(pricers_.back(), prompt_tokens, output_tokens);
  if (fleet_.disaggregated() && output_tokens > 1) {
    const double bytes = machines_.front().info.kv_bytes_per_token * prompt_tokens;
    seconds += bytes / options_.link.bytes_per_second + options_.link.latency_us * 1e-6;
  }
  return seconds;
}

void Simulation::start(size_t index, TimeNs now) {
  refusals_.clear();
  Replica& replica = *servers_[index].replica;
  events_.clear();
  const std::optional<TimeNs> end = replica.start_step(now, refusals_, events_);
  if (end) {
    queue_.push({.time = *end, .order = ++order_, .replica = index});
    if (options_.observer != nullptr) options_.observer->on_step(index, replica.last_step());
  }
  for (const Replica::Refusal& refusal : refusals_) drop(refusal.id, refusal.status);
  take_events(index);
}

void Simulation::take_events(size_t index) {
  for (const Event& event : events_) {
    if (event.kind == Event::Kind::kToken) on_token(event);
    if (event.kind == Event::Kind::kEnded) on_ended(index, event);
  }
}

Status Simulation::end_step(size_t index, TimeNs now) {
  events_.clear();
  if (Status status = servers_[index].replica->end_step(events_); !status.ok()) return status;
  take_events(index);
  start(index, now);
  return {};
}

void Simulation::on_token(const Event& event) {
  InFlight& request = in_flight_.at(event.request);
  ++request.made_tokens;
  if (request.first_token < 0) {
    request.first_token = event.time;
    request.first_token_id = event.token;
    const TimeNs ttft = event.time - request.arrived;
    result_.ttft.add(ttft);
    if (options_.targets.ttft_ms && static_cast<double>(ttft) > *options_.targets.ttft_ms * 1e6) {
      ++result_.ttft_missed;
      miss(request);
    }
    prompt_done(request);
  } else {
    result_.itl.add(event.time - request.last_token);
  }
  request.last_token = event.time;
}

void Simulation::on_ended(size_t index, const Event& event) {
  if (event.outcome != Outcome::kFinished) return drop(event.request, event.error);
  InFlight& request = in_flight_.at(event.request);
  router_of(index).ended(request.choice);
  if (request.made_tokens < request.output_tokens) {
    hand_over(event.request, request, index, event.time);
  } else {
    finish(event.request, request, event.time);
  }
}

void Simulation::hand_over(RequestId id, InFlight& request, size_t from, TimeNs now) {
  CHECK(role(from) == Role::kPrefill, "a request ended too early");
  const double bytes = machines_[servers_[from].group].info.kv_bytes_per_token * request.prompt_tokens;
  const TimeNs busy = simulated_time(bytes / options_.link.bytes_per_second * 1e9);
  const TimeNs begin = std::min(std::max(now, servers_[from].link_free), kSimulatedTimeMax);
  servers_[from].link_free = begin + busy;
  ++result_.transfers;
  result_.transfer_bytes += bytes;
  result_.link_seconds += to_seconds(busy);

  request.choice = second_router_->choose(request.prompt);
  second_router_->prompt_done(request.choice);
  request.replica = decode_begin_ + request.choice.replica;
  queue_.push({.time = begin + busy + simulated_time(options_.link.latency_us * 1e3),
               .order = ++order_,
               .transfer = true,
               .request = id});
}

void Simulation::deliver(RequestId id, TimeNs now) {
  InFlight& request = in_flight_.at(id);
  Replica& replica = *servers_[request.replica].replica;
  replica.push({.id = id,
                .arrived = now,
                .prompt = std::move(request.prompt),
                .first_token = request.first_token_id,
                .output_tokens = request.output_tokens - request.made_tokens});
  if (!replica.stepping()) start(request.replica, now);
}

// The replica did not take it, or gave it up.
void Simulation::drop(RequestId id, const Status& status) {
  const auto found = in_flight_.find(id);
  InFlight& request = found->second;
  ++(status.code() == StatusCode::kInvalidArgument ? result_.too_long : result_.refused);
  miss(request);
  prompt_done(request);
  router_of(request.replica).ended(request.choice);
  in_flight_.erase(found);
}

void Simulation::prompt_done(InFlight& request) {
  if (!request.prompt_pending) return;
  request.prompt_pending = false;
  first_router_->prompt_done(request.choice);
}

void Simulation::miss(InFlight& request) {
  if (!request.missed) ++missed_;
  request.missed = true;
}

void Simulation::finish(RequestId id, InFlight& request, TimeNs now) {
  ++result_.finished;
  result_.prompt_tokens += request.prompt_tokens;
  result_.output_tokens += request.made_tokens;
  result_.seconds = std::max(result_.seconds, to_seconds(now));
  result_.end_to_end.add(now - request.arrived);
  if (request.made_tokens > 1) {
    const TimeNs tpot = (request.last_token - request.first_token) / (request.made_tokens - 1);
    result_.tpot.add(tpot);
    if (options_.targets.tpot_ms && static_cast<double>(tpot) > *options_.targets.tpot_ms * 1e6) {
      ++result_.tpot_missed;
      miss(request);
    }
  }
  if (!request.missed) ++result_.good;
  if (options_.observer != nullptr) {
    options_.observer->on_request(id, request.replica, request.arrived, request.first_token, now, request.prompt_tokens,
                                  request.made_tokens);
  }
  in_flight_.erase(id);
}

SimulationResult Simulation::take_result() {
  for (size_t g = 0; g < fleet_.groups.size(); ++g) {
    GroupResult group;
    group.spec = machines_[g];
    group.replicas = fleet_.groups[g].replicas;
    for (const Server& server : servers_) {
      if (server.group != g) continue;
      const Replica& replica = *server.replica;
      group.accounts += replica.accounts();
      group.counts.computed_tokens += replica.counts().computed_tokens;
      group.counts.cached_tokens += replica.counts().cached_tokens;
      group.counts.remote_tokens += replica.counts().remote_tokens;
      group.counts.recomputed_tokens += replica.counts().recomputed_tokens;
      group.counts.preemptions += replica.counts().preemptions;
      group.kv_waiting_seconds += replica.kv_waiting_seconds();
      group.place_waiting_seconds += replica.place_waiting_seconds();
      group.kv_used_share += replica.kv_used_share() / group.replicas;
    }
    if (result_.seconds > 0) group.busy_share = group.accounts.busy_seconds() / (result_.seconds * group.replicas);
    result_.groups.push_back(std::move(group));
  }
  return std::move(result_);
}

}  // namespace

Result<SimulationResult> run_simulation(const Fleet& fleet, const std::vector<MachineSpec>& machines,
                                        Workload& workload, const SimulationOptions& options) {
  CHECK(fleet.groups.size() == machines.size(), "a machine for each group");
  Simulation simulation(fleet, machines, workload, options);
  if (Status status = simulation.run(); !status.ok()) return status;
  return simulation.take_result();
}

}  // namespace twostroke::simulate
