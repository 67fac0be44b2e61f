#include "scheduler/engine.h"

#include <pthread.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <limits>
#include <mutex>
#include <thread>
#include <variant>

#include "kernels/check.h"

namespace twostroke {
namespace {

struct SubmitCommand {
  Request request;
  TimeNs submitted;  // the wait in the inbox counts
};
struct CancelCommand {
  RequestId request;
};
struct FinishCommand {
  RequestId request;
  uint32_t sequence;
};
struct ExplainCommand {
  std::vector<RequestId> requests;
  Engine::Explained done;
};
using Command = std::variant<SubmitCommand, CancelCommand, FinishCommand, ExplainCommand>;

constexpr TimeNs kBetweenSteps = std::numeric_limits<TimeNs>::min();

// The engine keeps the bounds on waiting itself, at its door: what it has accepted the scheduler must take.
SchedulerLimits without_waiting_bounds(SchedulerLimits limits) {
  CHECK(limits.max_waiting_requests > 0 && limits.max_waiting_tokens > 0, "scheduler limits must be positive");
  limits.max_waiting_requests = std::numeric_limits<uint32_t>::max();
  limits.max_waiting_tokens = std::numeric_limits<uint64_t>::max();
  return limits;
}

StepClass class_of(const StepCounts& counts) {
  if (counts.shape.prefill_rows == 0) return StepClass::kDecode;
  return counts.shape.decode_rows == 0 ? StepClass::kPrefill : StepClass::kMixed;
}

// Requests waiting, and their prompt tokens.
struct Waiting {
  uint64_t requests = 0;
  uint64_t tokens = 0;
};

// Of those that the scheduler does not know yet, what they need too.
struct WaitingOutside : Waiting {
  PromptLoad needed;
};

}  // namespace

struct Engine::Impl {
  Impl(const SchedulerLimits& given, const EngineLimits& own, Backend& backend_given, Sink sink_given,
       Clock& clock_given, JournalOutput* journal)
      : engine_limits(own),
        block_size(static_cast<uint32_t>(backend_given.info().block_size)),
        backend(backend_given),
        sink(std::move(sink_given)),
        clock(clock_given),
        scheduler(without_waiting_bounds(given), backend.info()),
        limits(scheduler.limits()) {
    limits.max_waiting_requests = given.max_waiting_requests;
    limits.max_waiting_tokens = given.max_waiting_tokens;
    basis = scheduler.forecast_basis();
    rests_since = clock.now();
    if (journal != nullptr) scheduler.record_to(*journal);
  }

  // Any thread.
  Status submit(Request&& request, uint32_t* retry_after_s);
  PromptNeed need_of(const Request& request) const;
  void spare_of_inbox(const Request& request, PromptNeed& need) const;  // under the mutex, as the next four
  Status refuse(const Request& request, const PromptNeed& need);
  Status refuse_deadline(const Request& request, const PromptNeed& need);
  Forecast forecast_newcomer(int32_t priority, const PromptNeed& need) const;
  uint32_t retry_after_s(const Request& request, const PromptNeed& need) const;
  void send(Command command);
  void explain(std::vector<RequestId>&& requests, Explained&& done);

  // Step thread.
  void run();
  bool take_commands();
  void apply_commands();
  void publish_waiting();
  void step();
  void run_step(StepOutput& output);
  TimeNs fill_masks();
  void die(const Status& error, TimeNs now, std::vector<Event>& events);
  void deliver(StepOutput&& output);

  const EngineLimits engine_limits;
  const uint32_t block_size;
  Backend& backend;
  const Sink sink;
  Clock& clock;

  // Changed by the step thread alone, which holds `scheduler_mutex` as long as it does; whoever holds that may read
  // what is const. validate() and limits() are immutable. `mutex` may be taken while holding it, never the other way
  // round.
  mutable std::mutex scheduler_mutex;
  Scheduler scheduler;

  // Step thread only.
  SchedulerLimits limits;
  StepPlan plan;
  StepResult result;
  std::vector<Command> commands;  // taken from the inbox
  uint32_t idle_steps = 0;        // in a row that did nothing although there was something to do

  std::atomic<TimeNs> step_began{kBetweenSteps};
  std::atomic<bool> thread_ended{false};

  mutable std::mutex mutex;
  std::condition_variable wake;  // the step thread, for the inbox and stopping
  std::vector<Command> inbox;
  WaitingOutside inbox_waiting;  // of the submits in the inbox
  WaitingOutside taken_waiting;  // of those the step thread has taken and the next line does not count yet
  Waiting scheduler_waiting;     // as of the last publish_waiting()
  ForecastBasis basis;           // likewise
  DeadlineGate gate;
  uint64_t unended = 0;    // accepted requests whose kEnded the sink has not got
  TimeNs rests_since = 0;  // the end of the last step, or the beginning of all
  uint32_t explains_pending = 0;
  bool draining = false;
  bool stopping = false;
  Status health;

  std::thread thread;  // last: it uses all of the above
};

// ---- Any thread

// What the prefix cache has of it matters to an objective only; the others need not wait for the step thread.
PromptNeed Engine::Impl::need_of(const Request& request) const {
  const auto length = static_cast<uint32_t>(request.prompt.size());
  if (request.objectives.ttft_ns == 0) return {.length = length, .tokens = length, .blocks = length / block_size + 1};
  const std::lock_guard lock(scheduler_mutex);
  return scheduler.need_of(request);
}

// Those before it that the scheduler does not know yet may begin like it too.
void Engine::Impl::spare_of_inbox(const Request& request, PromptNeed& need) const {
  if (!limits.prefix_cache) return;
  const size_t looks = std::min(inbox.size(), kBeginningsCompared);
  for (const Command& command : std::span(inbox).last(looks)) {
    const auto* other = std::get_if<SubmitCommand>(&command);
    if (other != nullptr) spare(need, shared_beginning(other->request, request), block_size);
  }
}

// Every reason to refuse is decided here, under one lock with the counts that it depends on: what gets in stays in.
Status Engine::Impl::refuse(const Request& request, const PromptNeed& need) {
  const size_t prompt_tokens = request.prompt.size();
  if (!health.ok()) return health;
  if (stopping || draining) return unavailable("the server is shutting down");
  if (inbox.size() >= engine_limits.max_inbox_commands) {
    return resource_exhausted("the engine's inbox is full: max_inbox_commands is " +
                              std::to_string(engine_limits.max_inbox_commands) + "; try again later");
  }
  const uint64_t requests = inbox_waiting.requests + taken_waiting.requests + scheduler_waiting.requests;
  if (requests >= limits.max_waiting_requests) {
    return resource_exhausted("the queue is full: " + std::to_string(requests) +
                              " requests are waiting; try again later");
  }
  const uint64_t tokens = inbox_waiting.tokens + taken_waiting.tokens + scheduler_waiting.tokens;
  if (tokens > 0 && tokens + prompt_tokens > limits.max_waiting_tokens) {
    return resource_exhausted("the queue is full: " + std::to_string(tokens) +
                              " prompt tokens are waiting; try again later");
  }
  return refuse_deadline(request, need);
}

// What is in the inbox goes before it, whatever its priority: it is not sorted yet.
Forecast Engine::Impl::forecast_newcomer(int32_t priority, const PromptNeed& need) const {
  ForecastRequest request = newcomer(basis, priority, need);
  for (const PromptLoad& load : {inbox_waiting.needed, taken_waiting.needed}) {
    request.before += load;
    if (request.before_as_short) *request.before_as_short += load;
  }
  return forecast(basis, request);
}

Status Engine::Impl::refuse_deadline(const Request& request, const PromptNeed& need) {
  const TimeNs objective_ns = request.objectives.ttft_ns;
  if (objective_ns == 0 || !basis.known) return {};
  const Forecast predicted = forecast_newcomer(request.priority, need);
  if (gate.admits(predicted.first_token_ns, predicted.alone_ns, objective_ns)) return {};
  const TimeNs trusted_ns = predicted.alone_ns <= objective_ns ? kForecastDoubtedNs : kForecastTrustedNs;
  if (unended == 0 && clock.now() - rests_since >= trusted_ns) return {};
  const auto seconds = [](TimeNs time) {
    char text[32];
    std::snprintf(text, sizeof text, time < kSecondNs ? "%.4g ms" : "%.2f s",
                  time < kSecondNs ? 1e3 * to_seconds(time) : to_seconds(time));
    return std::string(text);
  };
  if (predicted.alone_ns > objective_ns) {
    const std::string cached = need.tokens < need.length
                                   ? ", of which " + std::to_string(need.length - need.tokens) + " are cached,"
                                   : std::string();
    return deadline_exceeded("the first token of this prompt of " + std::to_string(need.length) + " tokens" + cached +
                             " is predicted to take " + seconds(predicted.alone_ns) +
                             " even with the machine to itself, longer than the objective of " + seconds(objective_ns) +
                             ": shorten the prompt, or allow more time");
  }
  const std::string prediction = "the first token is predicted in " + seconds(predicted.first_token_ns);
  if (predicted.first_token_ns <= objective_ns) {
    return deadline_exceeded(prediction + ": within the objective of " + seconds(objective_ns) +
                             ", but with less than a fifth of it to spare, which is asked for while others have to be"
                             " refused; try again later");
  }
  return deadline_exceeded(prediction + ", later than the objective of " + seconds(objective_ns) + "; try again later");
}

uint32_t Engine::Impl::retry_after_s(const Request& request, const PromptNeed& need) const {
  constexpr double kSecondsMax = 3600;
  if (!basis.known) return 1;
  const Forecast predicted = forecast_newcomer(request.priority, need);
  double wait_ns = 0.1 * static_cast<double>(predicted.start_ns);
  if (const TimeNs objective_ns = request.objectives.ttft_ns; objective_ns > 0) {
    if (predicted.alone_ns > objective_ns) return 0;
    const double goal = DeadlineGate::kReopen * static_cast<double>(objective_ns);
    wait_ns = std::max(wait_ns, static_cast<double>(predicted.first_token_ns) - goal);
  }
  return static_cast<uint32_t>(std::clamp(std::ceil(wait_ns * 1e-9), 1.0, kSecondsMax));
}

Status Engine::Impl::submit(Request&& request, uint32_t* retry) {
  if (Status status = scheduler.validate(request); !status.ok()) return status;
  PromptNeed need = need_of(request);
  const TimeNs now = clock.now();
  {
    const std::lock_guard lock(mutex);
    spare_of_inbox(request, need);
    if (Status status = refuse(request, need); !status.ok()) {
      if (retry != nullptr) *retry = retry_after_s(request, need);
      return status;
    }
    const PromptLoad inbox_load = load_of(need, request.n);
    inbox.emplace_back(SubmitCommand{std::move(request), now});
    ++inbox_waiting.requests;
    inbox_waiting.tokens += need.length;
    inbox_waiting.needed += inbox_load;
    ++unended;
  }
  wake.notify_one();
  return {};
}

void Engine::Impl::send(Command command) {
  {
    const std::lock_guard lock(mutex);
    inbox.push_back(std::move(command));
  }
  wake.notify_one();
}

// While not stopping, what is in the inbox is taken.
void Engine::Impl::explain(std::vector<RequestId>&& requests, Explained&& done) {
  Status refusal;
  {
    const std::lock_guard lock(mutex);
    if (stopping) {
      refusal = unavailable("the server is shutting down");
    } else if (explains_pending >= engine_limits.max_explains_pending) {
      refusal = resource_exhausted(std::to_string(explains_pending) +
                                   " such questions wait for the step under way already; try again later");
    } else {
      ++explains_pending;
      inbox.emplace_back(ExplainCommand{std::move(requests), std::move(done)});
    }
  }
  if (!refusal.ok()) return done(std::move(refusal));
  wake.notify_one();
}

// ---- Step thread

void Engine::Impl::run() {
  pthread_setname_np(pthread_self(), "twostroke-step");
  while (take_commands()) {
    apply_commands();
    step();
  }
  apply_commands();
  StepOutput output;
  {
    const std::lock_guard changes(scheduler_mutex);
    scheduler.fail_all(unavailable("the server is shutting down"), clock.now());
    scheduler.drain_events(output.events);
  }
  publish_waiting();
  deliver(std::move(output));
  thread_ended.store(true, std::memory_order_release);
}

// Sleeps until there is something to do. False when stopping; then too, all that was accepted has been taken.
bool Engine::Impl::take_commands() {
  std::unique_lock lock(mutex);
  if (scheduler.idle()) wake.wait(lock, [this] { return stopping || !inbox.empty(); });
  commands.swap(inbox);
  taken_waiting = std::exchange(inbox_waiting, {});
  return !stopping;
}

void Engine::Impl::apply_commands() {
  if (commands.empty()) return;
  const TimeNs now = clock.now();
  const std::lock_guard changes(scheduler_mutex);
  for (Command& command : commands) {
    if (auto* submit = std::get_if<SubmitCommand>(&command)) {
      const Status status = scheduler.submit(std::move(submit->request), submit->submitted);
      CHECK(status.ok(), status.message());
    } else if (const auto* cancel = std::get_if<CancelCommand>(&command)) {
      scheduler.cancel(cancel->request, now);
    } else if (const auto* finish = std::get_if<FinishCommand>(&command)) {
      scheduler.finish_sequence(finish->request, finish->sequence, now);
    } else {
      auto& question = std::get<ExplainCommand>(command);
      {
        const std::lock_guard lock(mutex);
        --explains_pending;
      }
      question.done(scheduler.explain(question.requests));
    }
  }
  commands.clear();
}

// From here on the scheduler's own count includes what was taken.
void Engine::Impl::publish_waiting() {
  const SchedulerGauges gauges = scheduler.gauges();
  const ForecastBasis basis_now = scheduler.forecast_basis();
  const std::lock_guard lock(mutex);
  basis = basis_now;
  scheduler_waiting = {gauges.requests_waiting, gauges.waiting_prompt_tokens};
  taken_waiting = {};
}

void Engine::Impl::step() {
  StepOutput output;
  {
    const std::lock_guard changes(scheduler_mutex);
    scheduler.schedule(clock.now(), plan, output.counts);
    if (plan.empty()) scheduler.drain_events(output.events);
  }
  publish_waiting();
  if (plan.empty()) {
    idle_steps = scheduler.idle() || !output.events.empty() ? 0 : idle_steps + 1;
    CHECK(idle_steps < 2, "requests are left, but nothing can run");
  } else {
    idle_steps = 0;
    run_step(output);
    publish_waiting();
  }
  deliver(std::move(output));
}

void Engine::Impl::run_step(StepOutput& output) {
  const TimeNs began = clock.now();
  step_began.store(began, std::memory_order_release);
  const bool late_masks = backend.info().late_masks;
  if (!late_masks) output.mask_ns = fill_masks();
  Status status = backend.submit(plan);
  if (status.ok()) {
    if (late_masks) output.mask_ns = fill_masks();  // while the step runs
    status = backend.wait(result);
  }
  const TimeNs ended = clock.now();
  step_began.store(kBetweenSteps, std::memory_order_release);

  if (status.ok()) {
    {
      const std::lock_guard changes(scheduler_mutex);
      scheduler.commit(plan, result, ended, output.events);
    }
    output.stepped = true;
    output.counts.accepted_draft_tokens =
        static_cast<uint32_t>(std::ranges::count(output.events, true, &Event::same_step));
    output.step = plan.step;
    output.began = began;
    output.step_class = class_of(output.counts);
    output.work = phase_work(output.counts.shape, backend.info());
    output.duration_ns = ended - began;
    output.attributed = scheduler.cost_model().attribute(output.counts.shape, output.duration_ns);
    // Masks that the backend has to wait for are not its work.
    const std::lock_guard changes(scheduler_mutex);
    scheduler.learn(output.counts.shape, output.duration_ns - (late_masks ? 0 : output.mask_ns));
  } else if (status.code() == StatusCode::kUnavailable) {
    die(unavailable("the backend has failed for good: " + status.message()), ended, output.events);
  } else {
    const std::lock_guard changes(scheduler_mutex);
    scheduler.fail(plan, internal_error("the backend lost a step: " + status.message()), ended, output.events);
  }
}

TimeNs Engine::Impl::fill_masks() {
  const TimeNs began = clock.now();
  scheduler.fill_masks(plan);
  return clock.now() - began;
}

// Nothing is accepted after this, and everything that was ends with the error.
void Engine::Impl::die(const Status& error, TimeNs now, std::vector<Event>& events) {
  {
    const std::lock_guard changes(scheduler_mutex);
    scheduler.fail(plan, error, now, events);
  }
  {
    const std::lock_guard lock(mutex);
    health = error;
    commands.swap(inbox);
    taken_waiting = std::exchange(inbox_waiting, {});
  }
  apply_commands();
  const std::lock_guard changes(scheduler_mutex);
  scheduler.fail_all(error, now);
  scheduler.drain_events(events);
}

void Engine::Impl::deliver(StepOutput&& output) {
  if (!output.stepped && output.events.empty()) return;
  const auto ended = std::ranges::count(output.events, Event::Kind::kEnded, &Event::kind);
  output.gauges = scheduler.gauges();
  const bool stepped = output.stepped;
  sink(std::move(output));
  const std::lock_guard lock(mutex);
  if (stepped) rests_since = clock.now();
  unended -= static_cast<uint64_t>(ended);
}

// ---- The public face

Engine::Engine(const SchedulerLimits& limits, const EngineLimits& engine_limits, Backend& backend, Sink sink,
               Clock& clock, JournalOutput* journal)
    : impl_(std::make_unique<Impl>(limits, engine_limits, backend, std::move(sink), clock, journal)) {
  impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
}

Engine::~Engine() {
  stop();
  impl_->thread.join();
}

const SchedulerLimits& Engine::limits() const { return impl_->limits; }
const BackendInfo& Engine::backend_info() const { return impl_->backend.info(); }

Status Engine::submit(Request request, uint32_t* retry_after_s) {
  return impl_->submit(std::move(request), retry_after_s);
}
void Engine::cancel(RequestId request) { impl_->send(CancelCommand{request}); }
void Engine::finish_sequence(RequestId request, uint32_t sequence) { impl_->send(FinishCommand{request, sequence}); }

void Engine::explain(std::vector<RequestId> requests, Explained done) {
  impl_->explain(std::move(requests), std::move(done));
}
TimeNs Engine::now() const { return impl_->clock.now(); }

void Engine::begin_drain() {
  const std::lock_guard lock(impl_->mutex);
  impl_->draining = true;
}

bool Engine::drained() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->draining && impl_->unended == 0;
}

void Engine::stop() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->wake.notify_one();
}

bool Engine::ended() const { return impl_->thread_ended.load(std::memory_order_acquire); }

TimeNs Engine::step_age_ns() const {
  const TimeNs began = impl_->step_began.load(std::memory_order_acquire);
  return began == kBetweenSteps ? 0 : std::max<TimeNs>(impl_->clock.now() - began, 0);
}

Status Engine::health() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->health;
}

}  // namespace twostroke
