#include "kernels/cpu/worker_pool.h"

#include <gtest/gtest.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/tools/too_large_stacks.h"

namespace twostroke {
namespace {

TEST(WorkerPool, RunsEveryTaskExactlyOnce) {
  for (int threads = 1; threads <= 4; ++threads) {
    WorkerPool pool(threads);
    for (int64_t tasks : {0, 1, 2, 3, 7, 64, 1000}) {
      std::vector<int> runs(static_cast<size_t>(tasks), 0);  // not atomic: the sanitizer checks that no two collide
      pool.run(tasks, [&](int64_t task, int) { ++runs[static_cast<size_t>(task)]; });
      EXPECT_EQ(runs, std::vector<int>(static_cast<size_t>(tasks), 1)) << threads << " threads, " << tasks << " tasks";
    }
  }
}

TEST(WorkerPool, GivesEachThreadAnIndexOfItsOwn) {
  WorkerPool pool(4);
  EXPECT_EQ(pool.threads(), 4);
  std::vector<int64_t> sums(4, 0);  // not atomic, as above
  for (int round = 0; round < 100; ++round) {
    pool.run(100, [&](int64_t task, int thread) { sums.at(static_cast<size_t>(thread)) += task; });
  }
  EXPECT_EQ(sums[0] + sums[1] + sums[2] + sums[3], 100 * 4950);
}

TEST(WorkerPool, TasksSeeWhatTheCallerWroteAndTheCallerSeesTheirWrites) {
  WorkerPool pool(3);
  std::vector<int> values(50, 0);
  for (int round = 1; round <= 500; ++round) {
    int addend = round;
    pool.run(50, [&](int64_t task, int) { values[static_cast<size_t>(task)] += addend; });
    addend = -1;  // after run() no task may still read it
    for (int value : values) ASSERT_EQ(value, round * (round + 1) / 2);
  }
}

TEST(WorkerPool, UsesTheWorkers) {
  WorkerPool pool(2);
  // Each task waits for the other, so only two threads at once can finish the job.
  std::atomic<int> inside = 0;
  pool.run(2, [&](int64_t, int) {
    ++inside;
    while (inside.load() < 2) std::this_thread::yield();
  });
  EXPECT_EQ(inside.load(), 2);
}

TEST(WorkerPool, WakesWorkersThatHaveGoneToSleep) {
  WorkerPool pool(2);
  for (int round = 0; round < 3; ++round) {
    // Until all workers sleep the process burns processor time; asleep, it stands still.
    const auto processor_time = [] {
      timespec time{};
      clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
      return time.tv_sec * 1'000'000'000 + time.tv_nsec;
    };
    bool idle = false;
    while (!idle) {
      const auto before = processor_time();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      idle = processor_time() - before < 5'000'000;
    }
    std::atomic<int> inside = 0;
    pool.run(2, [&](int64_t, int) {
      ++inside;
      while (inside.load() < 2) std::this_thread::yield();
    });
    EXPECT_EQ(inside.load(), 2);
  }
}

TEST(WorkerPool, StopsCleanlyWhetherOrNotItEverWorked) {
  for (int round = 0; round < 50; ++round) {
    WorkerPool unused(3);
    WorkerPool used(3);
    used.run(10, [](int64_t, int) {});
  }
}

TEST(WorkerPool, CountsAtLeastOneAllowedProcessor) {
  EXPECT_GE(allowed_processors(), 1);
  EXPECT_LE(allowed_processors(), WorkerPool::kThreadsMax);
}

TEST(WorkerPool, DoesWithTheThreadsThatTheSystemGives) {
  const TooLargeStacks no_more_threads;
  WorkerPool pool(3);
  EXPECT_EQ(pool.threads(), 1);
  std::vector<int> runs(100);
  pool.run(100, [&](int64_t task, int thread) {
    EXPECT_EQ(thread, 0);
    ++runs[static_cast<size_t>(task)];
  });
  EXPECT_EQ(runs, std::vector<int>(100, 1));
}

TEST(WorkerPoolDeathTest, RefusesAJobFromInsideATask) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        WorkerPool pool(2);
        pool.run(2, [&](int64_t, int) { pool.run(2, [](int64_t, int) {}); });
      },
      "while a job is running");
}

}  // namespace
}  // namespace twostroke
