#include "tests/tools/stories_to_gguf.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

namespace twostroke {
namespace {

constexpr int32_t kSizeMax = 1 << 20;  // of any number in the header
constexpr float kNormEpsilon = 1e-5F;  // fixed in llama2.c
constexpr int32_t kBos = 1;
constexpr int32_t kEos = 2;

// Token types of `tokenizer.ggml.token_type`.
enum TokenType : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kByte = 6 };

// Reads values one after the other; the first read behind the end fails it for good.
class Bytes {
 public:
  explicit Bytes(std::string bytes) : bytes_(std::move(bytes)) {}

  template <typename T>
  T take() {
    T value{};
    const std::string raw = take_bytes(sizeof(T));
    if (ok_) std::memcpy(&value, raw.data(), sizeof(T));
    return value;
  }
  std::string take_bytes(size_t count) {
    if (!ok_ || count > bytes_.size() - position_) {
      ok_ = false;
      return {};
    }
    position_ += count;
    return bytes_.substr(position_ - count, count);
  }
  bool ok() const { return ok_; }
  bool at_end() const { return position_ == bytes_.size(); }

 private:
  std::string bytes_;
  size_t position_ = 0;
  bool ok_ = true;
};

Result<Bytes> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return not_found(path + ": cannot be opened");
  return Bytes(std::string(std::istreambuf_iterator<char>(file), {}));
}

struct Shape {
  uint64_t dim, hidden_dim, layers, heads, kv_heads, vocab_size, seq_len;
  bool separate_classifier;
};

Result<Shape> read_shape(Bytes& model) {
  int32_t header[7];
  for (auto& number : header) number = model.take<int32_t>();
  const bool separate = header[5] < 0;
  if (separate) header[5] = -header[5];
  for (const int32_t number : header) {
    if (number < 1 || number > kSizeMax) return invalid_argument("the header holds an impossible number");
  }
  const auto at = [&](int i) { return static_cast<uint64_t>(header[i]); };
  if (header[0] % header[3] != 0) return invalid_argument("dim must be a multiple of n_heads");
  return Shape{at(0), at(1), at(2), at(3), at(4), at(5), at(6), separate};
}

void set_metadata(const Shape& shape, GgufWriter& writer) {
  const auto number = [](uint64_t value) { return static_cast<uint32_t>(value); };
  writer.set("general.architecture", "llama");
  writer.set("general.name", "stories260K");
  writer.set("llama.block_count", number(shape.layers));
  writer.set("llama.context_length", number(shape.seq_len));
  writer.set("llama.embedding_length", number(shape.dim));
  writer.set("llama.feed_forward_length", number(shape.hidden_dim));
  writer.set("llama.attention.head_count", number(shape.heads));
  writer.set("llama.attention.head_count_kv", number(shape.kv_heads));
  writer.set("llama.attention.layer_norm_rms_epsilon", kNormEpsilon);
  writer.set("llama.rope.dimension_count", number(shape.dim / shape.heads));
  writer.set("llama.rope.freq_base", 10000.0F);
}

Status set_tensors(const Shape& shape, Bytes& model, GgufWriter& writer) {
  const auto take = [&](const std::string& name, std::vector<uint64_t> dims) {
    uint64_t count = sizeof(float);
    for (const uint64_t dim : dims) count *= dim;
    writer.set_tensor(name, GgufType::kF32, std::move(dims), model.take_bytes(count));
  };
  const auto take_layers = [&](const std::string& name, const std::vector<uint64_t>& dims) {
    for (uint64_t i = 0; i < shape.layers; ++i) take("blk." + std::to_string(i) + "." + name + ".weight", dims);
  };
  const uint64_t head_size = shape.dim / shape.heads;
  const uint64_t kv_dim = shape.kv_heads * head_size;
  take("token_embd.weight", {shape.dim, shape.vocab_size});
  take_layers("attn_norm", {shape.dim});
  take_layers("attn_q", {shape.dim, shape.dim});
  take_layers("attn_k", {shape.dim, kv_dim});
  take_layers("attn_v", {shape.dim, kv_dim});
  take_layers("attn_output", {shape.dim, shape.dim});
  take_layers("ffn_norm", {shape.dim});
  take_layers("ffn_gate", {shape.dim, shape.hidden_dim});
  take_layers("ffn_down", {shape.hidden_dim, shape.dim});
  take_layers("ffn_up", {shape.dim, shape.hidden_dim});
  take("output_norm.weight", {shape.dim});
  model.take_bytes(2 * shape.seq_len * (head_size / 2) * sizeof(float));  // the rotation tables
  if (shape.separate_classifier) take("output.weight", {shape.dim, shape.vocab_size});
  if (!model.ok() || !model.at_end()) return invalid_argument("the file's size does not fit its header");
  return {};
}

// llama2.c writes a space where SentencePiece has U+2581, and line ends around the text of <s> and </s>.
std::string sentencepiece_text(int32_t id, const std::string& text) {
  if (id == kBos) return "<s>";
  if (id == kEos) return "</s>";
  std::string out;
  for (const char c : text) {
    if (c == ' ') {
      out += "\xe2\x96\x81";
    } else {
      out += c;
    }
  }
  return out;
}

TokenType token_type(int32_t id, const std::string& text) {
  if (id == 0) return kUnknown;
  if (id == kBos || id == kEos) return kControl;
  return text.size() == 6 && text.starts_with("<0x") && text.ends_with('>') ? kByte : kNormal;
}

Status set_tokenizer(uint64_t vocab_size, Bytes& tokenizer, GgufWriter& writer) {
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> types;
  tokenizer.take<int32_t>();  // the longest length
  for (int32_t id = 0; static_cast<uint64_t>(id) < vocab_size; ++id) {
    scores.push_back(tokenizer.take<float>());
    const auto length = tokenizer.take<int32_t>();
    const std::string text = tokenizer.take_bytes(static_cast<size_t>(std::max(length, 0)));
    if (!tokenizer.ok()) return invalid_argument("the tokenizer has fewer tokens than the model");
    tokens.push_back(sentencepiece_text(id, text));
    types.push_back(token_type(id, text));
  }
  if (!tokenizer.at_end()) return invalid_argument("the tokenizer has more tokens than the model");
  writer.set("tokenizer.ggml.model", "llama");
  writer.set_array("tokenizer.ggml.tokens", tokens);
  writer.set_array("tokenizer.ggml.scores", scores);
  writer.set_array("tokenizer.ggml.token_type", types);
  writer.set("tokenizer.ggml.bos_token_id", uint32_t{kBos});
  writer.set("tokenizer.ggml.eos_token_id", uint32_t{kEos});
  writer.set("tokenizer.ggml.unknown_token_id", uint32_t{0});
  writer.set("tokenizer.ggml.add_bos_token", true);
  writer.set("tokenizer.ggml.add_eos_token", false);
  return {};
}

}  // namespace

Result<GgufWriter> stories_to_gguf(const std::string& directory) {
  const std::string model_path = directory + "/stories260K.bin";
  const std::string tokenizer_path = directory + "/tok512.bin";
  auto model = read_file(model_path);
  if (!model.ok()) return model.status();
  auto tokenizer = read_file(tokenizer_path);
  if (!tokenizer.ok()) return tokenizer.status();
  const auto shape = read_shape(*model);
  if (!shape.ok()) return invalid_argument(model_path + ": " + shape.status().message());

  GgufWriter writer;
  set_metadata(*shape, writer);
  if (Status s = set_tokenizer(shape->vocab_size, *tokenizer, writer); !s.ok()) {
    return invalid_argument(tokenizer_path + ": " + s.message());
  }
  if (Status s = set_tensors(*shape, *model, writer); !s.ok()) return invalid_argument(model_path + ": " + s.message());
  return writer;
}

}  // namespace twostroke
