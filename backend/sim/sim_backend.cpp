#include "backend/sim/sim_backend.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "backend/sim/fake_model.h"
#include "backend/sim/plan_check.h"

namespace twostroke {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

Status validate_info(const BackendInfo& info) {
  const auto positive = [](int32_t value, const char* field) -> Status {
    if (value > 0) return {};
    return invalid_argument(std::string("sim backend: ") + field + " must be at least 1");
  };
  for (const auto& [value, field] : {std::pair{info.vocab_size, "vocab_size"},
                                     {info.context_max, "context_max"},
                                     {info.block_size, "block_size"},
                                     {info.block_count, "block_count"},
                                     {info.step_tokens_max, "step_tokens_max"},
                                     {info.step_rows_max, "step_rows_max"}}) {
    if (Status status = positive(value, field); !status.ok()) return status;
  }
  if (int64_t{info.block_count} * info.block_size > kSimPositionsMax) {
    return invalid_argument("sim backend: block_count * block_size must be at most " +
                            std::to_string(kSimPositionsMax));
  }
  for (const double cost : {info.flops_per_token, info.output_flops, info.attention_flops_per_position,
                            info.weight_bytes, info.kv_bytes_per_token}) {
    if (!(cost >= 0)) {
      return invalid_argument(
          "sim backend: flops_per_token, output_flops, attention_flops_per_position, weight_bytes and "
          "kv_bytes_per_token must be 0 or more");
    }
  }
  if (info.embedding_size < 0) return invalid_argument("sim backend: embedding_size must be 0 or more");
  if (info.step_drafts_max < 0) return invalid_argument("sim backend: step_drafts_max must be 0 or more");
  return {};
}

}  // namespace

BackendInfo SimOptions::default_info() {
  BackendInfo info;
  info.name = "sim";
  info.vocab_size = 1000;
  info.context_max = 1024;
  info.block_size = 16;
  info.block_count = 64;
  info.step_tokens_max = 512;
  info.step_rows_max = 64;
  info.flops_per_token = 2e8;
  info.weight_bytes = 1e8;
  info.kv_bytes_per_token = 2e4;
  info.embedding_size = 16;
  info.scores_targets = true;
  info.late_masks = true;
  info.step_drafts_max = 64;
  info.imports_kv = true;
  return info;
}

struct SimBackend::Impl {
  explicit Impl(SimOptions given)
      : options(std::move(given)),
        kv(static_cast<uint32_t>(options.info.block_count), static_cast<uint32_t>(options.info.block_size)),
        model(options.info.vocab_size),
        faults(options.kv_check) {}

  std::optional<SimFault> choose_fault(const StepPlan& plan) const;
  Status lose_step(const SimFault& fault);
  Status hang();
  Status let_time_pass();
  void execute(StepResult& result);
  void draw(const Row& row, uint64_t chain, RowResult& result);
  void sample(const Row& row, uint64_t chain, RowResult& result);
  void score(const Row& row, RowResult& result);
  void pool(const Row& row, RowResult& result);

  const SimOptions options;

  // Step thread only.
  FakeKv kv;
  FakeModel model;
  std::vector<uint64_t> chains;    // of the rows, memory reused
  std::vector<TokenId> history;    // of a row with drafts, as far as accepted; memory reused
  RowResult drawn;                 // behind a draft; memory reused
  const StepPlan* plan = nullptr;  // in flight
  std::optional<SimFault> fault;   // of the step in flight
  TimeNs duration_ns = 0;
  SteadyTime submitted;
  Status dead;

  // The rest is shared.
  mutable std::mutex mutex;
  std::condition_variable changed;
  FaultLog faults;
  uint64_t steps = 0;
  StepCost cost;
  bool hanging = false;
  bool interrupted = false;
};

std::optional<SimFault> SimBackend::Impl::choose_fault(const StepPlan& given) const {
  const auto found = options.step_faults.find(given.step);
  if (found != options.step_faults.end()) return found->second;
  return options.fault ? options.fault(given) : std::nullopt;
}

Status SimBackend::Impl::lose_step(const SimFault& injected) {
  if (injected.error.code() == StatusCode::kUnavailable) dead = injected.error;
  return injected.error;
}

Status SimBackend::Impl::hang() {
  std::unique_lock lock(mutex);
  hanging = true;
  changed.notify_all();
  changed.wait(lock, [this] { return !hanging || interrupted; });
  hanging = false;
  return interrupted ? unavailable("the sim backend was interrupted") : Status();
}

Status SimBackend::Impl::let_time_pass() {
  if (options.pace == SimPace::kVirtual) options.clock->advance(duration_ns);
  std::unique_lock lock(mutex);
  if (options.pace == SimPace::kReal) {
    changed.wait_until(lock, submitted + std::chrono::nanoseconds(duration_ns), [this] { return interrupted; });
  }
  return interrupted ? unavailable("the sim backend was interrupted") : Status();
}

void SimBackend::Impl::draw(const Row& row, uint64_t chain, RowResult& result) {
  std::optional<TokenId> scripted;
  if (options.script) scripted = options.script({*plan, row, chain, row.history.size() - row.prompt_count});
  if (scripted) {
    model.report(chain, *scripted, *row.sampling, result);
  } else {
    model.sample(chain, row, result);
  }
}

// Every draft that the token before it confirms is a row of its own, as far as the model can tell.
void SimBackend::Impl::sample(const Row& row, uint64_t chain, RowResult& result) {
  Row known = row;
  known.token_count -= row.draft_count;
  known.draft_count = 0;
  draw(known, chain, result);
  if (row.draft_count == 0) return;
  history.assign(row.history.begin(), row.history.end());
  TokenId last = result.token;
  for (const TokenId draft : row.drafts_in(plan->tokens)) {
    if (last != draft) return;
    history.push_back(draft);
    known.history = history;
    ++known.token_count;
    drawn.reset();
    draw(known, kv.value_behind(*plan, row, known.token_count - 1), drawn);
    if (drawn.status != RowStatus::kOk) return;
    last = drawn.token;
    result.following.push_back({drawn.token, drawn.logprob, drawn.rank, drawn.top});
  }
}

void SimBackend::Impl::score(const Row& row, RowResult& result) {
  result.targets.resize(row.targets.size());
  for (uint32_t i = 0; i < row.targets.size(); ++i) {
    model.score(kv.value_behind(*plan, row, i), row.targets[i], row.target_logprobs, result.targets[i]);
  }
}

void SimBackend::Impl::pool(const Row& row, RowResult& result) {
  std::vector<double> sum(static_cast<size_t>(options.info.embedding_size));
  for (uint32_t i = row.pooling == Pooling::kMean ? 0 : row.token_count - 1; i < row.token_count; ++i) {
    FakeModel::add_state(kv.value_behind(*plan, row, i), sum);
  }
  for (const double number : sum) result.hidden.push_back(static_cast<float>(number));
}

void SimBackend::Impl::execute(StepResult& result) {
  {
    const std::lock_guard lock(mutex);
    kv.execute(*plan, faults, chains);
    ++steps;
  }
  result.rows.resize(plan->rows.size());
  const bool not_finite = fault && fault->kind == SimFault::Kind::kNotFinite;
  for (size_t i = 0; i < plan->rows.size(); ++i) {
    const Row& row = plan->rows[i];
    RowResult& out = result.rows[i];
    out.reset();
    const bool pools = row.pooling != Pooling::kNone;
    if (!row.samples && row.targets.empty() && !pools) continue;
    if (not_finite && (fault->rows.empty() || std::ranges::count(fault->rows, i) > 0)) {
      out.status = RowStatus::kNotFinite;
      kv.spoil(*plan, row);  // what makes logits NaN is in keys and values too
    } else {
      score(row, out);
      if (pools) pool(row, out);
      if (row.samples) sample(row, chains[i], out);
    }
  }
}

Result<std::unique_ptr<SimBackend>> SimBackend::create(SimOptions options) {
  if (Status status = validate_info(options.info); !status.ok()) return status;
  if (Status status = options.machine.validate(); !status.ok()) return status;
  if (options.pace == SimPace::kVirtual && options.clock == nullptr) {
    return invalid_argument("sim backend: virtual time needs a clock");
  }
  options.info.peak_flops = options.machine.peak_flops;
  options.info.peak_bytes_per_second = options.machine.peak_bytes_per_second;
  return std::unique_ptr<SimBackend>(new SimBackend(std::make_unique<Impl>(std::move(options))));
}

SimBackend::SimBackend(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SimBackend::~SimBackend() = default;

const BackendInfo& SimBackend::info() const { return impl_->options.info; }

Status SimBackend::submit(const StepPlan& plan) {
  Impl& my = *impl_;
  CHECK(my.plan == nullptr, "submit() before the step in flight was waited for");
  if (!my.dead.ok()) return my.dead;
  if (const std::string broken = check_plan(plan, info()); !broken.empty()) {
    const std::lock_guard lock(my.mutex);
    my.faults.add("step " + std::to_string(plan.step) + ": " + broken);
    return internal_error("step " + std::to_string(plan.step) + " breaks its contract: " + broken);
  }
  const StepCost cost =
      my.options.cost ? my.options.cost(plan) : step_cost(my.options.machine, info(), StepWork::of(plan));
  my.fault = my.choose_fault(plan);
  my.duration_ns = cost.total_ns + (my.fault && my.fault->kind == SimFault::Kind::kSlow ? my.fault->slow_ns : 0);
  my.submitted = std::chrono::steady_clock::now();
  {
    const std::lock_guard lock(my.mutex);
    my.cost = cost;
  }
  if (my.fault && my.fault->kind == SimFault::Kind::kSubmitError) {
    my.kv.spoil(plan);
    return my.lose_step(*my.fault);
  }
  my.plan = &plan;
  return {};
}

Status SimBackend::wait(StepResult& result) {
  Impl& my = *impl_;
  CHECK(my.plan != nullptr, "wait() without a step in flight");
  Status status;
  if (my.fault && my.fault->kind == SimFault::Kind::kHang) status = my.hang();
  if (status.ok()) status = my.let_time_pass();
  if (!status.ok()) my.dead = status;
  if (status.ok() && my.fault && my.fault->kind == SimFault::Kind::kWaitError) status = my.lose_step(*my.fault);
  if (status.ok()) {
    my.execute(result);
  } else {
    my.kv.spoil(*my.plan);
  }
  my.plan = nullptr;
  return status;
}

std::vector<std::string> SimBackend::faults() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->faults.messages();
}

uint64_t SimBackend::steps() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->steps;
}

StepCost SimBackend::last_cost() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->cost;
}

void SimBackend::await_hang() {
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait(lock, [this] { return impl_->hanging; });
}

void SimBackend::release() {
  const std::lock_guard lock(impl_->mutex);
  impl_->hanging = false;
  impl_->changed.notify_all();
}

void SimBackend::interrupt() {
  const std::lock_guard lock(impl_->mutex);
  impl_->interrupted = true;
  impl_->changed.notify_all();
}

}  // namespace twostroke
