#include "server/simulate/hardware.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/simulate/fleet.h"
#include "tests/server/simulate/named_file.h"

namespace twostroke::simulate {
namespace {

using ::testing::HasSubstr;

TEST(Hardware, NamesAreFoundInAnyCaseAndWrongOnesListWhatThereIs) {
  ASSERT_TRUE(find_hardware("h100").ok());
  EXPECT_EQ(find_hardware("h100")->name, "H100");
  EXPECT_EQ(find_hardware("H1000").status().code(), StatusCode::kNotFound);
  EXPECT_THAT(find_hardware("H1000").status().message(), HasSubstr("MI300X"));
}

TEST(Hardware, EveryBuiltInProfileIsPossible) {
  for (const Hardware& hardware : hardware_profiles()) {
    SCOPED_TRACE(hardware.name);
    EXPECT_GT(hardware.peak_flops, 1e11);
    EXPECT_GT(hardware.peak_bytes_per_second, 1e9);
    EXPECT_GT(hardware.memory_bytes, 1e9);
    EXPECT_GT(hardware.compute_efficiency, 0);
    EXPECT_LE(hardware.compute_efficiency, 1);
    EXPECT_GT(hardware.memory_efficiency, 0);
    EXPECT_LE(hardware.memory_efficiency, 1);
  }
}

TEST(Hardware, AProfileIsReadFromAFile) {
  const NamedFile file(R"({"name": "mine", "peak_tflops": 10, "bandwidth_gb_per_s": 200, "memory_gb": 16,
                           "price_per_hour": 0.5})",
                       ".json");
  const Result<Hardware> hardware = find_hardware(file.path());
  ASSERT_TRUE(hardware.ok()) << hardware.status().message();
  EXPECT_EQ(hardware->name, "mine");
  EXPECT_EQ(hardware->peak_flops, 10e12);
  EXPECT_EQ(hardware->peak_bytes_per_second, 200e9);
  EXPECT_EQ(hardware->memory_bytes, 16e9);
  EXPECT_EQ(hardware->price_per_hour, 0.5);
  EXPECT_EQ(hardware->link_bytes_per_second, 0);
}

TEST(Hardware, DamagedProfilesAreRefusedByTheirKey) {
  const auto message = [](const char* text) { return parse_hardware(text, "p.json").status().message(); };
  EXPECT_THAT(message("["), HasSubstr("JSON object"));
  EXPECT_THAT(message(R"({"name": "x"})"), HasSubstr("\"peak_tflops\" is missing"));
  EXPECT_THAT(message(R"({"name": "x", "peak_tflops": -1})"), HasSubstr("\"peak_tflops\" must be"));
  EXPECT_THAT(message(R"({"name": "x", "peak_tflops": 1, "bandwidth_gb_per_s": "fast"})"), HasSubstr("bandwidth"));
  EXPECT_THAT(message(R"({"name": "x", "tflops": 1})"), HasSubstr("\"tflops\" is not a key"));
  EXPECT_THAT(message(R"({"name": "x", "peak_tflops": 1, "bandwidth_gb_per_s": 1, "memory_gb": 1,
                          "compute_efficiency": 1.5})"),
              HasSubstr("compute_efficiency"));
  for (const char* nearly_nothing : {"0", "1e-300", "5e-324"}) {
    const std::string bandwidth = R"("bandwidth_gb_per_s": )" + std::string(nearly_nothing);
    EXPECT_THAT(message((R"({"name": "x", "peak_tflops": 1, "memory_gb": 1, )" + bandwidth + "}").c_str()),
                HasSubstr("\"bandwidth_gb_per_s\" must be a number from 1e-06"));
  }
}

TEST(Fleet, CountsDevicesAndTensorParallelDegrees) {
  const Result<Fleet> fleet = parse_fleet("8xH100:tp4", {});
  ASSERT_TRUE(fleet.ok());
  ASSERT_EQ(fleet->groups.size(), 1u);
  EXPECT_EQ(fleet->groups[0].replicas, 2u);
  EXPECT_EQ(fleet->groups[0].tensor_parallel, 4u);
  EXPECT_EQ(parse_fleet("L4", {})->replicas(), 1u);
}

TEST(Fleet, PrefillAndDecodeMachinesStandApart) {
  const Result<Fleet> fleet = parse_fleet("prefill=2xH100,decode=H200", {});
  ASSERT_TRUE(fleet.ok());
  EXPECT_TRUE(fleet->disaggregated());
  EXPECT_EQ(fleet->groups[0].role, Role::kPrefill);
  EXPECT_EQ(fleet->groups[1].role, Role::kDecode);
  EXPECT_EQ(fleet->groups[1].hardware.name, "H200");
}

TEST(Fleet, HasAPriceWhereEveryDeviceHasOne) {
  EXPECT_FALSE(parse_fleet("2xH100", {})->price_per_hour());
  EXPECT_DOUBLE_EQ(*parse_fleet("prefill=2xH100,decode=3xL4", {{"H100", 2.5}, {"L4", 0.5}})->price_per_hour(), 6.5);
}

TEST(Fleet, MisspeltFleetsAreRefusedWithTheWayToWriteThem) {
  for (const char* text : {"", "0xH100", "3xH100:tp2", "4xH100:tp0", "4xH100:tpx", "prefill=2xH100", "decode=H100",
                           "prefill=H100,decode=", "65xH100", "2xCPU-2:tp2"}) {
    const Result<Fleet> fleet = parse_fleet(text, {});
    EXPECT_EQ(fleet.status().code(), StatusCode::kInvalidArgument) << text;
  }
  EXPECT_THAT(parse_fleet("0xH100", {}).status().message(), HasSubstr("COUNTxPROFILE"));
  EXPECT_EQ(parse_fleet("4xA1000", {}).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace twostroke::simulate
