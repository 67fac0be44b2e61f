#include "kernels/cpu/container_limits.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>

namespace twostroke {
namespace {

namespace fs = std::filesystem;

class Groups : public testing::Test {
 protected:
  Groups() : folder_(fs::temp_directory_path() / ("twostroke-groups-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~Groups() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }
  ContainerLimits limits() const { return container_limits(folder_.string(), (folder_ / "self").string()); }

  const fs::path folder_;
};

TEST_F(Groups, WithoutFilesNothingIsLimited) {
  EXPECT_EQ(limits().processors, std::numeric_limits<double>::infinity());
  EXPECT_EQ(limits().memory_bytes, std::numeric_limits<uint64_t>::max());
  write("self", "0::/\n");
  write("cpu.max", "max 100000\n");
  write("memory.max", "max\n");
  EXPECT_EQ(limits().processors, std::numeric_limits<double>::infinity());
  EXPECT_EQ(limits().memory_bytes, std::numeric_limits<uint64_t>::max());
}

TEST_F(Groups, AContainerSeesItsOwnLimitsAtTheMount) {
  write("self", "0::/\n");
  write("cpu.max", "250000 100000\n");
  write("memory.max", "4294967296\n");
  EXPECT_EQ(limits().processors, 2.5);
  EXPECT_EQ(limits().memory_bytes, uint64_t{4} << 30);
}

TEST_F(Groups, TheTightestOfAllGroupsAboveCounts) {
  write("self", "0::/pods/one/server\n");
  write("pods/cpu.max", "400000 100000\n");
  write("pods/one/cpu.max", "50000 100000\n");
  write("pods/one/server/cpu.max", "max 100000\n");
  write("pods/memory.max", "1000000\n");
  write("pods/one/server/memory.max", "2000000\n");
  write("other/cpu.max", "1000 100000\n");
  EXPECT_EQ(limits().processors, 0.5);
  EXPECT_EQ(limits().memory_bytes, 1'000'000u);
}

TEST_F(Groups, VersionOneHasAFolderForEachController) {
  write("self", "4:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n2:name=systemd:/\n0::/\n");
  write("cpu,cpuacct/docker/x/cpu.cfs_quota_us", "300000\n");
  write("cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000\n");
  write("cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  write("memory/docker/x/memory.limit_in_bytes", "123456789\n");
  EXPECT_EQ(limits().processors, 3);
  EXPECT_EQ(limits().memory_bytes, 123'456'789u);
}

// In a container, version 1 shows the path on the host, and the container's own group at the mount.
TEST_F(Groups, APathThatIsNotThereLeavesTheMount) {
  write("self", "4:memory:/docker/x\n3:cpu:/docker/x\n");
  write("cpu/cpu.cfs_quota_us", "200000\n");
  write("cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(limits().processors, 2);
}

TEST_F(Groups, WhatIsNoLimitIsPassedOver) {
  write("self", "0::/\nnonsense\n:\n::\n");
  for (const char* text : {"", "x", "100000", "0 100000", "-5 100000", "100000 0", "nan 1", "1e999 1"}) {
    write("cpu.max", text);
    EXPECT_EQ(limits().processors, std::numeric_limits<double>::infinity()) << text;
  }
  for (const char* text : {"", "x", "0", "99999999999999999999999"}) {
    write("memory.max", text);
    EXPECT_EQ(limits().memory_bytes, std::numeric_limits<uint64_t>::max()) << text;
  }
}

}  // namespace
}  // namespace twostroke
