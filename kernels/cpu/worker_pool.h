// WorkerPool: a fixed number of threads that share out the tasks of one job at a time.
//
// The thread that calls run() works too, so a pool of N threads starts N - 1 workers. A worker that finds no job spins
// for some tens of microseconds, so that the next operator of a step starts at once, and then sleeps in the kernel: an
// idle pool uses no processor time.
//
// run() waits only for workers that have entered its job. One that the operating system wakes late finds the job
// closed and delays nobody.
//
// Thread-safety: one caller at a time; not from inside a task.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace twostroke {

class WorkerPool {
 public:
  static constexpr int kThreadsMax = 512;

  // `threads` in [1, kThreadsMax], the caller's included. Where the system refuses a thread there are fewer: see
  // threads().
  explicit WorkerPool(int threads);
  ~WorkerPool();  // no run() may be in progress
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(task, thread) once for every task in [0, tasks), each on some thread of [0, threads()), and returns when
  // all calls have returned. Every thread has an equal share of consecutive tasks, which it takes in ascending order,
  // so that neighbours find in its cache what they share; one that has finished its own takes from the others' shares.
  // No two calls at once have the same `thread`, so it can index scratch memory. `body` must not throw. What the caller
  // wrote before is visible to the tasks, and what they wrote is visible after.
  template <typename Body>
  void run(int64_t tasks, Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    run_erased(
        tasks, [](void* context, int64_t task, int thread) { (*static_cast<Plain*>(context))(task, thread); },
        const_cast<void*>(static_cast<const void*>(&body)));
  }

 private:
  // What is left of a thread's tasks: [next, end).
  struct alignas(64) Share {
    std::atomic<int64_t> next = 0;  // may run past `end`
    int64_t end = 0;
  };
  using TaskFunction = void (*)(void* context, int64_t task, int thread);

  void run_erased(int64_t tasks, TaskFunction function, void* context);
  void take_tasks(int thread);
  void take_share(Share& share, int thread);
  void work(int thread);
  uint32_t await_job(uint32_t last_epoch);

  // The job. Written by run() while the job is closed and nobody is inside; read by those inside.
  TaskFunction function_ = nullptr;
  void* context_ = nullptr;
  std::vector<Share> shares_;  // by thread
  // How many workers are inside the job, whether it is open to enter, whether the pool is stopping, and the job's
  // number (epoch), all in one word so that entering an open job is one compare-and-exchange.
  alignas(64) std::atomic<uint32_t> state_ = 0;
  std::vector<std::thread> workers_;
};

// Processors this process may use, by its affinity mask and its container's quota; in [1, WorkerPool::kThreadsMax].
int allowed_processors();

}  // namespace twostroke
