// DeferredOperators: a CPU operator set on a DeferredDevice (deferred_device.h, which says what it enforces). An
// operator's arguments are copied at the call; the operator itself runs inside the device's wait(). Only store_weight
// works at the call, as operators.h demands.
//
// Use: DeferredDevice device; auto operators = make_deferred_operators(device, best_isa());
// Results are the bits of make_cpu_operators with the same Isa. Thread-safety: as in operators.h.
#pragma once

#include <memory>

#include "kernels/cpu/isa.h"
#include "kernels/operators.h"
#include "tests/tools/deferred_device.h"

namespace twostroke {

// The device must outlive the set.
std::unique_ptr<Operators> make_deferred_operators(DeferredDevice& device, Isa isa);

}  // namespace twostroke
