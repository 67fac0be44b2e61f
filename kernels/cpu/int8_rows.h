// Rows of quantised activations on the CPU: how long they are, and the reference of how one is made.
//
// Thread-safety: pure functions over the memory given.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/activations.h"
#include "kernels/cpu/int8_format.h"

namespace twostroke {

Int8Format int8_format(int64_t k);

inline std::byte* int8_row(const Int8Rows& rows, int64_t row) {
  return reinterpret_cast<std::byte*>(rows.data.value) + static_cast<size_t>(row) * rows.row_bytes;
}

// Writes the row of `in`, format.k numbers. The vector sets give the same bits.
void quantise_row(const Int8Format& format, std::byte* row, std::span<const float> in);

// What the codes of a row stand for, exactly.
void restore_row(const Int8Format& format, const std::byte* row, std::span<double> out);

}  // namespace twostroke
