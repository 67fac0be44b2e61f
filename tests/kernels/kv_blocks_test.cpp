// The cache's 8-bit codes within the bounds that operators.h states, and what they do to attention, in double.

#include "kernels/cpu/kv_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/cpu_operators.h"
#include "kernels/float16.h"
#include "tests/kernels/test_steps.h"

namespace twostroke {
namespace {

using test::normal_floats;
using test::OwnedCache;
using test::OwnedRows;
using test::OwnedTensor;

std::vector<float> round_trip(const std::vector<float>& vector) {
  const uint16_t scale = kv_scale(vector);
  std::vector<int8_t> codes(vector.size());
  kv_codes(vector, scale, codes);
  std::vector<float> out;
  for (const int8_t code : codes) out.push_back(half_to_float(scale) * static_cast<float>(code));
  return out;
}

float greatest(const std::vector<float>& vector) {
  float result = 0;
  for (const float x : vector) result = std::max(result, std::fabs(x));
  return result;
}

TEST(KvCodes, AreOffByAtMostOne250thOfTheVectorsGreatestNumber) {
  std::mt19937_64 random(7);
  for (int64_t size : {1, 3, 64, 80, 128, 300}) {
    for (float deviation : {1e-2f, 1.0f, 40.0f, 1e5f}) {
      const std::vector<float> vector = normal_floats(random, size, deviation);
      const std::vector<float> result = round_trip(vector);
      const float bound = greatest(vector) / 250;
      for (size_t i = 0; i < vector.size(); ++i) ASSERT_NEAR(result[i], vector[i], bound) << "deviation " << deviation;
    }
  }
}

TEST(KvCodes, OfTinyVectorsAreOffByLittle) {
  std::mt19937_64 random(8);
  for (float deviation : {1e-12f, 1e-7f, 1e-5f, 1e-4f}) {
    const std::vector<float> vector = normal_floats(random, 64, deviation);
    const std::vector<float> result = round_trip(vector);
    // The smallest half is 6e-8: scales below half of it are 0, others are off by so much at most.
    for (size_t i = 0; i < vector.size(); ++i) ASSERT_NEAR(result[i], vector[i], 127 * 0x1p-25f) << deviation;
  }
  EXPECT_EQ(round_trip({0, 0, 0}), (std::vector<float>{0, 0, 0}));
}

TEST(KvCodes, OfWhatIsNotFiniteOrTooLargeAreNaN) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(), 1e7f}) {
    for (const float x : round_trip({1, bad, 2})) EXPECT_TRUE(std::isnan(x)) << bad;
  }
  for (const float x : round_trip({1, 8e6f, 2})) EXPECT_TRUE(std::isfinite(x));
}

class KvCodesInAttention : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!isa_supported(GetParam())) GTEST_SKIP() << "this processor lacks " << isa_name(GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(Isas, KvCodesInAttention, ::testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAmx),
                         [](const auto& test) { return isa_name(test.param); });

// With keys off by dk and values by dv, a score is off by e = dk * sum |q| / sqrt(S), so that a weight is off by a
// factor between exp(-2e) and exp(2e), and what comes out by (exp(2e) - 1) * max |v| + dv.
TEST_P(KvCodesInAttention, AreOffByNoMoreThanTheRoundingOfKeysAndValuesAllows) {
  std::mt19937_64 random(9);
  CpuDevice device(2);
  const std::unique_ptr<Operators> operators = make_cpu_operators(device, GetParam());
  const int32_t tokens = 150;
  for (int32_t size : {24, 64}) {
    const std::vector<float> q = normal_floats(random, int64_t{tokens} * 3 * size);
    const std::vector<float> k = normal_floats(random, int64_t{tokens} * size);
    const std::vector<float> v = normal_floats(random, int64_t{tokens} * size);
    const KvCache shape = {
        .data = {}, .dtype = DType::kI8, .layers = 1, .blocks = 10, .kv_heads = 1, .block_size = 16, .head_size = size};
    const OwnedCache cache(device, shape, 0);
    const OwnedRows rows(device, {{.token_count = tokens, .position = 0}}, {test::random_table(random, 10)});
    const OwnedTensor query(device, q, tokens, 3 * size);
    const OwnedTensor key(device, k, tokens, size);
    const OwnedTensor value(device, v, tokens, size);
    const OwnedTensor out(device, std::vector<float>(q.size()), tokens, 3 * size);
    const OwnedTensor no_frequency(device, std::vector<float>{}, 1, 0);
    operators->rotate_and_store(query, key, value, no_frequency, *cache, 0, *rows);
    operators->attention(out, query, *cache, 0, *rows);
    const std::vector<float> result = out.floats();
    const double off_k = greatest(k) / 250.0;
    const double off_v = greatest(v) / 250.0;
    for (int32_t t = 0; t < tokens; ++t) {
      for (int32_t h = 0; h < 3; ++h) {
        const auto first = static_cast<size_t>((t * 3 + h) * size);
        std::vector<double> weights;
        double total = 0;
        for (int32_t p = 0; p <= t; ++p) {
          double score = 0;
          for (int32_t s = 0; s < size; ++s) score += double{q[first + size_t(s)]} * double{k[size_t(p * size + s)]};
          weights.push_back(std::exp(score / std::sqrt(double(size))));
          total += weights.back();
        }
        double magnitude = 0;
        for (int32_t s = 0; s < size; ++s) magnitude += std::fabs(q[first + size_t(s)]);
        const double off_score = off_k * magnitude / std::sqrt(double(size));
        const double bound = std::expm1(2 * off_score) * greatest(v) + off_v;
        for (int32_t s = 0; s < size; ++s) {
          double expected = 0;
          for (int32_t p = 0; p <= t; ++p) expected += weights[size_t(p)] / total * double{v[size_t(p * size + s)]};
          ASSERT_NEAR(result[first + size_t(s)], expected, bound) << "token " << t << ", head " << h;
        }
      }
    }
  }
}

TEST(KvCache, OfCodesHasAScaleForEachVector) {
  const KvCache cache = {
      .data = {}, .dtype = DType::kI8, .layers = 2, .blocks = 3, .kv_heads = 4, .block_size = 16, .head_size = 64};
  EXPECT_EQ(cache.block_bytes(), 2u * 4 * 16 * 66);
  EXPECT_EQ(cache.bytes(), 2u * 3 * cache.block_bytes());
}

TEST(KvCache, CopiesOfBlocksTakeTheirScalesAlong) {
  std::mt19937_64 random(10);
  CpuDevice device(1);
  const std::unique_ptr<Operators> operators = make_cpu_operators(device, Isa::kScalar);
  const KvCache shape = {
      .data = {}, .dtype = DType::kI8, .layers = 2, .blocks = 3, .kv_heads = 2, .block_size = 4, .head_size = 8};
  const OwnedCache cache(device, shape, 0);
  const OwnedRows rows(device, {{.token_count = 4, .position = 0}}, {{1}});
  const OwnedTensor q(device, std::vector<float>(4 * 16), 4, 16);
  const OwnedTensor k(device, normal_floats(random, 4 * 16), 4, 16);
  const OwnedTensor no_frequency(device, std::vector<float>{}, 1, 0);
  for (int32_t layer : {0, 1}) operators->rotate_and_store(q, k, k, no_frequency, *cache, layer, *rows);
  const OwnedTensor pairs(device, std::vector<int32_t>{1, 2}, 1, 2);
  operators->copy_blocks(*cache, pairs);
  const std::vector<float> numbers = cache.floats();
  const size_t block = 2u * 2 * 4 * 8;
  for (size_t layer : {0, 1}) {
    for (size_t i = 0; i < block; ++i) {
      EXPECT_TRUE(std::isfinite(numbers[(layer * 3 + 1) * block + i]));
      EXPECT_EQ(numbers[(layer * 3 + 2) * block + i], numbers[(layer * 3 + 1) * block + i]);
    }
  }
}

}  // namespace
}  // namespace twostroke
