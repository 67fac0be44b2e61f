// Isa: which instruction set the CPU operators use.
//
// The binary is built for every x86-64 machine; what the processor really has is looked up at run time, once.
// Tiles also need the operating system's leave, which the first question after them gets for the whole process.
// Thread-safety: all functions may be called by any thread.
#pragma once

namespace twostroke {

enum class Isa {
  kScalar,  // the reference: plain C++, sums in double
  kAvx2,    // AVX2, FMA and F16C
  kAvx512,  // besides, AVX-512 with F, BW, DQ, VL and VNNI
  kAmx,     // besides, AMX with tiles of bytes, and AVX-512 with VBMI
};

const char* isa_name(Isa isa);  // "scalar", "avx2", "avx512", "amx"

// Whether this processor has it and the operating system saves its registers.
bool isa_supported(Isa isa);

// The fastest supported one.
Isa best_isa();

}  // namespace twostroke
