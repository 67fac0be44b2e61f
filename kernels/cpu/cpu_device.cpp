#include "kernels/cpu/cpu_device.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <limits>

namespace twostroke {
namespace {

constexpr size_t kAlignment = 64;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Reserves one unit more than needed and gives back both ends, since mmap alone aligns to small pages only.
void* map_huge(size_t bytes) {
  constexpr size_t unit = CpuDevice::kHugeBytes;
  const size_t wanted = round_up(bytes, unit);
  void* mapping = mmap(nullptr, wanted + unit, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<uintptr_t>(mapping);
  const uintptr_t aligned = round_up(begin, unit);
  if (aligned > begin) munmap(mapping, aligned - begin);
  const size_t tail = begin + unit - aligned;
  if (tail > 0) munmap(reinterpret_cast<void*>(aligned + wanted), tail);
  madvise(reinterpret_cast<void*>(aligned), wanted, MADV_HUGEPAGE);  // advice: refusal costs speed only
  return reinterpret_cast<void*>(aligned);
}

}  // namespace

std::string CpuDevice::name() const {
  const int threads = pool_.threads();
  return "cpu (" + std::to_string(threads) + (threads == 1 ? " thread)" : " threads)");
}

Result<DeviceMemory> CpuDevice::allocate(size_t bytes) {
  void* memory = nullptr;
  if (bytes < kHugeBytes) {
    memory = std::aligned_alloc(kAlignment, round_up(bytes > 0 ? bytes : 1, kAlignment));
  } else if (bytes <= std::numeric_limits<size_t>::max() - 2 * kHugeBytes) {
    memory = map_huge(bytes);
  }
  if (memory == nullptr) {
    return resource_exhausted("this machine refused " + std::to_string(bytes) +
                              " bytes of memory; free some, or use a smaller model or KV pool");
  }
  return DeviceMemory(this, {reinterpret_cast<uintptr_t>(memory)}, bytes);
}

void CpuDevice::release(DeviceAddress address, size_t bytes) {
  void* memory = reinterpret_cast<void*>(address.value);
  if (bytes < kHugeBytes) {
    std::free(memory);
  } else {
    munmap(memory, round_up(bytes, kHugeBytes));
  }
}

void CpuDevice::upload(DeviceAddress target, const void* source, size_t bytes) {
  if (bytes > 0) std::memcpy(reinterpret_cast<void*>(target.value), source, bytes);
}

void CpuDevice::download(void* target, DeviceAddress source, size_t bytes) {
  if (bytes > 0) std::memcpy(target, reinterpret_cast<const void*>(source.value), bytes);
}

}  // namespace twostroke
