// The vector operators against the scalar reference on random shapes, within bounds that follow from float arithmetic.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/cpu/cpu_operators.h"
#include "kernels/cpu/packed_weight.h"
#include "tests/kernels/test_steps.h"

namespace twostroke {
namespace {

using test::HostWeight;
using test::normal_floats;
using test::OwnedActivations;
using test::OwnedCache;
using test::OwnedRows;
using test::OwnedTensor;
using test::OwnedWeight;

constexpr float kUnit = 0x1p-24f;  // half the spacing of floats at 1: the relative error of one rounding

class Parity : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!isa_supported(GetParam())) GTEST_SKIP() << "this processor lacks " << isa_name(GetParam());
    vector_ = make_cpu_operators(device_, GetParam());
  }

  std::mt19937_64 random_{20261129};
  CpuDevice device_{2};
  std::unique_ptr<Operators> scalar_ = make_cpu_operators(device_, Isa::kScalar);
  std::unique_ptr<Operators> vector_;
};

INSTANTIATE_TEST_SUITE_P(Isas, Parity, ::testing::Values(Isa::kAvx2, Isa::kAvx512, Isa::kAmx),
                         [](const auto& test) { return isa_name(test.param); });

TEST_P(Parity, Matmul) {
  for (int64_t n : {1, 16, 33, 200}) {
    for (int64_t k : {1, 5, 32, 96, 512, 544}) {
      for (const WeightShape& shape : test::weight_shapes(n, k)) {
        for (int64_t rows : {1, 2, 7, 20}) {
          SCOPED_TRACE(test::describe(shape) + ", rows " + std::to_string(rows));
          const HostWeight host = test::random_weight(random_, shape);
          const OwnedWeight weight(*scalar_, host);
          const std::vector<float> input = normal_floats(random_, rows * k);
          const OwnedTensor x(device_, input, rows, k, k + 3);
          const std::vector<float> before = normal_floats(random_, rows * n);
          const OwnedTensor expected(device_, before, rows, n, n + 1);
          const OwnedTensor actual(device_, before, rows, n, n + 1);
          const bool accumulate = rows % 2 == 0;
          scalar_->matmul(expected, x, weight, accumulate);
          vector_->matmul(actual, x, weight, accumulate);
          const std::vector<float> expected_values = expected.floats();
          const std::vector<float> actual_values = actual.floats();
          for (int64_t t = 0; t < rows; ++t) {
            for (int64_t j = 0; j < n; ++j) {
              // k roundings of partial sums, each at most the sum of the magnitudes; a few more for the end.
              double magnitude = std::fabs(before[size_t(t * n + j)]);
              for (int64_t i = 0; i < k; ++i)
                magnitude += std::fabs(double{host.value(j, i)} * input[size_t(t * k + i)]);
              ASSERT_NEAR(actual_values[size_t(t * n + j)], expected_values[size_t(t * n + j)],
                          double(k + 3) * kUnit * magnitude)
                  << "row " << t << ", output " << j;
            }
          }
        }
      }
    }
  }
}

TEST_P(Parity, RmsNorm) {
  for (int64_t size : {1, 7, 8, 9, 16, 31, 576}) {
    for (float deviation : {1e-3f, 1.0f, 1e4f}) {
      const OwnedTensor in(device_, normal_floats(random_, 3 * size, deviation), 3, size, size + 2);
      const OwnedTensor scale(device_, normal_floats(random_, size), 1, size);
      const OwnedTensor expected(device_, std::vector<float>(size_t(3 * size)), 3, size);
      const OwnedTensor actual(device_, std::vector<float>(size_t(3 * size)), 3, size);
      scalar_->rms_norm(expected, in, scale, 1e-5f);
      vector_->rms_norm(actual, in, scale, 1e-5f);
      const std::vector<float> reference = expected.floats();
      const std::vector<float> result = actual.floats();
      for (size_t i = 0; i < reference.size(); ++i) {
        // The sum of squares has only positive terms: at most size / 16 roundings a lane; then six single operations.
        ASSERT_NEAR(result[i], reference[i], (double(size) / 32 + 8) * kUnit * std::fabs(reference[i]))
            << "size " << size;
      }
    }
  }
}

TEST_P(Parity, SiluGate) {
  for (int64_t size : {1, 7, 8, 9, 1536}) {
    for (float deviation : {0.1f, 1.0f, 10.0f, 60.0f}) {
      const std::vector<float> gate_values = normal_floats(random_, 2 * size, deviation);
      const OwnedTensor gate(device_, gate_values, 2, size);
      const OwnedTensor up(device_, normal_floats(random_, 2 * size), 2, size);
      const OwnedTensor expected(device_, std::vector<float>(size_t(2 * size)), 2, size);
      scalar_->silu_gate(expected, gate, up);
      vector_->silu_gate(gate, gate, up);
      const std::vector<float> reference = expected.floats();
      const std::vector<float> result = gate.floats();
      for (size_t i = 0; i < reference.size(); ++i) {
        // exp to 2e-7, and three roundings. Where exp overflows, the true value is below 1e-35.
        ASSERT_NEAR(result[i], reference[i], 4e-7 * std::fabs(reference[i]) + 1e-35) << gate_values[i];
      }
    }
  }
}

TEST_P(Parity, RotateAndStore) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kI8}) {
    for (int32_t head_size : {2, 8, 20, 64}) {
      for (int32_t frequencies : {0, head_size / 4, head_size / 2}) {
        SCOPED_TRACE("head size " + std::to_string(head_size) + ", frequencies " + std::to_string(frequencies));
        std::vector<float> frequency;
        for (int32_t i = 0; i < frequencies; ++i)
          frequency.push_back(std::pow(1e4f, -2.0f * static_cast<float>(i) / static_cast<float>(head_size)));
        const OwnedTensor inverse_frequency(device_, frequency, 1, frequencies);
        const KvCache shape = {.data = {},
                               .dtype = dtype,
                               .layers = 2,
                               .blocks = 40,
                               .kv_heads = 2,
                               .block_size = 5,
                               .head_size = head_size};
        const OwnedCache caches[] = {{device_, shape, -7}, {device_, shape, -7}};
        // No block is of both, as ever: which of two threads wrote last would decide.
        const OwnedRows rows(device_, {{.token_count = 9, .position = 0}, {.token_count = 1, .position = 97}},
                             {{33, 31}, test::random_table(random_, 20)});
        const int64_t tokens = rows.tokens();
        const std::vector<float> q = normal_floats(random_, tokens * 6 * head_size);
        const std::vector<float> k = normal_floats(random_, tokens * 2 * head_size);
        const OwnedTensor v(device_, normal_floats(random_, tokens * 2 * head_size), tokens, 2 * head_size);
        const OwnedTensor queries[] = {{device_, q, tokens, 6 * head_size}, {device_, q, tokens, 6 * head_size}};
        const OwnedTensor keys[] = {{device_, k, tokens, 2 * head_size}, {device_, k, tokens, 2 * head_size}};
        scalar_->rotate_and_store(queries[0], keys[0], v, inverse_frequency, *caches[0], 1, *rows);
        vector_->rotate_and_store(queries[1], keys[1], v, inverse_frequency, *caches[1], 1, *rows);
        const std::vector<float> expected = queries[0].floats();
        const std::vector<float> actual = queries[1].floats();
        // Two products and the table's roundings, of values of at most 6 or so.
        for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 4 * kUnit * 8) << i;
        const std::vector<float> expected_cache = caches[0].floats();
        const std::vector<float> actual_cache = caches[1].floats();
        const float rounding = dtype == DType::kF16 ? 0x1p-10f : 0;  // one unit in the last place of a half
        for (size_t i = 0; i < expected_cache.size(); ++i) {
          if (dtype == DType::kI8) {  // one code more or less, of vectors whose numbers are at most 6 or so
            ASSERT_EQ(std::isnan(actual_cache[i]), std::isnan(expected_cache[i])) << i;  // where nothing was stored
            if (std::isnan(expected_cache[i])) continue;
            ASSERT_NEAR(actual_cache[i], expected_cache[i], 8.0f / 127) << i;
            continue;
          }
          ASSERT_NEAR(actual_cache[i], expected_cache[i], 4 * kUnit * 8 + rounding * std::fabs(expected_cache[i])) << i;
        }
      }
    }
  }
}

TEST_P(Parity, AnglesFollowPositionsAndFrequencies) {
  const KvCache shape = {
      .data = {}, .dtype = DType::kF32, .layers = 1, .blocks = 70000, .kv_heads = 1, .block_size = 16, .head_size = 4};
  const OwnedCache cache(device_, shape, 0);
  const OwnedTensor v(device_, std::vector<float>(4), 1, 4);
  std::vector<int32_t> table(70000);
  // One of the two changes from each call to the next, so that angles kept from the last call would show.
  for (int32_t position : {0, 1, 1000, 999999}) {
    for (float frequency : {1.0f, 0.37f}) {
      const OwnedTensor inverse_frequency(device_, std::vector<float>{frequency}, 1, 1);
      const OwnedRows rows(device_, {{.token_count = 1, .position = position}}, {table});
      const OwnedTensor q(device_, std::vector<float>{1, 0, 2, 3}, 1, 4);
      const OwnedTensor k(device_, std::vector<float>(4), 1, 4);
      vector_->rotate_and_store(q, k, v, inverse_frequency, *cache, 0, *rows);
      EXPECT_NEAR(q.floats()[0], std::cos(double{frequency} * position), 2 * kUnit) << position;
      EXPECT_NEAR(q.floats()[1], std::sin(double{frequency} * position), 2 * kUnit) << position;
    }
  }
}

TEST_P(Parity, Attention) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kI8}) {
    for (int32_t head_size : {1, 8, 20, 64, 80}) {
      for (int32_t heads_per_kv_head : {1, 2, 3, 4, 7}) {
        for (int32_t block_size : {1, 5, 16, 32}) {
          SCOPED_TRACE("head size " + std::to_string(head_size) + ", block size " + std::to_string(block_size));
          const int32_t kv_heads = 2;
          const KvCache shape = {.data = {},
                                 .dtype = dtype,
                                 .layers = 2,
                                 .blocks = 150,
                                 .kv_heads = kv_heads,
                                 .block_size = block_size,
                                 .head_size = head_size};
          const OwnedCache cache(device_, shape, std::numeric_limits<float>::quiet_NaN());
          const std::vector<int32_t> table = test::random_table(random_, 150);
          const std::vector<int32_t> first(table.begin(), table.begin() + 70);
          const std::vector<int32_t> second(table.begin() + 70, table.end());
          // Fill positions [0, 60) of both sequences, then attend with a chunk of one and a decode of the other.
          const OwnedTensor no_frequency(device_, std::vector<float>{}, 1, 0);
          const OwnedRows fill(device_, {{.token_count = 60, .position = 0}, {.token_count = 60, .position = 0}},
                               {first, second});
          const int64_t width = kv_heads * head_size;
          const OwnedTensor unused(device_, std::vector<float>(size_t(120 * width)), 120, width);
          const OwnedTensor k(device_, normal_floats(random_, 120 * width, 2), 120, width);
          const OwnedTensor v(device_, normal_floats(random_, 120 * width), 120, width);
          vector_->rotate_and_store(unused, k, v, no_frequency, *cache, 1, *fill);

          const OwnedRows rows(device_, {{.token_count = 1, .position = 59}, {.token_count = 37, .position = 21}},
                               {first, second});
          const int64_t columns = width * heads_per_kv_head;
          const OwnedTensor q(device_, normal_floats(random_, 38 * columns, 2), 38, columns, columns + 5);
          const OwnedTensor expected(device_, std::vector<float>(size_t(38 * columns)), 38, columns);
          const OwnedTensor actual(device_, std::vector<float>(size_t(38 * columns)), 38, columns, columns + 2);
          scalar_->attention(expected, q, *cache, 1, *rows);
          vector_->attention(actual, q, *cache, 1, *rows);
          const std::vector<float> reference = expected.floats();
          const std::vector<float> result = actual.floats();
          for (size_t i = 0; i < reference.size(); ++i) {
            // Scores of up to 40 or so carry errors of up to 1e-5, weights the same relative error, values are below 5.
            ASSERT_NEAR(result[i], reference[i], 2e-5) << i;
          }
        }
      }
    }
  }
}

TEST_P(Parity, ExpIsWithinItsStatedErrorOverItsWholeRange) {
  // Seen through silu_gate: with up = 1 it is x / (1 + e^-x), from which e^-x comes back exactly enough for large e^-x.
  std::vector<float> gate;
  for (float x = -85; x < -16.5f; x += 0.01f) gate.push_back(x);
  const auto size = static_cast<int64_t>(gate.size());
  const OwnedTensor in(device_, gate, 1, size);
  const OwnedTensor ones(device_, std::vector<float>(gate.size(), 1), 1, size);
  const OwnedTensor out(device_, std::vector<float>(gate.size()), 1, size);
  vector_->silu_gate(out, in, ones);
  const std::vector<float> result = out.floats();
  for (size_t i = 0; i < gate.size(); ++i) {
    const double expected = double{gate[i]} / (1 + std::exp(-double{gate[i]}));
    ASSERT_NEAR(result[i] / expected, 1, 2e-7 + 3 * kUnit) << gate[i];
  }
}

TEST_P(Parity, NaNAndInfinityPassThrough) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (float bad : {nan, infinity, -infinity}) {
    std::vector<float> values = normal_floats(random_, 3 * 32);
    values[32 + 5] = bad;
    for (const WeightShape& shape : test::weight_shapes(20, 32)) {
      const OwnedWeight weight(*vector_, test::random_weight(random_, shape));
      const OwnedTensor x(device_, values, 3, 32);
      const OwnedTensor y(device_, std::vector<float>(60), 3, 20);
      vector_->matmul(y, x, weight, false);
      for (size_t i = 0; i < 60; ++i) {
        // A code that is exactly zero times infinity is NaN; either way row 1 is not finite, and only row 1.
        EXPECT_EQ(std::isfinite(y.floats()[i]), i / 20 != 1) << test::describe(shape);
      }
    }
    const OwnedTensor x(device_, values, 3, 32);
    const OwnedTensor norm(device_, std::vector<float>(32, 1), 1, 32);
    const OwnedTensor out(device_, std::vector<float>(96), 3, 32);
    vector_->rms_norm(out, x, norm, 1e-5f);
    EXPECT_TRUE(std::isnan(out.floats()[32 + 5]));
    EXPECT_TRUE(std::isfinite(out.floats()[0]) && std::isfinite(out.floats()[95]));
    vector_->silu_gate(out, x, x);
    EXPECT_FALSE(std::isfinite(out.floats()[32 + 5]) && bad != -infinity);
    EXPECT_TRUE(std::isfinite(out.floats()[32 + 4]));

    // A bad token must not reach the tokens before it, and does reach those after it.
    const OwnedCache cache(
        device_, {.data = {}, .layers = 1, .blocks = 1, .kv_heads = 1, .block_size = 16, .head_size = 32}, nan);
    const OwnedRows rows(device_, {{.token_count = 3, .position = 0}}, {{0}});
    const OwnedTensor no_frequency(device_, std::vector<float>{}, 1, 0);
    const OwnedTensor q(device_, normal_floats(random_, 96), 3, 32);
    vector_->rotate_and_store(q, x, x, no_frequency, *cache, 0, *rows);
    vector_->attention(out, q, *cache, 0, *rows);
    for (size_t i = 0; i < 32; ++i) EXPECT_TRUE(std::isfinite(out.floats()[i]));
  }
}

}  // namespace
}  // namespace twostroke
