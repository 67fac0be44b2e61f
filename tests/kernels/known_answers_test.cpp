// Every operator of every set on inputs small enough to work out by hand.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu/cpu_operators.h"
#include "tests/kernels/test_steps.h"

namespace twostroke {
namespace {

using test::HostWeight;
using test::OwnedActivations;
using test::OwnedCache;
using test::OwnedRows;
using test::OwnedTensor;
using test::OwnedWeight;
using ::testing::FloatNear;
using ::testing::Pointwise;

class KnownAnswers : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!isa_supported(GetParam())) GTEST_SKIP() << "this processor lacks " << isa_name(GetParam());
    operators_ = make_cpu_operators(device_, GetParam());
  }

  CpuDevice device_{2};
  std::unique_ptr<Operators> operators_;
};

INSTANTIATE_TEST_SUITE_P(Isas, KnownAnswers, ::testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAmx),
                         [](const auto& test) { return isa_name(test.param); });

HostWeight matrix(int64_t n, int64_t k, std::vector<float> values) {
  HostWeight weight;
  weight.shape = {.layout = WeightLayout::kF32, .n = n, .k = k};
  weight.f32 = std::move(values);
  return weight;
}

TEST_P(KnownAnswers, RmsNormDividesByTheRootMeanSquare) {
  OwnedTensor x(device_, std::vector<float>{3, 4, -3, 4}, 2, 2, 3);
  const OwnedTensor scale(device_, std::vector<float>{1, 10}, 1, 2);
  operators_->rms_norm(x, x, scale, 0.5f);  // mean squares 12.5
  const float root = std::sqrt(13.0f);
  EXPECT_THAT(x.floats(), Pointwise(FloatNear(1e-6f), {3 / root, 40 / root, -3 / root, 40 / root}));
}

TEST_P(KnownAnswers, MatmulMultipliesByTheTransposedWeight) {
  const OwnedWeight weight(*operators_, matrix(3, 2, {1, 2, 3, 4, 5, 6}));
  const OwnedTensor x(device_, std::vector<float>{1, 10, -1, 0.5f}, 2, 2, 5);
  const OwnedTensor y(device_, std::vector<float>(6, 100), 2, 3, 4);
  operators_->matmul(y, x, weight, false);
  EXPECT_EQ(y.floats(), (std::vector<float>{21, 43, 65, 0, -1, -2}));
  operators_->matmul(y, x, weight, true);
  EXPECT_EQ(y.floats(), (std::vector<float>{42, 86, 130, 0, -2, -4}));
}

TEST_P(KnownAnswers, MatmulOfQuantisedActivationsMultipliesCodesByCodes) {
  HostWeight weight;
  weight.shape = {.layout = WeightLayout::kQ4, .n = 1, .k = 32, .group = 32, .has_min = true};
  weight.q4.assign(16, 0x21);  // codes 1, 2, 1, 2, ...
  weight.scales = {0.5f};
  weight.mins = {-3};
  std::vector<float> x(32, 0);
  x[0] = 127;  // hence a scale of 1: these are codes already
  x[1] = -1;
  x[2] = 2.5f;  // to even: 2
  x[31] = 3.5f;
  const OwnedActivations in(*operators_, x, 1, 32);
  const OwnedTensor y(device_, std::vector<float>{10}, 1, 1);
  operators_->matmul(y, in.int8(), OwnedWeight(*operators_, weight), true);
  // 0.5 * (127 * 1 - 1 * 2 + 2 * 1 + 4 * 2) - 3 * (127 - 1 + 2 + 4)
  EXPECT_EQ(y.floats(), std::vector<float>{10 + 67.5f - 396});
}

TEST_P(KnownAnswers, WeightsOfPlainNumbersReadTheFloatsWhereBothFormsAreThere) {
  const OwnedWeight weight(*operators_, matrix(1, 2, {1, 2}));
  const OwnedActivations in(*operators_, {1, 0.001f}, 1, 2);
  const OwnedTensor y(device_, std::vector<float>{0}, 1, 1);
  operators_->matmul(y, in, weight, false);
  EXPECT_EQ(y.floats(), std::vector<float>{1.002f});
}

TEST_P(KnownAnswers, EmbedTakesTheTablesRows) {
  const OwnedWeight table(*operators_, matrix(4, 3, {0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32}));
  const OwnedTensor tokens(device_, std::vector<int32_t>{3, 0, 3}, 1, 3);
  const OwnedTensor out(device_, std::vector<float>(9, 0), 3, 3);
  operators_->embed(out, table, tokens);
  EXPECT_EQ(out.floats(), (std::vector<float>{30, 31, 32, 0, 1, 2, 30, 31, 32}));
}

TEST_P(KnownAnswers, RotationTurnsPairsAndStoresRotatedKeysAndPlainValues) {
  const float quarter = std::acos(-1.0f) / 2;
  // Heads of 6, of which the first 4 turn: pair 0 a quarter turn per position, pair 1 a half turn. At position 3 that
  // is three quarters, (x, y) -> (y, -x), and one and a half, (x, y) -> (-x, -y).
  const OwnedTensor frequency(device_, std::vector<float>{quarter, 2 * quarter}, 1, 2);
  for (DType dtype : {DType::kF32, DType::kF16}) {
    const OwnedTensor q(device_, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 1, 12);
    const OwnedTensor k(device_, std::vector<float>{1, 2, 3, 4, 5, 6}, 1, 6);
    const OwnedTensor v(device_, std::vector<float>{0.5f, 1.5f, 2.5f, 3.5f, 4.5f, 5.5f}, 1, 6);
    const OwnedCache cache(
        device_, {.data = {}, .dtype = dtype, .layers = 2, .blocks = 3, .kv_heads = 1, .block_size = 2, .head_size = 6},
        -1);
    const OwnedRows rows(device_, {{.token_count = 1, .position = 3}}, {{0, 2}});
    operators_->rotate_and_store(q, k, v, frequency, *cache, 1, *rows);
    EXPECT_THAT(q.floats(), Pointwise(FloatNear(1e-5f), {2, -1, -3, -4, 5, 6, 8, -7, -9, -10, 11, 12}));

    std::vector<float> expected(2 * 3 * 2 * 2 * 6, -1);
    // Layer 1, block 2, offset 1.
    const std::vector<float> key = {2, -1, -3, -4, 5, 6};
    const std::vector<float> value = {0.5f, 1.5f, 2.5f, 3.5f, 4.5f, 5.5f};
    for (size_t s = 0; s < 6; ++s) {
      expected[(((1 * 3 + 2) * 2 + 0) * 2 + 1) * 6 + s] = key[s];
      expected[(((1 * 3 + 2) * 2 + 1) * 2 + 1) * 6 + s] = value[s];
    }
    EXPECT_THAT(cache.floats(), Pointwise(FloatNear(1e-5f), expected));
  }
}

TEST_P(KnownAnswers, AttentionWeighsTheValuesByTheSoftmaxOfTheScores) {
  const float step = std::sqrt(2.0f) * std::log(3.0f);
  for (DType dtype : {DType::kF32, DType::kF16}) {
    const OwnedCache cache(
        device_, {.data = {}, .dtype = dtype, .layers = 1, .blocks = 2, .kv_heads = 1, .block_size = 1, .head_size = 2},
        0);
    const OwnedRows rows(device_, {{.token_count = 2, .position = 0}}, {{1, 0}});
    // Two query heads share the key/value head; the second one asks for nothing in particular.
    const OwnedTensor q(device_, std::vector<float>{1, 0, 0, 0, 1, 0, 0, 0}, 2, 4);
    const OwnedTensor k(device_, std::vector<float>{0, 7, step, -7}, 2, 2);
    const OwnedTensor v(device_, std::vector<float>{1, 0, 5, 4}, 2, 2);
    const OwnedTensor no_frequency(device_, std::vector<float>{}, 1, 0);
    operators_->rotate_and_store(q, k, v, no_frequency, *cache, 0, *rows);
    const OwnedTensor out(device_, std::vector<float>(8, 9), 2, 4);
    operators_->attention(out, q, *cache, 0, *rows);
    // Token 0 sees position 0 alone; token 1 weighs the two by 1 : 3, its second head by 1 : 1.
    EXPECT_THAT(out.floats(), Pointwise(FloatNear(1e-3f), {1, 0, 1, 0, 4, 3, 3, 2}));
  }
}

TEST_P(KnownAnswers, SiluGate) {
  const OwnedTensor gate(device_, std::vector<float>{0, 1, -1, 40, -200}, 1, 5);
  const OwnedTensor up(device_, std::vector<float>{5, 2, 2, 0.5f, 1}, 1, 5);
  operators_->silu_gate(gate, gate, up);
  EXPECT_THAT(gate.floats(), Pointwise(FloatNear(1e-6f), {0.0f, 1.4621172f, -0.5378828f, 20.0f, 0.0f}));
}

TEST_P(KnownAnswers, GatherRowsTakesThemInTheOrderOfTheIndices) {
  const OwnedTensor in(device_, std::vector<float>{1, 2, 3, 4, 5, 6}, 3, 2, 7);
  const OwnedTensor indices(device_, std::vector<int32_t>{2, 0, 2, 1}, 1, 4);
  const OwnedTensor out(device_, std::vector<float>(8, 0), 4, 2, 3);
  operators_->gather_rows(out, in, indices);
  EXPECT_EQ(out.floats(), (std::vector<float>{5, 6, 1, 2, 5, 6, 3, 4}));
}

TEST_P(KnownAnswers, CopyBlocksWorksInOrderOnAllLayers) {
  const OwnedCache cache(
      device_,
      {.data = {}, .dtype = DType::kF32, .layers = 2, .blocks = 3, .kv_heads = 1, .block_size = 1, .head_size = 1}, 0);
  std::vector<float> values = {1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16};
  device_.upload((*cache).data, values.data(), values.size() * sizeof(float));
  const OwnedTensor pairs(device_, std::vector<int32_t>{0, 1, 1, 2}, 2, 2);
  operators_->copy_blocks(*cache, pairs);
  EXPECT_EQ(cache.floats(), (std::vector<float>{1, 2, 1, 2, 1, 2, 11, 12, 11, 12, 11, 12}));
}

}  // namespace
}  // namespace twostroke
