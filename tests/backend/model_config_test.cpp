#include "backend/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "backend/gguf_quote.h"
#include "tests/tools/tiny_llama.h"

namespace twostroke {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Read {
  std::unique_ptr<GgufFile> file;
  Status status;
  ModelConfig config;
  ModelTensors tensors;
};

// The configuration and tensors of a tiny model after `edit`.
Read read(const std::function<void(GgufWriter&)>& edit, const TinyLlama& shape = {}) {
  GgufWriter writer = tiny_llama(shape);
  edit(writer);
  Read out;
  auto file = open_gguf_bytes(writer.bytes());
  EXPECT_TRUE(file.ok()) << file.status().message();
  out.file = std::move(*file);
  auto config = ModelConfig::from_gguf(*out.file);
  if (out.status = config.status(); !config.ok()) return out;
  out.config = *config;
  auto tensors = ModelTensors::from_gguf(*out.file, out.config);
  if (out.status = tensors.status(); tensors.ok()) out.tensors = *tensors;
  return out;
}

void expect_error(const std::function<void(GgufWriter&)>& edit, StatusCode code, const std::string& part) {
  const Read model = read(edit);
  EXPECT_EQ(model.status.code(), code) << model.status.message();
  EXPECT_THAT(model.status.message(), HasSubstr(part));
}
void expect_invalid(const std::function<void(GgufWriter&)>& edit, const std::string& part) {
  expect_error(edit, StatusCode::kInvalidArgument, part);
}
void expect_unsupported(const std::function<void(GgufWriter&)>& edit, const std::string& part) {
  expect_error(edit, StatusCode::kUnsupported, part);
}

void unchanged(GgufWriter&) {}

TEST(ModelConfig, ReadsTheShapeOfTheModel) {
  TinyLlama shape;
  shape.layers = 3;
  shape.embedding_size = 48;
  shape.feed_forward_size = 80;
  shape.heads = 6;
  shape.kv_heads = 3;
  shape.head_size = 20;
  shape.vocab_size = 40;
  shape.context_length = 77;
  const Read model = read(unchanged, shape);
  ASSERT_TRUE(model.status.ok()) << model.status.message();
  const ModelConfig& c = model.config;
  EXPECT_EQ(c.architecture, "llama");
  EXPECT_EQ(c.name, "tiny");
  EXPECT_EQ(c.layers, 3);
  EXPECT_EQ(c.embedding_size, 48);
  EXPECT_EQ(c.feed_forward_size, 80);
  EXPECT_EQ(c.heads, 6);
  EXPECT_EQ(c.kv_heads, 3);
  EXPECT_EQ(c.head_size, 20);
  EXPECT_EQ(c.rope_size, 20);
  EXPECT_EQ(c.vocab_size, 40);
  EXPECT_EQ(c.context_length, 77);
  EXPECT_EQ(c.norm_epsilon, 1e-5F);
  EXPECT_TRUE(c.tied_output);
  EXPECT_THAT(c.notices, IsEmpty());
  ASSERT_EQ(model.tensors.layers.size(), 3U);
  EXPECT_EQ(model.tensors.layers[2].query->name, "blk.2.attn_q.weight");
  EXPECT_EQ(model.tensors.layers[2].down->name, "blk.2.ffn_down.weight");
  EXPECT_EQ(model.tensors.output, model.tensors.token_embedding);
}

TEST(ModelConfig, DerivesWhatTheFileLeavesOut) {
  const Read model = read([](GgufWriter& w) {
    w.remove("llama.attention.key_length");
    w.remove("llama.attention.value_length");
    w.remove("general.name");
  });
  ASSERT_TRUE(model.status.ok()) << model.status.message();
  EXPECT_EQ(model.config.head_size, 16);  // 64 / 4
  EXPECT_EQ(model.config.name, "");

  TinyLlama shape;
  shape.kv_heads = shape.heads;
  const Read all_heads = read([](GgufWriter& w) { w.remove("llama.attention.head_count_kv"); }, shape);
  ASSERT_TRUE(all_heads.status.ok()) << all_heads.status.message();
  EXPECT_EQ(all_heads.config.kv_heads, all_heads.config.heads);
}

TEST(ModelConfig, FindsASeparateOutput) {
  TinyLlama shape;
  shape.tied_output = false;
  const Read model = read(unchanged, shape);
  ASSERT_TRUE(model.status.ok()) << model.status.message();
  EXPECT_FALSE(model.config.tied_output);
  EXPECT_EQ(model.tensors.output->name, "output.weight");
}

TEST(ModelConfig, InverseFrequenciesFollowTheRoFormerFormula) {
  const Read plain = read([](GgufWriter& w) { w.set("llama.rope.dimension_count", uint32_t{8}); });
  ASSERT_TRUE(plain.status.ok()) << plain.status.message();
  EXPECT_EQ(plain.config.rope_size, 8);
  EXPECT_THAT(plain.config.inverse_frequency, ElementsAre(1.0F, 0.1F, 0.01F, 0.001F));  // 10000^(-i/4)

  const Read base = read([](GgufWriter& w) {
    w.set("llama.rope.dimension_count", uint32_t{4});
    w.set("llama.rope.freq_base", 250000.0F);
  });
  ASSERT_TRUE(base.status.ok()) << base.status.message();
  EXPECT_THAT(base.config.inverse_frequency, ElementsAre(1.0F, 0.002F));
}

TEST(ModelConfig, LinearScalingDividesEveryFrequency) {
  const auto with = [](const std::function<void(GgufWriter&)>& edit) {
    const Read model = read([&](GgufWriter& w) {
      w.set("llama.rope.dimension_count", uint32_t{4});
      edit(w);
    });
    EXPECT_TRUE(model.status.ok()) << model.status.message();
    return model.config.inverse_frequency;
  };
  EXPECT_THAT(with([](GgufWriter& w) {
                w.set("llama.rope.scaling.type", "linear");
                w.set("llama.rope.scaling.factor", 4.0F);
              }),
              ElementsAre(0.25F, 0.0025F));
  EXPECT_THAT(with([](GgufWriter& w) { w.set("llama.rope.scaling.factor", 2.0F); }), ElementsAre(0.5F, 0.005F));
  EXPECT_THAT(with([](GgufWriter& w) { w.set("llama.rope.scale_linear", 2.0F); }), ElementsAre(0.5F, 0.005F));
  EXPECT_THAT(with([](GgufWriter& w) {
                w.set("llama.rope.scaling.type", "none");
                w.set("llama.rope.scaling.factor", 4.0F);
              }),
              ElementsAre(1.0F, 0.01F));
  EXPECT_THAT(with([](GgufWriter& w) { w.set("llama.rope.scaling.factor", 0.0F); }), ElementsAre(1.0F, 0.01F));
}

TEST(ModelConfig, TheLlama3DivisorsAreTakenFromTheirTensor) {
  const Read model = read([](GgufWriter& w) {
    w.set("llama.rope.dimension_count", uint32_t{4});
    w.set_tensor("rope_freqs.weight", {2}, std::vector<float>{1.0F, 8.0F});
  });
  ASSERT_TRUE(model.status.ok()) << model.status.message();
  EXPECT_THAT(model.config.inverse_frequency, ElementsAre(1.0F, 0.00125F));

  expect_invalid([](GgufWriter& w) { w.set_tensor("rope_freqs.weight", {3}, std::vector<float>(3, 1.0F)); },
                 "'rope_freqs.weight' has the shape {3}, but the metadata ask for {8}");
  expect_invalid([](GgufWriter& w) { w.set_tensor("rope_freqs.weight", {8}, std::vector<float>(8, 0.0F)); },
                 "rope_freqs.weight element 0");
  expect_invalid([](GgufWriter& w) { w.set_tensor("rope_freqs.weight", {8}, std::vector<float>(8, NAN)); },
                 "rope_freqs.weight element 0");
}

TEST(ModelConfig, ASlidingWindowLimitsTheContextAndSaysSo) {
  const Read model = read([](GgufWriter& w) { w.set("llama.attention.sliding_window", uint32_t{100}); });
  ASSERT_TRUE(model.status.ok()) << model.status.message();
  EXPECT_EQ(model.config.context_length, 100);
  ASSERT_EQ(model.config.notices.size(), 1U);
  EXPECT_THAT(model.config.notices[0], HasSubstr("sliding window of 100 tokens"));

  const Read wide = read([](GgufWriter& w) { w.set("llama.attention.sliding_window", uint32_t{256}); });
  EXPECT_EQ(wide.config.context_length, 256);
  EXPECT_THAT(wide.config.notices, IsEmpty());
}

TEST(ModelConfig, KindsOfModelsThatAreNotComputedAreRefusedByName) {
  expect_unsupported([](GgufWriter& w) { w.set("general.architecture", "mamba"); }, "architecture 'mamba'");
  expect_unsupported([](GgufWriter& w) { w.set("llama.expert_count", uint32_t{8}); }, "a mixture of experts");
  expect_unsupported([](GgufWriter& w) { w.set("llama.rope.scaling.type", "yarn"); }, "RoPE scaling 'yarn'");
  expect_unsupported([](GgufWriter& w) { w.set("llama.rope.scaling.type", "longrope"); }, "RoPE scaling 'longrope'");
  expect_unsupported([](GgufWriter& w) { w.set("llama.attention.causal", false); }, "an encoder");
  expect_unsupported([](GgufWriter& w) { w.set("general.type", "adapter"); }, "general.type 'adapter'");
  expect_unsupported([](GgufWriter& w) { w.set("split.count", uint16_t{3}); }, "split into 3 files");
  expect_unsupported([](GgufWriter& w) { w.set("llama.attention.value_length", uint32_t{32}); }, "different sizes");
  expect_unsupported([](GgufWriter& w) { w.set_tensor("blk.0.attn_q.bias", {64}, std::vector<float>(64)); },
                     "tensor 'blk.0.attn_q.bias' is not part of what is computed here");
  const Read one_expert = read([](GgufWriter& w) { w.set("llama.expert_count", uint32_t{0}); });
  EXPECT_TRUE(one_expert.status.ok()) << one_expert.status.message();
}

TEST(ModelConfig, AnOldQuantisationVersionIsRefusedWhereItMatters) {
  TinyLlama shape;
  shape.matrix_type = GgufType::kQ4_0;
  const auto set_one = [](GgufWriter& w) { w.set("general.quantization_version", uint32_t{1}); };
  EXPECT_THAT(read(set_one, shape).status.message(), HasSubstr("general.quantization_version is 1"));
  EXPECT_TRUE(read(set_one).status.ok());  // all F32
}

TEST(ModelConfig, EveryNumberIsCheckedAndNamed) {
  for (const char* key : {"llama.block_count", "llama.embedding_length", "llama.feed_forward_length",
                          "llama.attention.head_count", "llama.attention.head_count_kv", "llama.context_length",
                          "llama.attention.key_length", "llama.attention.value_length"}) {
    expect_invalid([&](GgufWriter& w) { w.set(key, uint32_t{0}); }, std::string(key) + " is 0, but must be between");
    expect_invalid([&](GgufWriter& w) { w.set(key, uint64_t{1} << 40); }, std::string(key) + " is 1099511627776");
    expect_invalid([&](GgufWriter& w) { w.set(key, "many"); }, quote(key) + " must be");
  }
  for (const char* key :
       {"llama.block_count", "llama.embedding_length", "llama.feed_forward_length", "llama.attention.head_count",
        "llama.context_length", "llama.attention.layer_norm_rms_epsilon", "general.architecture"}) {
    expect_invalid([&](GgufWriter& w) { w.remove(key); }, quote(key) + " is missing");
  }
  expect_invalid([](GgufWriter& w) { w.set("llama.attention.head_count_kv", uint32_t{3}); },
                 "llama.attention.head_count (4) must be a multiple of llama.attention.head_count_kv (3)");
  expect_invalid(
      [](GgufWriter& w) {
        w.remove("llama.attention.key_length");
        w.set("llama.embedding_length", uint32_t{66});
      },
      "llama.embedding_length (66) must be a multiple");
  expect_invalid([](GgufWriter& w) { w.set("llama.rope.dimension_count", uint32_t{3}); }, "must be even");
  expect_invalid([](GgufWriter& w) { w.set("llama.rope.dimension_count", uint32_t{18}); }, "between 2 and 16");
  for (const float epsilon : {0.0F, -1.0F, 1.0F, NAN, INFINITY}) {
    expect_invalid([&](GgufWriter& w) { w.set("llama.attention.layer_norm_rms_epsilon", epsilon); },
                   "layer_norm_rms_epsilon is");
  }
  for (const float base : {0.0F, -1.0F, NAN, INFINITY}) {
    expect_invalid([&](GgufWriter& w) { w.set("llama.rope.freq_base", base); }, "llama.rope.freq_base is");
  }
  expect_invalid([](GgufWriter& w) { w.set("llama.rope.freq_base", 1e-300); }, "by llama.rope.freq_base");
  for (const float factor : {-1.0F, NAN, INFINITY}) {
    expect_invalid([&](GgufWriter& w) { w.set("llama.rope.scaling.factor", factor); }, "rope.scaling.factor is");
  }
}

TEST(ModelConfig, TheTokenizerMustAgreeWithTheEmbedding) {
  expect_invalid(
      [](GgufWriter& w) {
        w.set_array("tokenizer.ggml.tokens", {"a", "b"});
      },
      "tokenizer.ggml.tokens has 2 tokens, but tensor 'token_embd.weight' has rows for 64");
  const Read model =
      read([](GgufWriter& w) { w.set_array("tokenizer.ggml.tokens", std::vector<std::string>(64, "t")); });
  EXPECT_TRUE(model.status.ok()) << model.status.message();
}

TEST(ModelTensors, EveryTensorMustBeThereWithItsShape) {
  const GgufWriter whole = tiny_llama({});
  const auto file = open_gguf_bytes(whole.bytes());
  ASSERT_TRUE(file.ok());
  ASSERT_EQ((*file)->tensors().size(), 20U);
  for (const auto& tensor : (*file)->tensors()) {
    const std::string name(tensor.name);
    expect_invalid([&](GgufWriter& w) { w.remove_tensor(name); }, "tensor " + quote(name) + " is missing");
    expect_invalid(
        [&](GgufWriter& w) {
          w.set_tensor(name, {63, 63}, std::vector<float>(63 * 63));
        },
        "tensor " + quote(name) + " has the shape {63, 63}, but the metadata ask for {");
  }
  expect_invalid(
      [](GgufWriter& w) {
        w.set_tensor("output_norm.weight", {64, 1, 2}, std::vector<float>(128));
      },
      "has the shape {64, 1, 2}, but the metadata ask for {64}");
}

TEST(ModelTensors, NormsMustNotBeQuantised) {
  expect_invalid(
      [](GgufWriter& w) { w.set_tensor("output_norm.weight", GgufType::kQ8_0, {64}, std::string(68, '\0')); },
      "tensor 'output_norm.weight' must be of type F32, F16 or BF16, not Q8_0");
}

TEST(ModelConfig, AVocabularyWithoutAModelIsRefused) {
  GgufWriter writer = tiny_llama({});
  const auto whole = open_gguf_bytes(writer.bytes());
  ASSERT_TRUE(whole.ok());
  for (const auto& tensor : (*whole)->tensors()) writer.remove_tensor(std::string(tensor.name));
  const auto file = open_gguf_bytes(writer.bytes());
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_THAT(ModelConfig::from_gguf(**file).status().message(), HasSubstr("a vocabulary without a model"));
}

}  // namespace
}  // namespace twostroke
