// Packs weights from their canonical form (weights.h) into panels (panel_format.h), and reads single rows back.
//
// Thread-safety: pure functions over the memory given; different weights may be packed from different threads.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/cpu/panel_format.h"
#include "kernels/weights.h"

namespace twostroke {

// Requires a shape as weights.h describes it.
PanelFormat panel_format(const WeightShape& shape);

int64_t panel_count(const WeightShape& shape);

size_t packed_bytes(const WeightShape& shape);

// Stores rows into `packed` (packed_bytes() bytes). Rows of one weight come in ascending order, each once.
void pack_rows(const WeightShape& shape, std::byte* packed, const HostWeightRows& rows);

// Row `row` as floats: out has shape.k elements.
void unpack_row(const WeightShape& shape, const std::byte* packed, int64_t row, std::span<float> out);

}  // namespace twostroke
