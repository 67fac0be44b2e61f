// SimBackend: a backend without a model, for tests, for planning, and for `serve --backend sim`.
//
// It executes steps exactly as their contract says (backend/step.h), over a fake KV cache (fake_kv.h) and a fake model
// (fake_model.h) whose tokens depend on every earlier token of their sequence and on nothing else: not on the batch,
// the chunking, the blocks or the cache. What a step costs is computed for a named machine (machine.h) and spent in
// virtual time, in real time, or not at all. It finds broken promises of its caller, and fails on request. The same
// steps give the same results, always and everywhere.
//
// Thread-safety: submit() and wait() from one thread at a time; everything else from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/sim/fake_kv.h"
#include "backend/sim/machine.h"
#include "backend/sim/virtual_clock.h"
#include "kernels/clock.h"
#include "kernels/status.h"

namespace twostroke {

enum class SimPace : uint8_t {
  kFree,     // steps take no time
  kVirtual,  // wait() advances SimOptions::clock by the step's cost
  kReal,     // wait() returns when the step's cost has passed since submit()
};

// Something that goes wrong in one step.
struct SimFault {
  enum class Kind : uint8_t {
    kSubmitError,  // submit() returns `error`
    kWaitError,    // wait() returns `error`
    kNotFinite,    // rows that give numbers get RowStatus::kNotFinite: those in `rows`, or all when it is empty
    kSlow,         // the step costs slow_ns more
    kHang,         // wait() blocks until release(), then goes on as usual
  };
  Kind kind = Kind::kWaitError;
  // Of code kUnavailable: the backend is dead, and every later submit() returns it too.
  Status error = internal_error("injected fault");
  std::vector<uint32_t> rows = {};
  TimeNs slow_ns = 0;
};

// What a script sees of a row that samples.
struct SimRowView {
  const StepPlan& plan;
  const Row& row;         // row.history holds all tokens so far, accepted drafts included
  uint64_t chain;         // hash of all tokens so far, as read from the cache
  uint64_t output_index;  // 0 for the first token behind the prompt
};

// Of all blocks. Slots of the fake cache take 24 bytes each: at most 6 GiB.
constexpr int64_t kSimPositionsMax = int64_t{1} << 28;

struct SimOptions {
  BackendInfo info = default_info();  // its peaks are the machine's
  SimMachine machine;
  SimPace pace = SimPace::kFree;
  VirtualClock* clock = nullptr;  // kVirtual only, and required there; outlives the backend
  KvCheck kv_check = KvCheck::kRecord;
  // What a step costs, in the place of the roofline's step_cost(). Called on the step thread by submit().
  std::function<StepCost(const StepPlan&)> cost;

  // Chooses tokens; nullopt, or no function: the fake model chooses. Called on the step thread.
  std::function<std::optional<TokenId>(const SimRowView&)> script;

  // Faults by StepPlan::step, and by a function that is asked once per step, on the step thread (the first wins).
  std::map<uint64_t, SimFault> step_faults;
  std::function<std::optional<SimFault>(const StepPlan&)> fault;

  // A small model's numbers: 1,000 tokens, 64 blocks of 16 positions, a context of 1,024, states of 16 numbers.
  static BackendInfo default_info();
};

class SimBackend final : public Backend {
 public:
  // Errors: kInvalidArgument, naming the option.
  static Result<std::unique_ptr<SimBackend>> create(SimOptions options);
  ~SimBackend() override;

  const BackendInfo& info() const override;
  // Errors: those injected; kUnavailable when dead or interrupted; kInternal for a plan that breaks its contract
  // (check_plan), which is also kept in faults().
  Status submit(const StepPlan& plan) override;
  Status wait(StepResult& result) override;

  // What the caller did wrong, the first FaultLog::kKeptMax of it. Empty in a correct program.
  std::vector<std::string> faults() const;

  uint64_t steps() const;      // that ran to their end
  StepCost last_cost() const;  // of the step submitted last, without injected slowness

  // Blocks until a wait() hangs by SimFault::kHang.
  void await_hang();
  // Lets the hanging wait() go on. One that hangs later hangs again.
  void release();
  // Ends a wait() that hangs or lets time pass, now or later, with kUnavailable: the backend is dead.
  void interrupt();

 private:
  struct Impl;
  explicit SimBackend(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace twostroke
