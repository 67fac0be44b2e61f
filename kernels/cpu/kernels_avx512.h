// What the AVX-512 files hand to the table in kernels_avx512.cpp. See VectorKernels for the meaning.
#pragma once

#include "kernels/cpu/vector_kernels.h"

namespace twostroke {

void multiply_codes_avx512(const PanelFormat* format, const void* panel, int32_t panels, const Int8Format* parts,
                           const void* row, int64_t rows, float* out, int64_t out_stride, bool accumulate);

void attend_avx512(const AttentionRows* rows, const PositionTile* tile, const float* keys, const float* values);
void attend_direct_avx512(const AttentionRows* rows, const PositionTile* tile, const PositionTile* next);

enum : int32_t { kMultiplyAddsAvx512 = 192 };  // of a round of multiply_add_avx512
double multiply_add_avx512(int64_t rounds, float factor, float addend);
enum : int32_t { kInt8MultiplyAddsAvx512 = 768 };  // of a round of int8_multiply_add_avx512
int64_t int8_multiply_add_avx512(int64_t rounds, int32_t code, int32_t input);

}  // namespace twostroke
