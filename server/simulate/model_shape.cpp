#include "server/simulate/model_shape.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "backend/gguf.h"
#include "backend/model_config.h"
#include "server/simulate/small_file.h"

namespace twostroke::simulate {
namespace {

constexpr int32_t kLayersMax = 1024;
constexpr int32_t kSizeMax = 1 << 20;  // of D and F
constexpr int32_t kHeadsMax = 4096;
constexpr int32_t kHeadSizeMax = 1024;
constexpr int32_t kVocabularyMax = 1 << 24;
constexpr int32_t kContextMax = 1 << 30;

//   name                    layers     D      F   H   G    S       V  context  tied
const ModelShape kModelShapes[] = {
    {"Llama-3.1-8B", 32, 4096, 14336, 32, 8, 128, 128256, 131072, false},
    {"Llama-3.1-70B", 80, 8192, 28672, 64, 8, 128, 128256, 131072, false},
    {"Llama-3.1-405B", 126, 16384, 53248, 128, 8, 128, 128256, 131072, false},
    {"Llama-3.2-1B", 16, 2048, 8192, 32, 8, 64, 128256, 131072, true},
    {"Llama-3.2-3B", 28, 3072, 8192, 24, 8, 128, 128256, 131072, true},
    {"Llama-2-7B", 32, 4096, 11008, 32, 32, 128, 32000, 4096, false},
    {"Llama-2-70B", 80, 8192, 28672, 64, 8, 128, 32000, 4096, false},
    {"Mistral-7B-v0.3", 32, 4096, 14336, 32, 8, 128, 32768, 32768, false},
    {"Qwen2.5-0.5B", 24, 896, 4864, 14, 2, 64, 151936, 32768, true},
    {"Qwen2.5-7B", 28, 3584, 18944, 28, 4, 128, 152064, 131072, false},
    {"Qwen2.5-72B", 80, 8192, 29568, 64, 8, 128, 152064, 131072, false},
    {"SmolLM2-135M", 30, 576, 1536, 9, 3, 64, 49152, 8192, true},
    {"SmolLM2-1.7B", 24, 2048, 8192, 32, 32, 64, 49152, 8192, true},
};

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

struct ShapeField {
  const char* key;
  int32_t greatest;
  int32_t ModelShape::*target;
};

constexpr ShapeField kShapeFields[] = {
    {"num_hidden_layers", kLayersMax, &ModelShape::layers},
    {"hidden_size", kSizeMax, &ModelShape::embedding_size},
    {"intermediate_size", kSizeMax, &ModelShape::feed_forward_size},
    {"num_attention_heads", kHeadsMax, &ModelShape::heads},
    {"num_key_value_heads", kHeadsMax, &ModelShape::kv_heads},
    {"head_dim", kHeadSizeMax, &ModelShape::head_size},
    {"vocab_size", kVocabularyMax, &ModelShape::vocab_size},
    {"max_position_embeddings", kContextMax, &ModelShape::context_length},
};

Status read_field(const nlohmann::json& object, const ShapeField& field, int32_t fallback, const std::string& source,
                  ModelShape& shape) {
  const auto found = object.find(field.key);
  if (found == object.end() || found->is_null()) {
    if (fallback == 0) return invalid_argument(source + ": \"" + field.key + "\" is missing");
    shape.*field.target = fallback;
    return {};
  }
  const double number = found->is_number() ? found->get<double>() : 0;
  if (!(number >= 1 && number <= field.greatest && number == std::floor(number))) {
    return invalid_argument(source + ": \"" + field.key + "\" must be a whole number from 1 to " +
                            std::to_string(field.greatest));
  }
  shape.*field.target = static_cast<int32_t>(number);
  return {};
}

Model with_weights(ModelShape shape, const std::string& type, double bytes) {
  Model model;
  model.weights = type;
  model.step_bytes = (shape.layer_parameters() + shape.output_parameters()) * bytes;
  model.held_bytes = shape.parameters() * bytes;
  model.shape = std::move(shape);
  return model;
}

double tensor_bytes(const GgufTensor& tensor) { return static_cast<double>(tensor.data.size()); }

// What is read and held as the file stores it.
Result<Model> from_gguf(const std::string& path) {
  Result<std::unique_ptr<GgufFile>> file = GgufFile::open(path);
  if (!file.ok()) return file.status();
  const Result<ModelConfig> config = ModelConfig::from_gguf(**file);
  if (!config.ok()) return config.status();
  const Result<ModelTensors> tensors = ModelTensors::from_gguf(**file, *config);
  if (!tensors.ok()) return tensors.status();
  Model model;
  model.weights = "as in the file";
  model.shape = {.name = config->name.empty() ? path : config->name,
                 .layers = config->layers,
                 .embedding_size = config->embedding_size,
                 .feed_forward_size = config->feed_forward_size,
                 .heads = config->heads,
                 .kv_heads = config->kv_heads,
                 .head_size = config->head_size,
                 .vocab_size = config->vocab_size,
                 .context_length = config->context_length,
                 .tied_output = config->tied_output};
  for (const LayerTensors& layer : tensors->layers) {
    for (const GgufTensor* tensor :
         {layer.query, layer.key, layer.value, layer.attention_output, layer.gate, layer.up, layer.down}) {
      model.step_bytes += tensor_bytes(*tensor);
    }
  }
  model.held_bytes = model.step_bytes + tensor_bytes(*tensors->token_embedding);
  if (!config->tied_output) model.held_bytes += tensor_bytes(*tensors->output);
  model.step_bytes += tensor_bytes(*tensors->output);
  return model;
}

Result<ModelShape> shape_of(const std::string& name) {
  if (name.ends_with(".json")) {
    const Result<std::string> text = read_small_file(name);
    if (!text.ok()) return text.status();
    return parse_model_config(*text, name);
  }
  std::string names;
  for (const ModelShape& shape : kModelShapes) {
    if (same_name(shape.name, name)) return shape;
    names += (names.empty() ? "" : ", ") + shape.name;
  }
  return not_found("there is no model '" + name + "'; there are " + names +
                   ", and files: a GGUF file, or a config.json of Hugging Face");
}

}  // namespace

double ModelShape::layer_parameters() const {
  const double d = embedding_size;
  const double query = static_cast<double>(heads) * head_size;
  const double key = static_cast<double>(kv_heads) * head_size;
  return layers * (2 * d * query + 2 * d * key + 3 * d * feed_forward_size);
}

double ModelShape::output_parameters() const { return static_cast<double>(embedding_size) * vocab_size; }

double ModelShape::parameters() const { return layer_parameters() + (tied_output ? 1 : 2) * output_parameters(); }

std::span<const ModelShape> model_shapes() { return kModelShapes; }

std::optional<double> weight_bytes(std::string_view type) {
  if (type == "f32") return 4;
  if (type == "f16" || type == "bf16") return 2;
  if (type == "fp8") return 1;
  if (type == "q8") return 34.0 / 32;
  if (type == "q4") return 18.0 / 32;
  return std::nullopt;
}

std::optional<double> kv_bytes(std::string_view type) {
  if (type == "f32") return 4;
  if (type == "f16") return 2;
  if (type == "fp8") return 1;
  return std::nullopt;
}

Result<ModelShape> parse_model_config(std::string_view json, const std::string& source) {
  const auto object = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return invalid_argument(source + ": a model's config.json is a JSON object");
  for (const char* key : {"num_local_experts", "num_experts", "n_routed_experts"}) {
    if (const auto found = object.find(key); found != object.end() && found->is_number() && *found > 1) {
      return unsupported(source + ": a mixture of experts is not simulated, only dense models are");
    }
  }
  ModelShape shape;
  shape.name = source;
  for (const ShapeField& field : kShapeFields) {
    // What older files leave out: as many KV heads as heads, and heads that share D.
    int32_t fallback = 0;
    if (field.target == &ModelShape::kv_heads) fallback = shape.heads;
    if (field.target == &ModelShape::head_size) fallback = shape.embedding_size / shape.heads;
    if (Status status = read_field(object, field, fallback, source, shape); !status.ok()) return status;
  }
  if (const auto tied = object.find("tie_word_embeddings"); tied != object.end()) {
    if (!tied->is_boolean()) return invalid_argument(source + ": \"tie_word_embeddings\" must be true or false");
    shape.tied_output = tied->get<bool>();
  }
  return shape;
}

Result<Model> find_model(const std::string& name, const std::string& weights, const std::string& kv_type) {
  const std::optional<double> kv = kv_bytes(kv_type);
  if (!kv) return invalid_argument("'" + kv_type + "' is no type of KV numbers; there are " + kKvTypes);
  const std::string type = weights.empty() ? "f16" : weights;
  const std::optional<double> bytes = weight_bytes(type);
  if (!bytes) return invalid_argument("'" + type + "' is no type of weights; there are " + kWeightTypes);

  Result<Model> model = invalid_argument("no model was given");
  if (name.ends_with(".gguf")) {
    model = from_gguf(name);
    if (model.ok() && !weights.empty()) model = with_weights(model->shape, type, *bytes);
  } else if (Result<ModelShape> shape = shape_of(name); shape.ok()) {
    model = with_weights(std::move(*shape), type, *bytes);
  } else {
    return shape.status();
  }
  if (model.ok()) {
    const ModelShape& shape = model->shape;
    model->kv_bytes_per_token = 2.0 * shape.layers * shape.kv_heads * shape.head_size * *kv;
  }
  return model;
}

}  // namespace twostroke::simulate
