// CpuDevice: this machine's memory and a pool of workers, as a Device.
//
// Work runs at the call, so wait() has nothing to wait for; a DeviceAddress is a plain pointer's value. Memory of
// kHugeBytes or more comes from the operating system in huge pages where it has them, since a matrix-vector product
// touches every page of the weights once per step.
//
// Thread-safety: allocate() and the release of memory from any thread; everything else as in device.h.
#pragma once

#include "kernels/cpu/worker_pool.h"
#include "kernels/device.h"

namespace twostroke {

class CpuDevice final : public Device {
 public:
  static constexpr size_t kHugeBytes = size_t{2} << 20;

  // `threads` in [1, WorkerPool::kThreadsMax], the calling one included; fewer where the system refuses them.
  explicit CpuDevice(int threads = allowed_processors()) : pool_(threads) {}

  std::string name() const override;  // "cpu (2 threads)"
  Result<DeviceMemory> allocate(size_t bytes) override;
  void upload(DeviceAddress target, const void* source, size_t bytes) override;
  void download(void* target, DeviceAddress source, size_t bytes) override;
  Status wait() override { return {}; }

  WorkerPool& pool() { return pool_; }

 private:
  void release(DeviceAddress address, size_t bytes) override;

  WorkerPool pool_;
};

}  // namespace twostroke
