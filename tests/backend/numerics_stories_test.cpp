// The tiny real model stories260K against the values that come with it (issue: 200 greedy tokens from an empty prompt).
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>

#include "server/text/detokenizer.h"
#include "server/text/tokenizer.h"
#include "tests/backend/transformer_driver.h"
#include "tests/tools/stories_to_gguf.h"
#include "tests/tools/temp_file.h"

namespace twostroke {
namespace {

constexpr size_t kTokens = 200;
constexpr TokenId kBos = 1;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Stories : public testing::Test {
 protected:
  void SetUp() override {
    const Result<GgufWriter> model = stories_to_gguf(directory_);
    if (!model.ok()) GTEST_SKIP() << "no stories260K in the shared test data: " << model.status().message();
    file_ = std::make_unique<TempFile>(model->bytes());
    std::istringstream ids(read_file(directory_ + "/greedy_ids.txt"));
    ids_ = {std::istream_iterator<TokenId>(ids), {}};
    const std::string bytes = read_file(directory_ + "/greedy_logits_pos0-199.f32");
    logits_.resize(bytes.size() / sizeof(float));
    std::memcpy(logits_.data(), bytes.data(), bytes.size());
    ASSERT_EQ(ids_.size(), kTokens);
    ASSERT_EQ(logits_.size(), kTokens * 512);
  }

  Stream greedy_stream(Isa isa, DType kv_dtype) {
    CpuSet cpu(1, isa);
    TransformerDriver driver(file_->path(), cpu.operators(), {.kv_dtype = kv_dtype, .block_count = 16});
    Stream stream;
    stream.tokens = {kBos};
    stream.output_count = kTokens;
    driver.run({&stream, 1}, 1);
    return stream;
  }

  float greatest_difference(const Stream& stream) const {
    float greatest = 0;
    for (size_t i = 0; i < kTokens; ++i) {
      for (size_t j = 0; j < 512; ++j) {
        greatest = std::max(greatest, std::fabs(stream.logits[i][j] - logits_[i * 512 + j]));
      }
    }
    return greatest;
  }

  const std::string directory_ = std::string(TWOSTROKE_SHARED_DIR) + "/models/stories260K";
  std::unique_ptr<TempFile> file_;
  std::vector<TokenId> ids_;
  std::vector<float> logits_;  // [200, 512]
};

TEST_F(Stories, GreedyTokensAndLogitsEqualTheReferenceWithTheScalarSet) {
  const Stream stream = greedy_stream(Isa::kScalar, DType::kF32);
  EXPECT_EQ(stream.greedy, ids_);
  const float difference = greatest_difference(stream);
  EXPECT_LT(difference, 1e-3f);
  RecordProperty("greatest_logit_difference", std::to_string(difference));
}

TEST_F(Stories, GreedyTokensAndLogitsEqualTheReferenceWithTheFastestSet) {
  const Stream stream = greedy_stream(best_isa(), DType::kF32);
  EXPECT_EQ(stream.greedy, ids_);
  const float difference = greatest_difference(stream);
  EXPECT_LT(difference, 1e-3f);
  RecordProperty("greatest_logit_difference", std::to_string(difference));
}

TEST_F(Stories, GreedyTextEqualsTheReferenceByteForByte) {
  const std::unique_ptr<GgufFile> file = GgufFile::open(file_->path()).value();
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::from_gguf(*file).value();
  ASSERT_EQ(tokenizer->encode("", {.add_special = true}), std::vector<TokenId>{kBos});
  Detokenizer detokenizer(*tokenizer, /*at_start=*/true, /*skip_special=*/true);
  std::string text;
  for (TokenId token : greedy_stream(best_isa(), DType::kF32).greedy) text += detokenizer.push(token);
  text += detokenizer.finish();
  EXPECT_EQ(text, read_file(directory_ + "/expected_t0_n200.txt"));
}

// F16 keys and values are the default. Rounding them moves logits by up to 0.03 here, and no token.
TEST_F(Stories, GreedyTokensEqualTheReferenceWithAHalfPrecisionCache) {
  const Stream stream = greedy_stream(best_isa(), DType::kF16);
  EXPECT_EQ(stream.greedy, ids_);
  const float difference = greatest_difference(stream);
  EXPECT_LT(difference, 0.1f);
  EXPECT_GT(difference, 1e-4f) << "the cache does not seem to be in half precision";
  RecordProperty("greatest_logit_difference", std::to_string(difference));
}

}  // namespace
}  // namespace twostroke
