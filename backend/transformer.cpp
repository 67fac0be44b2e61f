#include "backend/transformer.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "kernels/check.h"

namespace twostroke {
namespace {

// Lays tensors out in one allocation: first reserve() them all, then give each its address.
class BufferPlan {
 public:
  void reserve(Tensor& tensor, DType dtype, int64_t rows, int64_t cols) {
    constexpr size_t kAlignment = 256;
    tensor = Tensor::contiguous(DeviceAddress{bytes_}, dtype, rows, cols);
    const size_t bytes = static_cast<size_t>(rows) * static_cast<size_t>(cols) * dtype_bytes(dtype);
    bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    tensors_.push_back(&tensor);
  }
  size_t bytes() const { return bytes_; }
  void place(DeviceAddress base) {
    for (Tensor* tensor : tensors_) tensor->data = base + tensor->data.value;
  }

 private:
  size_t bytes_ = 0;
  std::vector<Tensor*> tensors_;
};

Result<DeviceMemory> allocate_for(const char* what, Device& device, size_t bytes) {
  Result<DeviceMemory> memory = device.allocate(bytes);
  if (memory.ok()) return memory;
  return resource_exhausted(std::string(what) + " needs " + std::to_string(bytes >> 20) +
                            " MiB of memory: " + memory.status().message());
}

int64_t blocks_for(int64_t tokens, int32_t block_size) { return (tokens + block_size - 1) / block_size; }

}  // namespace

size_t kv_bytes(const ModelConfig& config, DType kv_dtype, int64_t tokens) {
  return size_t{2} * static_cast<size_t>(config.layers) * static_cast<size_t>(config.kv_heads) *
         kv_vector_bytes(kv_dtype, config.head_size) * static_cast<size_t>(tokens);
}

Transformer::Transformer(const ModelConfig& config, Operators& operators, const TransformerLimits& limits)
    : config_(config), limits_(limits), operators_(operators) {
  CHECK(limits.block_size > 0 && limits.block_count > 0 && limits.context_max > 0);
  CHECK(limits.step_tokens_max > 0 && limits.step_rows_max > 0 && limits.step_drafts_max >= 0);
  CHECK(limits.kv_dtype != DType::kI32);
}

Result<std::unique_ptr<Transformer>> Transformer::load(const GgufFile& file, const ModelConfig& config,
                                                       Operators& operators, const TransformerLimits& limits,
                                                       int load_threads, const LoadProgress& progress) {
  std::unique_ptr<Transformer> transformer(new Transformer(config, operators, limits));
  // What is small is allocated first, so that a machine too small for it says so before the long work.
  if (Status s = transformer->allocate(); !s.ok()) return s;
  Result<ModelWeights> weights = ModelWeights::load(file, config, operators, load_threads, progress);
  if (!weights.ok()) return weights.status();
  transformer->weights_ = std::move(weights).value();
  return transformer;
}

Status Transformer::allocate() {
  cache_.dtype = limits_.kv_dtype;
  cache_.layers = config_.layers;
  cache_.blocks = limits_.block_count;
  cache_.kv_heads = config_.kv_heads;
  cache_.block_size = limits_.block_size;
  cache_.head_size = config_.head_size;
  Result<DeviceMemory> cache_memory = allocate_for("the KV cache", operators_.device(), cache_.bytes());
  if (!cache_memory.ok()) return cache_memory.status();
  cache_memory_ = std::move(cache_memory).value();
  cache_.data = cache_memory_.address();

  const int64_t tokens = limits_.step_tokens_max;
  const int64_t rows = std::min(limits_.step_rows_max, limits_.step_tokens_max);
  const int64_t sampled = std::min(rows + limits_.step_drafts_max, tokens);
  const int64_t embedding = config_.embedding_size;
  const int64_t query = int64_t{config_.heads} * config_.head_size;
  const int64_t key = int64_t{config_.kv_heads} * config_.head_size;
  BufferPlan plan;
  plan.reserve(buffers_.hidden, DType::kF32, tokens, embedding);
  plan.reserve(buffers_.normed, DType::kF32, tokens, embedding);
  plan.reserve(buffers_.query_key_value, DType::kF32, tokens, query + 2 * key);
  plan.reserve(buffers_.attended, DType::kF32, tokens, query);
  plan.reserve(buffers_.gate_up, DType::kF32, tokens, int64_t{2} * config_.feed_forward_size);
  if (limits_.activations == ActivationType::kInt8) {
    const int64_t widest = std::max({embedding, query, int64_t{config_.feed_forward_size}});
    const auto words = static_cast<int64_t>((operators_.int8_row_bytes(widest) + 3) / 4);
    plan.reserve(buffers_.int8, DType::kI32, tokens, words);
  }
  plan.reserve(buffers_.sampled_hidden, DType::kF32, sampled, embedding);
  plan.reserve(buffers_.sampled_attended, DType::kF32, sampled, query);
  plan.reserve(buffers_.logits, DType::kF32, sampled, config_.vocab_size);
  plan.reserve(buffers_.tokens, DType::kI32, 1, tokens);
  plan.reserve(buffers_.positions, DType::kI32, 1, tokens);
  plan.reserve(buffers_.row_of_token, DType::kI32, 1, tokens);
  plan.reserve(buffers_.segments, DType::kI32, rows, 4);
  plan.reserve(buffers_.block_tables, DType::kI32, 1, rows * blocks_for(limits_.context_max, limits_.block_size));
  plan.reserve(buffers_.sampled_tokens, DType::kI32, 1, sampled);
  plan.reserve(buffers_.copies, DType::kI32, limits_.block_count, 2);
  Result<DeviceMemory> memory = allocate_for("a step's working memory", operators_.device(), plan.bytes());
  if (!memory.ok()) return memory.status();
  buffer_memory_ = std::move(memory).value();
  plan.place(buffer_memory_.address());
  const size_t logits = static_cast<size_t>(sampled) * static_cast<size_t>(config_.vocab_size);
  logits_.reset(new (std::nothrow) float[logits]);
  if (logits_ == nullptr) {
    return resource_exhausted("a step's logits need " + std::to_string(logits * sizeof(float) >> 20) +
                              " MiB of memory, which this machine refused; lower --max-running");
  }
  return {};
}

void Transformer::enqueue(const StepPlan& plan) {
  describe(plan);
  if (!plan.copies.empty()) copy_blocks(plan);
  if (plan.rows.empty()) return;
  enqueue_layers(plan, upload_rows(plan));
}

std::span<const float> Transformer::logits(size_t first, size_t count) const {
  CHECK(first + count <= sampled_tokens_.size());
  const size_t vocab = static_cast<size_t>(config_.vocab_size);
  return {logits_.get() + first * vocab, count * vocab};
}

// Checks the plan and writes it down in the form that operators take.
void Transformer::describe(const StepPlan& plan) {
  CHECK(plan.tokens.size() <= static_cast<size_t>(buffers_.tokens.cols), "the step carries too many tokens");
  CHECK(plan.rows.size() <= static_cast<size_t>(buffers_.segments.rows), "the step carries too many rows");
  CHECK(plan.blocks.size() <= static_cast<size_t>(buffers_.block_tables.cols), "the step names too many blocks");
  CHECK(plan.copies.size() <= static_cast<size_t>(buffers_.copies.rows), "the step copies too many blocks");
  const auto exists = [&](BlockId block) { return block < static_cast<BlockId>(limits_.block_count); };
  CHECK(std::all_of(plan.blocks.begin(), plan.blocks.end(), exists));
  for (const BlockCopy& copy : plan.copies) CHECK(exists(copy.source) && exists(copy.target));
  for (TokenId token : plan.tokens) CHECK(token >= 0 && token < config_.vocab_size, "no such token in the vocabulary");

  positions_.clear();
  row_of_token_.clear();
  segments_.clear();
  sampled_tokens_.clear();
  tail_tokens_ = 0;
  int64_t drafts = 0;
  for (const Row& row : plan.rows) {
    const int64_t end = int64_t{row.position} + row.token_count;
    CHECK(row.token_count >= 1 && row.token_begin == positions_.size(), "rows take the step's tokens in order");
    CHECK(size_t{row.token_begin} + row.token_count <= plan.tokens.size());
    CHECK(size_t{row.block_begin} + row.block_count <= plan.blocks.size());
    CHECK(end <= limits_.context_max && end <= int64_t{row.block_count} * limits_.block_size,
          "the block table does not cover the row");
    segments_.push_back({static_cast<int32_t>(row.token_begin), static_cast<int32_t>(row.token_count),
                         static_cast<int32_t>(row.position), static_cast<int32_t>(row.block_begin)});
    for (uint32_t i = 0; i < row.token_count; ++i) {
      positions_.push_back(static_cast<int32_t>(row.position + i));
      row_of_token_.push_back(static_cast<int32_t>(segments_.size() - 1));
    }
    CHECK(row.draft_count == 0 || (row.samples && row.draft_count < row.token_count), "drafts follow a known token");
    for (uint32_t i = row.draft_count + 1; row.samples && i > 0; --i) {
      sampled_tokens_.push_back(static_cast<int32_t>(positions_.size() - i));
    }
    drafts += row.draft_count;
    CHECK(row.targets.size() <= row.token_count, "a target follows a token of its row");
    if (!row.targets.empty() || row.pooling != Pooling::kNone) tail_tokens_ = static_cast<int64_t>(plan.tokens.size());
  }
  CHECK(positions_.size() == plan.tokens.size(), "every token belongs to a row");
  CHECK(drafts <= limits_.step_drafts_max, "the step carries too many drafts");
}

// The first rows x cols elements of `target`, filled from the host.
Tensor Transformer::upload(Tensor target, const void* source, int64_t rows, int64_t cols) {
  const Tensor tensor = Tensor::contiguous(target.data, target.dtype, rows, cols);
  operators_.device().upload(tensor.data, source, static_cast<size_t>(rows * cols) * dtype_bytes(target.dtype));
  return tensor;
}

void Transformer::copy_blocks(const StepPlan& plan) {
  static_assert(sizeof(BlockCopy) == 2 * sizeof(int32_t));
  operators_.copy_blocks(cache_,
                         upload(buffers_.copies, plan.copies.data(), static_cast<int64_t>(plan.copies.size()), 2));
}

StepRows Transformer::upload_rows(const StepPlan& plan) {
  static_assert(sizeof(BlockId) == sizeof(int32_t));
  const int64_t tokens = static_cast<int64_t>(plan.tokens.size());
  StepRows rows;
  rows.segments = segments_;
  rows.segments_device =
      upload(buffers_.segments, segments_.data(), static_cast<int64_t>(segments_.size()), buffers_.segments.cols);
  rows.block_tables = upload(buffers_.block_tables, plan.blocks.data(), 1, static_cast<int64_t>(plan.blocks.size()));
  rows.positions = upload(buffers_.positions, positions_.data(), 1, tokens);
  rows.row_of_token = upload(buffers_.row_of_token, row_of_token_.data(), 1, tokens);
  return rows;
}

void Transformer::enqueue_layers(const StepPlan& plan, const StepRows& rows) {
  const int64_t tokens = static_cast<int64_t>(plan.tokens.size());
  const int64_t query = int64_t{config_.heads} * config_.head_size;
  const int64_t key = int64_t{config_.kv_heads} * config_.head_size;
  const Tensor hidden = buffers_.hidden.row_range(0, tokens);
  const Tensor normed = buffers_.normed.row_range(0, tokens);
  const Tensor query_key_value = buffers_.query_key_value.row_range(0, tokens);
  const Tensor q = query_key_value.col_range(0, query);
  const Tensor k = query_key_value.col_range(query, query + key);
  const Tensor v = query_key_value.col_range(query + key, query + 2 * key);
  const Tensor attended = buffers_.attended.row_range(0, tokens);

  operators_.embed(hidden, weights_.token_embedding, upload(buffers_.tokens, plan.tokens.data(), 1, tokens));
  for (int32_t index = 0; index < config_.layers; ++index) {
    const LayerWeights& layer = weights_.layers[static_cast<size_t>(index)];
    const Activations input = input_of(layer.query_key_value, normed);
    operators_.rms_norm(input, hidden, layer.attention_norm, config_.norm_epsilon);
    multiply(query_key_value, input, layer.query_key_value, false);
    operators_.rotate_and_store(q, k, v, weights_.inverse_frequency, cache_, index, rows);
    const bool last = index == config_.layers - 1;
    if (last && sampled_tokens_.empty() && tail_tokens_ == 0) return;  // only the cache was wanted
    operators_.attention(attended, q, cache_, index, rows);
    if (last) break;
    enqueue_attention_output(layer, hidden, attended);
    enqueue_feed_forward(layer, hidden);
  }
  // Behind the last attention, tokens that are not sampled have no further use, or wait for enqueue_logits() and
  // enqueue_states(): `hidden` and `attended` stay as they are.
  if (sampled_tokens_.empty()) return;
  const size_t numbers = sampled_tokens_.size() * static_cast<size_t>(config_.vocab_size);
  enqueue_output(enqueue_tail(sampled_tokens_), {logits_.get(), numbers});
}

// What follows the last attention, for some of the step's tokens, up to the last norm, which the caller takes.
Tensor Transformer::enqueue_tail(std::span<const int32_t> tokens) {
  const auto count = static_cast<int64_t>(tokens.size());
  const auto step_tokens = static_cast<int64_t>(positions_.size());
  const LayerWeights& layer = weights_.layers.back();
  const Tensor indices = upload(buffers_.sampled_tokens, tokens.data(), 1, count);
  const Tensor hidden = buffers_.sampled_hidden.row_range(0, count);
  const Tensor attended = buffers_.sampled_attended.row_range(0, count);
  operators_.gather_rows(hidden, buffers_.hidden.row_range(0, step_tokens), indices);
  operators_.gather_rows(attended, buffers_.attended.row_range(0, step_tokens), indices);
  enqueue_attention_output(layer, hidden, attended);
  enqueue_feed_forward(layer, hidden);
  return hidden;
}

void Transformer::enqueue_output(Tensor hidden, std::span<float> logits) {
  const Activations states = input_of(weights_.output, buffers_.normed.row_range(0, hidden.rows));
  operators_.rms_norm(states, hidden, weights_.output_norm, config_.norm_epsilon);
  const Tensor out = buffers_.logits.row_range(0, hidden.rows);
  multiply(out, states, weights_.output, false);
  const auto numbers = static_cast<size_t>(out.rows * out.cols);
  CHECK(logits.size() >= numbers);
  operators_.device().download(logits.data(), out.data, numbers * sizeof(float));
}

void Transformer::enqueue_logits(std::span<const int32_t> tokens, std::span<float> logits) {
  CHECK(!tokens.empty() && tokens.size() <= tail_tokens_max());
  for (const int32_t token : tokens) CHECK(token >= 0 && token < tail_tokens_, "no such token in the step");
  enqueue_output(enqueue_tail(tokens), logits);
}

void Transformer::enqueue_states(std::span<const int32_t> tokens, std::span<float> states) {
  CHECK(!tokens.empty() && tokens.size() <= tail_tokens_max());
  for (const int32_t token : tokens) CHECK(token >= 0 && token < tail_tokens_, "no such token in the step");
  const Tensor hidden = enqueue_tail(tokens);
  const Tensor from = buffers_.normed.row_range(0, hidden.rows);
  operators_.rms_norm(from, hidden, weights_.output_norm, config_.norm_epsilon);
  const auto numbers = static_cast<size_t>(from.rows * from.cols);
  CHECK(states.size() == numbers);
  operators_.device().download(states.data(), from.data, numbers * sizeof(float));
}

void Transformer::enqueue_feed_forward(const LayerWeights& layer, Tensor hidden) {
  const int64_t feed_forward = config_.feed_forward_size;
  const Tensor normed = buffers_.normed.row_range(0, hidden.rows);
  const Tensor gate_up = buffers_.gate_up.row_range(0, hidden.rows);
  const Tensor gate = gate_up.col_range(0, feed_forward);
  const Tensor up = gate_up.col_range(feed_forward, 2 * feed_forward);
  const Activations input = input_of(layer.gate_up, normed);
  operators_.rms_norm(input, hidden, layer.feed_forward_norm, config_.norm_epsilon);
  multiply(gate_up, input, layer.gate_up, false);
  const Activations gated = input_of(layer.down, gate);
  operators_.silu_gate(gated, gate, up);
  multiply(hidden, gated, layer.down, true);
}

void Transformer::enqueue_attention_output(const LayerWeights& layer, Tensor hidden, Tensor attended) {
  Activations input = input_of(layer.attention_output, attended);
  input.f32 = attended;
  if (input.has_int8()) operators_.quantise(input);
  multiply(hidden, input, layer.attention_output, true);
}

// The forms of a product's input that its weights read, in memory for rows like those of `f32`, which is where plain
// numbers go. Quantised rows are read by the very next product, so that one buffer does for all.
Activations Transformer::input_of(const StackedWeight& weight, Tensor f32) const {
  bool reads_f32 = false;
  bool reads_int8 = false;
  for (const Weight& part : weight.parts) {
    const bool int8 = limits_.activations == ActivationType::kInt8 && part.shape.group > 0;
    (int8 ? reads_int8 : reads_f32) = true;
  }
  Activations input;
  if (reads_f32) input.f32 = f32;
  if (reads_int8) input.int8 = {buffers_.int8.data, f32.rows, f32.cols, operators_.int8_row_bytes(f32.cols)};
  return input;
}

void Transformer::multiply(Tensor out, const Activations& in, const StackedWeight& weight, bool accumulate) {
  int64_t begin = 0;
  for (const Weight& part : weight.parts) {
    operators_.matmul(out.col_range(begin, begin + part.shape.n), in, part, accumulate);
    begin += part.shape.n;
  }
  CHECK(begin == out.cols);
}

}  // namespace twostroke
