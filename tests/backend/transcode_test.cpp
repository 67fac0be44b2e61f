// Fixtures: see tests/tools/make_quant_fixtures.py. Their expected values come from the `gguf` Python package.
#include "backend/transcode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/float16.h"
#include "tests/tools/gguf_writer.h"
#include "tests/tools/tiny_llama.h"

namespace twostroke {
namespace {

struct Expectation {
  const char* name;
  WeightLayout layout;
  int32_t group;
  bool has_min;
  bool scale_factors = false;
};
constexpr Expectation kTypes[] = {
    {"F32", WeightLayout::kF32, 0, false},        {"F16", WeightLayout::kF16, 0, false},
    {"BF16", WeightLayout::kBF16, 0, false},      {"Q8_0", WeightLayout::kQ8, 32, false},
    {"Q4_0", WeightLayout::kQ4, 32, false},       {"Q4_1", WeightLayout::kQ4, 32, true},
    {"Q5_0", WeightLayout::kQ6, 32, false},       {"Q5_1", WeightLayout::kQ6, 32, true},
    {"Q2_K", WeightLayout::kQ4, 16, true, true},  {"Q3_K", WeightLayout::kQ4, 16, false, true},
    {"Q4_K", WeightLayout::kQ4, 32, true, true},  {"Q5_K", WeightLayout::kQ6, 32, true, true},
    {"Q6_K", WeightLayout::kQ6, 16, false, true}, {"IQ4_NL", WeightLayout::kQ8, 32, false},
};

class Transcode : public testing::TestWithParam<Expectation> {
 protected:
  void SetUp() override {
    auto file = GgufFile::open(std::string(TWOSTROKE_TESTS_DIR) + "/backend/fixtures/quantised_types.gguf");
    ASSERT_TRUE(file.ok()) << file.status().message();
    file_ = std::move(*file);
    tensor_ = file_->find_tensor(GetParam().name);
    const GgufTensor* expected = file_->find_tensor(std::string(GetParam().name) + ".expected");
    ASSERT_TRUE(tensor_ != nullptr && expected != nullptr);
    expected_.resize(expected->elements());
    std::memcpy(expected_.data(), expected->data.data(), expected->data.size());
    ASSERT_EQ(expected_.size(), tensor_->elements());
  }

  std::unique_ptr<GgufFile> file_;
  const GgufTensor* tensor_ = nullptr;
  std::vector<float> expected_;
};

float single(WeightLayout layout, uint16_t bits) {
  if (layout == WeightLayout::kBF16) return std::bit_cast<float>(uint32_t{bits} << 16);
  const int exponent = bits >> 10 & 31;  // finite numbers only
  const float mantissa = static_cast<float>(bits & 0x3ff);
  const float magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

// What kernels/weights.h says that element `i` of canonical rows stands for.
float evaluate(const WeightShape& shape, const HostWeightRows& rows, size_t i) {
  switch (shape.layout) {
    case WeightLayout::kF32:
      return rows.f32[i];
    case WeightLayout::kF16:
    case WeightLayout::kBF16:
      return single(shape.layout, rows.bits16[i]);
    case WeightLayout::kQ8:
    case WeightLayout::kQ6:
    case WeightLayout::kQ4:
      break;
  }
  const size_t group = i / static_cast<size_t>(shape.group);
  const int half_byte = shape.layout == WeightLayout::kQ4 ? (rows.q4[i / 2] >> (i % 2 * 4)) & 15 : 0;
  const int code = shape.layout == WeightLayout::kQ4 ? half_byte - (shape.has_min ? 0 : 8) : rows.q8[i];
  const size_t scale = shape.scale_factors ? i / kSuperBlock : group;
  const auto factor = [&](std::span<const int8_t> all) { return all.empty() ? 1.0F : static_cast<float>(all[group]); };
  const float product = rows.scales[scale] * factor(rows.factors) * static_cast<float>(code);
  return shape.has_min ? product + rows.mins[scale] * factor(rows.min_factors) : product;
}

TEST_P(Transcode, TakesTheLayoutOfItsType) {
  const WeightShape shape = transcoded_shape(*tensor_);
  EXPECT_EQ(shape.layout, GetParam().layout);
  EXPECT_EQ(shape.group, GetParam().group);
  EXPECT_EQ(shape.has_min, GetParam().has_min);
  EXPECT_EQ(shape.scale_factors, GetParam().scale_factors);
  EXPECT_EQ(shape.k, static_cast<int64_t>(tensor_->dims[0]));
  EXPECT_EQ(shape.n, static_cast<int64_t>(tensor_->dims[1]));
}

TEST_P(Transcode, DequantisesToTheReferenceExactly) {
  std::vector<float> out(expected_.size());
  dequantise(*tensor_, out);
  for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], expected_[i]) << "element " << i;
}

TEST_P(Transcode, RowsInCanonicalFormStandForTheReferenceExactly) {
  const WeightShape shape = transcoded_shape(*tensor_);
  TranscodeBuffer buffer;
  for (const auto& [begin, count] : std::vector<std::pair<int64_t, int64_t>>{{0, shape.n}, {1, 2}, {2, 1}, {1, 0}}) {
    const HostWeightRows rows = transcode_rows(*tensor_, begin, count, buffer);
    EXPECT_EQ(rows.row_begin, begin);
    EXPECT_EQ(rows.row_count, count);
    const auto elements = static_cast<size_t>(count * shape.k);
    const size_t groups = shape.group > 0 ? elements / static_cast<size_t>(shape.group) : 0;
    EXPECT_EQ(rows.f32.size(), shape.layout == WeightLayout::kF32 ? elements : 0);
    EXPECT_EQ(rows.bits16.size(),
              shape.layout == WeightLayout::kF16 || shape.layout == WeightLayout::kBF16 ? elements : 0);
    EXPECT_EQ(rows.q8.size(), shape.layout == WeightLayout::kQ8 || shape.layout == WeightLayout::kQ6 ? elements : 0);
    EXPECT_EQ(rows.q4.size(), shape.layout == WeightLayout::kQ4 ? elements / 2 : 0);
    const size_t scales = shape.scale_factors ? elements / kSuperBlock : groups;
    EXPECT_EQ(rows.scales.size(), scales);
    EXPECT_EQ(rows.mins.size(), shape.has_min ? scales : 0);
    EXPECT_EQ(rows.factors.size(), shape.scale_factors ? groups : 0);
    EXPECT_EQ(rows.min_factors.size(), shape.scale_factors && shape.has_min ? groups : 0);
    for (size_t i = 0; i < elements; ++i) {
      ASSERT_EQ(evaluate(shape, rows, i), expected_[static_cast<size_t>(begin * shape.k) + i]) << "element " << i;
    }
  }
}

TEST_P(Transcode, ScalesAndMinimaAreHalves) {
  const WeightShape shape = transcoded_shape(*tensor_);
  TranscodeBuffer buffer;
  const HostWeightRows rows = transcode_rows(*tensor_, 0, shape.n, buffer);
  const auto is_half = [](float value) { return half_to_float(float_to_half(value)) == value; };
  EXPECT_TRUE(std::ranges::all_of(rows.scales, is_half));
  EXPECT_TRUE(std::ranges::all_of(rows.mins, is_half));
}

INSTANTIATE_TEST_SUITE_P(Types, Transcode, testing::ValuesIn(kTypes),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(TinyLlama, HoldsSaneValuesInEveryType) {
  for (const auto& [type, size] : std::vector<std::pair<GgufType, uint32_t>>{{GgufType::kF32, 32},
                                                                             {GgufType::kF16, 32},
                                                                             {GgufType::kBF16, 32},
                                                                             {GgufType::kQ4_0, 32},
                                                                             {GgufType::kQ4_1, 32},
                                                                             {GgufType::kQ5_0, 32},
                                                                             {GgufType::kQ5_1, 32},
                                                                             {GgufType::kQ8_0, 32},
                                                                             {GgufType::kQ2_K, 256},
                                                                             {GgufType::kQ3_K, 256},
                                                                             {GgufType::kQ4_K, 256},
                                                                             {GgufType::kQ5_K, 256},
                                                                             {GgufType::kQ6_K, 256},
                                                                             {GgufType::kIQ4_NL, 32}}) {
    TinyLlama shape;
    shape.layers = 1;
    shape.embedding_size = size;
    shape.feed_forward_size = size;
    shape.heads = 2;
    shape.head_size = size / 2;
    shape.matrix_type = type;
    const auto file = open_gguf_bytes(tiny_llama(shape).bytes());
    ASSERT_TRUE(file.ok()) << file.status().message();
    const GgufTensor& tensor = *(*file)->find_tensor("token_embd.weight");
    std::vector<float> values(tensor.elements());
    dequantise(tensor, values);
    double squares = 0;
    for (const float value : values) squares += static_cast<double>(value) * static_cast<double>(value);
    const double root_mean_square = std::sqrt(squares / static_cast<double>(values.size()));
    EXPECT_GT(root_mean_square, 0.001) << gguf_type_name(static_cast<uint32_t>(type));
    EXPECT_LT(root_mean_square, 0.3) << gguf_type_name(static_cast<uint32_t>(type));
  }
}

}  // namespace
}  // namespace twostroke
