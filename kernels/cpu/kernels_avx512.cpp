// The tables of the AVX-512 set: its own products of codes and attention, and AVX2 for all else, which is a small part
// of the time; and of the AMX set, which has products of codes with many rows besides.

#include "kernels/cpu/kernels_avx512.h"
#include "kernels/cpu/kernels_amx.h"

namespace twostroke {
namespace {

VectorKernels with_avx512(VectorKernels kernels) {
  kernels.multiply_codes = multiply_codes_avx512;
  kernels.attend = attend_avx512;
  kernels.attend_direct = attend_direct_avx512;
  kernels.multiply_add = multiply_add_avx512;
  kernels.multiply_adds_per_round = kMultiplyAddsAvx512;
  kernels.int8_multiply_add = int8_multiply_add_avx512;
  kernels.int8_multiply_adds_per_round = kInt8MultiplyAddsAvx512;
  return kernels;
}

VectorKernels with_amx(VectorKernels kernels) {
  kernels.multiply_codes = multiply_codes_amx;
  kernels.int8_multiply_add = int8_multiply_add_amx;
  kernels.int8_multiply_adds_per_round = kInt8MultiplyAddsAmx;
  return kernels;
}

}  // namespace

const VectorKernels* avx512_kernels() {
  static const VectorKernels kernels = with_avx512(*avx2_kernels());
  return &kernels;
}

const VectorKernels* amx_kernels() {
  static const VectorKernels kernels = with_amx(*avx512_kernels());
  return &kernels;
}

}  // namespace twostroke
