#include "kernels/cpu/machine_peaks.h"

#include <gtest/gtest.h>

#include <cmath>

namespace twostroke {
namespace {

class MachinePeaksOf : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!isa_supported(GetParam())) GTEST_SKIP() << "this processor has no " << isa_name(GetParam());
  }
};

// With 1 as factor and addend each sum grows by 1 in every round: what is counted as work has been done.
TEST_P(MachinePeaksOf, EveryMultiplyAddThatIsCountedIsDone) {
  const double none = multiply_add(GetParam(), 0, 1, 1);
  for (const int64_t rounds : {1, 2, 1000, 100'000}) {
    EXPECT_EQ(multiply_add(GetParam(), rounds, 1, 1) - none,
              static_cast<double>(rounds * multiply_adds_per_round(GetParam())));
  }
  // From s by x = x / 2 + 1 towards 2: halfway there in one round.
  const double one = multiply_add(GetParam(), 1, 0.5F, 1);
  EXPECT_DOUBLE_EQ(one, none / 2 + static_cast<double>(multiply_adds_per_round(GetParam())));
}

TEST_P(MachinePeaksOf, EveryMultiplyAddOfBytesThatIsCountedIsDone) {
  EXPECT_EQ(int8_multiply_add(GetParam(), 0, 1, 1), 0);
  for (const int64_t rounds : {1, 2, 1000}) {
    EXPECT_EQ(int8_multiply_add(GetParam(), rounds, 1, 1), rounds * int8_multiply_adds_per_round(GetParam()));
  }
  EXPECT_EQ(int8_multiply_add(GetParam(), 4, 15, -127), 4 * 15 * -127 * int8_multiply_adds_per_round(GetParam()));
}

TEST_P(MachinePeaksOf, ASmallBufferGivesFiniteNumbers) {
  CpuDevice device(2);
  for (const ActivationType arithmetic : {ActivationType::kF32, ActivationType::kInt8}) {
    const MachinePeaks peaks = measure_peaks(device, GetParam(), arithmetic, (size_t{1} << 20) + 100);
    EXPECT_TRUE(std::isfinite(peaks.flops) && peaks.flops > 0) << peaks.flops;
    EXPECT_TRUE(std::isfinite(peaks.bytes_per_second) && peaks.bytes_per_second > 0) << peaks.bytes_per_second;
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, MachinePeaksOf, testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAmx),
                         [](const auto& test) { return std::string(isa_name(test.param)); });

TEST(MachinePeaks, TheBufferIsWithinItsBounds) {
  EXPECT_GE(peak_buffer_bytes(), kPeakBufferMin);
  EXPECT_LE(peak_buffer_bytes(), kPeakBufferMax);
}

TEST(MachinePeaks, ABufferThatCannotBeHadLeavesItsPeakUnknown) {
  CpuDevice device(1);
  const MachinePeaks peaks = measure_peaks(device, Isa::kScalar, ActivationType::kF32, size_t{1} << 60);
  EXPECT_GT(peaks.flops, 0);
  EXPECT_EQ(peaks.bytes_per_second, 0);
}

}  // namespace
}  // namespace twostroke
