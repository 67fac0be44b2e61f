// A sequence's logits are the same bits whatever happens around it, and whatever machine model runs the operators.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <tuple>

#include "backend/transcode.h"
#include "tests/backend/transformer_driver.h"
#include "tests/tools/deferred_operators.h"
#include "tests/tools/temp_file.h"
#include "tests/tools/tiny_llama.h"

namespace twostroke {
namespace {

std::vector<TokenId> random_tokens(size_t count, uint32_t seed, uint32_t vocab) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % vocab);
  return tokens;
}

TinyLlama tiny(GgufType type) {
  TinyLlama shape;
  shape.context_length = 1024;
  shape.matrix_type = type;
  if (gguf_type_traits(static_cast<uint32_t>(type))->block_size == 256) {
    shape.embedding_size = shape.feed_forward_size = 256;
    shape.head_size = shape.embedding_size / shape.heads;
  }
  return shape;
}

// 32 streams of mixed lengths; the last is longer than any chunk, by default.
std::vector<Stream> mixed_streams(const TinyLlama& shape, size_t length_max = 600) {
  std::vector<Stream> streams(32);
  for (size_t i = 0; i < streams.size(); ++i) {
    const size_t length = i == 31 ? length_max : 1 + (i * i * 3) % 71;
    streams[i].tokens = random_tokens(length, static_cast<uint32_t>(i), shape.vocab_size);
    streams[i].output_count = 1 + i % 6;
  }
  return streams;
}

void expect_same_bits(const std::vector<Stream>& streams, const std::vector<Stream>& expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(streams[i].tokens, expected[i].tokens) << "stream " << i;
    EXPECT_EQ(streams[i].logits, expected[i].logits) << "stream " << i;
  }
}

// Each stream by itself, its prompt in one piece.
std::vector<Stream> run_alone(const std::string& path, const TinyLlama& shape, ActivationType activations,
                              size_t length_max = 600) {
  CpuSet cpu(1);
  TransformerDriver driver(path, cpu.operators(), {.activations = activations});
  std::vector<Stream> streams = mixed_streams(shape, length_max);
  for (Stream& stream : streams) driver.run({&stream, 1}, 2048);
  return streams;
}

float greatest_difference(const Stream& a, const Stream& b) {
  float greatest = 0;
  for (size_t i = 0; i < a.logits.size(); ++i) {
    for (size_t j = 0; j < a.logits[i].size(); ++j) {
      greatest = std::max(greatest, std::fabs(a.logits[i][j] - b.logits[i][j]));
    }
  }
  return greatest;
}

// What the matrices are stored as, and what products of coded ones compute with.
using Numbers = std::tuple<GgufType, ActivationType>;

class Invariance : public testing::TestWithParam<Numbers> {
 protected:
  static GgufType type() { return std::get<0>(GetParam()); }
  static ActivationType activations() { return std::get<1>(GetParam()); }
};

TEST_P(Invariance, LogitsAreTheSameBitsAloneAndInABatchAtAnyChunkSizeAndThreadCount) {
  const TinyLlama shape = tiny(type());
  const TempFile file(tiny_llama(shape).bytes());
  const std::vector<Stream> alone = run_alone(file.path(), shape, activations());
  for (const int threads : {1, 2, 3}) {
    CpuSet cpu(threads);
    TransformerDriver driver(file.path(), cpu.operators(), {.activations = activations()});
    for (const size_t chunk : {1, 7, 64, 512}) {
      SCOPED_TRACE(std::to_string(threads) + " threads, chunks of " + std::to_string(chunk));
      std::vector<Stream> streams = mixed_streams(shape);
      driver.run(streams, chunk);
      expect_same_bits(streams, alone);
    }
  }
}

TEST_P(Invariance, LogitsDoNotDependOnTheBlockSizeOrTheStepsBudget) {
  const TinyLlama shape = tiny(type());
  const TempFile file(tiny_llama(shape).bytes());
  const std::vector<Stream> alone = run_alone(file.path(), shape, activations());
  for (const int32_t block_size : {1, 5, 32}) {
    SCOPED_TRACE("blocks of " + std::to_string(block_size));
    CpuSet cpu(2);
    TransformerDriver driver(
        file.path(), cpu.operators(),
        {.activations = activations(), .block_size = block_size, .block_count = 3000, .step_tokens_max = 48});
    std::vector<Stream> streams = mixed_streams(shape);
    driver.run(streams, 40);
    expect_same_bits(streams, alone);
  }
}

TEST_P(Invariance, ADeviceWhoseMemoryTheHostCannotTouchGivesTheSameBits) {
  const TinyLlama shape = tiny(type());
  const TempFile file(tiny_llama(shape).bytes());
  const std::vector<Stream> alone = run_alone(file.path(), shape, activations());
  DeferredDevice device(2);
  const std::unique_ptr<Operators> operators = make_deferred_operators(device, best_isa());
  TransformerDriver driver(file.path(), *operators, {.activations = activations()});
  std::vector<Stream> streams = mixed_streams(shape);
  driver.run(streams, 64);
  expect_same_bits(streams, alone);
}

TEST_P(Invariance, OperatorSetsAgreeClosely) {
  if (best_isa() == Isa::kScalar) GTEST_SKIP() << "this processor has the scalar set only";
  const TinyLlama shape = tiny(type());
  const TempFile file(tiny_llama(shape).bytes());
  Stream scalar_stream, fast_stream;
  scalar_stream.tokens = fast_stream.tokens = random_tokens(100, 3, shape.vocab_size);
  scalar_stream.output_count = fast_stream.output_count = 20;
  scalar_stream.forced = fast_stream.forced = random_tokens(20, 4, shape.vocab_size);
  CpuSet scalar(1, Isa::kScalar), fast(1, best_isa());
  const TransformerDriver::Options options = {.kv_dtype = DType::kF32, .activations = activations()};
  TransformerDriver(file.path(), scalar.operators(), options).run({&scalar_stream, 1}, 32);
  TransformerDriver(file.path(), fast.operators(), options).run({&fast_stream, 1}, 32);
  // Numbers that the two sets round differently may fall on either side of a step of quantisation.
  const float bound = activations() == ActivationType::kInt8 ? 2e-2f : 2e-4f;
  EXPECT_LT(greatest_difference(scalar_stream, fast_stream), bound);
}

class InvarianceOfARealShape : public testing::TestWithParam<ActivationType> {};

// One layer of SmolLM2-135M: sizes at which kernels cut their work into more pieces.
TEST_P(InvarianceOfARealShape, LogitsAreTheSameBitsAloneAndInABatchAtAnyChunkSize) {
  constexpr size_t kLengthMax = 150;
  TinyLlama shape = tiny(GgufType::kQ4_1);
  shape.layers = 1;
  shape.embedding_size = 576;
  shape.feed_forward_size = 1536;
  shape.heads = 9;
  shape.kv_heads = 3;
  shape.head_size = 64;
  shape.vocab_size = 500;
  const TempFile file(tiny_llama(shape).bytes());
  const std::vector<Stream> alone = run_alone(file.path(), shape, GetParam(), kLengthMax);
  CpuSet cpu(2);
  TransformerDriver driver(file.path(), cpu.operators(), {.activations = GetParam()});
  for (const size_t chunk : {1, 7, 64, 512}) {
    SCOPED_TRACE("chunks of " + std::to_string(chunk));
    std::vector<Stream> streams = mixed_streams(shape, kLengthMax);
    driver.run(streams, chunk);
    expect_same_bits(streams, alone);
  }
}
INSTANTIATE_TEST_SUITE_P(Activations, InvarianceOfARealShape,
                         testing::Values(ActivationType::kF32, ActivationType::kInt8),
                         [](const auto& test) { return test.param == ActivationType::kInt8 ? "int8" : "f32"; });

std::string numbers_name(const testing::TestParamInfo<Numbers>& info) {
  const auto [type, activations] = info.param;
  return gguf_type_name(static_cast<uint32_t>(type)) + std::string(activations == ActivationType::kInt8 ? "_int8" : "");
}
INSTANTIATE_TEST_SUITE_P(Floats, Invariance,
                         testing::Combine(testing::Values(GgufType::kF32, GgufType::kF16, GgufType::kBF16,
                                                          GgufType::kQ4_0, GgufType::kQ4_1, GgufType::kQ8_0,
                                                          GgufType::kQ5_1),
                                          testing::Values(ActivationType::kF32)),
                         numbers_name);
INSTANTIATE_TEST_SUITE_P(Int8, Invariance,
                         testing::Combine(testing::Values(GgufType::kQ4_0, GgufType::kQ4_1, GgufType::kQ8_0,
                                                          GgufType::kQ5_1, GgufType::kQ4_K),
                                          testing::Values(ActivationType::kInt8)),
                         numbers_name);

// The same model with every matrix as the F32 numbers that its format defines.
GgufWriter dequantised(GgufWriter model) {
  const TempFile file(model.bytes());
  const std::unique_ptr<GgufFile> gguf = GgufFile::open(file.path()).value();
  for (const GgufTensor& tensor : gguf->tensors()) {
    std::vector<float> values(tensor.elements());
    dequantise(tensor, values);
    model.set_tensor(std::string(tensor.name), {tensor.dims.begin(), tensor.dims.begin() + tensor.dim_count}, values);
  }
  return model;
}

void expect_close(const GgufWriter& a, const GgufWriter& b) {
  const TempFile file_a(a.bytes()), file_b(b.bytes());
  Stream stream_a, stream_b;
  stream_a.tokens = stream_b.tokens = random_tokens(50, 7, 64);
  CpuSet cpu(1, Isa::kScalar);
  const TransformerDriver::Options options = {.activations = ActivationType::kF32};
  TransformerDriver(file_a.path(), cpu.operators(), options).run({&stream_a, 1}, 64);
  TransformerDriver(file_b.path(), cpu.operators(), options).run({&stream_b, 1}, 64);
  EXPECT_LT(greatest_difference(stream_a, stream_b), 1e-4f);
}

TEST(TransformerWeights, OfOneLayerMayMixFormats) {
  GgufWriter model = tiny_llama(tiny(GgufType::kQ4_1));
  TinyLlama other = tiny(GgufType::kQ8_0);
  other.seed = 9;
  const TempFile file(tiny_llama(other).bytes());
  const std::unique_ptr<GgufFile> gguf = GgufFile::open(file.path()).value();
  for (const char* name : {"blk.0.attn_v.weight", "blk.1.attn_k.weight", "blk.1.ffn_up.weight"}) {
    const GgufTensor* tensor = gguf->find_tensor(name);
    ASSERT_NE(tensor, nullptr);
    model.set_tensor(name, tensor->type, {tensor->dims[0], tensor->dims[1]},
                     std::string(reinterpret_cast<const char*>(tensor->data.data()), tensor->data.size()));
  }
  expect_close(model, dequantised(model));
}

TEST(TransformerWeights, AreWhatTheirFormatDefines) {
  for (const GgufType type : {GgufType::kQ4_0, GgufType::kQ4_1, GgufType::kQ5_0, GgufType::kQ5_1, GgufType::kQ8_0,
                              GgufType::kIQ4_NL, GgufType::kQ2_K, GgufType::kQ3_K, GgufType::kQ4_K, GgufType::kQ5_K,
                              GgufType::kQ6_K, GgufType::kF16, GgufType::kBF16}) {
    SCOPED_TRACE(gguf_type_name(static_cast<uint32_t>(type)));
    const GgufWriter model = tiny_llama(tiny(type));
    expect_close(model, dequantised(model));
  }
}

TEST(TransformerWeights, ATiedOutputIsNotStoredTwice) {
  TinyLlama shape;
  for (const bool tied : {true, false}) {
    shape.tied_output = tied;
    const TempFile file(tiny_llama(shape).bytes());
    CpuSet cpu;
    TransformerDriver driver(file.path(), cpu.operators(), {});
    const ModelWeights& weights = driver.transformer().weights();
    ASSERT_EQ(weights.output.parts.size(), 1u);
    EXPECT_EQ(weights.output.parts[0].data == weights.token_embedding.data, tied);
  }
}

}  // namespace
}  // namespace twostroke
