// DeferredDevice: a CPU device that behaves like the strictest GPU that device.h allows, to prove that its user keeps
// to the contract. It wraps a CpuDevice and differs in this:
//
//   * The host cannot touch its memory, ever. An address that it hands out points into pages without any access, so
//     that a read or a write through it ends the program on the spot. The bytes lie elsewhere, at an address that only
//     this device knows.
//   * Nothing runs at the call. Copies, and operators of deferred_operators.h, are recorded by value and run in order
//     inside wait().
//   * Fresh memory, and the target of a download until wait() has filled it, hold bytes 0xff: as floats, NaN. A result
//     that was read early shows.
//   * Host memory named in a call must be unchanged when wait() runs, which is CHECKed.
//   * A range must lie inside one live allocation when it is used, which is CHECKed: an access past the end, or work
//     enqueued on memory that was released before wait(), ends the program with a message.
//
// Thread-safety: allocate(), release and resolve() from any thread; everything else, one user at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "kernels/cpu/cpu_device.h"

namespace twostroke {

class DeferredDevice final : public Device {
 public:
  explicit DeferredDevice(int threads = allowed_processors()) : inner_(threads) {}
  ~DeferredDevice() override;  // all its memory must have been released

  std::string name() const override { return "deferred " + inner_.name(); }
  Result<DeviceMemory> allocate(size_t bytes) override;
  void upload(DeviceAddress target, const void* source, size_t bytes) override;
  void download(void* target, DeviceAddress source, size_t bytes) override;
  Status wait() override;

  // For deferred_operators and tests.
  CpuDevice& inner() { return inner_; }
  void enqueue(std::function<void()> work) { queue_.push_back(std::move(work)); }
  size_t pending() const { return queue_.size(); }  // calls recorded and not yet run
  // Where bytes [address, address + bytes) of this device really lie.
  DeviceAddress resolve(DeviceAddress address, size_t bytes) const;

 private:
  struct Allocation {
    size_t bytes = 0;
    size_t reserved_bytes = 0;
    DeviceMemory memory;
  };

  void release(DeviceAddress address, size_t bytes) override;

  CpuDevice inner_;
  mutable std::mutex mutex_;                     // guards allocations_
  std::map<uintptr_t, Allocation> allocations_;  // by the address handed out
  std::vector<std::function<void()>> queue_;
};

}  // namespace twostroke
