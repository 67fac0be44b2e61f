#include "tests/tools/deferred_operators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu/cpu_operators.h"
#include "tests/kernels/test_steps.h"

namespace twostroke {
namespace {

using test::OwnedActivations;
using test::OwnedCache;
using test::OwnedRows;
using test::OwnedTensor;
using test::OwnedWeight;
using ::testing::Each;
using ::testing::Truly;

// What a small layer of a model does, from its tokens to its output, over any device.
std::vector<float> run_layer(Device& device, Operators& operators) {
  std::mt19937_64 random(7);
  const OwnedWeight table(operators, test::random_weight(random, {WeightLayout::kQ8, 40, 32, 32}));
  const OwnedWeight project(operators, test::random_weight(random, {WeightLayout::kQ4, 64, 32, 16, true}));
  const OwnedTensor norm(device, test::normal_floats(random, 32), 1, 32);
  const OwnedTensor frequency(device, std::vector<float>{1.0f, 0.5f, 0.25f, 0.1f}, 1, 4);
  const OwnedCache cache(device, {.data = {}, .layers = 1, .blocks = 4, .kv_heads = 2, .block_size = 4, .head_size = 8},
                         0);
  const OwnedRows rows(device, {{.token_count = 6, .position = 0}}, {{2, 1}});
  const OwnedTensor tokens(device, std::vector<int32_t>{3, 14, 15, 9, 26, 5}, 1, 6);
  const OwnedTensor pairs(device, std::vector<int32_t>{2, 3}, 1, 2);
  const OwnedTensor last(device, std::vector<int32_t>{5, 0}, 1, 2);
  const OwnedTensor x(device, std::vector<float>(6 * 32), 6, 32);
  const OwnedTensor qkv(device, std::vector<float>(6 * 64), 6, 64);
  const OwnedTensor out(device, std::vector<float>(6 * 32), 6, 32);
  const OwnedTensor result(device, std::vector<float>(2 * 32), 2, 32);
  const Tensor q = (*qkv).col_range(0, 32);
  const Tensor k = (*qkv).col_range(32, 48);
  const Tensor v = (*qkv).col_range(48, 64);

  operators.embed(x, table, tokens);
  const OwnedActivations input(operators, std::vector<float>(6 * 32, 1), 6, 32);
  operators.rms_norm(input, x, norm, 1e-5f);
  operators.matmul(qkv, input, project, false);
  operators.rotate_and_store(q, k, v, frequency, *cache, 0, *rows);
  operators.attention(out, q, *cache, 0, *rows);
  operators.silu_gate(out, out, x);
  operators.copy_blocks(*cache, pairs);
  operators.gather_rows(result, out, last);
  return result.floats();
}

TEST(DeferredOperators, GiveTheBitsOfTheOperatorsThatTheyWrap) {
  for (Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) {
    if (!isa_supported(isa)) continue;
    CpuDevice plain(2);
    DeferredDevice deferred(2);
    const std::vector<float> expected = run_layer(plain, *make_cpu_operators(plain, isa));
    EXPECT_THAT(expected, Each(Truly([](float value) { return std::isfinite(value) && value != 0; })));
    EXPECT_EQ(run_layer(deferred, *make_deferred_operators(deferred, isa)), expected);
  }
}

TEST(DeferredDevice, NothingRunsBeforeWait) {
  DeferredDevice device(1);
  const DeviceMemory memory = std::move(device.allocate(sizeof(float))).value();
  const float source = 5;
  float target = 1;
  device.upload(memory.address(), &source, sizeof(source));
  device.download(&target, memory.address(), sizeof(target));
  EXPECT_EQ(device.pending(), 2u);
  EXPECT_TRUE(std::isnan(target));
  EXPECT_TRUE(device.wait().ok());
  EXPECT_EQ(device.pending(), 0u);
  EXPECT_EQ(target, 5);
}

TEST(DeferredDevice, FreshMemoryIsNaN) {
  DeferredDevice device(1);
  const DeviceMemory memory = std::move(device.allocate(sizeof(float))).value();
  float target = 1;
  device.download(&target, memory.address(), sizeof(target));
  EXPECT_TRUE(device.wait().ok());
  EXPECT_TRUE(std::isnan(target));
}

TEST(DeferredDevice, AnImpossibleAllocationIsAnError) {
  DeferredDevice device(1);
  EXPECT_EQ(device.allocate(size_t{1} << 60).status().code(), StatusCode::kResourceExhausted);
}

class DeferredDeviceDeathTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(DeferredDeviceDeathTest, TheHostCannotTouchItsMemory) {
  DeferredDevice device(1);
  const DeviceMemory memory = std::move(device.allocate(sizeof(float))).value();
  volatile float* pointer = reinterpret_cast<volatile float*>(memory.address().value);
  EXPECT_DEATH(static_cast<void>(*pointer), "");
  EXPECT_DEATH(*pointer = 1, "");
}

TEST_F(DeferredDeviceDeathTest, HostMemoryMustNotChangeBeforeWait) {
  DeferredDevice device(1);
  const DeviceMemory memory = std::move(device.allocate(sizeof(float))).value();
  float source = 5;
  device.upload(memory.address(), &source, sizeof(source));
  source = 6;
  EXPECT_DEATH(static_cast<void>(device.wait()), "changed before wait");
  source = 5;
  EXPECT_TRUE(device.wait().ok());
}

TEST_F(DeferredDeviceDeathTest, EnqueuedWorkMustNotOutliveItsMemory) {
  DeferredDevice device(1);
  const float source = 5;
  {
    const DeviceMemory memory = std::move(device.allocate(sizeof(float))).value();
    device.upload(memory.address(), &source, sizeof(source));
  }
  EXPECT_DEATH(static_cast<void>(device.wait()), "live allocation");
}

TEST_F(DeferredDeviceDeathTest, ATensorMustLieInsideOneAllocation) {
  DeferredDevice device(1);
  const std::unique_ptr<Operators> operators = make_deferred_operators(device, Isa::kScalar);
  const DeviceMemory memory = std::move(device.allocate(16 * sizeof(float))).value();
  const Tensor fits = Tensor::contiguous(memory.address(), DType::kF32, 4, 4);
  const Tensor too_long = Tensor::contiguous(memory.address() + sizeof(float), DType::kF32, 4, 4);
  operators->silu_gate(fits, fits, fits);
  EXPECT_TRUE(device.wait().ok());
  operators->silu_gate(fits, fits, too_long);
  EXPECT_DEATH(static_cast<void>(device.wait()), "outside any live allocation");
}

}  // namespace
}  // namespace twostroke
