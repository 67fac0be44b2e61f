// What the AMX files hand to the table in kernels_avx512.cpp. See VectorKernels for the meaning. Only to be called
// where isa_supported(Isa::kAmx), which also gets the operating system's leave for the process to use tiles.
#pragma once

#include "kernels/cpu/vector_kernels.h"

namespace twostroke {

void multiply_codes_amx(const PanelFormat* format, const void* panel, int32_t panels, const Int8Format* parts,
                        const void* row, int64_t rows, float* out, int64_t out_stride, bool accumulate);

enum : int32_t { kInt8MultiplyAddsAmx = 32768 };  // of a round of int8_multiply_add_amx
int64_t int8_multiply_add_amx(int64_t rounds, int32_t code, int32_t input);

}  // namespace twostroke
