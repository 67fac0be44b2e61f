// What the AVX2 files hand to the table in kernels_avx2.cpp. See VectorKernels for the meaning.
#pragma once

#include "kernels/cpu/vector_kernels.h"

namespace twostroke {

void multiply_tile_avx2(int32_t rows, const float* x, int64_t x_stride, const float* panel, int64_t panel_stride,
                        int64_t k_count, float* sums, int64_t sums_stride);

void expand_panel_avx2(const PanelFormat* format, const void* panel, int64_t k_begin, int64_t k_count, float* out);
void multiply_vector_avx2(const PanelFormat* format, const void* panel, int32_t panels, const float* x, int64_t k,
                          float* out);

void load_keys_avx2(const void* const* rows, bool half, int32_t count, int32_t size, float* out);
void load_values_avx2(const void* const* rows, bool half, int32_t count, int32_t size, int32_t padded_size, float* out);
enum : int32_t { kMultiplyAddsAvx2 = 96 };  // of a round of multiply_add_avx2
double multiply_add_avx2(int64_t rounds, float factor, float addend);

void attend_avx2(const AttentionTile* tile);

}  // namespace twostroke
