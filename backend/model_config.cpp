#include "backend/model_config.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include "backend/gguf_quote.h"

namespace twostroke {
namespace {

constexpr const char* kArchitecture = "llama";
constexpr uint64_t kQuantizationVersion = 2;  // of the block formats; version 1 had other scales
constexpr const char* kRopeFreqsTensor = "rope_freqs.weight";
constexpr const char* kTokenEmbeddingTensor = "token_embd.weight";

struct Range {
  int32_t min;
  int32_t max;
};
constexpr Range kLayers{1, 1 << 10};
constexpr Range kEmbeddingSize{1, 1 << 17};
constexpr Range kFeedForwardSize{1, 1 << 20};
constexpr Range kHeads{1, 1 << 12};
constexpr Range kHeadSize{1, 1 << 10};
constexpr Range kVocabSize{1, 1 << 24};
constexpr Range kContextLength{1, 1 << 30};
constexpr int64_t kMatrixSideMax = int64_t{1} << 24;
// The largest matrix side is the vocabulary or H * S, so that no product of two sides comes near 2^63.
static_assert(int64_t{kVocabSize.max} <= kMatrixSideMax && int64_t{kHeads.max} * kHeadSize.max <= kMatrixSideMax);

Status refuse(const std::string& what) { return unsupported(what + " is not supported"); }

Result<int32_t> in_range(uint64_t value, Range range, const std::string& name) {
  if (value >= static_cast<uint64_t>(range.min) && value <= static_cast<uint64_t>(range.max)) {
    return static_cast<int32_t>(value);
  }
  return invalid_argument(name + " is " + std::to_string(value) + ", but must be between " + std::to_string(range.min) +
                          " and " + std::to_string(range.max));
}

// Reads the metadata of one architecture. The first error is kept and ends the reading.
class Fields {
 public:
  explicit Fields(const GgufFile& file) : file_(file) {}

  static std::string key(const char* suffix) { return std::string(kArchitecture) + "." + suffix; }

  bool has(const char* suffix) const { return file_.find(key(suffix)) != nullptr; }

  void read(int32_t& target, const char* suffix, Range range) {
    const auto value = file_.get_u64(key(suffix));
    if (!keep(value)) return;
    if (const auto checked = in_range(*value, range, key(suffix)); keep(checked)) target = *checked;
  }

  void read_or(int32_t& target, const char* suffix, Range range, int32_t fallback) {
    if (has(suffix)) {
      read(target, suffix, range);
    } else {
      target = fallback;
    }
  }

  // A number in (min, max).
  void read(double& target, const char* suffix, double min, double max) {
    const auto value = file_.get_f64(key(suffix));
    if (!keep(value)) return;
    if (*value > min && *value < max) {  // false for a NaN
      target = *value;
    } else {
      fail(invalid_argument(key(suffix) + " is " + std::to_string(*value) + ", but must lie between " +
                            std::to_string(min) + " and " + std::to_string(max)));
    }
  }

  void fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  const Status& status() const { return status_; }

 private:
  template <typename T>
  bool keep(const Result<T>& result) {
    if (!result.ok()) fail(result.status());
    return result.ok();
  }

  const GgufFile& file_;
  Status status_;
};

bool is_quantised(GgufType type) { return gguf_type_traits(static_cast<uint32_t>(type))->block_size > 1; }

// Kinds of files that hold no model which could be computed here.
Status check_kind(const GgufFile& file) {
  const auto type = file.get_string_or("general.type", "model");
  if (!type.ok()) return type.status();
  if (*type != "model") return refuse("general.type " + quote(*type) + " (only 'model' is: not a part of one)");
  const auto splits = file.get_u64_or("split.count", 1);
  if (!splits.ok()) return splits.status();
  if (*splits > 1) {
    return refuse("a model split into " + std::to_string(*splits) +
                  " files (join them with llama-gguf-split --merge): this one alone");
  }
  const auto architecture = file.get_string("general.architecture");
  if (!architecture.ok()) return architecture.status();
  if (*architecture != kArchitecture) {
    return unsupported("architecture " + quote(*architecture) + " is not supported, only " + quote(kArchitecture) +
                       " is");
  }
  const auto quantization = file.get_u64_or("general.quantization_version", kQuantizationVersion);
  if (!quantization.ok()) return quantization.status();
  if (*quantization != kQuantizationVersion) {
    for (const auto& tensor : file.tensors()) {
      if (!is_quantised(tensor.type)) continue;
      return unsupported("general.quantization_version is " + std::to_string(*quantization) + ", but only " +
                         std::to_string(kQuantizationVersion) + " is supported; quantise the model again");
    }
  }
  return {};
}

// Variants of the architecture that compute something else.
Status check_variant(const GgufFile& file) {
  const auto experts = file.get_u64_or(Fields::key("expert_count"), 0);
  if (!experts.ok()) return experts.status();
  if (*experts > 0) {
    return refuse("a mixture of experts (" + Fields::key("expert_count") + " is " + std::to_string(*experts) + ")");
  }
  const auto causal = file.get_bool_or(Fields::key("attention.causal"), true);
  if (!causal.ok()) return causal.status();
  if (!*causal) return refuse("an encoder (" + Fields::key("attention.causal") + " is false)");
  return {};
}

Status read_heads(Fields& fields, ModelConfig& config) {
  fields.read(config.heads, "attention.head_count", kHeads);
  fields.read_or(config.kv_heads, "attention.head_count_kv", kHeads, config.heads);
  if (!fields.status().ok()) return fields.status();
  if (config.heads % config.kv_heads != 0) {
    return invalid_argument(Fields::key("attention.head_count") + " (" + std::to_string(config.heads) +
                            ") must be a multiple of " + Fields::key("attention.head_count_kv") + " (" +
                            std::to_string(config.kv_heads) + ")");
  }
  if (!fields.has("attention.key_length") && config.embedding_size % config.heads != 0) {
    return invalid_argument(Fields::key("embedding_length") + " (" + std::to_string(config.embedding_size) +
                            ") must be a multiple of " + Fields::key("attention.head_count") + " (" +
                            std::to_string(config.heads) + ") where " + Fields::key("attention.key_length") +
                            " is absent");
  }
  int32_t value_size = 0;
  fields.read_or(config.head_size, "attention.key_length", kHeadSize, config.embedding_size / config.heads);
  fields.read_or(value_size, "attention.value_length", kHeadSize, config.head_size);
  if (!fields.status().ok()) return fields.status();
  if (const auto s = in_range(static_cast<uint64_t>(config.head_size), kHeadSize, "the head size"); !s.ok()) {
    return s.status();
  }
  if (config.head_size != value_size) {
    return unsupported("keys of " + std::to_string(config.head_size) + " and values of " + std::to_string(value_size) +
                       " elements a head: different sizes are not supported");
  }
  fields.read_or(config.rope_size, "rope.dimension_count", {2, config.head_size}, config.head_size);
  if (!fields.status().ok()) return fields.status();
  if (config.rope_size % 2 != 0) {
    return invalid_argument(Fields::key("rope.dimension_count") + " is " + std::to_string(config.rope_size) +
                            ", but must be even");
  }
  return {};
}

// The factor of linear position interpolation; 1 where there is none.
Result<double> rope_factor(const GgufFile& file) {
  // A file without a type but with a factor means linear scaling; old files call the factor rope.scale_linear.
  const auto type = file.get_string_or(Fields::key("rope.scaling.type"), "linear");
  if (!type.ok()) return type.status();
  if (*type == "none") return 1.0;
  if (*type != "linear") {
    return unsupported("RoPE scaling " + quote(*type) + " (" + Fields::key("rope.scaling.type") +
                       ") is not supported, only 'none', 'linear' and the tensor " + kRopeFreqsTensor + " are");
  }
  const auto old_factor = file.get_f64_or(Fields::key("rope.scale_linear"), 1.0);
  if (!old_factor.ok()) return old_factor.status();
  const auto factor = file.get_f64_or(Fields::key("rope.scaling.factor"), *old_factor);
  if (!factor.ok()) return factor.status();
  if (*factor == 0.0) return 1.0;  // converters write 0 for "no scaling"
  if (!(*factor > 0.0 && *factor < 1e6)) {
    return invalid_argument(Fields::key("rope.scaling.factor") + " is " + std::to_string(*factor) +
                            ", but must lie between 0 and 1000000");
  }
  return *factor;
}

Status check_shape(const GgufTensor& tensor, uint64_t inputs, uint64_t outputs) {
  if (tensor.dims == std::array<uint64_t, 4>{inputs, outputs, 1, 1}) return {};
  std::string shape;
  for (uint32_t i = 0; i < tensor.dim_count; ++i)
    shape.append(i > 0 ? ", " : "").append(std::to_string(tensor.dims[i]));
  const std::string expected = std::to_string(inputs) + (outputs > 1 ? ", " + std::to_string(outputs) : "");
  return invalid_argument("tensor " + quote(tensor.name) + " has the shape {" + shape +
                          "}, but the metadata ask for {" + expected + "}");
}

// Per-frequency divisors [rope_size / 2], all 1 where the file has none.
Result<std::vector<double>> rope_divisors(const GgufFile& file, int32_t rope_size) {
  std::vector<double> divisors(static_cast<size_t>(rope_size / 2), 1.0);
  const GgufTensor* tensor = file.find_tensor(kRopeFreqsTensor);
  if (tensor == nullptr) return divisors;
  if (Status s = check_shape(*tensor, divisors.size(), 1); !s.ok()) return s;
  if (tensor->type != GgufType::kF32) {
    return invalid_argument(std::string("tensor ") + kRopeFreqsTensor + " must be of type F32");
  }
  for (size_t i = 0; i < divisors.size(); ++i) {
    float divisor = 0;
    std::memcpy(&divisor, tensor->data.data() + i * sizeof(float), sizeof(float));
    if (!(divisor > 1e-6F && divisor < 1e6F)) {
      return invalid_argument(std::string("tensor ") + kRopeFreqsTensor + " element " + std::to_string(i) + " is " +
                              std::to_string(divisor) + ", but must lie between 1e-6 and 1e6");
    }
    divisors[i] = static_cast<double>(divisor);
  }
  return divisors;
}

Status read_rope(const GgufFile& file, Fields& fields, ModelConfig& config) {
  double base = 10000.0;  // of the RoFormer paper
  if (fields.has("rope.freq_base")) fields.read(base, "rope.freq_base", 0.0, 1e15);
  if (!fields.status().ok()) return fields.status();
  const auto factor = rope_factor(file);
  if (!factor.ok()) return factor.status();
  const auto divisors = rope_divisors(file, config.rope_size);
  if (!divisors.ok()) return divisors.status();
  config.inverse_frequency.reserve(divisors->size());
  for (size_t i = 0; i < divisors->size(); ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / config.rope_size;
    const double frequency = std::pow(base, exponent) / *factor / (*divisors)[i];
    if (!(frequency <= double{std::numeric_limits<float>::max()})) {  // of a base near 0
      return invalid_argument("RoPE frequency " + std::to_string(i) + " by " + Fields::key("rope.freq_base") + " (" +
                              std::to_string(base) + ") is not finite: the model file is damaged, get it again");
    }
    config.inverse_frequency.push_back(static_cast<float>(frequency));
  }
  return {};
}

Status read_context(Fields& fields, ModelConfig& config) {
  fields.read(config.context_length, "context_length", kContextLength);
  int32_t window = 0;
  fields.read_or(window, "attention.sliding_window", {0, kContextLength.max}, 0);
  if (!fields.status().ok()) return fields.status();
  if (window > 0 && window < config.context_length) {
    // Within the window, sliding and full attention are the same.
    config.notices.push_back("the model was made for a sliding window of " + std::to_string(window) +
                             " tokens, which is not computed here; its context is limited to that instead of " +
                             std::to_string(config.context_length));
    config.context_length = window;
  }
  return {};
}

// The vocabulary is as large as the token embedding; the tokenizer in the file must agree.
Status read_vocab(const GgufFile& file, ModelConfig& config) {
  const GgufTensor* embedding = file.find_tensor(kTokenEmbeddingTensor);
  if (embedding == nullptr) {
    return invalid_argument(file.tensors().empty()
                                ? "the file holds no tensors: a vocabulary without a model"
                                : std::string("tensor '") + kTokenEmbeddingTensor + "' is missing from the model file");
  }
  const auto size =
      in_range(embedding->dims[1], kVocabSize,
               std::string("dimension 1 of tensor '") + kTokenEmbeddingTensor + "', the vocabulary size,");
  if (!size.ok()) return size.status();
  config.vocab_size = *size;
  if (file.find("tokenizer.ggml.tokens") == nullptr) return {};
  const auto tokens = file.get_strings("tokenizer.ggml.tokens");
  if (!tokens.ok()) return tokens.status();
  if (tokens->size() != embedding->dims[1]) {
    return invalid_argument("tokenizer.ggml.tokens has " + std::to_string(tokens->size()) + " tokens, but tensor '" +
                            kTokenEmbeddingTensor + "' has rows for " + std::to_string(*size));
  }
  return {};
}

// Finds tensors by name, checks them, and counts them so that a tensor nobody asked for is noticed.
class TensorFinder {
 public:
  explicit TensorFinder(const GgufFile& file) : file_(file) {}

  void matrix(const GgufTensor*& target, const std::string& name, int64_t inputs, int64_t outputs) {
    find(target, name, inputs, outputs);
  }
  void vector(const GgufTensor*& target, const std::string& name, int64_t size) {
    find(target, name, size, 1);
    if (status_.ok() && is_quantised(target->type)) {
      status_ = invalid_argument("tensor " + quote(name) + " must be of type F32, F16 or BF16, not " +
                                 gguf_type_name(static_cast<uint32_t>(target->type)));
    }
  }
  const Status& status() const { return status_; }
  size_t found() const { return found_.size(); }
  bool was_found(const GgufTensor* tensor) const { return found_.contains(tensor->name); }

 private:
  void find(const GgufTensor*& target, const std::string& name, int64_t inputs, int64_t outputs) {
    if (!status_.ok()) return;
    target = file_.find_tensor(name);
    if (target == nullptr) {
      status_ = invalid_argument("tensor " + quote(name) + " is missing from the model file");
      return;
    }
    found_.emplace(target->name, target);
    status_ = check_shape(*target, static_cast<uint64_t>(inputs), static_cast<uint64_t>(outputs));
  }

  const GgufFile& file_;
  Status status_;
  std::unordered_map<std::string_view, const GgufTensor*> found_;
};

}  // namespace

Result<ModelConfig> ModelConfig::from_gguf(const GgufFile& file) {
  if (Status s = check_kind(file); !s.ok()) return s;
  if (Status s = check_variant(file); !s.ok()) return s;

  ModelConfig config;
  config.architecture = kArchitecture;
  const auto name = file.get_string_or("general.name", "");
  if (!name.ok()) return name.status();
  config.name = std::string(*name);

  Fields fields(file);
  fields.read(config.layers, "block_count", kLayers);
  fields.read(config.embedding_size, "embedding_length", kEmbeddingSize);
  fields.read(config.feed_forward_size, "feed_forward_length", kFeedForwardSize);
  double epsilon = 0;
  fields.read(epsilon, "attention.layer_norm_rms_epsilon", 0.0, 1.0);
  config.norm_epsilon = static_cast<float>(epsilon);
  if (!fields.status().ok()) return fields.status();
  if (Status s = read_heads(fields, config); !s.ok()) return s;
  if (Status s = read_rope(file, fields, config); !s.ok()) return s;
  if (Status s = read_context(fields, config); !s.ok()) return s;
  if (Status s = read_vocab(file, config); !s.ok()) return s;
  config.tied_output = file.find_tensor("output.weight") == nullptr;
  return config;
}

Result<ModelTensors> ModelTensors::from_gguf(const GgufFile& file, const ModelConfig& config) {
  const int64_t embedding = config.embedding_size;
  const int64_t feed_forward = config.feed_forward_size;
  const int64_t queries = int64_t{config.heads} * config.head_size;
  const int64_t keys = int64_t{config.kv_heads} * config.head_size;

  ModelTensors tensors;
  TensorFinder finder(file);
  finder.matrix(tensors.token_embedding, kTokenEmbeddingTensor, embedding, config.vocab_size);
  tensors.layers.resize(static_cast<size_t>(config.layers));
  for (size_t i = 0; i < tensors.layers.size(); ++i) {
    LayerTensors& layer = tensors.layers[i];
    const std::string prefix = "blk." + std::to_string(i) + ".";
    finder.vector(layer.attention_norm, prefix + "attn_norm.weight", embedding);
    finder.matrix(layer.query, prefix + "attn_q.weight", embedding, queries);
    finder.matrix(layer.key, prefix + "attn_k.weight", embedding, keys);
    finder.matrix(layer.value, prefix + "attn_v.weight", embedding, keys);
    finder.matrix(layer.attention_output, prefix + "attn_output.weight", queries, embedding);
    finder.vector(layer.feed_forward_norm, prefix + "ffn_norm.weight", embedding);
    finder.matrix(layer.gate, prefix + "ffn_gate.weight", embedding, feed_forward);
    finder.matrix(layer.up, prefix + "ffn_up.weight", embedding, feed_forward);
    finder.matrix(layer.down, prefix + "ffn_down.weight", feed_forward, embedding);
  }
  finder.vector(tensors.output_norm, "output_norm.weight", embedding);
  if (config.tied_output) {
    tensors.output = tensors.token_embedding;
  } else {
    finder.matrix(tensors.output, "output.weight", embedding, config.vocab_size);
  }
  if (!finder.status().ok()) return finder.status();
  for (const auto& tensor : file.tensors()) {
    if (finder.was_found(&tensor) || tensor.name == kRopeFreqsTensor) continue;
    return unsupported("tensor " + quote(tensor.name) +
                       " is not part of what is computed here, and leaving it out would give wrong answers");
  }
  return tensors;
}

}  // namespace twostroke
