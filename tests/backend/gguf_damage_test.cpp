// Files that are damaged, on purpose or at random: GgufFile::open() gives a clear error or a usable file, never more.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>

#include "backend/gguf.h"
#include "backend/model_config.h"
#include "backend/transcode.h"
#include "tests/tools/gguf_writer.h"
#include "tests/tools/tiny_llama.h"

namespace twostroke {
namespace {

using testing::HasSubstr;

constexpr uint64_t kTwoTo63 = uint64_t{1} << 63;
constexpr GgufFile::Limits kNoLimits = {std::numeric_limits<uint64_t>::max(), std::numeric_limits<uint64_t>::max(),
                                        std::numeric_limits<uint64_t>::max(), std::numeric_limits<uint64_t>::max()};

std::string header(uint64_t tensors, uint64_t metadata, uint32_t version = 3) {
  return "GGUF" + GgufWriter::raw(version) + GgufWriter::raw(tensors) + GgufWriter::raw(metadata);
}

template <typename T>
std::string patched(std::string bytes, size_t offset, T value) {
  EXPECT_LE(offset + sizeof(T), bytes.size());
  std::memcpy(bytes.data() + offset, &value, sizeof(T));
  return bytes;
}

// Where the fields behind a name in the file begin.
size_t behind(const std::string& bytes, const std::string& name) {
  const size_t at = bytes.find(GgufWriter::raw_string(name));
  EXPECT_NE(at, std::string::npos);
  return at + sizeof(uint64_t) + name.size();
}

// Expects that opening fails with a message that holds `part`.
void expect_error(const std::string& bytes, StatusCode code, const std::string& part,
                  const GgufFile::Limits& limits = {}) {
  const auto file = open_gguf_bytes(bytes, limits);
  ASSERT_FALSE(file.ok()) << "expected: " << part;
  EXPECT_EQ(file.status().code(), code) << file.status().message();
  EXPECT_THAT(file.status().message(), HasSubstr(part));
}
void expect_invalid(const std::string& bytes, const std::string& part, const GgufFile::Limits& limits = {}) {
  expect_error(bytes, StatusCode::kInvalidArgument, part, limits);
}
void expect_unsupported(const std::string& bytes, const std::string& part) {
  expect_error(bytes, StatusCode::kUnsupported, part);
}

// Two tensors of two floats each: "first" at offset 0 and "second" at offset 32 of the data.
std::string two_tensors() {
  GgufWriter writer;
  writer.set("key", uint32_t{5});
  writer.set_tensor("first", {2}, std::vector<float>{1, 2});
  writer.set_tensor("second", {2}, std::vector<float>{3, 4});
  return writer.bytes();
}
// Offsets of a one-dimensional tensor's fields behind its name.
constexpr size_t kDimCount = 0;
constexpr size_t kDim = 4;
constexpr size_t kType = 12;
constexpr size_t kOffset = 16;

TEST(GgufDamage, MagicAndVersionAreChecked) {
  expect_invalid("GG", "magic");
  expect_invalid("PK\x03\x04 and more bytes", "not a GGUF file");
  expect_unsupported("FUGG" + std::string(20, '\0'), "big-endian");
  expect_unsupported("tjgg" + std::string(20, '\0'), "before GGUF");
  expect_invalid("GGUF", "version");
  expect_unsupported(header(0, 0, 1), "GGUF version 1 is not supported");
  expect_unsupported(header(0, 0, 4), "GGUF version 4 is not supported");
  expect_unsupported(header(0, 0, 0x03000000), "big-endian");
}

TEST(GgufDamage, ASmallFileThatClaims2To63ElementsFailsAtOnce) {
  // 43 bytes each, and opened without limits, so that only the size of the file stands between the claim and memory.
  const auto expect_43 = [](std::string bytes, const std::string& part) {
    bytes.resize(43, '\0');
    expect_invalid(bytes, part, kNoLimits);
  };
  expect_43(header(kTwoTo63, 0), "tensor count");
  expect_43(header(0, kTwoTo63), "metadata count");
  expect_43(header(0, 1) + GgufWriter::raw(kTwoTo63), "metadata key 0");
  const auto one_value = [](uint32_t type) {
    return header(0, 1) + GgufWriter::raw_string("k") + GgufWriter::raw(type);
  };
  expect_invalid(one_value(kGgufString) + GgufWriter::raw(kTwoTo63), "metadata key 'k'", kNoLimits);
  for (const uint32_t element_type : {0U, 7U, 8U, 12U}) {
    expect_invalid(one_value(kGgufArray) + GgufWriter::raw(element_type) + GgufWriter::raw(kTwoTo63),
                   "9223372036854775808 elements", kNoLimits);
  }
}

TEST(GgufDamage, NamedLimitsHold) {
  GgufWriter writer;
  writer.set("text", "four");
  writer.set_array<uint8_t>("array", {1, 2, 3});
  writer.set_tensor("a", {1}, std::vector<float>{1});
  const std::string bytes = writer.bytes();
  EXPECT_TRUE(open_gguf_bytes(bytes, {2, 1, 3, 4}).ok());
  expect_invalid(bytes, "metadata count: 2 is over the limit of 1", {1, 1, 3, 4});
  expect_invalid(bytes, "tensor count: 1 is over the limit of 0", {2, 0, 3, 4});
  expect_invalid(bytes, "3 elements are over the limit of 2", {2, 1, 2, 4});
  expect_invalid(bytes, "4 bytes is over the limit of 3", {2, 1, 3, 3});
}

TEST(GgufDamage, MetadataFieldsAreChecked) {
  GgufWriter writer;
  writer.set_raw("key", 13, std::string(8, '\0'));
  expect_invalid(writer.bytes(), "'key' at offset 35: unknown value type 13");
  writer.set_raw("key", kGgufArray, GgufWriter::raw(uint32_t{99}) + GgufWriter::raw(uint64_t{1}) + "x");
  expect_invalid(writer.bytes(), "unknown element type 99");
  writer.set_raw("key", kGgufArray, GgufWriter::raw(kGgufArray) + GgufWriter::raw(uint64_t{0}));
  expect_invalid(writer.bytes(), "arrays of arrays");
  writer.set_raw("key", gguf_value_type<bool>(), "\x02");
  expect_invalid(writer.bytes(), "'key' at offset 39: a boolean must be 0 or 1, not 2");
  writer.set_raw("key", kGgufArray, GgufWriter::raw(gguf_value_type<bool>()) + GgufWriter::raw(uint64_t{1}) + "\x05");
  expect_invalid(writer.bytes(), "a boolean must be 0 or 1, not 5");

  GgufWriter empty_key;
  empty_key.set("", uint32_t{1});
  expect_invalid(empty_key.bytes(), "metadata key 0 at offset 24: is empty");
  GgufWriter strange_key;
  strange_key.set_raw("a\x1b[31m\xff", 13, std::string(8, '\0'));
  expect_invalid(strange_key.bytes(), "'a?[31m?'");
}

TEST(GgufDamage, DuplicatesAreRefused) {
  GgufWriter writer;
  writer.set("key_a", uint32_t{1});
  writer.set("key_b", uint32_t{2});
  writer.set_tensor("name_a", {1}, std::vector<float>{1});
  writer.set_tensor("name_b", {1}, std::vector<float>{1});
  const std::string bytes = writer.bytes();
  ASSERT_TRUE(open_gguf_bytes(bytes).ok());
  expect_invalid(patched(bytes, bytes.find("key_b") + 4, 'a'), "'key_a' appears twice");
  expect_invalid(patched(bytes, bytes.find("name_b") + 5, 'a'), "tensor 'name_a' appears twice");
}

TEST(GgufDamage, AlignmentIsChecked) {
  GgufWriter writer;
  writer.set_tensor("a", {1}, std::vector<float>{1});
  for (const uint32_t alignment : {0U, 1U, 4U, 24U, 48U, 33U}) {
    writer.set("general.alignment", alignment);
    expect_invalid(writer.bytes(), "general.alignment: " + std::to_string(alignment) + " is not a power of two");
  }
  writer.set("general.alignment", uint32_t{8192});
  expect_unsupported(writer.bytes(), "general.alignment: 8192 is over the limit of 4096");
  writer.set("general.alignment", uint64_t{32});
  expect_invalid(writer.bytes(), "general.alignment: must be a 32-bit unsigned integer");
  writer.set("general.alignment", "32");
  expect_invalid(writer.bytes(), "general.alignment: must be a 32-bit unsigned integer");
}

TEST(GgufDamage, TensorFieldsAreChecked) {
  const std::string bytes = two_tensors();
  ASSERT_TRUE(open_gguf_bytes(bytes).ok());
  const size_t first = behind(bytes, "first");
  const size_t second = behind(bytes, "second");
  expect_invalid(patched(bytes, first + kDimCount, uint32_t{0}), "'first' dimension count");
  expect_invalid(patched(bytes, first + kDimCount, uint32_t{5}), "5 is not between 1 and 4");
  expect_invalid(patched(bytes, first + kDim, uint64_t{0}), "'first' dimension 0 at offset 60: is zero");
  expect_invalid(patched(bytes, first + kDim, kTwoTo63), "'first' at offset 68: the number of bytes overflows");
  expect_invalid(patched(bytes, first + kDim, uint64_t{1} << 40), "behind the end of the file");
  expect_invalid(patched(bytes, second + kDim, uint64_t{3}), "tensor 'second': 12 bytes at offset 32");
  expect_unsupported(patched(bytes, first + kType, uint32_t{16}), "tensor 'first': type IQ2_XXS is not supported");
  expect_unsupported(patched(bytes, first + kType, uint32_t{77}), "tensor 'first': type number 77 is not supported");
  expect_invalid(patched(bytes, first + kType, uint32_t{2}), "2 is not a multiple of 32, as Q4_0 needs");
  expect_invalid(patched(bytes, second + kOffset, uint64_t{16}), "offset 16 is not a multiple of the alignment, 32");
  expect_invalid(patched(bytes, second + kOffset, uint64_t{0}), "its data overlaps that of");
  expect_invalid(patched(bytes, second + kOffset, uint64_t{64}), "tensor 'second': 8 bytes at offset 64");
  expect_invalid(patched(bytes, second + kOffset, std::numeric_limits<uint64_t>::max() - 31), "behind the end");
}

TEST(GgufDamage, ElementCountsThatOverflowAreRefused) {
  GgufWriter writer;
  writer.set_tensor("t", GgufType::kF32, {kTwoTo63, 2}, "");
  expect_invalid(writer.bytes(), "'t' dimension 1 at offset 45: the number of elements overflows");
  writer.set_tensor("t", GgufType::kF32, {kTwoTo63, 1, 1, 1}, "");
  expect_invalid(writer.bytes(), "the number of bytes overflows");
}

TEST(GgufDamage, TensorNamesAreChecked) {
  GgufWriter writer;
  writer.set_tensor("", {1}, std::vector<float>{1});
  expect_invalid(writer.bytes(), "name of tensor 0 at offset 24: is empty");
  GgufWriter long_name;
  long_name.set_tensor(std::string(65, 'n'), {1}, std::vector<float>{1});
  expect_invalid(long_name.bytes(), "name of tensor 0 at offset 24: a length of 65 bytes is over the limit of 64");
}

TEST(GgufDamage, TruncationAnywhereIsNoticed) {
  const std::string bytes = two_tensors();
  for (size_t size = 1; size < bytes.size(); ++size) {
    const auto file = open_gguf_bytes(std::string_view(bytes).substr(0, size));
    ASSERT_FALSE(file.ok()) << size;
    EXPECT_EQ(file.status().code(), StatusCode::kInvalidArgument) << size;
  }
}

// Reads everything that an opened file gives out, as its users would.
void use(const GgufFile& file, uint64_t& checksum) {
  for (const auto& tensor : file.tensors()) {
    const GgufTypeTraits& traits = *gguf_type_traits(static_cast<uint32_t>(tensor.type));
    ASSERT_EQ(tensor.data.size(), tensor.elements() / traits.block_size * traits.block_bytes);
    for (const std::byte b : tensor.data) checksum = checksum * 31 + static_cast<uint64_t>(b);
    ASSERT_EQ(file.find_tensor(tensor.name), &tensor);
  }
  for (const char* key : {"general.name", "llama.block_count", "numbers", "words"}) {
    const GgufValue* value = file.find(key);
    if (value == nullptr) continue;
    if (const auto* text = std::get_if<std::string_view>(value)) checksum += std::hash<std::string_view>{}(*text);
    if (const auto* words = std::get_if<std::vector<std::string_view>>(value)) {
      for (const auto& word : *words) checksum += std::hash<std::string_view>{}(word);
    }
  }
  const auto config = ModelConfig::from_gguf(file);
  if (!config.ok()) return;
  const auto tensors = ModelTensors::from_gguf(file, *config);
  if (!tensors.ok()) return;
  std::vector<float> values(tensors->layers[0].query->elements());
  dequantise(*tensors->layers[0].query, values);
  for (const float value : values) checksum += value > 0 ? 1 : 0;
}

class Damager {
 public:
  explicit Damager(uint32_t seed) : random_(seed) {}

  std::string damage(std::string bytes, size_t metadata_bytes) {
    const uint64_t kind = below(8);
    if (kind == 0) {
      bytes.resize(1 + below(bytes.size() - 1));
    } else if (kind == 1) {
      bytes.erase(below(metadata_bytes), 1 + below(16));
    } else if (kind == 2) {
      bytes.insert(below(metadata_bytes), std::string(1 + below(16), static_cast<char>(below(256))));
    } else if (kind < 5) {
      static constexpr uint64_t kNasty[] = {0,
                                            1,
                                            31,
                                            0xff,
                                            0x7fffffff,
                                            0xffffffff,
                                            uint64_t{1} << 32,
                                            kTwoTo63 - 1,
                                            kTwoTo63,
                                            ~uint64_t{0},
                                            ~uint64_t{31},
                                            uint64_t{1} << 61};
      const uint64_t value = kNasty[below(std::size(kNasty))];
      std::memcpy(bytes.data() + below(metadata_bytes - 8), &value, kind == 3 ? 4 : 8);
    } else {
      for (uint64_t i = 0, n = 1 + below(4); i < n; ++i)
        bytes[below(metadata_bytes)] ^= static_cast<char>(1 << below(8));
    }
    return bytes;
  }

 private:
  uint64_t below(uint64_t bound) { return (uint64_t{random_()} << 32 | random_()) % bound; }
  std::mt19937 random_;
};

TEST(GgufDamage, RandomDamageIsSurvivedThousandsOfTimes) {
  TinyLlama shape;
  shape.layers = 1;
  shape.embedding_size = 32;
  shape.feed_forward_size = 32;
  shape.heads = 2;
  shape.kv_heads = 1;
  shape.vocab_size = 32;
  shape.matrix_type = GgufType::kQ4_0;
  GgufWriter writer = tiny_llama(shape);
  writer.set_array<int32_t>("numbers", {1, -2, 3});
  writer.set_array("words", {"one", "two", ""});
  writer.set("flag", true);
  writer.set("half", 0.5);
  // The data ends with a page, so that a read behind the end of the file is a fault.
  for (std::string pad; writer.bytes().size() % 4096 != 0; pad += 'p') writer.set("pad", pad);
  const std::string bytes = writer.bytes();
  const size_t metadata_bytes = bytes.find("output_norm.weight") + 64;  // the last entry of the tensor table

  constexpr uint32_t kRounds = 5000;
  uint32_t opened = 0;
  uint64_t checksum = 0;
  for (uint32_t seed = 0; seed < kRounds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto file = open_gguf_bytes(Damager(seed).damage(bytes, metadata_bytes));
    if (file.ok()) {
      ++opened;
      use(**file, checksum);
    } else {
      ASSERT_FALSE(file.status().message().empty());
      ASSERT_TRUE(file.status().code() == StatusCode::kInvalidArgument ||
                  file.status().code() == StatusCode::kUnsupported)
          << file.status().message();
    }
    if (HasFatalFailure()) return;
  }
  EXPECT_NE(checksum, 0U);
  // Both ways out are taken often: damage to names and numbers leaves a file that opens.
  EXPECT_GT(opened, kRounds / 20);
  EXPECT_GT(kRounds - opened, kRounds / 20);
  RecordProperty("opened", static_cast<int>(opened));
}

}  // namespace
}  // namespace twostroke
