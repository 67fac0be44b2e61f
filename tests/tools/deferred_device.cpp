#include "tests/tools/deferred_device.h"

#include <sys/mman.h>

#include <cstring>

namespace twostroke {
namespace {

constexpr int kPoison = 0xff;
constexpr size_t kPageBytes = 4096;

std::vector<std::byte> copy_of(const void* source, size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(source);
  return {begin, begin + bytes};
}

}  // namespace

DeferredDevice::~DeferredDevice() { CHECK(allocations_.empty(), "memory must not outlive its device"); }

Result<DeviceMemory> DeferredDevice::allocate(size_t bytes) {
  Result<DeviceMemory> memory = inner_.allocate(bytes);
  if (!memory.ok()) return memory.status();
  std::memset(reinterpret_cast<void*>(memory->address().value), kPoison, bytes);
  // One page more than needed, so that no two allocations touch and an end address belongs to its own.
  const size_t reserved = (bytes / kPageBytes + 2) * kPageBytes;
  void* pages = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return resource_exhausted("no address space for " + std::to_string(bytes) + " bytes");
  const auto address = reinterpret_cast<uintptr_t>(pages);
  const std::lock_guard lock(mutex_);
  allocations_[address] = {bytes, reserved, std::move(memory).value()};
  return DeviceMemory(this, {address}, bytes);
}

void DeferredDevice::release(DeviceAddress address, size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(address.value);
  CHECK(found != allocations_.end() && found->second.bytes == bytes, "release of what was not allocated");
  munmap(reinterpret_cast<void*>(address.value), found->second.reserved_bytes);
  allocations_.erase(found);
}

DeviceAddress DeferredDevice::resolve(DeviceAddress address, size_t bytes) const {
  const std::lock_guard lock(mutex_);
  auto after = allocations_.upper_bound(address.value);
  CHECK(after != allocations_.begin(), "an address of no live allocation");
  const auto& [begin, allocation] = *--after;
  const size_t offset = address.value - begin;
  CHECK(offset <= allocation.bytes && bytes <= allocation.bytes - offset, "a range outside any live allocation");
  return allocation.memory.address() + offset;
}

void DeferredDevice::upload(DeviceAddress target, const void* source, size_t bytes) {
  enqueue([this, target, source, bytes, before = copy_of(source, bytes)] {
    CHECK(bytes == 0 || std::memcmp(source, before.data(), bytes) == 0,
          "the source of an upload changed before wait()");
    inner_.upload(resolve(target, bytes), source, bytes);
  });
}

void DeferredDevice::download(void* target, DeviceAddress source, size_t bytes) {
  if (bytes > 0) std::memset(target, kPoison, bytes);
  enqueue([this, target, source, bytes] { inner_.download(target, resolve(source, bytes), bytes); });
}

Status DeferredDevice::wait() {
  const std::vector<std::function<void()>> queue = std::exchange(queue_, {});
  for (const auto& work : queue) work();
  return inner_.wait();
}

}  // namespace twostroke
