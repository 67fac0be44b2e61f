#include "kernels/cpu/cpu_operators.h"

#include "kernels/cpu/scalar_operators.h"
#include "kernels/cpu/vector_operators.h"

namespace twostroke {

std::unique_ptr<Operators> make_cpu_operators(CpuDevice& device, Isa isa) {
  CHECK(isa_supported(isa), "this processor lacks the instruction set");
  switch (isa) {
    case Isa::kScalar:
      return std::make_unique<ScalarOperators>(device);
    case Isa::kAvx2:
      return std::make_unique<VectorOperators>(device, *avx2_kernels());
    case Isa::kAvx512:
      return std::make_unique<VectorOperators>(device, *avx512_kernels());
    case Isa::kAmx:
      return std::make_unique<VectorOperators>(device, *amx_kernels());
  }
  CHECK(false, "an Isa that is not in the enumeration");
}

}  // namespace twostroke
