#include "kernels/cpu/vector_operators.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/int8_rows.h"
#include "kernels/cpu/kv_blocks.h"
#include "kernels/cpu/packed_weight.h"

namespace twostroke {
namespace {

// Element-wise work below this many elements is not worth a second thread.
constexpr int64_t kElementsPerTask = 4096;

// A panel's part of this many k, as floats, takes 16 KiB: half of the first-level cache, shared with the inputs.
constexpr int64_t kBlockK = 256;
// Expanding a panel costs a few rows' worth of multiplying, so it is done once for up to this many rows. More of them
// would push the inputs out of the second-level cache.
constexpr int64_t kBlockRows = 64;
constexpr int64_t kPanelsPerTaskMax = 16;
// Tasks per thread: enough to even out threads of different speed.
constexpr int64_t kTasksPerThread = 8;

// Up to this many rows are cheaper to multiply one by one straight from the codes than through expanded panels.
constexpr int64_t kFewRows = 2;

// Even, since multiply_vector takes panels in pairs.
int64_t panels_per_task(int64_t panels, int64_t row_blocks, int threads) {
  return std::clamp<int64_t>(panels * row_blocks / (kTasksPerThread * threads) / 2 * 2, 2, kPanelsPerTaskMax);
}

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Part `index` of `total` cut into `parts` as even as can be: [part_begin(i), part_begin(i + 1)).
int64_t part_begin(int64_t total, int64_t parts, int64_t index) { return total * index / parts; }

void store_outputs(float* out, const float* sums, int64_t count, bool accumulate) {
  if (accumulate) {
    for (int64_t j = 0; j < count; ++j) out[j] += sums[j];
  } else {
    std::memcpy(out, sums, static_cast<size_t>(count) * sizeof(float));
  }
}

}  // namespace

// Calls body(row, thread) for every row, with several small rows to a task, and as many to each as can be.
template <typename Body>
void VectorOperators::run_over_rows(int64_t rows, int64_t row_elements, Body&& body) {
  const int64_t tasks = std::clamp<int64_t>(rows * row_elements / kElementsPerTask, std::min<int64_t>(rows, 1), rows);
  pool().run(tasks, [&](int64_t task, int thread) {
    const int64_t end = part_begin(rows, tasks, task + 1);
    for (int64_t row = part_begin(rows, tasks, task); row < end; ++row) body(row, thread);
  });
}

// compute(t, row) writes row t as floats; they are quantised while they are in the cache. Where nobody wants the floats
// they are not stored.
template <typename Compute>
void VectorOperators::make_activations(const Activations& out, Compute&& compute) {
  const int64_t k = out.k();
  Int8Format format = {};
  if (out.has_int8()) format = int8_format(k);
  run_over_rows(out.rows(), k, [&](int64_t t, int thread) {
    float* row = nullptr;
    if (out.has_f32()) {
      row = row_pointer<float>(out.f32, t);
    } else {
      std::vector<float>& scratch = row_scratch_[static_cast<size_t>(thread)];
      if (static_cast<int64_t>(scratch.size()) < k) scratch.resize(static_cast<size_t>(k));
      row = scratch.data();
    }
    compute(t, row);
    if (out.has_int8()) kernels_.quantise(&format, int8_row(out.int8, t), row);
  });
}

void VectorOperators::quantise(const Activations& activations) {
  check_quantise(activations);
  make_activations(activations, [](int64_t, float*) {});
}

void VectorOperators::rms_norm(const Activations& out, Tensor in, Tensor scale, float epsilon) {
  check_rms_norm(out, in, scale);
  make_activations(out, [&](int64_t t, float* row) {
    kernels_.rms_norm(row, row_pointer<const float>(in, t), row_pointer<const float>(scale, 0), in.cols, epsilon);
  });
}

void VectorOperators::silu_gate(const Activations& out, Tensor gate, Tensor up) {
  check_silu_gate(out, gate, up);
  make_activations(out, [&](int64_t t, float* row) {
    kernels_.silu_gate(row, row_pointer<const float>(gate, t), row_pointer<const float>(up, t), gate.cols);
  });
}

void VectorOperators::matmul(Tensor out, const Activations& in, const Weight& weight, bool accumulate) {
  check_matmul(out, in, weight);
  if (reads_int8(in, weight)) {
    matmul_codes(out, in.int8, weight, accumulate);
  } else if (out.rows <= kFewRows) {
    matmul_few_rows(out, in.f32, weight, accumulate);
  } else {
    matmul_rows(out, in.f32, weight, accumulate);
  }
}

void VectorOperators::matmul_codes(const Tensor& out, const Int8Rows& in, const Weight& weight, bool accumulate) {
  const PanelFormat format = panel_format(weight.shape);
  const Int8Format parts = int8_format(in.k);
  const int64_t panels = panel_count(weight.shape);
  const int64_t row_blocks = divide_up(in.rows, kBlockRows);
  const int64_t per_task = panels_per_task(panels, row_blocks, pool().threads());
  const int64_t tasks_per_block = divide_up(panels, per_task);
  // Tasks that follow each other share a block of rows, which stays in the cache, and read different weights.
  pool().run(row_blocks * tasks_per_block, [&](int64_t task, int) {
    const int64_t row_begin = part_begin(in.rows, row_blocks, task / tasks_per_block);
    const int64_t row_end = part_begin(in.rows, row_blocks, task / tasks_per_block + 1);
    const int64_t panel_begin = task % tasks_per_block * per_task;
    const int64_t panel_end = std::min(panels, panel_begin + per_task);
    const void* inputs = int8_row(in, row_begin);
    const auto multiply = [&](int64_t panel, int64_t count, float* to, int64_t stride, bool add) {
      kernels_.multiply_codes(&format, bytes_at(weight.data) + static_cast<size_t>(panel) * format.panel_bytes,
                              static_cast<int32_t>(count), &parts, inputs, row_end - row_begin, to, stride, add);
    };
    const int64_t whole_end = std::min(panel_end, out.cols / kPanelOutputs);
    if (panel_begin < whole_end) {
      multiply(panel_begin, whole_end - panel_begin, row_pointer<float>(out, row_begin) + panel_begin * kPanelOutputs,
               out.stride, accumulate);
    }
    if (whole_end == panel_end) return;
    // The last panel has lanes that are no outputs.
    alignas(64) float sums[kBlockRows * kPanelOutputs];
    multiply(whole_end, 1, sums, kPanelOutputs, false);
    const int64_t first = whole_end * kPanelOutputs;
    for (int64_t t = row_begin; t < row_end; ++t) {
      store_outputs(row_pointer<float>(out, t) + first, sums + (t - row_begin) * kPanelOutputs, out.cols - first,
                    accumulate);
    }
  });
}

void VectorOperators::matmul_few_rows(const Tensor& out, const Tensor& in, const Weight& weight, bool accumulate) {
  const PanelFormat format = panel_format(weight.shape);
  const int64_t panels = panel_count(weight.shape);
  const int64_t per_task = panels_per_task(panels, 1, pool().threads());
  pool().run(divide_up(panels, per_task), [&](int64_t task, int) {
    const int64_t end = std::min(panels, (task + 1) * per_task);
    // In pairs, as the kernel likes them; the second row finds the pair's weights in the cache.
    for (int64_t panel = task * per_task; panel < end; panel += 2) {
      const int64_t pair = std::min<int64_t>(2, end - panel);
      const int64_t first = panel * kPanelOutputs;
      for (int64_t t = 0; t < in.rows; ++t) {
        alignas(64) float sums[2 * kPanelOutputs];
        kernels_.multiply_vector(&format, bytes_at(weight.data) + static_cast<size_t>(panel) * format.panel_bytes,
                                 static_cast<int32_t>(pair), row_pointer<const float>(in, t), in.cols, sums);
        store_outputs(row_pointer<float>(out, t) + first, sums, std::min(pair * kPanelOutputs, out.cols - first),
                      accumulate);
      }
    }
  });
}

void VectorOperators::matmul_rows(const Tensor& out, const Tensor& in, const Weight& weight, bool accumulate) {
  const PanelFormat format = panel_format(weight.shape);
  const int64_t panels = panel_count(weight.shape);
  const int64_t row_blocks = divide_up(in.rows, kBlockRows);
  const int64_t per_task = panels_per_task(panels, row_blocks, pool().threads());
  const int64_t tasks_per_block = divide_up(panels, per_task);
  // Tasks that follow each other share a block of rows, which stays in the cache, and read different weights.
  pool().run(row_blocks * tasks_per_block, [&](int64_t task, int) {
    const int64_t row_block = task / tasks_per_block;
    const Tensor x =
        in.row_range(part_begin(in.rows, row_blocks, row_block), part_begin(in.rows, row_blocks, row_block + 1));
    const Tensor y =
        out.row_range(part_begin(in.rows, row_blocks, row_block), part_begin(in.rows, row_blocks, row_block + 1));
    const int64_t panel_begin = task % tasks_per_block * per_task;
    const int64_t panel_end = std::min(panels, panel_begin + per_task);
    for (int64_t panel = panel_begin; panel < panel_end; ++panel) {
      alignas(64) float sums[kBlockRows * kPanelOutputs];
      multiply_panel(format, bytes_at(weight.data) + static_cast<size_t>(panel) * format.panel_bytes, x, sums);
      const int64_t first = panel * kPanelOutputs;
      const int64_t count = std::min<int64_t>(kPanelOutputs, out.cols - first);
      for (int64_t t = 0; t < x.rows; ++t) {
        store_outputs(row_pointer<float>(y, t) + first, sums + t * kPanelOutputs, count, accumulate);
      }
    }
  });
}

// sums [in.rows, 16] = in times one panel; in.rows <= kBlockRows.
void VectorOperators::multiply_panel(const PanelFormat& format, const std::byte* panel, const Tensor& in, float* sums) {
  alignas(64) float expanded[kBlockK * kPanelOutputs];
  std::fill_n(sums, in.rows * kPanelOutputs, 0.0f);
  const int64_t tiles = divide_up(in.rows, kTileRows);
  for (int64_t k = 0; k < in.cols; k += kBlockK) {
    const int64_t k_count = std::min(kBlockK, in.cols - k);
    const float* weights = expanded;
    if (format.kind == PanelKind::kFloat32) {
      weights = reinterpret_cast<const float*>(panel) + k * kPanelOutputs;
    } else {
      kernels_.expand(&format, panel, k, k_count, expanded);
    }
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t begin = part_begin(in.rows, tiles, tile);
      const int64_t end = part_begin(in.rows, tiles, tile + 1);
      kernels_.multiply_tile(static_cast<int32_t>(end - begin), row_pointer<const float>(in, begin) + k, in.stride,
                             weights, kPanelOutputs, k_count, sums + begin * kPanelOutputs, kPanelOutputs);
    }
  }
}

void VectorOperators::update_angles(const Tensor& positions, const Tensor& inverse_frequency) {
  const std::span<const int32_t> new_positions(row_pointer<const int32_t>(positions, 0),
                                               static_cast<size_t>(positions.cols));
  const std::span<const float> frequency(row_pointer<const float>(inverse_frequency, 0),
                                         static_cast<size_t>(inverse_frequency.cols));
  if (std::ranges::equal(new_positions, angles_.positions) &&
      std::ranges::equal(frequency, angles_.inverse_frequency)) {
    return;
  }
  angles_.positions.assign(new_positions.begin(), new_positions.end());
  angles_.inverse_frequency.assign(frequency.begin(), frequency.end());
  const size_t width = 2 * frequency.size();
  angles_.cosine.resize(new_positions.size() * width);
  angles_.sine.resize(new_positions.size() * width);
  // An angle costs about as much as a hundred element-wise steps.
  run_over_rows(positions.cols, static_cast<int64_t>(width) * 100, [&](int64_t t, int) {
    float* cosine = angles_.cosine.data() + static_cast<size_t>(t) * width;
    float* sine = angles_.sine.data() + static_cast<size_t>(t) * width;
    for (size_t i = 0; i < frequency.size(); ++i) {
      // In double: the angle is exact, whatever the position.
      const double angle = static_cast<double>(new_positions[static_cast<size_t>(t)]) * double{frequency[i]};
      cosine[2 * i] = cosine[2 * i + 1] = static_cast<float>(std::cos(angle));
      sine[2 * i + 1] = static_cast<float>(std::sin(angle));
      sine[2 * i] = -sine[2 * i + 1];
    }
  });
}

void VectorOperators::rotate_and_store(Tensor q, Tensor k, Tensor v, Tensor inverse_frequency, const KvCache& cache,
                                       int32_t layer, const StepRows& rows) {
  check_rotate_and_store(q, k, v, inverse_frequency, cache, layer, rows);
  update_angles(rows.positions, inverse_frequency);
  const int32_t size = cache.head_size;
  const int64_t width = 2 * inverse_frequency.cols;
  const auto store = [&](const KvHead& head, int32_t offset, const float* key, const float* value, int thread) {
    if (cache.dtype != DType::kF16) return store_kv(cache, head, offset, key, value);
    std::vector<uint16_t>& halves = half_scratch_[static_cast<size_t>(thread)];
    halves.resize(size_t{2} * size_t(size));
    kernels_.to_half(halves.data(), key, size);
    kernels_.to_half(halves.data() + size, value, size);
    store_kv_elements(cache, head, offset, halves.data(), halves.data() + size);
  };
  run_over_rows(q.rows, q.cols + 2 * k.cols, [&](int64_t t, int thread) {
    const float* cosine = angles_.cosine.data() + t * width;
    const float* sine = angles_.sine.data() + t * width;
    float* query = row_pointer<float>(q, t);
    float* key = row_pointer<float>(k, t);
    const float* value = row_pointer<const float>(v, t);
    for (int64_t i = 0; i < q.cols; i += size) kernels_.rotate(query + i, cosine, sine, width);
    for (int64_t i = 0; i < k.cols; i += size) kernels_.rotate(key + i, cosine, sine, width);

    const int32_t position = row_pointer<const int32_t>(rows.positions, 0)[t];
    const int32_t row = row_pointer<const int32_t>(rows.row_of_token, 0)[t];
    CHECK(0 <= row && static_cast<size_t>(row) < rows.segments.size(), "a token of no row");
    CHECK(position >= 0, "a negative position");
    const int32_t block = block_of(cache, rows, rows.segments[static_cast<size_t>(row)], position);
    for (int32_t g = 0; g < cache.kv_heads; ++g) {
      store(kv_head_at(cache, layer, block, g), position % cache.block_size, key + int64_t{g} * size,
            value + int64_t{g} * size, thread);
    }
  });
}

}  // namespace twostroke
