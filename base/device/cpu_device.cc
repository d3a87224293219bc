#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "base/cpu.h"
#include "base/device/device.h"

namespace pillion {
namespace {

constexpr size_t kAlignment = 256;

class CpuDevice final : public Device {
 public:
  CpuDevice(DeviceInfo info, uint64_t limit) : Device(std::move(info)), limit_(limit ? limit : info_.memory_bytes) {}
  ~CpuDevice() override {
    for (auto& [pointer, bytes] : blocks_) std::free(pointer);
  }

  Status Attach() override { return info_.index < 0 ? Status::Ok() : PinThisThread(info_.index); }

  Result<void*> Allocate(size_t bytes) override {
    size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (rounded == 0) rounded = kAlignment;
    if (rounded < bytes || rounded > limit_ - allocated_) {
      return ResourceExhausted("device memory: asked for " + std::to_string(bytes) + " bytes, " +
                               std::to_string(limit_ - allocated_) + " of the pool's " + std::to_string(limit_) +
                               " are left");
    }
    void* pointer = std::aligned_alloc(kAlignment, rounded);
    if (pointer == nullptr) return ResourceExhausted("device memory: the system has no " + std::to_string(bytes) + " bytes");
    blocks_.emplace(pointer, rounded);
    allocated_ += rounded;
    return pointer;
  }
  void Free(void* pointer) override {
    auto block = blocks_.find(pointer);
    if (pointer == nullptr) return;
    PILLION_CHECK(block != blocks_.end(), "Free of memory that this device did not allocate");
    allocated_ -= block->second;
    blocks_.erase(block);
    std::free(pointer);
  }
  uint64_t allocated_bytes() const override { return allocated_; }
  uint64_t pool_limit_bytes() const override { return limit_; }

  Status CopyToDevice(void* to, const void* from, size_t bytes, Stream) override {
    std::memcpy(to, from, bytes);
    return Status::Ok();
  }
  Status CopyToHost(void* to, const void* from, size_t bytes, Stream) override {
    std::memcpy(to, from, bytes);
    return Status::Ok();
  }
  Status Synchronize(Stream) override { return Status::Ok(); }
  Stream step_stream() const override { return nullptr; }

 private:
  const uint64_t limit_;
  uint64_t allocated_ = 0;
  std::unordered_map<void*, size_t> blocks_;
};

bool ParseIndexed(const std::string& name, std::string_view prefix, int* index) {
  if (name.compare(0, prefix.size(), prefix) != 0 || name.size() == prefix.size()) return false;
  const char* end = name.data() + name.size();
  auto [stop, error] = std::from_chars(name.data() + prefix.size(), end, *index);
  return error == std::errc() && stop == end && *index >= 0;
}

}  // namespace

std::string_view DeviceKindName(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kCpu: return "cpu";
    case DeviceKind::kCuda: return "cuda";
    case DeviceKind::kSimulated: return "simulated";
  }
  return "unknown";
}

Result<DeviceInfo> FindDevice(const std::string& name) {
  DeviceInfo info;
  info.name = name;
  if (ParseIndexed(name, "cpu", &info.index)) {
    if (info.index >= OnlineCores()) {
      return NotFound("there is no device " + name + ": this machine has cpu0 to cpu" +
                      std::to_string(OnlineCores() - 1));
    }
    info.kind = DeviceKind::kCpu;
    info.uuid = "cpu-" + std::to_string(info.index);
    info.memory_bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    return info;
  }
  if (ParseIndexed(name, "cuda", &info.index)) {
    return Unsupported("device " + name + ": this build has no CUDA device");
  }
  return InvalidArgument("'" + name + "' is no device: cpuN or cudaN is expected");
}

Result<std::unique_ptr<Device>> OpenDevice(const DeviceInfo& info, uint64_t pool_limit_bytes) {
  if (info.kind == DeviceKind::kCpu) return MakeCpuDevice(info, pool_limit_bytes);
  return Unsupported("device " + info.name + ": this build cannot open it");
}

std::unique_ptr<Device> MakeCpuDevice(const DeviceInfo& info, uint64_t pool_limit_bytes) {
  return std::make_unique<CpuDevice>(info, pool_limit_bytes);
}

}  // namespace pillion
