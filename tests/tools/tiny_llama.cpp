#include "tests/tools/tiny_llama.h"

#include <random>

#include "kernels/check.h"

namespace twostroke {
namespace {

constexpr uint16_t kHalfSmall = 0x1000;  // 2^-11 in half precision
constexpr uint16_t kHalfTiny = 0x0400;   // 2^-14

class Filler {
 public:
  Filler(GgufWriter& writer, const TinyLlama& shape) : writer_(writer), shape_(shape), random_(shape.seed) {}

  void norm(const std::string& name, uint64_t size) {
    std::vector<float> values(size);
    for (auto& value : values) value = 1.0F + 0.1F * uniform();
    writer_.set_tensor(name, {size}, values);
  }

  void matrix(const std::string& name, uint64_t inputs, uint64_t outputs) {
    const GgufTypeTraits& traits = *gguf_type_traits(static_cast<uint32_t>(shape_.matrix_type));
    CHECK(inputs % traits.block_size == 0, "a row must be whole blocks");
    std::string data;
    if (shape_.matrix_type == GgufType::kF32) {
      for (uint64_t i = 0; i < inputs * outputs; ++i) data += GgufWriter::raw(0.2F * uniform());
    } else {
      for (uint64_t i = 0; i < inputs * outputs / traits.block_size; ++i) data += block(traits);
    }
    writer_.set_tensor(name, shape_.matrix_type, {inputs, outputs}, std::move(data));
  }

 private:
  // A number in [-1, 1), the same on every machine (std::uniform_real_distribution need not be).
  float uniform() { return static_cast<float>(static_cast<int32_t>(random_() >> 8) - (1 << 23)) * 0x1p-23F; }

  std::string block(const GgufTypeTraits& traits) {
    std::string out;
    while (out.size() < traits.block_bytes) out += GgufWriter::raw(static_cast<uint32_t>(random_()));
    out.resize(traits.block_bytes);
    const auto put = [&](size_t offset, uint16_t half) { out.replace(offset, 2, GgufWriter::raw(half)); };
    switch (shape_.matrix_type) {
      case GgufType::kF32:
        break;
      case GgufType::kF16:  // sign and mantissa at random, magnitude 1/8 to 1/4
        put(0, static_cast<uint16_t>((static_cast<unsigned char>(out[0]) << 8 & 0x8000) | 0x3000 |
                                     static_cast<unsigned char>(out[1]) << 2));
        break;
      case GgufType::kBF16:
        put(0, static_cast<uint16_t>((static_cast<unsigned char>(out[0]) << 8 & 0x8000) | 0x3e00 |
                                     (static_cast<unsigned char>(out[1]) & 0x7f)));
        break;
      case GgufType::kQ4_0:
      case GgufType::kQ5_0:
      case GgufType::kQ8_0:
      case GgufType::kIQ4_NL:
        put(0, kHalfSmall);
        break;
      case GgufType::kQ4_1:
      case GgufType::kQ5_1:
        put(0, kHalfSmall);
        put(2, static_cast<uint16_t>(kHalfSmall | 0x8000));
        break;
      case GgufType::kQ4_K:
      case GgufType::kQ5_K:
        put(0, kHalfTiny);
        put(2, kHalfTiny);
        break;
      case GgufType::kQ2_K:
        put(80, kHalfSmall);
        put(82, kHalfSmall);
        break;
      case GgufType::kQ3_K:
        put(108, kHalfTiny);
        break;
      case GgufType::kQ6_K:
        put(208, kHalfTiny);
        break;
    }
    return out;
  }

  GgufWriter& writer_;
  const TinyLlama& shape_;
  std::mt19937 random_;
};

}  // namespace

GgufWriter tiny_llama(const TinyLlama& shape) {
  GgufWriter writer;
  writer.set("general.architecture", "llama");
  writer.set("general.name", "tiny");
  writer.set("llama.block_count", shape.layers);
  writer.set("llama.context_length", shape.context_length);
  writer.set("llama.embedding_length", shape.embedding_size);
  writer.set("llama.feed_forward_length", shape.feed_forward_size);
  writer.set("llama.attention.head_count", shape.heads);
  writer.set("llama.attention.head_count_kv", shape.kv_heads);
  writer.set("llama.attention.key_length", shape.head_size);
  writer.set("llama.attention.value_length", shape.head_size);
  writer.set("llama.attention.layer_norm_rms_epsilon", 1e-5F);

  const uint64_t queries = uint64_t{shape.heads} * shape.head_size;
  const uint64_t keys = uint64_t{shape.kv_heads} * shape.head_size;
  Filler fill(writer, shape);
  fill.matrix("token_embd.weight", shape.embedding_size, shape.vocab_size);
  for (uint32_t i = 0; i < shape.layers; ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    fill.norm(prefix + "attn_norm.weight", shape.embedding_size);
    fill.matrix(prefix + "attn_q.weight", shape.embedding_size, queries);
    fill.matrix(prefix + "attn_k.weight", shape.embedding_size, keys);
    fill.matrix(prefix + "attn_v.weight", shape.embedding_size, keys);
    fill.matrix(prefix + "attn_output.weight", queries, shape.embedding_size);
    fill.norm(prefix + "ffn_norm.weight", shape.embedding_size);
    fill.matrix(prefix + "ffn_gate.weight", shape.embedding_size, shape.feed_forward_size);
    fill.matrix(prefix + "ffn_up.weight", shape.embedding_size, shape.feed_forward_size);
    fill.matrix(prefix + "ffn_down.weight", shape.feed_forward_size, shape.embedding_size);
  }
  fill.norm("output_norm.weight", shape.embedding_size);
  if (!shape.tied_output) fill.matrix("output.weight", shape.embedding_size, shape.vocab_size);
  return writer;
}

}  // namespace twostroke
