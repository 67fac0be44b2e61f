#include "backend/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

#include "tests/tools/gguf_writer.h"
#include "tests/tools/temp_file.h"

namespace twostroke {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<float> floats_of(const GgufTensor& tensor) {
  std::vector<float> out(tensor.data.size() / sizeof(float));
  std::memcpy(out.data(), tensor.data.data(), tensor.data.size());
  return out;
}

TEST(Gguf, ReadsEveryScalarTypeWidened) {
  GgufWriter writer;
  writer.set("u8", uint8_t{200});
  writer.set("i8", int8_t{-100});
  writer.set("u16", uint16_t{60000});
  writer.set("i16", int16_t{-30000});
  writer.set("u32", uint32_t{4000000000});
  writer.set("i32", int32_t{-2000000000});
  writer.set("u64", std::numeric_limits<uint64_t>::max());
  writer.set("i64", std::numeric_limits<int64_t>::min());
  writer.set("f32", 0.5F);
  writer.set("f64", 1e300);
  writer.set("yes", true);
  writer.set("no", false);
  writer.set("text", "h\xc3\xa9llo");
  const auto file = open_gguf_bytes(writer.bytes());
  ASSERT_TRUE(file.ok()) << file.status().message();
  const GgufFile& f = **file;
  EXPECT_EQ(*f.get_u64("u8"), 200U);
  EXPECT_EQ(std::get<int64_t>(*f.find("i8")), -100);
  EXPECT_EQ(*f.get_u64("u16"), 60000U);
  EXPECT_EQ(std::get<int64_t>(*f.find("i16")), -30000);
  EXPECT_EQ(*f.get_u64("u32"), 4000000000U);
  EXPECT_EQ(std::get<int64_t>(*f.find("i32")), -2000000000);
  EXPECT_EQ(*f.get_u64("u64"), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(std::get<int64_t>(*f.find("i64")), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(*f.get_f64("f32"), 0.5);
  EXPECT_EQ(*f.get_f64("f64"), 1e300);
  EXPECT_TRUE(*f.get_bool("yes"));
  EXPECT_FALSE(*f.get_bool("no"));
  EXPECT_EQ(*f.get_string("text"), "h\xc3\xa9llo");
  EXPECT_EQ(f.version(), 3U);
  EXPECT_EQ(f.file_bytes(), writer.bytes().size());
}

TEST(Gguf, ReadsArraysOfEveryElementType) {
  GgufWriter writer;
  writer.set_array<uint8_t>("u8", {1, 255});
  writer.set_array<int16_t>("i16", {-5, 7});
  writer.set_array<uint64_t>("u64", {1, uint64_t{1} << 63});
  writer.set_array<float>("f32", {0.25F, -2.0F});
  writer.set_array<bool>("bool", {true, false, true});
  writer.set_array("text", {"", "a", "bc"});
  writer.set_array<int32_t>("none", {});
  const auto file = open_gguf_bytes(writer.bytes());
  ASSERT_TRUE(file.ok()) << file.status().message();
  const GgufFile& f = **file;
  EXPECT_THAT(*f.get_i64s("u8"), ElementsAre(1, 255));
  EXPECT_THAT(*f.get_i64s("i16"), ElementsAre(-5, 7));
  EXPECT_THAT(*f.get_f64s("i16"), ElementsAre(-5.0, 7.0));
  EXPECT_THAT(*f.get_f64s("f32"), ElementsAre(0.25, -2.0));
  EXPECT_THAT(std::get<std::vector<bool>>(*f.find("bool")), ElementsAre(true, false, true));
  EXPECT_THAT(*f.get_strings("text"), ElementsAre("", "a", "bc"));
  EXPECT_THAT(*f.get_i64s("none"), ElementsAre());
  EXPECT_THAT(f.get_i64s("u64").status().message(), HasSubstr("'u64' must be"));  // 2^63 does not fit
}

TEST(Gguf, GettersNameTheKeyThatIsMissingOrOfAnotherType) {
  GgufWriter writer;
  writer.set("negative", int32_t{-1});
  writer.set("text", "x");
  const auto file = open_gguf_bytes(writer.bytes());
  ASSERT_TRUE(file.ok());
  const GgufFile& f = **file;
  EXPECT_EQ(f.find("absent"), nullptr);
  EXPECT_THAT(f.get_u64("absent").status().message(), HasSubstr("'absent' is missing"));
  EXPECT_THAT(f.get_u64("negative").status().message(), HasSubstr("'negative' must be a non-negative integer"));
  EXPECT_EQ(*f.get_f64("negative"), -1.0);
  for (const Status& status : {f.get_u64("text").status(), f.get_f64("text").status(), f.get_bool("text").status(),
                               f.get_strings("text").status(), f.get_i64s("text").status(), f.get_f64s("text").status(),
                               f.get_string("negative").status()}) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("must be"));
  }
}

TEST(Gguf, DefaultsStandInForAbsentKeysOnly) {
  GgufWriter writer;
  writer.set("text", "x");
  writer.set("number", uint32_t{3});
  const auto file = open_gguf_bytes(writer.bytes());
  ASSERT_TRUE(file.ok());
  const GgufFile& f = **file;
  EXPECT_EQ(*f.get_u64_or("absent", 7), 7U);
  EXPECT_EQ(*f.get_u64_or("number", 7), 3U);
  EXPECT_EQ(*f.get_f64_or("absent", 0.5), 0.5);
  EXPECT_EQ(*f.get_bool_or("absent", true), true);
  EXPECT_EQ(*f.get_string_or("absent", "y"), "y");
  EXPECT_EQ(*f.get_string_or("text", "y"), "x");
  EXPECT_FALSE(f.get_u64_or("text", 7).ok());
  EXPECT_FALSE(f.get_bool_or("number", false).ok());
}

TEST(Gguf, FindsTensorsWithTheirShapeAndExactBytes) {
  GgufWriter writer;
  const std::vector<float> a = {1, 2, 3, 4, 5, 6};
  const std::vector<float> b = {7, 8};
  writer.set_tensor("a", {3, 2}, a);
  writer.set_tensor("b", {2}, b);
  writer.set_tensor("q", GgufType::kQ4_0, {32, 2}, std::string(36, 'x'));
  const auto file = open_gguf_bytes(writer.bytes());
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_EQ((*file)->tensors().size(), 3U);
  const GgufTensor* tensor = (*file)->find_tensor("a");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->type, GgufType::kF32);
  EXPECT_EQ(tensor->dim_count, 2U);
  EXPECT_THAT(tensor->dims, ElementsAre(3, 2, 1, 1));
  EXPECT_EQ(tensor->elements(), 6U);
  EXPECT_EQ(floats_of(*tensor), a);
  EXPECT_EQ(floats_of(*(*file)->find_tensor("b")), b);
  EXPECT_EQ((*file)->find_tensor("q")->data.size(), 36U);
  EXPECT_EQ((*file)->find_tensor("c"), nullptr);
  for (const auto& t : (*file)->tensors()) EXPECT_EQ(reinterpret_cast<uintptr_t>(t.data.data()) % 32, 0U);
}

TEST(Gguf, TensorsThatAreForgottenLeaveMemoryAndCanBeReadAgain) {
  const std::vector<float> values(1 << 20, 3.5f);
  GgufWriter writer;
  writer.set_tensor("a", {1 << 10, 1 << 10}, values);
  const auto file = open_gguf_bytes(writer.bytes());
  ASSERT_TRUE(file.ok()) << file.status().message();
  const GgufTensor& tensor = *(*file)->find_tensor("a");
  const auto resident_kb = [&] {  // of the mapping that holds the tensor; -1 where the kernel does not say
    const auto address = reinterpret_cast<uintptr_t>(tensor.data.data());
    std::ifstream maps("/proc/self/smaps");
    bool inside = false;
    for (std::string line; std::getline(maps, line);) {
      unsigned long begin = 0, end = 0;
      if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) inside = begin <= address && address < end;
      if (inside && line.starts_with("Rss:")) return std::stol(line.substr(4));
    }
    return -1l;
  };
  EXPECT_EQ(floats_of(tensor), values);
  if (resident_kb() < 0) GTEST_SKIP() << "this kernel does not say what is resident";
  EXPECT_GE(resident_kb(), 4096);
  GgufFile::forget(tensor.data);
  EXPECT_LE(resident_kb(), 64);  // the ends, which are not whole pages
  EXPECT_EQ(floats_of(tensor), values);
  GgufFile::forget(tensor.data.subspan(1, 100));  // no whole page
}

TEST(Gguf, HonoursTheFilesAlignment) {
  for (const uint32_t alignment : {8U, 64U, 4096U}) {
    GgufWriter writer;
    writer.set("general.alignment", alignment);
    writer.set_tensor("a", {1}, std::vector<float>{1});
    writer.set_tensor("b", {1}, std::vector<float>{2});
    const auto file = open_gguf_bytes(writer.bytes());
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_EQ(floats_of(*(*file)->find_tensor("b")), std::vector<float>{2});
    EXPECT_EQ(reinterpret_cast<uintptr_t>((*file)->find_tensor("b")->data.data()) % alignment, 0U);
  }
}

TEST(Gguf, ReadsVersionTwoAndAFileWithoutTensors) {
  GgufWriter writer(2);
  writer.set("general.architecture", "llama");
  const auto file = open_gguf_bytes(writer.bytes());
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ((*file)->version(), 2U);
  EXPECT_TRUE((*file)->tensors().empty());
}

TEST(Gguf, KeepsReadingAFileThatIsRemovedWhileItIsOpen) {
  GgufWriter writer;
  writer.set_tensor("a", {1}, std::vector<float>{5});
  Result<std::unique_ptr<GgufFile>> file = GgufFile::open(TempFile(writer.bytes()).path());
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(floats_of(*(*file)->find_tensor("a")), std::vector<float>{5});
}

TEST(Gguf, SaysWhenThereIsNoSuchFileOrItIsNone) {
  const auto absent = GgufFile::open("/no/such/file.gguf");
  EXPECT_EQ(absent.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(absent.status().message(), HasSubstr("/no/such/file.gguf: no such file"));
  EXPECT_THAT(GgufFile::open("/").status().message(), HasSubstr("not a regular file"));
  EXPECT_THAT(GgufFile::open("/dev/null").status().message(), HasSubstr("not a regular file"));
  EXPECT_THAT(open_gguf_bytes("").status().message(), HasSubstr("empty"));
}

TEST(Gguf, NamesTheTypesThatItDoesNotSupport) {
  EXPECT_STREQ(gguf_type_traits(12)->name, "Q4_K");
  EXPECT_EQ(gguf_type_traits(16), nullptr);
  EXPECT_EQ(gguf_type_traits(1000), nullptr);
  EXPECT_EQ(gguf_type_name(16), "IQ2_XXS");
  EXPECT_EQ(gguf_type_name(1000), "number 1000");
}

}  // namespace
}  // namespace twostroke
