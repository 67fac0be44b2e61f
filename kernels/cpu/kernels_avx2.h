// What the AVX2 files hand to the table in kernels_avx2.cpp. See VectorKernels for the meaning.
#pragma once

#include "kernels/cpu/vector_kernels.h"

namespace twostroke {

void multiply_tile_avx2(int32_t rows, const float* x, int64_t x_stride, const float* panel, int64_t panel_stride,
                        int64_t k_count, float* sums, int64_t sums_stride);

void expand_panel_avx2(const PanelFormat* format, const void* panel, int64_t k_begin, int64_t k_count, float* out);
void multiply_vector_avx2(const PanelFormat* format, const void* panel, int32_t panels, const float* x, int64_t k,
                          float* out);

void multiply_codes_avx2(const PanelFormat* format, const void* panel, int32_t panels, const Int8Format* parts,
                         const void* row, int64_t rows, float* out, int64_t out_stride, bool accumulate);
void quantise_avx2(const Int8Format* format, void* row, const float* in);

void expand_tile_avx2(const PositionTile* tile, int32_t padded_size, float* keys, float* values);
void attend_avx2(const AttentionRows* rows, const PositionTile* tile, const float* keys, const float* values);
void attend_direct_avx2(const AttentionRows* rows, const PositionTile* tile, const PositionTile* next);
void fold_avx2(int32_t padded_size, const float* part_sums, float part_maximum, float part_weight, float* sums,
               float* maximum, float* weight);

enum : int32_t { kMultiplyAddsAvx2 = 96 };  // of a round of multiply_add_avx2
double multiply_add_avx2(int64_t rounds, float factor, float addend);
enum : int32_t { kInt8MultiplyAddsAvx2 = 384 };  // of a round of int8_multiply_add_avx2
int64_t int8_multiply_add_avx2(int64_t rounds, int32_t code, int32_t input);

}  // namespace twostroke
