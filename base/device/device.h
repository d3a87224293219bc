// Device: what a side task, a task host and the executor know of an accelerator. Nothing above this interface
// knows which kind it has. C++17-clean (included by .cu files).
//
// Thread safety: one thread per Device object, except info(), which is constant.
#ifndef PILLION_BASE_DEVICE_DEVICE_H_
#define PILLION_BASE_DEVICE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"

namespace pillion {

enum class DeviceKind : uint8_t { kCpu = 0, kCuda = 1, kSimulated = 2 };
std::string_view DeviceKindName(DeviceKind kind);  // "cpu", "cuda", "simulated"

struct DeviceInfo {
  DeviceKind kind = DeviceKind::kCpu;
  int index = 0;               // core for cpu, CUDA ordinal for cuda
  std::string name;            // "cpu0", "cuda1": what people type
  std::string uuid;            // "cpu-0" or the driver's GPU-… text; names the board
  uint64_t memory_bytes = 0;   // total
};

// A queue of device work, in order. On cpu it is nullptr and work is done when the call returns; on cuda it is a
// CUstream.
using Stream = void*;

class Device {
 public:
  virtual ~Device() = default;

  const DeviceInfo& info() const { return info_; }

  // Makes the calling thread use this device: pins to the core (cpu) or makes the context current (cuda).
  virtual Status Attach() = 0;

  // Memory from a pool that never holds more than pool_limit_bytes(). kResourceExhausted names asked and left.
  // The pointer is device memory: only kernels and the copies below may touch it (on cpu anyone may). Aligned to
  // 256 bytes. The caller frees it; all is freed with the Device.
  virtual Result<void*> Allocate(size_t bytes) = 0;
  virtual void Free(void* pointer) = 0;
  virtual uint64_t allocated_bytes() const = 0;
  virtual uint64_t pool_limit_bytes() const = 0;

  // Enqueued on the stream; Synchronize waits for everything enqueued there and reports its first error.
  virtual Status CopyToDevice(void* device_to, const void* host_from, size_t bytes, Stream stream) = 0;
  virtual Status CopyToHost(void* host_to, const void* device_from, size_t bytes, Stream stream) = 0;
  virtual Status Synchronize(Stream stream) = 0;

  // The stream on which this process's steps run.
  virtual Stream step_stream() const = 0;

 protected:
  explicit Device(DeviceInfo info) : info_(std::move(info)) {}
  const DeviceInfo info_;
};

// "cpu0" → core 0, "cuda1" → GPU 1, without opening it. kInvalidArgument for other texts; kNotFound, naming what
// there is, for a core or GPU that does not exist; kUnsupported for cuda without driver or build.
Result<DeviceInfo> FindDevice(const std::string& name);

// Opens a device with a memory pool of at most `pool_limit_bytes` (0: all of it).
Result<std::unique_ptr<Device>> OpenDevice(const DeviceInfo& info, uint64_t pool_limit_bytes);

// The cpu device: one core is the accelerator. `core` < 0 leaves the thread unpinned (tests).
std::unique_ptr<Device> MakeCpuDevice(const DeviceInfo& info, uint64_t pool_limit_bytes);

}  // namespace pillion

#endif  // PILLION_BASE_DEVICE_DEVICE_H_
