#include "kernels/cpu/cpu_device.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "kernels/cpu/cpu_operators.h"

namespace twostroke {
namespace {

TEST(CpuDevice, MemoryIsAlignedAndHoldsWhatWasUploaded) {
  CpuDevice device(1);
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{100}, CpuDevice::kHugeBytes - 1, CpuDevice::kHugeBytes,
                       3 * CpuDevice::kHugeBytes + 5}) {
    Result<DeviceMemory> memory = device.allocate(bytes);
    ASSERT_TRUE(memory.ok());
    EXPECT_EQ(memory->bytes(), bytes);
    EXPECT_EQ(memory->address().value % 64, 0u);
    std::vector<uint8_t> source(bytes);
    for (size_t i = 0; i < bytes; ++i) source[i] = static_cast<uint8_t>(i * 7 + 1);
    std::vector<uint8_t> target(bytes);
    device.upload(memory->address(), source.data(), bytes);
    device.download(target.data(), memory->address(), bytes);
    EXPECT_TRUE(device.wait().ok());
    EXPECT_EQ(target, source);
  }
}

TEST(CpuDevice, AnImpossibleAllocationIsAnErrorThatNamesTheSize) {
  CpuDevice device(1);
  for (size_t bytes : {size_t{1} << 60, std::numeric_limits<size_t>::max()}) {
    Result<DeviceMemory> memory = device.allocate(bytes);
    ASSERT_FALSE(memory.ok());
    EXPECT_EQ(memory.status().code(), StatusCode::kResourceExhausted);
    EXPECT_NE(memory.status().message().find(std::to_string(bytes)), std::string::npos);
  }
}

TEST(CpuDevice, NamesItsThreads) {
  EXPECT_EQ(CpuDevice(1).name(), "cpu (1 thread)");
  EXPECT_EQ(CpuDevice(3).name(), "cpu (3 threads)");
}

TEST(Isa, TheBestOneIsSupportedAndMakesOperators) {
  EXPECT_TRUE(isa_supported(Isa::kScalar));
  EXPECT_TRUE(isa_supported(best_isa()));
  EXPECT_STREQ(isa_name(Isa::kScalar), "scalar");
  EXPECT_STREQ(isa_name(Isa::kAvx2), "avx2");
  CpuDevice device(1);
  EXPECT_EQ(&make_cpu_operators(device, best_isa())->device(), &device);
}

}  // namespace
}  // namespace twostroke
