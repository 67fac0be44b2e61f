// Criterion 28: the same requests give the same tokens, whatever the limits, the pool and the company.
#include <gtest/gtest.h>

#include <ostream>

#include "tests/scheduler/harness.h"

namespace twostroke::test {
namespace {

struct Setting {
  const char* name;
  uint32_t max_step_tokens;
  uint32_t max_chunk_tokens;
  uint32_t max_running;
  int32_t block_count;
  bool prefix_cache;
  friend void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }
};

std::vector<Request> mixed_requests() {
  std::vector<Request> requests;
  for (RequestId id = 1; id <= 32; ++id) {
    const auto i = static_cast<uint32_t>(id);
    Request request = make_request(id, make_prompt(1 + (i * 7) % 60, static_cast<TokenId>(i % 3)), 1 + (i * 5) % 30);
    request.n = i % 8 == 0 ? 3 : 1;
    request.sampling.temperature = i % 2 == 0 ? 0.0f : 1.0f;
    request.sampling.seed = i % 4;
    if (i % 5 == 0) request.stop_tokens = {4, 9};
    requests.push_back(std::move(request));
  }
  return requests;
}

SimOptions machine_with(int32_t block_count) {
  SimOptions machine = small_machine();
  machine.info.context_max = 128;
  machine.info.step_tokens_max = 512;
  machine.info.step_rows_max = 64;
  machine.info.block_count = block_count;
  return machine;
}

class OutputIdentity : public ::testing::TestWithParam<Setting> {};

TEST_P(OutputIdentity, OfRequestsInCompanyAndAlone) {
  const Setting& setting = GetParam();
  SchedulerLimits limits;
  limits.max_step_tokens = setting.max_step_tokens;
  limits.max_chunk_tokens = setting.max_chunk_tokens;
  limits.max_running = setting.max_running;
  limits.prefix_cache = setting.prefix_cache;
  Harness together(limits, machine_with(setting.block_count));
  for (Request& request : mixed_requests()) ASSERT_TRUE(together.submit(std::move(request)).ok());
  together.run(100'000);
  ASSERT_EQ(together.problem, "");
  EXPECT_EQ(together.total.preemptions > 0, setting.block_count < 100);

  for (Request& request : mixed_requests()) {
    const RequestId id = request.id;
    Harness alone(SchedulerLimits{}, machine_with(1000));
    ASSERT_TRUE(alone.submit(std::move(request)).ok());
    alone.run();
    ASSERT_EQ(alone.problem, "");
    EXPECT_EQ(together.track(id).outputs, alone.track(id).outputs) << "request " << id;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Settings, OutputIdentity,
    ::testing::Values(Setting{"Roomy", 512, 512, 64, 2000, true}, Setting{"ChunksOf1", 512, 1, 64, 2000, true},
                      Setting{"ChunksOf7", 512, 7, 64, 2000, true}, Setting{"ChunksOf64", 512, 64, 64, 2000, true},
                      Setting{"StepsOf1", 1, 1, 64, 2000, true}, Setting{"StepsOf5", 5, 5, 64, 2000, true},
                      Setting{"NoPrefixCache", 512, 512, 64, 2000, false}, Setting{"TinyPool", 64, 64, 64, 30, true},
                      Setting{"TinyPoolSmallChunks", 64, 3, 64, 30, true},
                      Setting{"TinyPoolNoPrefixCache", 64, 64, 64, 30, false}),
    [](const auto& setting) { return setting.param.name; });

}  // namespace
}  // namespace twostroke::test
