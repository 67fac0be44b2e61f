// What a step costs beside the model: schedule() and commit(), with no backend in between.
//
//   cmake --build --preset release --target scheduler_bench && build/release/scheduler_bench
//
// `time_per_row` is the time of one schedule() and one commit() over the rows of the step; `allocations` those of a
// step, on average.

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "kernels/check.h"
#include "scheduler/journal/journal.h"
#include "scheduler/scheduler.h"

static uint64_t allocations = 0;

[[gnu::noinline]] void* operator new(size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace twostroke {
namespace {

constexpr uint32_t kPrompt = 200;
constexpr uint32_t kSteps = 2000;
constexpr uint32_t kTenants = 100;

// Gathers records as JournalFile does; what its thread takes is dropped.
class DroppedJournal final : public JournalOutput {
 public:
  void append(std::string_view records) override {
    gathered_.append(records);
    bytes += records.size();
    if (gathered_.size() >= size_t{1} << 20) gathered_.clear();
  }
  uint64_t bytes = 0;

 private:
  std::string gathered_;
};

class Bench {
 public:
  Bench(uint32_t running, uint32_t block_count, uint32_t max_running, JournalOutput* journal = nullptr,
        uint32_t max_draft_tokens = 0, Order order = Order::kFcfs) {
    BackendInfo info;
    info.vocab_size = 50'000;
    info.context_max = 8192;
    info.block_size = 16;
    info.block_count = static_cast<int32_t>(block_count);
    info.step_tokens_max = 4096;
    info.step_rows_max = 1024;
    info.step_drafts_max = 512;
    SchedulerLimits limits;
    limits.order = order;
    limits.max_draft_tokens = max_draft_tokens;
    if (max_draft_tokens > 0) limits.costs.emplace().token_ns.fill(1e6);  // so that every draft pays
    limits.max_step_tokens = 4096;
    limits.max_chunk_tokens = 512;
    limits.max_running = max_running;
    limits.max_waiting_requests = 100'000;
    limits.max_waiting_tokens = 1'000'000'000;
    scheduler_ = std::make_unique<Scheduler>(limits, info);
    if (journal != nullptr) scheduler_->record_to(*journal);
    submit(running, kPrompt);
    while (scheduler_->gauges().sequences_running < running || counts_.shape.prefill_rows > 0) step();
  }

  // Prompts and outputs differ, so that nothing is shared.
  void submit(uint32_t count, uint32_t prompt) {
    for (uint32_t i = 0; i < count; ++i) {
      Request request;
      request.id = ++requests_;
      request.tenant = request.id % kTenants;
      request.prompt.assign(prompt, static_cast<TokenId>(request.id % 50'000));
      request.max_tokens = 8000;
      CHECK(scheduler_->submit(std::move(request), 0).ok());
    }
  }

  void step() {
    now_ += kMillisecondNs;
    scheduler_->schedule(now_, plan_, counts_);
    result_.rows.resize(plan_.rows.size());
    for (size_t i = 0; i < plan_.rows.size(); ++i) {
      if (plan_.rows[i].samples) result_.rows[i].token = static_cast<TokenId>((plan_.rows[i].sequence * 7) % 50'000);
    }
    events_.clear();
    scheduler_->commit(plan_, result_, now_, events_);
  }

  size_t rows() const { return plan_.rows.size(); }
  const Scheduler& scheduler() const { return *scheduler_; }

 private:
  std::unique_ptr<Scheduler> scheduler_;
  RequestId requests_ = 0;
  TimeNs now_ = 0;
  StepPlan plan_;
  StepCounts counts_;
  StepResult result_;
  std::vector<Event> events_;
};

void measure(benchmark::State& state, Bench& bench, size_t rows) {
  const uint64_t before = allocations;
  for (auto _ : state) bench.step();
  state.counters["allocations"] =
      benchmark::Counter(static_cast<double>(allocations - before), benchmark::Counter::kAvgIterations);
  CHECK(bench.rows() == rows, "not the step that was to be measured");
  state.counters["time_per_row"] = benchmark::Counter(static_cast<double>(state.iterations() * rows),
                                                      benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void decode(benchmark::State& state) {
  const auto rows = static_cast<uint32_t>(state.range(0));
  Bench bench(rows, rows * (kPrompt + kSteps + 100) / 16, rows);
  measure(state, bench, rows);
}
BENCHMARK(decode)->ArgName("rows")->Arg(1)->Arg(16)->Arg(256)->Iterations(kSteps)->Unit(benchmark::kMicrosecond);

// Each row looks for drafts, and the first in line get as many as a step may have; none of them is accepted.
void decode_with_drafts(benchmark::State& state) {
  const auto rows = static_cast<uint32_t>(state.range(0));
  Bench bench(rows, rows * (kPrompt + kSteps + 100) / 16, rows, nullptr, 8);
  measure(state, bench, rows);
}
BENCHMARK(decode_with_drafts)
    ->ArgName("rows")
    ->Arg(1)
    ->Arg(16)
    ->Arg(256)
    ->Iterations(kSteps)
    ->Unit(benchmark::kMicrosecond);

void decode_with_a_journal(benchmark::State& state) {
  const auto rows = static_cast<uint32_t>(state.range(0));
  DroppedJournal journal;
  Bench bench(rows, rows * (kPrompt + kSteps + 100) / 16, rows, &journal);
  const uint64_t before = journal.bytes;
  measure(state, bench, rows);
  state.counters["bytes"] =
      benchmark::Counter(static_cast<double>(journal.bytes - before), benchmark::Counter::kAvgIterations);
}
BENCHMARK(decode_with_a_journal)
    ->ArgName("rows")
    ->Arg(1)
    ->Arg(16)
    ->Arg(256)
    ->Iterations(kSteps)
    ->Unit(benchmark::kMicrosecond);

// Everything that may run does.
void decode_with_waiting_behind_the_running_limit(benchmark::State& state) {
  const auto order = static_cast<Order>(state.range(0));
  Bench bench(256, 256 * (kPrompt + kSteps + 100) / 16, 256, nullptr, 0, order);
  state.SetLabel(std::string(name_of(order)));
  bench.submit(10'000, kPrompt);
  measure(state, bench, 256);
  CHECK(bench.scheduler().gauges().sequences_waiting == 10'000);
}
BENCHMARK(decode_with_waiting_behind_the_running_limit)
    ->ArgName("order")
    ->DenseRange(0, 2)
    ->Iterations(kSteps)
    ->Unit(benchmark::kMicrosecond);

// More could run, but there are no blocks for them: the queue is looked through in every step.
void decode_with_waiting_for_blocks(benchmark::State& state) {
  const auto order = static_cast<Order>(state.range(0));
  Bench bench(256, 256 * (kPrompt + 48) / 16, 1024, nullptr, 0, order);
  state.SetLabel(std::string(name_of(order)));
  bench.submit(10'000, 6000);
  measure(state, bench, 256);
  CHECK(bench.scheduler().gauges().sequences_waiting == 10'000);
}
BENCHMARK(decode_with_waiting_for_blocks)
    ->ArgName("order")
    ->DenseRange(0, 2)
    ->Iterations(20)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace twostroke
