// Quantised activations: how rows are quantised, and products of them in every vector set against the scalar reference.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/cpu/cpu_operators.h"
#include "kernels/cpu/int8_rows.h"
#include "tests/kernels/test_tensors.h"

namespace twostroke {
namespace {

using test::HostWeight;
using test::normal_floats;
using test::OwnedActivations;
using test::OwnedTensor;
using test::OwnedWeight;

constexpr double kRounding = 0x1p-24;  // half the spacing of floats at 1: the relative error of one rounding

// Numbers of many sizes: groups whose maximum is small, large, zero, below the least, or not finite.
std::vector<float> many_sizes(std::mt19937_64& random, int64_t count) {
  std::vector<float> values = normal_floats(random, count);
  const float factors[] = {1, 0, 1e-30f, 1e30f, 1e-40f, 1e-36f, 3e38f, 1};
  for (size_t i = 0; i < values.size(); ++i) values[i] *= factors[i / 32 % std::size(factors)];
  return values;
}

class QuantisedParity : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!isa_supported(GetParam())) GTEST_SKIP() << "this processor lacks " << isa_name(GetParam());
    vector_ = make_cpu_operators(device_, GetParam());
  }

  std::mt19937_64 random_{20261130};
  CpuDevice device_{2};
  std::unique_ptr<Operators> scalar_ = make_cpu_operators(device_, Isa::kScalar);
  std::unique_ptr<Operators> vector_;
};

INSTANTIATE_TEST_SUITE_P(Isas, QuantisedParity, ::testing::Values(Isa::kAvx2, Isa::kAvx512, Isa::kAmx),
                         [](const auto& test) { return isa_name(test.param); });

TEST(QuantisedRow, StandsForTheNumbersWithinHalfAStep) {
  std::mt19937_64 random(3);
  for (int64_t k : {1, 7, 16, 31, 32, 33, 48, 96, 577}) {
    const std::vector<float> x = many_sizes(random, k);
    const Int8Format format = int8_format(k);
    std::vector<std::byte> row(format.row_bytes);
    quantise_row(format, row.data(), x);
    std::vector<double> restored(x.size());
    restore_row(format, row.data(), restored);
    for (int64_t g = 0; g < format.groups; ++g) {
      const int64_t end = std::min(k, (g + 1) * kInt8Group);
      double largest = 0;
      bool finite = true;
      for (int64_t i = g * kInt8Group; i < end; ++i) {
        largest = std::max(largest, std::fabs(double{x[size_t(i)]}));
        finite = finite && std::isfinite(x[size_t(i)]);
      }
      for (int64_t i = g * kInt8Group; i < end; ++i) {
        if (!finite) {
          EXPECT_TRUE(std::isnan(restored[size_t(i)])) << i;
        } else if (largest < double{kInt8Least}) {
          EXPECT_EQ(restored[size_t(i)], 0) << i;
        } else {  // a code is off by one half and by what rounding the quotient and the scale may do to it
          EXPECT_NEAR(restored[size_t(i)], x[size_t(i)], largest / 127 * (0.5 + 127 * 3 * kRounding)) << i;
        }
      }
    }
  }
}

TEST(QuantisedRow, KeepsTheSumsOfItsGroupsAndHalves) {
  std::mt19937_64 random(4);
  const int64_t k = 80;
  const std::vector<float> x = normal_floats(random, k);
  const Int8Format format = int8_format(k);
  std::vector<std::byte> row(format.row_bytes);
  quantise_row(format, row.data(), x);
  const auto* codes = reinterpret_cast<const int8_t*>(row.data());
  const auto floats = [&](size_t part, int64_t i) { return reinterpret_cast<const float*>(row.data() + part)[i]; };
  const auto integers = [&](size_t part, int64_t i) { return reinterpret_cast<const int32_t*>(row.data() + part)[i]; };
  for (int64_t half = 0; half < 2 * format.groups; ++half) {
    int sum = 0;
    for (int64_t i = half * 16; i < (half + 1) * 16; ++i) sum += codes[i];
    EXPECT_EQ(integers(format.half_offsets, half), -8 * sum);
    int pairs[2] = {};
    for (int64_t i = half * 16; i < (half + 1) * 16; ++i) pairs[i % 4 / 2] += codes[i];
    const auto* offsets = reinterpret_cast<const int16_t*>(row.data() + format.pair_offsets) + half * 2;
    EXPECT_EQ(offsets[0], -32 * pairs[0]);
    EXPECT_EQ(offsets[1], -32 * pairs[1]);
    EXPECT_EQ(floats(format.half_sums, half), floats(format.scales, half / 2) * static_cast<float>(sum));
  }
  for (int64_t g = 0; g < format.groups; ++g) {
    int sum = 0;
    for (int64_t i = g * 32; i < (g + 1) * 32; ++i) sum += codes[i];
    EXPECT_EQ(integers(format.offsets, g), -8 * sum);
    EXPECT_EQ(floats(format.sums, g), floats(format.scales, g) * static_cast<float>(sum));
  }
  for (int64_t i = k; i < format.groups * 32; ++i) EXPECT_EQ(codes[i], 0) << "beyond the row";
  const auto* wide = reinterpret_cast<const int16_t*>(row.data() + format.wide);
  EXPECT_TRUE(std::equal(codes, codes + format.groups * 32, wide));
}

TEST_P(QuantisedParity, RowsAreTheBitsOfTheReference) {
  for (int64_t k : {1, 7, 8, 16, 31, 32, 33, 48, 96, 577}) {
    for (float bad : {0.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::vector<float> x = many_sizes(random_, 3 * k);
      if (bad != 0) x[size_t(k + k / 2)] = bad;
      const std::vector<std::byte> expected = OwnedActivations(*scalar_, x, 3, k).int8_bytes();
      EXPECT_EQ(OwnedActivations(*vector_, x, 3, k).int8_bytes(), expected) << "k " << k << ", " << bad;
    }
  }
}

TEST_P(QuantisedParity, OperatorsGiveEachFormAsIfItWereAlone) {
  for (int64_t k : {5, 32, 83, 577}) {
    const std::vector<float> unset(size_t(3 * k));
    const OwnedTensor in(device_, normal_floats(random_, 3 * k), 3, k, k + 1);
    const OwnedTensor other(device_, normal_floats(random_, 3 * k), 3, k);
    const OwnedTensor scale(device_, normal_floats(random_, k), 1, k);
    for (const bool norm : {true, false}) {
      const auto compute = [&](const Activations& out) {
        norm ? vector_->rms_norm(out, in, scale, 1e-5f) : vector_->silu_gate(out, in, other);
      };
      const OwnedTensor f32(device_, unset, 3, k);
      compute(*f32);
      const OwnedActivations afterwards(*vector_, f32.floats(), 3, k);
      const OwnedActivations both(*vector_, unset, 3, k);
      compute(both);
      EXPECT_EQ(both.int8_bytes(), afterwards.int8_bytes()) << k;

      const OwnedActivations int8(*vector_, unset, 3, k);
      compute(int8.int8());
      EXPECT_EQ(int8.int8_bytes(), afterwards.int8_bytes()) << k;
    }
  }
}

TEST_P(QuantisedParity, Matmul) {
  for (int64_t n : {1, 16, 33, 200}) {
    for (int64_t k : {16, 32, 48, 96, 512, 544, 1072}) {
      if (n == 200 && k > 544) continue;
      for (const WeightShape& shape : test::weight_shapes(n, k)) {
        if (shape.group == 0) continue;
        for (int64_t rows : {1, 2, 3, 5, 7, 13, 16, 34, 70}) {
          SCOPED_TRACE(test::describe(shape) + ", rows " + std::to_string(rows));
          const HostWeight host = test::random_weight(random_, shape);
          const OwnedWeight weight(*scalar_, host);
          const OwnedActivations x(*scalar_, normal_floats(random_, rows * k), rows, k);
          const std::vector<float> before = normal_floats(random_, rows * n);
          const OwnedTensor expected(device_, before, rows, n, n + 1);
          const OwnedTensor actual(device_, before, rows, n, n + 1);
          const bool accumulate = rows % 2 == 0;
          scalar_->matmul(expected, x.int8(), weight, accumulate);
          vector_->matmul(actual, x.int8(), weight, accumulate);
          const std::vector<float> expected_values = expected.floats();
          const std::vector<float> actual_values = actual.floats();

          const std::vector<std::byte> bytes = x.int8_bytes();
          const Int8Format format = int8_format(k);
          std::vector<double> row(static_cast<size_t>(k));
          for (int64_t t = 0; t < rows; ++t) {
            restore_row(format, bytes.data() + size_t(t) * format.row_bytes, row);
            for (int64_t j = 0; j < n; ++j) {
              // The codes' products are exact. Each group adds two terms to the sum, which rounds it twice, and each
              // term has been rounded up to twice itself; the reference rounds each weight. Terms are at most
              // |scale * code * x| and |min * x|, whose sum is at most |w x| + 2 |min x|.
              double magnitude = std::fabs(before[size_t(t * n + j)]);
              for (int64_t i = 0; i < k; ++i) {
                const double parts = std::fabs(double{host.value(j, i)}) + 2 * std::fabs(double{host.min(j, i)});
                magnitude += parts * std::fabs(row[size_t(i)]);
              }
              ASSERT_NEAR(actual_values[size_t(t * n + j)], expected_values[size_t(t * n + j)],
                          (2 * double(k / shape.group) + 6) * kRounding * magnitude)
                  << "row " << t << ", output " << j;
            }
          }
        }
      }
    }
  }
}

// The largest sums that codes can have: where a lane of 16 bits would overflow, it does here.
TEST_P(QuantisedParity, ExtremeCodesDoNotOverflow) {
  for (int64_t k : {32, 64, 256}) {
    for (const WeightShape& shape : test::weight_shapes(16, k)) {
      if (shape.group == 0) continue;
      SCOPED_TRACE(test::describe(shape));
      HostWeight host = test::random_weight(random_, shape);
      std::fill(host.scales.begin(), host.scales.end(), 1.0f);
      std::fill(host.mins.begin(), host.mins.end(), 0.0f);
      std::fill(host.factors.begin(), host.factors.end(), int8_t{-128});
      for (const int code : {-128, 127}) {
        const int of_six = code < 0 ? -32 : 31;
        std::fill(host.q8.begin(), host.q8.end(),
                  static_cast<int8_t>(shape.layout == WeightLayout::kQ6 ? of_six : code));
        std::fill(host.q4.begin(), host.q4.end(), code < 0 ? uint8_t{0} : uint8_t{0xff});
        for (const float x : {-127.0f, 127.0f}) {
          for (const int64_t rows : {1, 13}) {  // few and many rows are multiplied in different ways
            const OwnedActivations in(*vector_, std::vector<float>(size_t(rows * k), x), rows, k);
            const OwnedTensor y(device_, std::vector<float>(size_t(rows * 16)), rows, 16);
            vector_->matmul(y, in.int8(), OwnedWeight(*vector_, host), false);
            EXPECT_EQ(y.floats(), std::vector<float>(size_t(rows * 16), host.value(0, 0) * x * static_cast<float>(k)));
          }
        }
      }
    }
  }
}

TEST_P(QuantisedParity, WhatIsNotFiniteReachesItsOwnRowOnly) {
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> values = normal_floats(random_, 3 * 32);
    values[32 + 5] = bad;
    for (const WeightShape& shape : test::weight_shapes(20, 32)) {
      if (shape.group == 0) continue;
      const OwnedWeight weight(*vector_, test::random_weight(random_, shape));
      const OwnedActivations x(*vector_, values, 3, 32);
      const OwnedTensor y(device_, std::vector<float>(60), 3, 20);
      vector_->matmul(y, x.int8(), weight, false);
      for (size_t i = 0; i < 60; ++i) EXPECT_EQ(std::isfinite(y.floats()[i]), i / 20 != 1) << test::describe(shape);
    }
  }
}

}  // namespace
}  // namespace twostroke
