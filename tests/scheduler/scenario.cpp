#include "tests/scheduler/scenario.h"

#include <algorithm>
#include <random>

#include "tests/scheduler/even_constraint.h"
#include "tests/scheduler/harness.h"
#include "tests/scheduler/journal_tools.h"
#include "tests/scheduler/scheduler_test_peer.h"

namespace twostroke::test {
namespace {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  // Uniform in [low, high].
  uint32_t between(uint32_t low, uint32_t high) {
    return low + static_cast<uint32_t>(engine_() % (uint64_t{high} - low + 1));
  }
  bool percent(uint32_t chance) { return between(1, 100) <= chance; }
  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[between(0, static_cast<uint32_t>(values.size()) - 1)];
  }

 private:
  std::mt19937_64 engine_;
};

// How a scenario behaves, drawn once.
struct Temper {
  uint32_t requests = 0;
  uint32_t arrival_percent = 0;  // per step, of one more request
  uint32_t cancel_percent = 0;   // per step
  uint32_t finish_percent = 0;   // per step, of finish_sequence
  uint32_t lost_percent = 0;     // per step
  uint32_t spoilt_percent = 0;   // per step
  uint32_t pooling_percent = 0;  // of requests
  uint32_t remote_percent = 0;   // likewise, of those that may
  uint32_t n_max = 1;
  uint32_t prompt_max = 0;
  uint32_t output_max = 0;
  uint32_t texts = 0;  // prompts are beginnings of so many texts
  uint32_t tenants = 0;
};

Temper draw_temper(Random& random, uint32_t length_max) {
  Temper temper;
  temper.requests = random.between(1, 14);
  temper.arrival_percent = random.one_of({5u, 30u, 100u});
  temper.cancel_percent = random.one_of({0u, 0u, 5u, 25u});
  temper.finish_percent = random.one_of({0u, 0u, 10u});
  temper.pooling_percent = random.one_of({0u, 10u, 50u});
  temper.remote_percent = random.one_of({0u, 0u, 50u});
  temper.lost_percent = random.one_of({0u, 0u, 0u, 3u});
  temper.spoilt_percent = random.one_of({0u, 0u, 0u, 3u});
  temper.n_max = random.one_of({1u, 1u, 2u, 5u});
  // Now and then beyond what the machine can take: these are refused.
  temper.prompt_max = random.percent(50) ? random.between(1, length_max + 1) : random.between(1, 8);
  temper.output_max = random.one_of({1u, 4u, 20u, 60u});
  temper.texts = random.between(1, 4);
  temper.tenants = random.between(1, 4);
  return temper;
}

SimOptions draw_machine(Random& random) {
  SimOptions options;
  BackendInfo& info = options.info;
  info.output_flops = 3e7;
  info.attention_flops_per_position = 1e4;
  info.vocab_size = static_cast<int32_t>(random.one_of({2u, 9u, 40u}));
  info.block_size = static_cast<int32_t>(random.one_of({1u, 2u, 3u, 4u, 8u}));
  info.block_count = static_cast<int32_t>(random.between(2, random.one_of({6u, 12u, 40u})));
  info.context_max = static_cast<int32_t>(random.between(4, 60));
  info.step_tokens_max = static_cast<int32_t>(random.between(1, 32));
  info.step_rows_max = static_cast<int32_t>(random.between(1, 10));
  // From a machine where tokens cost nothing to one where a single one is beyond every objective.
  info.flops_per_token = random.one_of({0.0, 1e6, 1e8});
  info.step_drafts_max = static_cast<int32_t>(random.one_of({0u, 3u, 64u}));
  return options;
}

// Every draft pays that has any chance.
CostCoefficients free_tokens() {
  CostCoefficients costs;
  costs.token_ns.fill(1e6);
  return costs;
}

SchedulerLimits draw_limits(Random& random) {
  SchedulerLimits limits;
  limits.max_step_tokens = random.between(1, 32);
  limits.max_running = random.between(1, 10);
  limits.max_chunk_tokens = random.one_of({0u, 0u, 1u, 3u, 8u, 32u});
  limits.itl_target_ns = random.one_of<TimeNs>({0, 0, 1, 25'000, 100'000, kSecondNs});
  limits.max_waiting_requests = random.one_of({3u, 20u});
  limits.max_waiting_tokens = random.one_of({40u, 1000u});
  limits.max_overtakes = random.between(0, 5);
  limits.order = random.one_of({Order::kFcfs, Order::kFair, Order::kShortest});
  limits.aging_ms = random.one_of({0u, 10u, 60u, 10'000u});
  limits.max_preemptions = random.between(0, 4);
  limits.prefix_cache = random.percent(80);
  limits.max_draft_tokens = random.one_of({0u, 1u, 3u, 8u});
  if (random.percent(50)) limits.costs = free_tokens();
  return limits;
}

class Scenario {
 public:
  Scenario(uint64_t seed, ScenarioStats& stats)
      : random_(seed), stats_(stats), harness_(draw_limits(random_), machine()) {
    harness_.scheduler.record_to(journal_);
    const BackendInfo& info = harness_.backend->info();
    temper_ =
        draw_temper(random_, static_cast<uint32_t>(std::min(info.context_max, info.block_count * info.block_size)));
  }

  std::string run() {
    uint64_t steps_max = 100;
    for (uint32_t arrived = 0; harness_.problem.empty();) {
      if (arrived < temper_.requests && (random_.percent(temper_.arrival_percent) || harness_.scheduler.idle())) {
        steps_max += arrive(++arrived);
        continue;
      }
      if (arrived == temper_.requests && harness_.scheduler.idle()) break;
      disturb();
      if (harness_.step()) look_at_step();
      if (harness_.steps > steps_max) return "starvation: not done after " + std::to_string(steps_max) + " steps";
    }
    harness_.check_ends();
    count_ends();
    return harness_.problem.empty() ? replay_problem(journal_.file()) : harness_.problem;
  }

 private:
  SimOptions machine() {
    SimOptions options = draw_machine(random_);
    options.fault = [this](const StepPlan& plan) { return draw_fault(plan); };
    return options;
  }

  std::optional<SimFault> draw_fault(const StepPlan& plan) {
    SimFault fault;
    if (random_.percent(temper_.lost_percent)) {
      fault.kind = random_.percent(50) ? SimFault::Kind::kSubmitError : SimFault::Kind::kWaitError;
      return fault;
    }
    if (random_.percent(temper_.spoilt_percent)) {
      fault.kind = SimFault::Kind::kNotFinite;
      fault.rows = {random_.between(0, static_cast<uint32_t>(plan.rows.size()) - 1)};
      return fault;
    }
    return std::nullopt;
  }

  // Returns how many steps the request may cost.
  uint64_t arrive(RequestId id) {
    const auto vocab = static_cast<uint32_t>(harness_.backend->info().vocab_size);
    Request request;
    request.id = id;
    request.prompt.resize(random_.between(1, temper_.prompt_max));
    const uint32_t text = random_.between(1, temper_.texts);
    for (uint32_t i = 0; i < request.prompt.size(); ++i)
      request.prompt[i] = static_cast<TokenId>((i * text + text) % vocab);
    if (random_.percent(30)) request.prompt.back() = static_cast<TokenId>(random_.between(0, vocab - 1));
    request.max_tokens = random_.between(1, temper_.output_max);
    request.n = random_.between(1, temper_.n_max);
    request.sampling.temperature = random_.one_of({0.0f, 1.0f});
    request.sampling.seed = random_.between(1, 3);
    if (random_.percent(40)) request.stop_tokens = {static_cast<TokenId>(random_.between(0, vocab - 1))};
    request.cache_salt = random_.between(0, 4) == 0 ? 1 : 0;
    request.use_prefix_cache = random_.percent(85);
    request.tenant = random_.between(1, temper_.tenants);
    request.tenant_weight = random_.one_of({1.0, 1.0, 3.0});
    if (random_.percent(15)) {
      for (uint32_t i = 0; i < request.n; ++i) request.constraints.push_back(std::make_unique<EvenConstraint>());
    }
    if (random_.percent(30)) request.objectives.tpot_ns = random_.one_of<TimeNs>({1, 30'000, kMillisecondNs});
    draw_rules(request, vocab);
    const uint64_t cost = 4 * request.n * (request.prompt.size() + request.max_tokens);
    const Status status = harness_.submit(std::move(request));
    if (!status.ok()) ++stats_.requests_refused;
    return cost;
  }

  void draw_rules(Request& request, uint32_t vocab) {
    const auto token = [&] { return static_cast<TokenId>(random_.between(0, vocab - 1)); };
    request.priority = static_cast<int32_t>(random_.between(0, 2)) - 1;
    if (random_.percent(temper_.pooling_percent)) {
      request.pooling = random_.one_of({Pooling::kMean, Pooling::kLast});
      request.n = 1;
      request.constraints.clear();
      request.stop_tokens.clear();
      return;
    }
    if (random_.percent(20)) request.prompt_logprobs = static_cast<int32_t>(random_.between(0, 3));
    if (request.prompt_logprobs < 0 && random_.percent(temper_.remote_percent)) {
      request.remote_tokens = random_.between(1, static_cast<uint32_t>(request.prompt.size()));
    }
    if (random_.percent(20)) request.min_tokens = random_.between(1, request.max_tokens);
    if (random_.percent(10)) {
      for (uint32_t t = 0; t < vocab; ++t) {
        if (random_.percent(50)) request.allowed_tokens.push_back(static_cast<TokenId>(t));
      }
    }
    if (random_.percent(20)) {
      request.bad_words.resize(random_.between(1, 4));
      for (std::vector<TokenId>& word : request.bad_words) {
        for (uint32_t length = random_.between(1, 3); length > 0; --length) word.push_back(token());
      }
    }
  }

  void disturb() {
    // The machine changes its speed, or its clock stands still.
    if (random_.percent(2)) harness_.slowness = random_.one_of({0.0, 0.3, 1.0, 30.0});
    const auto requests = static_cast<uint32_t>(harness_.tracks().size());
    if (requests == 0) return;
    if (random_.percent(temper_.cancel_percent)) {
      const RequestId id = random_.between(1, requests);
      if (const Sequence* sequence = SchedulerTestPeer::sequence(harness_.scheduler, id)) {
        const bool runs = sequence->state == SequenceState::kRunning;
        ++(!runs                          ? stats_.cancels_waiting
           : sequence->output_count() > 0 ? stats_.cancels_decoding
                                          : stats_.cancels_prefilling);
      }
      harness_.cancel(id);
    }
    if (random_.percent(temper_.finish_percent)) {
      harness_.finish_sequence(random_.between(1, requests), random_.between(0, temper_.n_max));
      ++stats_.sequences_told_to_finish;
    }
  }

  void look_at_step() {
    ++stats_.steps;
    if (harness_.counts.shape.decode_rows > 0 && harness_.counts.shape.prefill_rows > 0) ++stats_.mixed_steps;
    stats_.copies += harness_.plan.copies.size();
    stats_.pushed_out += harness_.counts.preemptions_for_priority;
    const auto reasons = harness_.scheduler.gauges().sequences_by_reason;
    stats_.waited_for_prefix += reasons[static_cast<size_t>(WaitReason::kPrefix)];
    const Sequence* first = SchedulerTestPeer::impl(harness_.scheduler).waiting_.first();
    stats_.waited_aged += first != nullptr && first->level() == kAgedLevel ? 1 : 0;
    ++stats_.steps_by_order[static_cast<size_t>(harness_.scheduler.limits().order)];
    for (const Row& row : harness_.plan.rows) stats_.masked_rows += row.mask.empty() ? 0 : 1;
  }

  void count_ends() {
    ++stats_.scenarios;
    stats_.preemptions += harness_.total.preemptions;
    stats_.drafts += harness_.total.draft_tokens;
    stats_.accepted_drafts += harness_.total.accepted_draft_tokens;
    stats_.cached_tokens += harness_.total.cached_tokens;
    stats_.remote_tokens += harness_.total.remote_tokens;
    stats_.recomputed_tokens += harness_.total.recomputed_tokens;
    for (const auto& [id, track] : harness_.tracks()) {
      if (track.outcome == Outcome::kFinished) ++stats_.requests_finished;
      if (track.outcome == Outcome::kFailed) ++stats_.requests_failed;
      if (track.error.code() == StatusCode::kInvalidArgument) ++stats_.requests_stuck;
      if (track.prompt) ++stats_.prompts_scored;
      if (!track.embedding.empty()) ++stats_.embeddings;
    }
  }

  Random random_;
  ScenarioStats& stats_;
  Temper temper_;
  MemoryJournal journal_;
  Harness harness_;
};

}  // namespace

std::string run_scenario(uint64_t seed, ScenarioStats& stats) { return Scenario(seed, stats).run(); }

}  // namespace twostroke::test
