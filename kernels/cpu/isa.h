// Isa: which instruction set the CPU operators use.
//
// The binary is built for every x86-64 machine; what the processor really has is looked up at run time, once.
// Thread-safety: pure functions.
#pragma once

namespace twostroke {

enum class Isa {
  kScalar,  // the reference: plain C++, sums in double
  kAvx2,    // AVX2, FMA and F16C
  kAvx512,  // besides, AVX-512 with F, BW, DQ, VL and VNNI
};

const char* isa_name(Isa isa);  // "scalar", "avx2", "avx512"

// Whether this processor has it and the operating system saves its registers.
bool isa_supported(Isa isa);

// The fastest supported one.
Isa best_isa();

}  // namespace twostroke
