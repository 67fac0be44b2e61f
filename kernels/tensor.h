// Tensor: a handle to a matrix in some device's memory.
//
// A tensor is a value: an address, a data type and a shape. It owns nothing (DeviceMemory in device.h does) and its
// address may not be readable by the host, so nobody but an operator set dereferences it; that is why the address is
// not a pointer. Thread-safety: plain values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/check.h"

namespace twostroke {

// kI8 is for the codes of a KvCache (operators.h) only: they mean nothing without their scales.
enum class DType : uint8_t { kF32, kF16, kI32, kI8 };

constexpr size_t dtype_bytes(DType dtype) { return dtype == DType::kI8 ? 1 : dtype == DType::kF16 ? 2 : 4; }

// An address in a device's memory: arithmetic is allowed, dereferencing is the operator set's own business.
struct DeviceAddress {
  uintptr_t value = 0;
  DeviceAddress operator+(size_t bytes) const { return {value + bytes}; }
  friend bool operator==(DeviceAddress, DeviceAddress) = default;
};

struct Tensor {
  DeviceAddress data;
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;  // elements from one row to the next, >= cols

  static Tensor contiguous(DeviceAddress data, DType dtype, int64_t rows, int64_t cols) {
    return {data, dtype, rows, cols, cols};
  }
  // Rows [begin, end) of this tensor.
  Tensor row_range(int64_t begin, int64_t end) const {
    CHECK(0 <= begin && begin <= end && end <= rows);
    return {data + static_cast<size_t>(begin * stride) * dtype_bytes(dtype), dtype, end - begin, cols, stride};
  }
  // Columns [begin, end) of every row.
  Tensor col_range(int64_t begin, int64_t end) const {
    CHECK(0 <= begin && begin <= end && end <= cols);
    return {data + static_cast<size_t>(begin) * dtype_bytes(dtype), dtype, rows, end - begin, stride};
  }
};

}  // namespace twostroke
