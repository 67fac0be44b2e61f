// Files that others made: the vocabularies and the small model in the shared folder, and SmolLM2 in the user's cache.
// The expected values were read with the `gguf` Python package, 0.19.0.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "backend/gguf.h"
#include "backend/model_config.h"
#include "backend/transcode.h"
#include "tests/tools/stories_to_gguf.h"

namespace twostroke {
namespace {

struct Vocabulary {
  const char* file;
  const char* architecture;
  const char* model;
  const char* pre;
  size_t tokens;
  size_t token_bytes;  // of all tokens together
  const char* middle_token;
  int64_t token_types;  // their sum
  size_t merges;
  uint64_t bos;
  uint64_t eos;
  double scores;  // their sum
};
constexpr Vocabulary kVocabularies[] = {
    {"deepseek-llm", "llama", "gpt2", "deepseek-llm", 102400, 934635, "Hill", 109598, 99757, 100000, 100001, 0},
    {"falcon", "falcon", "gpt2", "falcon", 65024, 462041, "\xc4\xa0MX", 65048, 64784, 11, 11, 0},
    {"gpt-2", "gpt2", "gpt2", "gpt-2", 50257, 356735, "++++++++", 50259, 50000, 50256, 50256, 0},
    {"llama-spm", "llama", "llama", "default", 32000, 210919,
     "\xe2\x96\x81"
     "deleg",
     33285, 0, 1, 2, -16503658723.0},
    {"phi-3", "phi3", "llama", "default", 32064, 211596, "\xe2\x96\x81Import", 33426, 0, 1, 32000, -16504202723.0},
    {"starcoder", "starcoder2", "gpt2", "starcoder", 49152, 344855, "bower", 49228, 48872, 0, 0, 0},
};

class RealVocabulary : public testing::TestWithParam<Vocabulary> {};

TEST_P(RealVocabulary, ReadsAsTheReferenceDoes) {
  const Vocabulary& expected = GetParam();
  const std::string path = std::string(TWOSTROKE_SHARED_DIR) + "/tokenizers/ggml-vocab-" + expected.file + ".gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is absent";
  const auto file = GgufFile::open(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  const GgufFile& f = **file;
  EXPECT_EQ(f.version(), 3U);
  EXPECT_TRUE(f.tensors().empty());
  EXPECT_EQ(*f.get_string("general.architecture"), expected.architecture);
  EXPECT_EQ(*f.get_string("tokenizer.ggml.model"), expected.model);
  EXPECT_EQ(*f.get_string("tokenizer.ggml.pre"), expected.pre);
  EXPECT_EQ(*f.get_u64("tokenizer.ggml.bos_token_id"), expected.bos);
  EXPECT_EQ(*f.get_u64("tokenizer.ggml.eos_token_id"), expected.eos);
  const auto tokens = *f.get_strings("tokenizer.ggml.tokens");
  ASSERT_EQ(tokens.size(), expected.tokens);
  EXPECT_EQ(std::accumulate(tokens.begin(), tokens.end(), size_t{0}, [](size_t n, auto t) { return n + t.size(); }),
            expected.token_bytes);
  EXPECT_EQ(tokens[tokens.size() / 2], expected.middle_token);
  const auto types = *f.get_i64s("tokenizer.ggml.token_type");
  EXPECT_EQ(std::accumulate(types.begin(), types.end(), int64_t{0}), expected.token_types);
  if (expected.merges > 0) {
    EXPECT_EQ(f.get_strings("tokenizer.ggml.merges")->size(), expected.merges);
  }
  if (expected.scores < 0) {
    const auto scores = *f.get_f64s("tokenizer.ggml.scores");
    EXPECT_EQ(std::accumulate(scores.begin(), scores.end(), 0.0), expected.scores);
  }
}

INSTANTIATE_TEST_SUITE_P(Files, RealVocabulary, testing::ValuesIn(kVocabularies), [](const auto& test) {
  std::string name = test.param.file;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

// Sums that no mistake in the order of elements or in a scale would leave as they are.
struct Sums {
  double plain = 0;
  double magnitude = 0;
  double weighted = 0;  // element i counts i % 7 times
};
Sums sums_of(const GgufTensor& tensor) {
  std::vector<float> values(tensor.elements());
  dequantise(tensor, values);
  Sums sums;
  for (size_t i = 0; i < values.size(); ++i) {
    const double value = static_cast<double>(values[i]);
    sums.plain += value;
    sums.magnitude += std::abs(value);
    sums.weighted += value * static_cast<double>(i % 7);
  }
  return sums;
}

TEST(RealModel, SmolLM2ReadsAsTheReferenceDoes) {
  const char* home = std::getenv("HOME");
  const std::string path =
      std::string(home != nullptr ? home : "") + "/.cache/twostroke/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is absent";
  const auto file = GgufFile::open(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  uint64_t bytes = 0;
  uint64_t elements = 0;
  for (const auto& tensor : (*file)->tensors()) {
    bytes += tensor.data.size();
    elements += tensor.elements();
  }
  EXPECT_EQ((*file)->tensors().size(), 272U);
  EXPECT_EQ(bytes, 96576768U);
  EXPECT_EQ(elements, 134515008U);

  const auto config = ModelConfig::from_gguf(**file);
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->layers, 30);
  EXPECT_EQ(config->embedding_size, 576);
  EXPECT_EQ(config->feed_forward_size, 1536);
  EXPECT_EQ(config->heads, 9);
  EXPECT_EQ(config->kv_heads, 3);
  EXPECT_EQ(config->head_size, 64);
  EXPECT_EQ(config->vocab_size, 49152);
  EXPECT_EQ(config->context_length, 8192);
  EXPECT_TRUE(config->tied_output);
  EXPECT_TRUE(config->notices.empty());
  const auto tensors = ModelTensors::from_gguf(**file, *config);
  ASSERT_TRUE(tensors.ok()) << tensors.status().message();

  const auto expect_sums = [](const GgufTensor& tensor, GgufType type, const Sums& expected) {
    EXPECT_EQ(tensor.type, type) << tensor.name;
    const Sums sums = sums_of(tensor);
    EXPECT_NEAR(sums.plain, expected.plain, 1e-6) << tensor.name;
    EXPECT_NEAR(sums.magnitude, expected.magnitude, 1e-6) << tensor.name;
    EXPECT_NEAR(sums.weighted, expected.weighted, 1e-6) << tensor.name;
  };
  expect_sums(*tensors->token_embedding, GgufType::kQ8_0, {-15353.04449415207, 2802153.619805813, -45814.76842212677});
  expect_sums(*tensors->layers[0].down, GgufType::kQ4_1, {150.63577270507812, 128458.06286621094, 1208.1435623168945});
  expect_sums(*tensors->layers[29].attention_norm, GgufType::kF32, {237.76953125, 237.76953125, 708.80078125});
  expect_sums(*tensors->layers[17].query, GgufType::kQ4_1, {-259.658748626709, 43885.23952102661, -663.3613777160645});
}

TEST(RealModel, Stories260KConvertsToAModelThatLoads) {
  const std::string directory = std::string(TWOSTROKE_SHARED_DIR) + "/models/stories260K";
  if (!std::filesystem::exists(directory)) GTEST_SKIP() << directory << " is absent";
  const auto writer = stories_to_gguf(directory);
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  const auto file = open_gguf_bytes(writer->bytes());
  ASSERT_TRUE(file.ok()) << file.status().message();
  const auto config = ModelConfig::from_gguf(**file);
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->layers, 5);
  EXPECT_EQ(config->embedding_size, 64);
  EXPECT_EQ(config->feed_forward_size, 172);
  EXPECT_EQ(config->heads, 8);
  EXPECT_EQ(config->kv_heads, 4);
  EXPECT_EQ(config->vocab_size, 512);
  EXPECT_EQ(config->context_length, 512);
  EXPECT_TRUE(config->tied_output);
  EXPECT_TRUE(ModelTensors::from_gguf(**file, *config).ok());
  const auto tokens = *(*file)->get_strings("tokenizer.ggml.tokens");
  EXPECT_EQ(tokens[1], "<s>");
  EXPECT_EQ(tokens[3], "<0x00>");
  EXPECT_EQ(tokens[403], "\xe2\x96\x81Once");  // the first word of the recorded text
}

TEST(RealModel, StoriesConversionSaysWhatIsMissing) {
  EXPECT_EQ(stories_to_gguf("/no/such/directory").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace twostroke
