#include "kernels/cpu/scalar_operators.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/int8_rows.h"
#include "kernels/cpu/kv_blocks.h"
#include "kernels/cpu/packed_weight.h"

namespace twostroke {
namespace {

RowSegment load_segment(const StepRows& rows, int64_t row) {
  CHECK(0 <= row && row < rows.segments_device.rows);
  const int32_t* fields = row_pointer<const int32_t>(rows.segments_device, row);
  return {.token_begin = fields[0], .token_count = fields[1], .position = fields[2], .block_begin = fields[3]};
}

// Turns each head of `vector` (`heads` of `head_size`) by the angles of `position`.
void rotate(float* vector, int64_t heads, int32_t head_size, const Tensor& inverse_frequency, int32_t position) {
  for (int64_t i = 0; i < inverse_frequency.cols; ++i) {
    const double angle = static_cast<double>(position) * double{row_pointer<const float>(inverse_frequency, 0)[i]};
    const double cosine = std::cos(angle);
    const double sine = std::sin(angle);
    for (int64_t h = 0; h < heads; ++h) {
      float* pair = vector + h * head_size + 2 * i;
      const double x = pair[0];
      const double y = pair[1];
      pair[0] = static_cast<float>(x * cosine - y * sine);
      pair[1] = static_cast<float>(x * sine + y * cosine);
    }
  }
}

// Row t of every form that `out` has.
void store_row(const Activations& out, int64_t t, const std::vector<float>& row) {
  if (out.has_f32()) std::copy(row.begin(), row.end(), row_pointer<float>(out.f32, t));
  if (out.has_int8()) quantise_row(int8_format(out.int8.k), int8_row(out.int8, t), row);
}

// What a product reads.
std::vector<std::vector<double>> load_rows(const Activations& in, bool int8) {
  std::vector<std::vector<double>> rows(static_cast<size_t>(in.rows()));
  for (size_t t = 0; t < rows.size(); ++t) {
    rows[t].resize(static_cast<size_t>(in.k()));
    if (int8) {
      restore_row(int8_format(in.k()), int8_row(in.int8, static_cast<int64_t>(t)), rows[t]);
    } else {
      std::copy_n(row_pointer<const float>(in.f32, static_cast<int64_t>(t)), rows[t].size(), rows[t].begin());
    }
  }
  return rows;
}

}  // namespace

void ScalarOperators::quantise(const Activations& activations) {
  check_quantise(activations);
  pool().run(activations.rows(), [&](int64_t t, int) {
    quantise_row(int8_format(activations.k()), int8_row(activations.int8, t),
                 {row_pointer<const float>(activations.f32, t), static_cast<size_t>(activations.k())});
  });
}

void ScalarOperators::rms_norm(const Activations& out, Tensor in, Tensor scale, float epsilon) {
  check_rms_norm(out, in, scale);
  pool().run(in.rows, [&](int64_t t, int) {
    const float* x = row_pointer<const float>(in, t);
    const float* factor = row_pointer<const float>(scale, 0);
    std::vector<float> y(static_cast<size_t>(in.cols));
    double squares = 0;
    for (int64_t i = 0; i < in.cols; ++i) squares += double{x[i]} * double{x[i]};
    const double root = std::sqrt(squares / static_cast<double>(in.cols) + double{epsilon});
    for (int64_t i = 0; i < in.cols; ++i) y[size_t(i)] = static_cast<float>(double{x[i]} / root * double{factor[i]});
    store_row(out, t, y);
  });
}

void ScalarOperators::matmul(Tensor out, const Activations& in, const Weight& weight, bool accumulate) {
  check_matmul(out, in, weight);
  const std::vector<std::vector<double>> inputs = load_rows(in, reads_int8(in, weight));
  pool().run(panel_count(weight.shape), [&](int64_t panel, int) {
    std::vector<float> w(static_cast<size_t>(weight.shape.k));
    for (int64_t j = panel * kPanelOutputs; j < std::min<int64_t>(weight.shape.n, (panel + 1) * kPanelOutputs); ++j) {
      unpack_row(weight.shape, bytes_at(weight.data), j, w);
      for (int64_t t = 0; t < out.rows; ++t) {
        const std::vector<double>& x = inputs[static_cast<size_t>(t)];
        double sum = 0;
        for (size_t i = 0; i < w.size(); ++i) sum += double{w[i]} * x[i];
        float& y = row_pointer<float>(out, t)[j];
        y = accumulate ? y + static_cast<float>(sum) : static_cast<float>(sum);
      }
    }
  });
}

void ScalarOperators::rotate_and_store(Tensor q, Tensor k, Tensor v, Tensor inverse_frequency, const KvCache& cache,
                                       int32_t layer, const StepRows& rows) {
  check_rotate_and_store(q, k, v, inverse_frequency, cache, layer, rows);
  const int32_t size = cache.head_size;
  pool().run(q.rows, [&](int64_t t, int) {
    const int32_t position = row_pointer<const int32_t>(rows.positions, 0)[t];
    const RowSegment segment = load_segment(rows, row_pointer<const int32_t>(rows.row_of_token, 0)[t]);
    rotate(row_pointer<float>(q, t), q.cols / size, size, inverse_frequency, position);
    rotate(row_pointer<float>(k, t), cache.kv_heads, size, inverse_frequency, position);
    const int32_t block = block_of(cache, rows, segment, position);
    for (int32_t g = 0; g < cache.kv_heads; ++g) {
      store_kv(cache, kv_head_at(cache, layer, block, g), position % cache.block_size,
               row_pointer<const float>(k, t) + g * size, row_pointer<const float>(v, t) + g * size);
    }
  });
}

void ScalarOperators::attention(Tensor out, Tensor q, const KvCache& cache, int32_t layer, const StepRows& rows) {
  check_attention(out, q, cache, layer, rows);
  const int32_t size = cache.head_size;
  const int64_t heads = q.cols / size;
  pool().run(q.rows * heads, [&](int64_t task, int) {
    const int64_t t = task / heads;
    const int64_t h = task % heads;
    const auto g = static_cast<int32_t>(h * cache.kv_heads / heads);
    const RowSegment segment = load_segment(rows, row_pointer<const int32_t>(rows.row_of_token, 0)[t]);
    const float* query = row_pointer<const float>(q, t) + h * size;
    float* y = row_pointer<float>(out, t) + h * size;

    double maximum = -std::numeric_limits<double>::infinity();
    double denominator = 0;
    std::vector<double> numerator(size_t(size), 0.0);
    const int32_t last = segment.position + static_cast<int32_t>(t) - segment.token_begin;
    for (int32_t position = 0; position <= last; ++position) {
      const int32_t block = block_of(cache, rows, segment, position);
      const KvHead head = kv_head_at(cache, layer, block, g);
      const int32_t offset = position % cache.block_size;
      double score = 0;
      for (int32_t s = 0; s < size; ++s) score += double{query[s]} * double{load_key(cache, head, offset, s)};
      score /= std::sqrt(static_cast<double>(size));
      if (score > maximum) {
        const double shrink = std::exp(maximum - score);
        denominator *= shrink;
        for (double& x : numerator) x *= shrink;
        maximum = score;
      }
      const double weight = std::exp(score - maximum);
      denominator += weight;
      for (int32_t s = 0; s < size; ++s) numerator[size_t(s)] += weight * double{load_value(cache, head, offset, s)};
    }
    for (int32_t s = 0; s < size; ++s) y[s] = static_cast<float>(numerator[size_t(s)] / denominator);
  });
}

void ScalarOperators::silu_gate(const Activations& out, Tensor gate, Tensor up) {
  check_silu_gate(out, gate, up);
  pool().run(gate.rows, [&](int64_t t, int) {
    std::vector<float> row(static_cast<size_t>(gate.cols));
    for (size_t i = 0; i < row.size(); ++i) {
      const double x = row_pointer<const float>(gate, t)[i];
      const double y = row_pointer<const float>(up, t)[i];
      row[i] = static_cast<float>(x / (1.0 + std::exp(-x)) * y);
    }
    store_row(out, t, row);
  });
}

}  // namespace twostroke
