#include "tests/kernels/test_tensors.h"

#include <cmath>
#include <limits>

#include "kernels/float16.h"

namespace twostroke::test {
namespace {

DeviceMemory allocate(Device& device, size_t bytes) {
  Result<DeviceMemory> memory = device.allocate(bytes);
  CHECK(memory.ok(), memory.status().message());
  return std::move(memory).value();
}

}  // namespace

OwnedTensor::OwnedTensor(Device& device, const std::vector<float>& values, int64_t rows, int64_t cols, int64_t stride)
    : device_(&device) {
  CHECK(static_cast<int64_t>(values.size()) == rows * cols);
  if (stride == 0) stride = cols;
  std::vector<float> spread(static_cast<size_t>(rows * stride), std::numeric_limits<float>::quiet_NaN());
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) spread[size_t(i * stride + j)] = values[size_t(i * cols + j)];
  }
  memory_ = allocate(device, spread.size() * sizeof(float));
  device.upload(memory_.address(), spread.data(), spread.size() * sizeof(float));
  CHECK(device.wait().ok());
  tensor_ = {memory_.address(), DType::kF32, rows, cols, stride};
}

OwnedTensor::OwnedTensor(Device& device, const std::vector<int32_t>& values, int64_t rows, int64_t cols)
    : device_(&device), memory_(allocate(device, values.size() * sizeof(int32_t))) {
  CHECK(static_cast<int64_t>(values.size()) == rows * cols);
  device.upload(memory_.address(), values.data(), values.size() * sizeof(int32_t));
  CHECK(device.wait().ok());
  tensor_ = Tensor::contiguous(memory_.address(), DType::kI32, rows, cols);
}

std::vector<float> OwnedTensor::floats() const {
  std::vector<float> spread(memory_.bytes() / sizeof(float));
  device_->download(spread.data(), memory_.address(), memory_.bytes());
  CHECK(device_->wait().ok());
  std::vector<float> values;
  for (int64_t i = 0; i < tensor_.rows; ++i) {
    for (int64_t j = 0; j < tensor_.cols; ++j) values.push_back(spread[size_t(i * tensor_.stride + j)]);
  }
  return values;
}

OwnedActivations::OwnedActivations(Operators& operators, const std::vector<float>& values, int64_t rows, int64_t k)
    : device_(&operators.device()),
      floats_(operators.device(), values, rows, k),
      memory_(allocate(operators.device(), static_cast<size_t>(rows) * operators.int8_row_bytes(k))),
      activations_(*floats_, {memory_.address(), rows, k, operators.int8_row_bytes(k)}) {
  const std::vector<std::byte> unset(memory_.bytes(), std::byte{0x5a});
  device_->upload(memory_.address(), unset.data(), unset.size());
  operators.quantise(activations_);
  CHECK(device_->wait().ok());
}

std::vector<std::byte> OwnedActivations::int8_bytes() const {
  std::vector<std::byte> bytes(memory_.bytes());
  device_->download(bytes.data(), memory_.address(), bytes.size());
  CHECK(device_->wait().ok());
  return bytes;
}

std::vector<float> normal_floats(std::mt19937_64& random, int64_t count, float deviation) {
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

HostWeightRows HostWeight::rows(int64_t begin, int64_t end) const {
  const auto part = [&](const auto& all, int64_t per_row) {
    return std::span(all).subspan(all.empty() ? 0 : size_t(begin * per_row),
                                  all.empty() ? 0 : size_t((end - begin) * per_row));
  };
  const int64_t groups = shape.group > 0 ? shape.k / shape.group : 0;
  const int64_t scale_count = shape.scale_factors ? shape.k / kSuperBlock : groups;
  return {.row_begin = begin,
          .row_count = end - begin,
          .f32 = part(f32, shape.k),
          .bits16 = part(bits16, shape.k),
          .q8 = part(q8, shape.k),
          .q4 = part(q4, shape.k / 2),
          .scales = part(scales, scale_count),
          .mins = part(mins, scale_count),
          .factors = part(factors, groups),
          .min_factors = part(min_factors, groups)};
}

float HostWeight::group_constant(const std::vector<float>& constants, const std::vector<int8_t>& of_groups, int64_t row,
                                 int64_t k) const {
  if (constants.empty()) return 0;
  const auto group = size_t(row * (shape.k / shape.group) + k / shape.group);
  if (!shape.scale_factors) return constants[group];
  return constants[size_t(row * (shape.k / kSuperBlock) + k / kSuperBlock)] * float(of_groups[group]);
}

float HostWeight::min(int64_t row, int64_t k) const { return group_constant(mins, min_factors, row, k); }

float HostWeight::value(int64_t row, int64_t k) const {
  const auto element = size_t(row * shape.k + k);
  const auto apply = [&](int code) {
    const float scale = group_constant(scales, factors, row, k);
    return shape.has_min ? std::fma(scale, float(code), min(row, k)) : scale * float(code);
  };
  switch (shape.layout) {
    case WeightLayout::kF32:
      return f32[element];
    case WeightLayout::kF16:
      return half_to_float(bits16[element]);
    case WeightLayout::kBF16:
      return bfloat16_to_float(bits16[element]);
    case WeightLayout::kQ8:
    case WeightLayout::kQ6:
      return apply(q8[element]);
    case WeightLayout::kQ4: {
      const int code = k % 2 == 0 ? q4[element / 2] & 15 : q4[element / 2] >> 4;
      return apply(shape.has_min ? code : code - 8);
    }
  }
  CHECK(false);
}

HostWeight random_weight(std::mt19937_64& random, const WeightShape& shape) {
  HostWeight weight;
  weight.shape = shape;
  const int64_t count = shape.n * shape.k;
  std::uniform_int_distribution<int> byte(0, 255);
  switch (shape.layout) {
    case WeightLayout::kF32:
      weight.f32 = normal_floats(random, count);
      break;
    case WeightLayout::kF16:
      for (float value : normal_floats(random, count)) weight.bits16.push_back(float_to_half(value));
      break;
    case WeightLayout::kBF16:
      for (float value : normal_floats(random, count)) {
        weight.bits16.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
      }
      break;
    case WeightLayout::kQ8:
      for (int64_t i = 0; i < count; ++i) weight.q8.push_back(static_cast<int8_t>(byte(random) - 128));
      break;
    case WeightLayout::kQ6:
      for (int64_t i = 0; i < count; ++i) weight.q8.push_back(static_cast<int8_t>(byte(random) % 64 - 32));
      break;
    case WeightLayout::kQ4:
      for (int64_t i = 0; i < count / 2; ++i) weight.q4.push_back(static_cast<uint8_t>(byte(random)));
      break;
  }
  if (shape.group > 0) {
    const auto constants = [&](float deviation) {
      std::vector<float> values = normal_floats(random, count / (shape.scale_factors ? kSuperBlock : shape.group),
                                                shape.scale_factors ? deviation / 64 : deviation);
      for (float& value : values) value = half_to_float(float_to_half(value));
      return values;
    };
    const auto bytes = [&](bool any) {
      std::vector<int8_t> values(any ? size_t(count / shape.group) : 0);
      for (int8_t& value : values) value = static_cast<int8_t>(byte(random) - 128);
      return values;
    };
    weight.scales = constants(shape.layout == WeightLayout::kQ8   ? 0.01f
                              : shape.layout == WeightLayout::kQ6 ? 0.03f
                                                                  : 0.1f);
    if (shape.has_min) weight.mins = constants(0.5f);
    weight.factors = bytes(shape.scale_factors);
    weight.min_factors = bytes(shape.scale_factors && shape.has_min);
  }
  return weight;
}

std::vector<WeightShape> weight_shapes(int64_t n, int64_t k) {
  std::vector<WeightShape> shapes;
  for (WeightLayout layout : {WeightLayout::kF32, WeightLayout::kF16, WeightLayout::kBF16}) {
    shapes.push_back({.layout = layout, .n = n, .k = k});
  }
  if (k % 32 == 0) shapes.push_back({.layout = WeightLayout::kQ8, .n = n, .k = k, .group = 32});
  for (int group : {16, 32}) {
    if (k % group != 0) continue;
    for (bool scale_factors : {false, true}) {
      if (scale_factors && k % kSuperBlock != 0) continue;
      for (bool has_min : {false, true}) {
        shapes.push_back({WeightLayout::kQ6, n, k, group, has_min, scale_factors});
        shapes.push_back({WeightLayout::kQ4, n, k, group, has_min, scale_factors});
      }
    }
  }
  return shapes;
}

OwnedWeight::OwnedWeight(Operators& operators, const HostWeight& host)
    : memory_(allocate(operators.device(), operators.weight_bytes(host.shape))),
      weight_{host.shape, memory_.address()} {
  const int64_t middle = host.shape.n / 3;
  operators.store_weight(weight_, host.rows(0, middle));
  operators.store_weight(weight_, host.rows(middle, host.shape.n));
}

std::string describe(const WeightShape& shape) {
  const char* layouts[] = {"F32", "F16", "BF16", "Q8", "Q6", "Q4"};
  return std::string(layouts[static_cast<size_t>(shape.layout)]) + "/" + std::to_string(shape.group) +
         (shape.has_min ? " min" : "") + (shape.scale_factors ? " factors" : "") + " " + std::to_string(shape.n) + "x" +
         std::to_string(shape.k);
}

}  // namespace twostroke::test
