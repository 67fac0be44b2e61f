// The scheduler over the real transformer: greedy output is the same tokens whatever happens around a request. The
// model is small and random, which makes near ties of the two best tokens common: any difference in the bits would
// show.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "backend/cpu/cpu_backend.h"
#include "scheduler/scheduler.h"
#include "tests/tools/temp_file.h"
#include "tests/tools/tiny_llama.h"

namespace twostroke {
namespace {

constexpr int32_t kVocab = 64;
constexpr uint32_t kRequests = 32;

struct Setting {
  SchedulerLimits limits;
  int32_t block_count = 4000;
  int32_t threads = 2;
};

class SameTokens : public testing::Test {
 protected:
  using Outputs = std::map<RequestId, std::vector<TokenId>>;

  // Prompts of 1 to 600 tokens, half of them with a common beginning; 20 to 60 tokens out.
  static Request request(RequestId id) {
    std::mt19937 random(static_cast<uint32_t>(id));
    Request request;
    request.id = id;
    const uint32_t length = id % 8 == 0 ? 600 : 1 + static_cast<uint32_t>(random() % 90);
    for (uint32_t i = 0; i < length; ++i) {
      const bool common = id % 2 == 0 && i < 70;
      request.prompt.push_back(static_cast<TokenId>(common ? i % kVocab : random() % kVocab));
    }
    request.max_tokens = 20 + static_cast<uint32_t>(random() % 41);
    request.sampling.temperature = 0;
    return request;
  }

  Outputs run(const Setting& setting, const std::vector<RequestId>& ids) {
    CpuBackendOptions options;
    options.model_path = model_.path();
    options.threads = setting.threads;
    options.block_count = setting.block_count;
    options.step_tokens_max = 700;
    options.step_rows_max = 64;
    auto created = CpuBackend::create(options, {});
    EXPECT_TRUE(created.ok()) << created.status().message();
    CpuBackend& backend = **created;
    Scheduler scheduler(setting.limits, backend.info());
    for (const RequestId id : ids) EXPECT_TRUE(scheduler.submit(request(id), 0).ok());

    Outputs outputs;
    StepPlan plan;
    StepResult result;
    StepCounts counts;
    std::vector<Event> events;
    for (TimeNs now = 1; !scheduler.idle(); ++now) {
      scheduler.schedule(now, plan, counts);
      preemptions_ += counts.preemptions;
      cached_tokens_ += counts.cached_tokens;
      if (!plan.empty()) {
        EXPECT_TRUE(backend.submit(plan).ok());
        scheduler.fill_masks(plan);
        EXPECT_TRUE(backend.wait(result).ok());
        scheduler.commit(plan, result, now, events);
      }
      EXPECT_EQ(scheduler.check_invariants(), "");
    }
    for (const Event& event : events) {
      if (event.kind == Event::Kind::kToken) outputs[event.request].push_back(event.token);
      if (event.kind == Event::Kind::kEnded) {
        EXPECT_EQ(event.outcome, Outcome::kFinished);
      }
    }
    return outputs;
  }
  Outputs run_together(const Setting& setting) {
    std::vector<RequestId> ids;
    for (RequestId id = 1; id <= kRequests; ++id) ids.push_back(id);
    return run(setting, ids);
  }
  // Each request with the engine to itself, in one chunk, without a prefix cache.
  Outputs run_alone() {
    Outputs outputs;
    for (RequestId id = 1; id <= kRequests; ++id) {
      outputs.merge(run({.limits = {.max_step_tokens = 700, .max_chunk_tokens = 700, .prefix_cache = false}}, {id}));
    }
    return outputs;
  }

  TempFile model_{tiny_llama({.embedding_size = 64,
                              .vocab_size = kVocab,
                              .context_length = 1024,
                              .matrix_type = GgufType::kQ4_1,
                              .seed = 11})
                      .bytes()};
  uint32_t preemptions_ = 0;
  uint32_t cached_tokens_ = 0;
};

TEST_F(SameTokens, AloneInABatchInAnyChunksWithAndWithoutThePrefixCacheAndAfterPreemption) {
  const Outputs alone = run_alone();
  ASSERT_EQ(alone.size(), kRequests);
  for (const uint32_t chunk : {1U, 7U, 64U, 512U}) {
    for (const bool prefix_cache : {false, true}) {
      const SchedulerLimits limits{
          .max_step_tokens = 600, .max_running = 64, .max_chunk_tokens = chunk, .prefix_cache = prefix_cache};
      EXPECT_EQ(run_together({.limits = limits}), alone) << "chunks of " << chunk << ", prefix cache " << prefix_cache;
    }
  }
  EXPECT_GT(cached_tokens_, 0U) << "the prefix cache was never hit: the test shows nothing";

  preemptions_ = 0;
  const SchedulerLimits limits{.max_step_tokens = 600, .max_running = 64, .max_chunk_tokens = 64};
  EXPECT_EQ(run_together({.limits = limits, .block_count = 64}), alone) << "a pool of 64 blocks";
  EXPECT_GT(preemptions_, 0U) << "nothing was preempted: the test shows nothing";
  EXPECT_EQ(run_together({.limits = limits, .threads = 1}), alone) << "one thread";
}

}  // namespace
}  // namespace twostroke
