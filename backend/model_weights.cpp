#include "backend/model_weights.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "backend/gguf_quote.h"
#include "backend/transcode.h"
#include "kernels/check.h"

namespace twostroke {
namespace {

constexpr size_t kAlignment = 256;          // of every weight and vector: whole cache lines, on any device
constexpr int64_t kSlabElements = 1 << 20;  // transcoded at once by one thread
constexpr int64_t kSlabRowsMultiple = 64;   // rows of a slab, so that panels of an operator set rarely straddle two

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool same_layout(const WeightShape& a, const WeightShape& b) {
  return a.layout == b.layout && a.k == b.k && a.group == b.group && a.has_min == b.has_min &&
         a.scale_factors == b.scale_factors;
}

// Whether all magnitudes are below `limit`, as bits: they order as the numbers do, and those of infinity and NaN come
// last.
bool all_below(std::span<const float> numbers, uint32_t limit) {
  uint32_t greatest = 0;
  for (const float x : numbers) greatest = std::max(greatest, std::bit_cast<uint32_t>(x) & 0x7fffffffu);
  return greatest < limit;
}
bool all_below(std::span<const uint16_t> numbers, uint16_t limit) {
  uint16_t greatest = 0;
  for (const uint16_t x : numbers) greatest = std::max<uint16_t>(greatest, x & 0x7fffu);
  return greatest < limit;
}

constexpr uint32_t kInfinityBits = 0x7f800000;
constexpr uint16_t kHalfInfinityBits = 0x7c00;
constexpr uint16_t kBfloatInfinityBits = 0x7f80;
constexpr float kHalfOverflow = 65520;  // the least magnitude that a half rounds to infinity

// Whether the weights are finite as they will be stored; codes always are.
bool all_finite(const WeightShape& shape, const HostWeightRows& rows) {
  const auto limit = std::bit_cast<uint32_t>(kHalfOverflow);
  return all_below(rows.f32, kInfinityBits) && all_below(rows.scales, limit) && all_below(rows.mins, limit) &&
         all_below(rows.bits16, shape.layout == WeightLayout::kBF16 ? kBfloatInfinityBits : kHalfInfinityBits);
}

}  // namespace

// Two passes: the first lays everything out in one allocation, the second fills it.
class ModelWeights::Loader {
 public:
  Loader(const ModelConfig& config, const ModelTensors& tensors, Operators& operators, int threads,
         const LoadProgress& progress)
      : config_(config), tensors_(tensors), operators_(operators), threads_(threads), progress_(progress) {}

  Result<ModelWeights> load() {
    ModelWeights weights;
    lay_out(weights);
    if (!status_.ok()) return status_;
    Result<DeviceMemory> memory = operators_.device().allocate(bytes_);
    if (!memory.ok()) {
      return resource_exhausted("the model's weights need " + std::to_string(bytes_ >> 20) +
                                " MiB of memory: " + memory.status().message());
    }
    weights.memory_ = std::move(memory).value();
    place(weights, weights.memory_.address());
    upload_vectors(weights.memory_.address());
    store_weights(weights.memory_.address());
    if (!status_.ok()) return status_;
    if (Status s = operators_.device().wait(); !s.ok()) return s;
    return weights;
  }

 private:
  // A weight and the tensors whose rows it holds, one after the other.
  struct Job {
    Weight weight;  // its address is an offset until place()
    std::vector<const GgufTensor*> sources;
  };
  struct Vector {
    size_t offset = 0;
    std::vector<float> values;  // kept until the upload is done
  };

  // Addresses given out here are offsets into the one allocation, which place() then makes real.
  DeviceAddress reserve(size_t bytes) {
    const DeviceAddress offset{bytes_};
    bytes_ += aligned(bytes);
    return offset;
  }

  Tensor lay_out_vector(std::vector<float> values) {
    const int64_t size = static_cast<int64_t>(values.size());
    const DeviceAddress offset = reserve(values.size() * sizeof(float));
    vectors_.push_back({offset.value, std::move(values)});
    return Tensor::contiguous(offset, DType::kF32, 1, size);
  }

  Tensor lay_out_norm(const GgufTensor& tensor) {
    std::vector<float> values(tensor.elements());
    dequantise(tensor, values);
    if (!all_below(values, kInfinityBits)) refuse(tensor);
    return lay_out_vector(std::move(values));
  }

  StackedWeight lay_out_stack(std::initializer_list<const GgufTensor*> sources) {
    std::vector<Job> jobs;
    for (const GgufTensor* tensor : sources) {
      const WeightShape shape = transcoded_shape(*tensor);
      if (!jobs.empty() && same_layout(jobs.back().weight.shape, shape)) {
        jobs.back().weight.shape.n += shape.n;
        jobs.back().sources.push_back(tensor);
      } else {
        jobs.push_back({{shape, {}}, {tensor}});
      }
    }
    StackedWeight stack;
    for (Job& job : jobs) {
      job.weight.data = reserve(operators_.weight_bytes(job.weight.shape));
      stack.parts.push_back(job.weight);
      jobs_.push_back(std::move(job));
    }
    return stack;
  }

  void lay_out(ModelWeights& weights) {
    weights.inverse_frequency = lay_out_vector(config_.inverse_frequency);
    weights.token_embedding = lay_out_stack({tensors_.token_embedding}).parts.front();
    for (const LayerTensors& t : tensors_.layers) {
      LayerWeights layer;
      layer.attention_norm = lay_out_norm(*t.attention_norm);
      layer.query_key_value = lay_out_stack({t.query, t.key, t.value});
      layer.attention_output = lay_out_stack({t.attention_output});
      layer.feed_forward_norm = lay_out_norm(*t.feed_forward_norm);
      layer.gate_up = lay_out_stack({t.gate, t.up});
      layer.down = lay_out_stack({t.down});
      weights.layers.push_back(std::move(layer));
    }
    weights.output_norm = lay_out_norm(*tensors_.output_norm);
    if (tensors_.output == tensors_.token_embedding) {
      weights.output.parts = {weights.token_embedding};
    } else {
      weights.output = lay_out_stack({tensors_.output});
    }
  }

  void place(ModelWeights& weights, DeviceAddress base) {
    const auto place_tensor = [&](Tensor& tensor) { tensor.data = base + tensor.data.value; };
    const auto place_stack = [&](StackedWeight& stack, double& elements) {
      for (Weight& weight : stack.parts) {
        weight.data = base + weight.data.value;
        elements += static_cast<double>(weight.shape.n) * static_cast<double>(weight.shape.k);
        weights.step_bytes += static_cast<double>(operators_.weight_bytes(weight.shape));
      }
    };
    place_tensor(weights.inverse_frequency);
    place_tensor(weights.output_norm);
    weights.token_embedding.data = base + weights.token_embedding.data.value;
    place_stack(weights.output, weights.output_elements);
    for (LayerWeights& layer : weights.layers) {
      place_tensor(layer.attention_norm);
      place_tensor(layer.feed_forward_norm);
      for (StackedWeight* stack : {&layer.query_key_value, &layer.attention_output, &layer.gate_up, &layer.down}) {
        place_stack(*stack, weights.layer_elements);
      }
    }
  }

  void upload_vectors(DeviceAddress base) {
    for (const Vector& vector : vectors_) {
      operators_.device().upload(base + vector.offset, vector.values.data(), vector.values.size() * sizeof(float));
    }
  }

  // Whole weights go to whichever thread is free: an operator set takes the rows of one weight in order.
  void store_weights(DeviceAddress base) {
    uint64_t bytes_total = 0;
    for (const Job& job : jobs_) {
      for (const GgufTensor* tensor : job.sources) bytes_total += tensor->data.size();
    }
    std::atomic<uint64_t> bytes_done = 0;
    std::atomic<size_t> next = 0;
    const auto work = [&](bool reports) {
      TranscodeBuffer buffer;
      for (size_t i = next++; i < jobs_.size(); i = next++) {
        Weight weight = jobs_[i].weight;
        weight.data = base + weight.data.value;
        int64_t row = 0;
        for (const GgufTensor* tensor : jobs_[i].sources) {
          row = store_rows(weight, row, *tensor, buffer, [&](uint64_t bytes) {
            bytes_done += bytes;
            if (reports && progress_) progress_(bytes_done, bytes_total);
          });
        }
      }
    };
    std::vector<std::jthread> helpers;
    try {
      for (int i = 1; i < threads_; ++i) helpers.emplace_back(work, false);
    } catch (const std::system_error&) {
      // No further threads to be had: fewer take longer.
    }
    work(true);
    helpers.clear();  // joins
    if (progress_) progress_(bytes_total, bytes_total);
  }

  // Stores the rows of `tensor` as the weight's rows from `row_begin` on; returns where they end.
  template <typename Done>
  int64_t store_rows(const Weight& weight, int64_t row_begin, const GgufTensor& tensor, TranscodeBuffer& buffer,
                     const Done& done) {
    const WeightShape shape = transcoded_shape(tensor);
    const int64_t fitting = std::max<int64_t>(1, kSlabElements / shape.k);
    const int64_t slab = fitting < kSlabRowsMultiple ? fitting : fitting / kSlabRowsMultiple * kSlabRowsMultiple;
    const uint64_t row_bytes = tensor.data.size() / static_cast<uint64_t>(shape.n);
    for (int64_t row = 0; row < shape.n; row += slab) {
      const int64_t count = std::min(slab, shape.n - row);
      HostWeightRows rows = transcode_rows(tensor, row, count, buffer);
      rows.row_begin = row_begin + row;
      if (!harmless(tensor) && !all_finite(shape, rows)) refuse(tensor);
      operators_.store_weight(weight, rows);
      GgufFile::forget(
          tensor.data.subspan(row_bytes * static_cast<uint64_t>(row), row_bytes * static_cast<uint64_t>(count)));
      done(row_bytes * static_cast<uint64_t>(count));
    }
    return row_begin + shape.n;
  }

  // A number in it that is not finite concerns only requests with its token; everywhere else it spoils every answer.
  bool harmless(const GgufTensor& tensor) const {
    return &tensor == tensors_.token_embedding && tensors_.output != tensors_.token_embedding;
  }

  void refuse(const GgufTensor& tensor) {
    const std::lock_guard lock(mutex_);
    if (!status_.ok()) return;
    status_ = invalid_argument("tensor " + quote(tensor.name) +
                               " holds numbers that are not finite, so that no answer could be computed: the model "
                               "file is damaged, get it again");
  }

  const ModelConfig& config_;
  const ModelTensors& tensors_;
  Operators& operators_;
  const int threads_;
  const LoadProgress& progress_;
  size_t bytes_ = 0;
  std::vector<Job> jobs_;
  std::vector<Vector> vectors_;
  std::mutex mutex_;
  Status status_;  // of the first tensor that is refused; guarded by mutex_ while there are helpers
};

Result<ModelWeights> ModelWeights::load(const GgufFile& file, const ModelConfig& config, Operators& operators,
                                        int threads, const LoadProgress& progress) {
  CHECK(threads >= 1);
  const Result<ModelTensors> tensors = ModelTensors::from_gguf(file, config);
  if (!tensors.ok()) return tensors.status();
  return Loader(config, *tensors, operators, threads, progress).load();
}

}  // namespace twostroke
