// Helpers of the kernel tests: tensors and weights with seeded contents in a device's memory, and their way back.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/operators.h"

namespace twostroke::test {

// A tensor with memory of its own. Rows are `stride` apart; what lies between them is NaN.
class OwnedTensor {
 public:
  OwnedTensor(Device& device, const std::vector<float>& values, int64_t rows, int64_t cols, int64_t stride = 0);
  OwnedTensor(Device& device, const std::vector<int32_t>& values, int64_t rows, int64_t cols);
  operator const Tensor&() const { return tensor_; }  // NOLINT: it stands for the tensor
  operator Activations() const { return {tensor_}; }  // NOLINT: likewise
  const Tensor& operator*() const { return tensor_; }
  std::vector<float> floats() const;  // [rows, cols], without what lies between rows

 private:
  Device* device_;
  DeviceMemory memory_;
  Tensor tensor_;
};

// Rows of activations in both forms, quantised by `operators`.
class OwnedActivations {
 public:
  OwnedActivations(Operators& operators, const std::vector<float>& values, int64_t rows, int64_t k);
  operator const Activations&() const { return activations_; }  // NOLINT: it stands for them
  Activations int8() const { return {Tensor(), activations_.int8}; }
  Tensor f32() const { return activations_.f32; }
  std::vector<std::byte> int8_bytes() const;

 private:
  Device* device_;
  OwnedTensor floats_;
  DeviceMemory memory_;
  Activations activations_;
};

std::vector<float> normal_floats(std::mt19937_64& random, int64_t count, float deviation = 1);

// A weight in canonical form with random contents.
struct HostWeight {
  WeightShape shape;
  std::vector<float> f32;
  std::vector<uint16_t> bits16;
  std::vector<int8_t> q8;
  std::vector<uint8_t> q4;
  std::vector<float> scales;
  std::vector<float> mins;
  std::vector<int8_t> factors;
  std::vector<int8_t> min_factors;

  HostWeightRows rows(int64_t begin, int64_t end) const;
  float value(int64_t row, int64_t k) const;  // by the definition in weights.h
  float min(int64_t row, int64_t k) const;    // of the element's group; 0 where there is none

 private:
  float group_constant(const std::vector<float>& constants, const std::vector<int8_t>& of_groups, int64_t row,
                       int64_t k) const;
};

HostWeight random_weight(std::mt19937_64& random, const WeightShape& shape);

// All shapes of layout, group, min and scale storage for an n by k weight that k allows.
std::vector<WeightShape> weight_shapes(int64_t n, int64_t k);

// A weight stored through `operators`, in two calls.
class OwnedWeight {
 public:
  OwnedWeight(Operators& operators, const HostWeight& host);
  operator const Weight&() const { return weight_; }  // NOLINT: it stands for the weight

 private:
  DeviceMemory memory_;
  Weight weight_;
};

std::string describe(const WeightShape& shape);

}  // namespace twostroke::test
