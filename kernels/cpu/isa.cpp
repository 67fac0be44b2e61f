#include "kernels/cpu/isa.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/check.h"

namespace twostroke {
namespace {

// Whether the processor has tiles of bytes and the operating system lets this process use them. Linux saves tiles for
// processes that have asked for it (Documentation/arch/x86/xstate.rst), for all threads of the process; it refuses
// where a thread's alternative signal stack could not hold them. Without its leave the first tile instruction ends the
// process.
bool have_tiles() {
  constexpr unsigned kTiles = 1u << 24;  // bits of edx in leaf 7 of cpuid
  constexpr unsigned kTilesOfBytes = 1u << 25;
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr unsigned long kTileData = 18;     // the number of their state, in XCR0 as well
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kTiles) == 0 || (d & kTilesOfBytes) == 0) return false;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAmx:
      return "amx";
  }
  CHECK(false, "an Isa that is not in the enumeration");
}

bool isa_supported(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return true;
    case Isa::kAvx2:
      // The compiler's run-time look at cpuid also asks XGETBV whether the operating system saves the wide registers.
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    case Isa::kAvx512:
      return isa_supported(Isa::kAvx2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512vnni");
    case Isa::kAmx: {
      static const bool tiles = isa_supported(Isa::kAvx512) && __builtin_cpu_supports("avx512vbmi") && have_tiles();
      return tiles;
    }
  }
  CHECK(false, "an Isa that is not in the enumeration");
}

Isa best_isa() {
  for (const Isa isa : {Isa::kAmx, Isa::kAvx512, Isa::kAvx2}) {
    if (isa_supported(isa)) return isa;
  }
  return Isa::kScalar;
}

}  // namespace twostroke
