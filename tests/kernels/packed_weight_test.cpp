#include "kernels/cpu/packed_weight.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "tests/kernels/test_tensors.h"

namespace twostroke {
namespace {

using test::HostWeight;

TEST(PackedWeight, EveryRowComesBackAsTheDefinitionSays) {
  std::mt19937_64 random(1);
  for (int64_t n : {1, 15, 16, 17, 50}) {
    for (int64_t k : {1, 7, 16, 32, 96, 512}) {
      for (const WeightShape& shape : test::weight_shapes(n, k)) {
        SCOPED_TRACE(test::describe(shape));
        const HostWeight host = test::random_weight(random, shape);
        std::vector<std::byte> packed(packed_bytes(shape), std::byte{0xff});
        // Split inside a panel, as a loader that works in slices does.
        pack_rows(shape, packed.data(), host.rows(0, n / 2));
        pack_rows(shape, packed.data(), host.rows(n / 2, n));
        std::vector<float> row(static_cast<size_t>(k));
        for (int64_t j = 0; j < n; ++j) {
          unpack_row(shape, packed.data(), j, row);
          for (int64_t i = 0; i < k; ++i) {
            ASSERT_EQ(std::bit_cast<uint32_t>(row[size_t(i)]), std::bit_cast<uint32_t>(host.value(j, i)));
          }
        }
      }
    }
  }
}

TEST(PackedWeight, TakesTheBytesThatItsFormatPromises) {
  const auto bits_per_weight = [](const WeightShape& shape) {
    return 8.0 * double(packed_bytes(shape)) / double(shape.n * shape.k);
  };
  EXPECT_EQ(bits_per_weight({WeightLayout::kF32, 64, 64}), 32);
  EXPECT_EQ(bits_per_weight({WeightLayout::kBF16, 64, 64}), 16);
  EXPECT_EQ(bits_per_weight({WeightLayout::kQ8, 64, 64, 32}), 8.5);                   // Q8_0
  EXPECT_EQ(bits_per_weight({WeightLayout::kQ6, 64, 512, 16, false, true}), 6.5625);  // Q6_K
  EXPECT_EQ(bits_per_weight({WeightLayout::kQ6, 64, 512, 32, true, true}), 6.625);    // Q5_K
  EXPECT_EQ(bits_per_weight({WeightLayout::kQ6, 64, 64, 32}), 6.5);                   // Q5_0
  EXPECT_EQ(bits_per_weight({WeightLayout::kQ4, 64, 64, 32, false}), 4.5);            // Q4_0
  EXPECT_EQ(bits_per_weight({WeightLayout::kQ4, 64, 64, 32, true}), 5);               // Q4_1
  EXPECT_EQ(bits_per_weight({WeightLayout::kQ4, 64, 512, 32, true, true}), 4.625);    // Q4_K
}

TEST(PackedWeight, AHalfScaleThatDoesNotFitBecomesInfinityAndNothingElseBreaks) {
  const WeightShape shape = {WeightLayout::kQ4, 1, 16, 16, true};
  HostWeight host;
  host.shape = shape;
  host.q4.assign(8, 0x11);
  host.scales = {1.0f};
  host.mins = {-80000.0f};
  std::vector<std::byte> packed(packed_bytes(shape));
  pack_rows(shape, packed.data(), host.rows(0, 1));
  std::vector<float> row(16);
  unpack_row(shape, packed.data(), 0, row);
  EXPECT_TRUE(std::isinf(row[0]));
}

}  // namespace
}  // namespace twostroke
