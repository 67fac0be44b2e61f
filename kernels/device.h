// Device: memory and one in-order queue of work. A CPU, a GPU, or a test's imitation of one.
//
// Work (copies here, operators in operators.h) is enqueued: a call may return before the work has run, work runs in the
// order of the calls, and wait() returns when all of it is done. Host memory named in a call stays valid and unchanged
// until the next wait(). An error during the work is remembered and returned by wait().
//
// Thread-safety: one user at a time (the step thread).
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "kernels/status.h"
#include "kernels/tensor.h"

namespace twostroke {

class Device;

// Owns one allocation of a device. Movable. The device must outlive it, and no enqueued work may still use it when it
// goes.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(Device* device, DeviceAddress address, size_t bytes)
      : device_(device), address_(address), bytes_(bytes) {}
  DeviceMemory(DeviceMemory&& other) noexcept { swap(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    DeviceMemory moved(std::move(other));
    swap(moved);
    return *this;
  }
  ~DeviceMemory();

  DeviceAddress address() const { return address_; }
  size_t bytes() const { return bytes_; }

 private:
  void swap(DeviceMemory& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
  }
  Device* device_ = nullptr;
  DeviceAddress address_;
  size_t bytes_ = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string name() const = 0;  // for people: "cpu (2 threads)"

  // `bytes` of memory, aligned to 64 bytes, contents unspecified. Errors: kResourceExhausted, naming the size.
  virtual Result<DeviceMemory> allocate(size_t bytes) = 0;

  // Host memory to the device and back: `bytes` bytes at `source` / `target`. Enqueued.
  virtual void upload(DeviceAddress target, const void* source, size_t bytes) = 0;
  virtual void download(void* target, DeviceAddress source, size_t bytes) = 0;

  // Blocks until everything enqueued has run. Errors: kInternal with the device's own message; the device is then
  // unusable.
  virtual Status wait() = 0;

 private:
  friend class DeviceMemory;
  virtual void release(DeviceAddress address, size_t bytes) = 0;
};

inline DeviceMemory::~DeviceMemory() {
  if (device_ != nullptr) device_->release(address_, bytes_);
}

}  // namespace twostroke
