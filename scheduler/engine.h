// Engine: the step thread around a Scheduler and a Backend.
//
// Inbound: one bounded inbox (a mutex and a condition variable, no polling). Outbound: one call of the sink per step,
// with all events of that step. While idle the step thread sleeps.
//
//   any thread --submit/cancel/finish_sequence--> inbox --> step thread: schedule, backend, commit --> sink(StepOutput)
//
// Thread-safety: every public method may be called from any thread. The sink is called on the step thread only and must
// be quick and must not throw; what it hands over to other threads is its business.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "kernels/clock.h"
#include "scheduler/cost/phase_work.h"
#include "scheduler/event.h"
#include "scheduler/request.h"
#include "scheduler/scheduler.h"
#include "scheduler/time.h"

namespace twostroke {

// Which phases took part in a step.
enum class StepClass : uint8_t { kPrefill, kDecode, kMixed };

struct StepOutput {
  std::vector<Event> events;
  bool stepped = false;  // false: only events of cancels, of a lost step and the like; the fields up to `gauges` mean
                         // nothing
  uint64_t step = 0;     // StepPlan::step
  TimeNs began = 0;      // before submit
  StepClass step_class = StepClass::kDecode;
  StepCounts counts;
  PhaseWork work;          // estimated
  CostShares attributed;   // the phases' shares of duration_ns: a mixed step's by the cost model
  TimeNs duration_ns = 0;  // from before submit to the end of wait
  TimeNs mask_ns = 0;      // of it, what computing the masks took
  SchedulerGauges gauges;  // after the step
};

struct EngineLimits {
  uint32_t max_inbox_commands = 8192;  // cancels and finishes are always taken; submits beyond it are refused
  uint32_t max_explains_pending = 64;  // explain() calls that the step thread has not come to yet
};

class Engine {
 public:
  using Sink = std::function<void(StepOutput&&)>;
  // One for each of the requests asked for, in their order.
  using Explanations = std::vector<std::optional<RequestExplanation>>;
  using Explained = std::function<void(Result<Explanations>)>;

  // Starts the step thread. `backend`, `clock` and `journal`, which gets every call of the scheduler (journal.h; null:
  // nobody does), must outlive the engine.
  Engine(const SchedulerLimits& limits, const EngineLimits& engine_limits, Backend& backend, Sink sink,
         Clock& clock = steady_clock(), JournalOutput* journal = nullptr);
  ~Engine();  // stop(), then joins
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const SchedulerLimits& limits() const;
  const BackendInfo& backend_info() const;

  // Accepts or refuses at once. OK: exactly one kEnded event will follow for this id. Errors as Scheduler::submit, and:
  //   kResourceExhausted  the inbox is full, or waiting requests or tokens (counting what is in the inbox) reach their
  //                       bound
  //   kDeadlineExceeded   objectives.ttft_ns cannot be met (forecast.h)
  //   kUnavailable        draining, stopped, or the backend has failed for good
  // `retry_after_s`, of a request refused with one of the first two: in how many seconds it is worth while to send it
  // again, at least 1: when its objective could be met, or else when a tenth of what waits is predicted to have
  // started. 0 where the objective cannot be met even with the machine to itself.
  Status submit(Request request, uint32_t* retry_after_s = nullptr);

  void cancel(RequestId request);                              // never blocks, never refused
  void finish_sequence(RequestId request, uint32_t sequence);  // likewise

  // Where these requests are and why they wait (Scheduler::explain), as of the end of the step under way. `done` is
  // called once: on the step thread, where it must be quick and must not throw, or on the caller's before this returns,
  // with an error:
  //   kResourceExhausted  max_explains_pending are waiting for the step thread already
  //   kUnavailable        stopping
  // While a backend hangs in a step, `done` is not called: the caller's patience is its own business.
  void explain(std::vector<RequestId> requests, Explained done);
  TimeNs now() const;  // of the engine's clock, which all of its times are of

  // Refuses new requests from now on; those accepted go on.
  void begin_drain();
  // True when draining and nothing is left.
  bool drained() const;
  // Ends what is left with kFailed (kUnavailable, "the server is shutting down") and stops the step thread, once the
  // step in flight is done. Returns at once: the sink may get those ends until the destructor returns.
  void stop();

  // True once the step thread is done, after stop(): then the destructor returns at once. A backend that hangs keeps it
  // false for ever.
  bool ended() const;

  // The step thread's sign of life: how long the current step has been running, 0 between steps. Readiness compares it
  // with a limit; a hung backend shows here.
  TimeNs step_age_ns() const;
  // OK, or why the engine can serve no longer (the backend died).
  Status health() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace twostroke
