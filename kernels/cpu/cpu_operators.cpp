#include "kernels/cpu/cpu_operators.h"

#include "kernels/cpu/scalar_operators.h"

namespace twostroke {

std::unique_ptr<Operators> make_cpu_operators(CpuDevice& device, Isa isa) {
  CHECK(isa_supported(isa), "this processor lacks the instruction set");
  return std::make_unique<ScalarOperators>(device);
}

}  // namespace twostroke
