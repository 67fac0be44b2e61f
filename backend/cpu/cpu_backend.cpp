#include "backend/cpu/cpu_backend.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/check.h"
#include "kernels/cpu/machine_peaks.h"

namespace twostroke {
namespace {

// Prompt tokens whose logits are made at once: 64 of 128,000 numbers are 32 MiB.
constexpr size_t kTailSliceMax = 64;

Status check_range(const char* name, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return {};
  return invalid_argument(std::string(name) + " is " + std::to_string(value) + ", but must be from " +
                          std::to_string(least) + " to " + std::to_string(most));
}

Status check_options(const CpuBackendOptions& options) {
  constexpr int64_t kIntMax = std::numeric_limits<int32_t>::max();
  for (const Status& s : {check_range("threads", options.threads, 0, WorkerPool::kThreadsMax),
                          check_range("block_count", options.block_count, 0, kIntMax),
                          check_range("block_size", options.block_size, 1, 1024),
                          check_range("context_max", options.context_max, 0, kIntMax),
                          check_range("step_tokens_max", options.step_tokens_max, 1, 1 << 20),
                          check_range("step_rows_max", options.step_rows_max, 1, 1 << 16),
                          check_range("step_drafts_max", options.step_drafts_max, 0, 1 << 16)}) {
    if (!s.ok()) return s;
  }
  if (options.kv_dtype == DType::kI32) return invalid_argument("the KV cache holds f32, f16 or 8-bit numbers");
  if (!isa_supported(options.isa)) {
    return unsupported(std::string("this processor has no ") + isa_name(options.isa));
  }
  return {};
}

Result<int32_t> context_max(const CpuBackendOptions& options, const ModelConfig& config) {
  if (options.context_max == 0) return config.context_length;
  if (options.context_max > config.context_length) {
    return invalid_argument("context_max (--context-max) is " + std::to_string(options.context_max) +
                            ", but the model was made for " + std::to_string(config.context_length) + " tokens");
  }
  return options.context_max;
}

std::string mebibytes(uint64_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB"; }

// How many KV blocks there will be; at least as many as one sequence of `context` tokens needs.
Result<int32_t> block_count(const CpuBackendOptions& options, const ModelConfig& config, int32_t context) {
  const uint64_t block_bytes = kv_bytes(config, options.kv_dtype, options.block_size);
  const uint64_t fitting = std::min<uint64_t>(options.kv_bytes / block_bytes, std::numeric_limits<int32_t>::max());
  const uint64_t count = options.block_count > 0 ? static_cast<uint64_t>(options.block_count) : fitting;
  const uint64_t block_size = static_cast<uint64_t>(options.block_size);
  const uint64_t needed = (static_cast<uint64_t>(context) + block_size - 1) / block_size;
  if (count < needed) {
    std::string way = "set kv_bytes (--kv-memory-mb) to at least " + std::to_string(needed * block_bytes) + " (" +
                      mebibytes(needed * block_bytes) + "; blocks: " + std::to_string(needed) + "), or ";
    if (count > 0) {
      way += "context_max (--context-max) to at most " + std::to_string(count * block_size);
    } else {
      way += "block_size (--block-size) lower: one block takes " + mebibytes(block_bytes);
    }
    return invalid_argument("the KV cache holds " + std::to_string(count * block_size) +
                            " tokens, but one sequence may have " + std::to_string(context) + ": " + way);
  }
  return static_cast<int32_t>(count);
}

}  // namespace

Result<std::unique_ptr<CpuBackend>> CpuBackend::create(const CpuBackendOptions& options, const LoadProgress& progress) {
  if (Status s = check_options(options); !s.ok()) return s;
  const Result<std::unique_ptr<GgufFile>> file = GgufFile::open(options.model_path);
  if (!file.ok()) return file.status();
  const Result<ModelConfig> config = ModelConfig::from_gguf(**file);
  if (!config.ok()) return config.status();
  const Result<int32_t> context = context_max(options, *config);
  if (!context.ok()) return context.status();
  const Result<int32_t> blocks = block_count(options, *config, *context);
  if (!blocks.ok()) return blocks.status();

  const int threads = options.threads > 0 ? options.threads : allowed_processors();
  std::unique_ptr<CpuBackend> backend(new CpuBackend(threads));
  if (const int started = backend->device_.pool().threads(); started < threads) {
    return resource_exhausted("this system let the process have " + std::to_string(started) + " of " +
                              std::to_string(threads) +
                              " compute threads: set threads (--threads) lower, or raise its limit of processes or of "
                              "memory (ulimit -u and -v, or a container's pids.max)");
  }
  backend->operators_ = make_cpu_operators(backend->device_, options.isa);
  TransformerLimits limits;
  limits.block_size = options.block_size;
  limits.block_count = *blocks;
  limits.kv_dtype = options.kv_dtype;
  limits.activations = options.activations;
  limits.context_max = *context;
  limits.step_tokens_max = options.step_tokens_max;
  limits.step_rows_max = options.step_rows_max;
  limits.step_drafts_max = std::min(options.step_drafts_max, options.step_tokens_max - 1);
  Result<std::unique_ptr<Transformer>> transformer =
      Transformer::load(**file, *config, *backend->operators_, limits, threads, progress);
  if (!transformer.ok()) return transformer.status();
  backend->transformer_ = std::move(transformer).value();
  for (int i = 0; i < threads; ++i) backend->samplers_.emplace_back(config->vocab_size);

  BackendInfo& info = backend->info_;
  info.name = "cpu (" + std::string(isa_name(options.isa)) + ", " + std::to_string(threads) +
              (threads == 1 ? " thread)" : " threads)");
  info.vocab_size = config->vocab_size;
  info.context_max = *context;
  info.block_size = options.block_size;
  info.block_count = *blocks;
  info.step_tokens_max = options.step_tokens_max;
  info.step_rows_max = std::min(options.step_rows_max, options.step_tokens_max);
  info.flops_per_token = 2 * backend->transformer_->weights().layer_elements;
  info.output_flops = 2 * backend->transformer_->weights().output_elements;
  info.attention_flops_per_position = 4.0 * config->layers * config->heads * config->head_size;
  info.weight_bytes = backend->transformer_->weights().step_bytes;
  info.kv_bytes_per_token = static_cast<double>(kv_bytes(*config, options.kv_dtype, 1));
  if (options.measure_peaks) {
    // The KV blocks' memory is not in use yet, and this much may be: measuring asks for no more.
    const size_t buffer_bytes = std::min(peak_buffer_bytes(), std::max<size_t>(options.kv_bytes, kPeakBufferMin));
    // A model's matrices are alike, but for a few: those that most of the arithmetic is done with decide.
    const bool coded = backend->transformer_->weights().layers.front().gate_up.parts.front().shape.group > 0;
    const ActivationType arithmetic = coded ? options.activations : ActivationType::kF32;
    const MachinePeaks peaks = measure_peaks(backend->device_, options.isa, arithmetic, buffer_bytes);
    info.peak_flops = peaks.flops;
    info.peak_bytes_per_second = peaks.bytes_per_second;
  }
  info.embedding_size = config->embedding_size;
  info.scores_targets = true;
  info.late_masks = true;
  info.step_drafts_max = limits.step_drafts_max;
  return backend;
}

Status CpuBackend::submit(const StepPlan& plan) {
  CHECK(plan_ == nullptr, "one step is in flight at a time");
  plan_ = &plan;
  transformer_->enqueue(plan);
  return {};
}

Status CpuBackend::wait(StepResult& result) {
  CHECK(plan_ != nullptr, "no step is in flight");
  const StepPlan& plan = *std::exchange(plan_, nullptr);
  if (Status s = device_.wait(); !s.ok()) return s;
  result.rows.resize(plan.rows.size());
  for (RowResult& row : result.rows) row.reset();
  sample_rows(plan, result);
  if (Status s = score_targets(plan, result); !s.ok()) return s;
  return pool_rows(plan, result);
}

void CpuBackend::sample_rows(const StepPlan& plan, StepResult& result) {
  sampling_rows_.clear();
  size_t logits_begin = 0;
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    if (!plan.rows[i].samples) continue;
    sampling_rows_.push_back({i, logits_begin});
    logits_begin += plan.rows[i].draft_count + 1;
  }
  device_.pool().run(static_cast<int64_t>(sampling_rows_.size()), [&](int64_t task, int thread) {
    const SamplingRow& at = sampling_rows_[static_cast<size_t>(task)];
    const Row& row = plan.rows[at.row];
    samplers_[static_cast<size_t>(thread)].sample(row, row.drafts_in(plan.tokens),
                                                  transformer_->logits(at.logits_begin, row.draft_count + 1),
                                                  result.rows[at.row]);
  });
}

// Leaves tail_[begin, end) in slice_, as many as a slice may have; returns the end.
size_t CpuBackend::next_slice(size_t begin, const StepPlan& plan) {
  slice_.clear();
  const size_t end = std::min(tail_.size(), begin + std::min(transformer_->tail_tokens_max(), kTailSliceMax));
  for (size_t i = begin; i < end; ++i) {
    slice_.push_back(static_cast<int32_t>(plan.rows[tail_[i].row].token_begin + tail_[i].index));
  }
  return end;
}

Status CpuBackend::score_targets(const StepPlan& plan, StepResult& result) {
  tail_.clear();
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    result.rows[i].targets.resize(plan.rows[i].targets.size());
    for (uint32_t k = 0; k < plan.rows[i].targets.size(); ++k) tail_.push_back({i, k});
  }
  const auto vocab = static_cast<size_t>(info_.vocab_size);
  for (size_t begin = 0, end = 0; begin < tail_.size(); begin = end) {
    end = next_slice(begin, plan);
    numbers_.resize(std::max(numbers_.size(), slice_.size() * vocab));
    transformer_->enqueue_logits(slice_, std::span(numbers_).first(slice_.size() * vocab));
    if (Status s = device_.wait(); !s.ok()) return s;
    unusable_.assign(slice_.size(), 0);
    device_.pool().run(static_cast<int64_t>(slice_.size()), [&](int64_t task, int thread) {
      const auto i = static_cast<size_t>(task);
      const auto [row, index] = tail_[begin + i];
      const bool usable = samplers_[static_cast<size_t>(thread)].score(
          std::span(numbers_).subspan(i * vocab, vocab), plan.rows[row].targets[index], plan.rows[row].target_logprobs,
          result.rows[row].targets[index]);
      unusable_[i] = usable ? 0 : 1;
    });
    for (size_t i = 0; i < slice_.size(); ++i) {
      if (unusable_[i] != 0) result.rows[tail_[begin + i].row].status = RowStatus::kNotFinite;
    }
  }
  return {};
}

// Sums are made in order of position, in double: no thread and no slice shows in them.
Status CpuBackend::pool_rows(const StepPlan& plan, StepResult& result) {
  const auto size = static_cast<size_t>(info_.embedding_size);
  for (size_t r = 0; r < plan.rows.size(); ++r) {
    const Row& row = plan.rows[r];
    if (row.pooling == Pooling::kNone) continue;
    tail_.clear();
    for (uint32_t k = row.pooling == Pooling::kLast ? row.token_count - 1 : 0; k < row.token_count; ++k) {
      tail_.push_back({r, k});
    }
    sums_.assign(size, 0);
    for (size_t begin = 0, end = 0; begin < tail_.size(); begin = end) {
      end = next_slice(begin, plan);
      numbers_.resize(std::max(numbers_.size(), slice_.size() * size));
      transformer_->enqueue_states(slice_, std::span(numbers_).first(slice_.size() * size));
      if (Status s = device_.wait(); !s.ok()) return s;
      for (size_t i = 0; i < slice_.size() * size; ++i) sums_[i % size] += static_cast<double>(numbers_[i]);
    }
    RowResult& out = result.rows[r];
    for (const double sum : sums_) {
      out.hidden.push_back(static_cast<float>(sum));
      if (!std::isfinite(out.hidden.back())) out.status = RowStatus::kNotFinite;
    }
  }
  return {};
}

}  // namespace twostroke
