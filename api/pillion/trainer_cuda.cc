#include "pillion/trainer_cuda.h"

#include <dlfcn.h>

#include <cstdio>

namespace pillion::trainer {
namespace {

// The driver's ABI, as far as it is used here.
using CuResult = int;
using CuDevice = int;
struct CuUuid {
  unsigned char bytes[16];
};
constexpr unsigned kHostRegisterPortableAndMapped = 0x01 | 0x02;

struct Driver {
  CuResult (*init)(unsigned) = nullptr;
  CuResult (*device_get)(CuDevice*, int) = nullptr;
  CuResult (*device_get_uuid)(CuUuid*, CuDevice) = nullptr;
  CuResult (*host_register)(void*, size_t, unsigned) = nullptr;
  CuResult (*host_unregister)(void*) = nullptr;
  CuResult (*host_get_device_pointer)(unsigned long long*, void*, unsigned) = nullptr;
  CuResult (*stream_write_value32)(void*, unsigned long long, uint32_t, unsigned) = nullptr;
  std::string missing;  // empty: usable
};

template <typename Function>
void Find(void* library, const char* name, Driver* driver, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (*function == nullptr && driver->missing.empty()) driver->missing = std::string("libcuda has no ") + name;
}

Driver LoadDriver() {
  Driver driver;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    driver.missing = "there is no CUDA driver on this machine (libcuda.so.1)";
    return driver;
  }
  Find(library, "cuInit", &driver, &driver.init);
  Find(library, "cuDeviceGet", &driver, &driver.device_get);
  Find(library, "cuDeviceGetUuid_v2", &driver, &driver.device_get_uuid);
  Find(library, "cuMemHostRegister_v2", &driver, &driver.host_register);
  Find(library, "cuMemHostUnregister", &driver, &driver.host_unregister);
  Find(library, "cuMemHostGetDevicePointer_v2", &driver, &driver.host_get_device_pointer);
  Find(library, "cuStreamWriteValue32_v2", &driver, &driver.stream_write_value32);
  return driver;
}

const Driver& TheDriver() {
  static const Driver driver = LoadDriver();
  return driver;
}

std::string FormatUuid(const CuUuid& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", uuid.bytes[i]);
    text += digits;
  }
  return text;
}

}  // namespace

Result<std::string> CudaUuid(int ordinal) {
  const Driver& driver = TheDriver();
  if (!driver.missing.empty()) return Unsupported(driver.missing);
  if (int error = driver.init(0); error != 0) {
    return Unsupported("the CUDA driver does not start: cuInit gives " + std::to_string(error));
  }
  CuDevice device = 0;
  CuUuid uuid{};
  if (driver.device_get(&device, ordinal) != 0 || driver.device_get_uuid(&uuid, device) != 0) {
    return NotFound("there is no device cuda" + std::to_string(ordinal));
  }
  return FormatUuid(uuid);
}

Result<uint64_t> CudaRegister(void* page, size_t bytes) {
  const Driver& driver = TheDriver();
  if (!driver.missing.empty()) return Unsupported(driver.missing);
  if (int error = driver.host_register(page, bytes, kHostRegisterPortableAndMapped); error != 0) {
    return FailedPrecondition("the board cannot be registered with CUDA (driver error " + std::to_string(error) +
                              "): make a context current first");
  }
  unsigned long long address = 0;
  if (int error = driver.host_get_device_pointer(&address, page, 0); error != 0) {
    driver.host_unregister(page);
    return FailedPrecondition("the board has no device address (driver error " + std::to_string(error) + ")");
  }
  return static_cast<uint64_t>(address);
}

void CudaUnregister(void* page) {
  if (TheDriver().host_unregister != nullptr) TheDriver().host_unregister(page);
}

bool CudaStreamWrite(void* stream, uint64_t address, uint32_t value) {
  return TheDriver().stream_write_value32(stream, address, value, 0) == 0;
}

}  // namespace pillion::trainer
