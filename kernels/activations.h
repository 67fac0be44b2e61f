// Activations: the rows that a product reads, in the forms that its weights want.
//
//   f32    plain numbers. Weights of plain numbers (F32, F16, BF16) read these.
//   int8   codes in groups of kInt8Group along k, the last group shorter where k is no multiple:
//            scale = max |x| / 127        code = the integer nearest to x * (127 / max |x|), ties to even
//            x is taken as scale * code, an error of at most scale / 2
//          in single precision. A group whose maximum is below kInt8Least is all zero; one with a number that is not
//          finite has a scale of NaN, so that every output of its row is NaN. Weights of codes (kQ8, kQ4) read these
//          where there are any, and f32 otherwise.
//
// A row is quantised once and then shared by all products that read it. How an operator set lays the codes out, and
// what sums of them it keeps beside them, is its own business: it says how many bytes a row takes
// (Operators::int8_row_bytes).
//
// Thread-safety: plain values.
#pragma once

#include <cstdint>

#include "kernels/tensor.h"

namespace twostroke {

inline constexpr int64_t kInt8Group = 32;
inline constexpr float kInt8Least = 0x1p-120f;  // below it, 127 / max |x| would overflow

// What products of coded weights compute with.
enum class ActivationType : uint8_t { kF32, kInt8 };

// Quantised rows in a device's memory, in the operator set's own arrangement. Owns nothing.
struct Int8Rows {
  DeviceAddress data;
  int64_t rows = 0;
  int64_t k = 0;
  size_t row_bytes = 0;  // Operators::int8_row_bytes(k)
};

struct Activations {
  Activations() = default;
  Activations(const Tensor& tensor) : f32(tensor) {}  // NOLINT: plain numbers are activations
  Activations(const Tensor& tensor, const Int8Rows& codes) : f32(tensor), int8(codes) {}

  bool has_f32() const { return f32.cols > 0; }
  bool has_int8() const { return int8.k > 0; }
  int64_t rows() const { return has_f32() ? f32.rows : int8.rows; }
  int64_t k() const { return has_f32() ? f32.cols : int8.k; }

  Tensor f32;     // [rows, k]; no columns: absent
  Int8Rows int8;  // k = 0: absent. Where both are there, they have the same rows and k.
};

}  // namespace twostroke
