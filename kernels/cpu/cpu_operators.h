// The operator sets of the CPU: one table of operators (kernels/operators.h) per instruction set.
//
// The scalar set is the reference: each operator as its formula reads, with sums in double. The AVX2 set computes the
// same in vectors; tests hold it to the reference within a stated error. The AVX-512 set is faster at products of
// codes, with the bits of the AVX2 set, and at attention, with bits of its own. The AMX set is faster still at products
// of codes with a dozen rows or more, with the bits of the AVX-512 set. All run at the call, on the device's workers,
// and obey the rule of operators.h: a row's bits depend on that row alone.
#pragma once

#include <memory>

#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/isa.h"
#include "kernels/operators.h"

namespace twostroke {

// `isa` must be supported (isa.h). The device must outlive the set.
std::unique_ptr<Operators> make_cpu_operators(CpuDevice& device, Isa isa);

}  // namespace twostroke
