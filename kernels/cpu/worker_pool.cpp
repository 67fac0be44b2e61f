#include "kernels/cpu/worker_pool.h"

#include <sched.h>

#include <algorithm>
#include <system_error>

#include "kernels/check.h"
#include "kernels/cpu/container_limits.h"

namespace twostroke {
namespace {

constexpr uint32_t kInsideMask = 0x3ff;  // number of workers inside the job
constexpr uint32_t kOpen = 0x400;
constexpr uint32_t kStop = 0x800;
constexpr uint32_t kEpochUnit = 0x1000;  // the epoch wraps, which at worst makes a worker sit out one job
static_assert(WorkerPool::kThreadsMax <= static_cast<int>(kInsideMask));

// About 40 microseconds of pauses: longer than the gap between two operators of a step, shorter than anyone notices.
constexpr int kSpins = 1000;

uint32_t epoch_of(uint32_t state) { return state / kEpochUnit; }

void pause_briefly() { __builtin_ia32_pause(); }

}  // namespace

WorkerPool::WorkerPool(int threads) : shares_(static_cast<size_t>(std::max(threads, 1))) {
  CHECK(1 <= threads && threads <= kThreadsMax, "threads must be in [1, kThreadsMax]");
  workers_.reserve(static_cast<size_t>(threads - 1));
  try {
    for (int thread = 1; thread < threads; ++thread) workers_.emplace_back([this, thread] { work(thread); });
  } catch (const std::system_error&) {
    // threads() tells. A share without a thread of its own is taken by the others.
  }
}

WorkerPool::~WorkerPool() {
  state_.fetch_or(kStop, std::memory_order_release);
  state_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void WorkerPool::run_erased(int64_t tasks, TaskFunction function, void* context) {
  CHECK((state_.load(std::memory_order_relaxed) & (kOpen | kInsideMask)) == 0, "run() while a job is running");
  if (tasks <= 1 || workers_.empty()) {
    for (int64_t task = 0; task < tasks; ++task) function(context, task, 0);
    return;
  }
  function_ = function;
  context_ = context;
  const auto count = static_cast<int64_t>(shares_.size());
  for (int64_t i = 0; i < count; ++i) {
    Share& share = shares_[static_cast<size_t>(i)];
    share.next.store(tasks * i / count, std::memory_order_relaxed);
    share.end = tasks * (i + 1) / count;
  }
  const uint32_t epoch = (epoch_of(state_.load(std::memory_order_relaxed)) + 1) * kEpochUnit;
  state_.store(epoch | kOpen, std::memory_order_release);
  state_.notify_all();

  take_tasks(0);

  uint32_t state = state_.fetch_and(~kOpen, std::memory_order_acquire);
  for (int spins = 0; (state & kInsideMask) != 0; ++spins) {
    if (spins < kSpins) {
      pause_briefly();
    } else {
      std::this_thread::yield();  // more threads than processors: let the worker that we wait for run
    }
    state = state_.load(std::memory_order_acquire);
  }
}

void WorkerPool::take_tasks(int thread) {
  const size_t count = shares_.size();
  for (size_t i = 0; i < count; ++i) take_share(shares_[(static_cast<size_t>(thread) + i) % count], thread);
}

void WorkerPool::take_share(Share& share, int thread) {
  while (share.next.load(std::memory_order_relaxed) < share.end) {  // a look is cheaper than an addition in vain
    const int64_t task = share.next.fetch_add(1, std::memory_order_relaxed);
    if (task >= share.end) return;
    function_(context_, task, thread);
  }
}

void WorkerPool::work(int thread) {
  uint32_t last_epoch = 0;
  for (;;) {
    uint32_t state = await_job(last_epoch);
    if ((state & kStop) != 0) return;
    if (!state_.compare_exchange_strong(state, state + 1, std::memory_order_acquire, std::memory_order_relaxed)) {
      continue;
    }
    last_epoch = epoch_of(state);
    take_tasks(thread);
    state_.fetch_sub(1, std::memory_order_release);
  }
}

// Returns a state that is stopping, or open with a job that the caller has not been in.
uint32_t WorkerPool::await_job(uint32_t last_epoch) {
  for (;;) {
    uint32_t state = 0;
    for (int spins = 0; spins < kSpins; ++spins) {
      state = state_.load(std::memory_order_relaxed);
      if ((state & kStop) != 0) return state;
      if ((state & kOpen) != 0 && epoch_of(state) != last_epoch) return state;
      pause_briefly();
    }
    state_.wait(state, std::memory_order_relaxed);
  }
}

int allowed_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int count = 0;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    count = CPU_COUNT(&set);
  } else {  // more processors than cpu_set_t has bits
    count = static_cast<int>(std::thread::hardware_concurrency());
  }
  // Whole ones only: threads beyond the quota would all be stopped until the next period, in the middle of a step.
  const double quota = std::min(container_limits().processors, double{WorkerPool::kThreadsMax});
  return std::clamp(std::min(count, static_cast<int>(quota)), 1, WorkerPool::kThreadsMax);
}

}  // namespace twostroke
