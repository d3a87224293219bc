#include "worker/host/control_page.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <new>
#include <string>

namespace pillion::host {
namespace {

constexpr size_t kPageBytes = 4096;
static_assert(sizeof(ControlLayout) <= kPageBytes && sizeof(DoorbellLayout) <= kPageBytes);

Result<void*> Map(int fd) {
  void* memory = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (memory == MAP_FAILED) return ErrnoStatus("map a control page");
  return memory;
}

void Initialise(ControlLayout* layout) {
  layout->version = kControlVersion;
  layout->size_bytes = sizeof(ControlLayout);
  layout->magic.store(kControlMagic, std::memory_order_release);
}
void Initialise(DoorbellLayout*) {}

Status Check(const ControlLayout& layout) {
  if (layout.magic.load(std::memory_order_acquire) != kControlMagic) {
    return Corruption("the inherited descriptor is no control page");
  }
  if (layout.version != kControlVersion || layout.size_bytes != sizeof(ControlLayout)) {
    return Unsupported("the control page has version " + std::to_string(layout.version) + ", this host speaks " +
                       std::to_string(kControlVersion) + ": use worker and host of one release");
  }
  return Status::Ok();
}
Status Check(const DoorbellLayout&) { return Status::Ok(); }

}  // namespace

template <typename T>
Result<std::shared_ptr<SharedPage<T>>> SharedPage<T>::Create(const char* name) {
  FileDescriptor file(memfd_create(name, MFD_CLOEXEC));
  if (!file.valid()) return ErrnoStatus("memfd_create");
  if (ftruncate(file.get(), kPageBytes) != 0) return ErrnoStatus("resize a memfd");
  PILLION_ASSIGN_OR_RETURN(void* memory, Map(file.get()));
  auto* layout = static_cast<T*>(memory);
  Initialise(layout);
  return std::shared_ptr<SharedPage>(new SharedPage(std::move(file), layout));
}

template <typename T>
Result<std::shared_ptr<SharedPage<T>>> SharedPage<T>::Open(FileDescriptor file) {
  struct stat info {};
  if (fstat(file.get(), &info) != 0) return ErrnoStatus("stat the inherited control page");
  if (info.st_size != static_cast<off_t>(kPageBytes)) {
    return Corruption("the inherited descriptor is no control page");
  }
  PILLION_ASSIGN_OR_RETURN(void* memory, Map(file.get()));
  std::shared_ptr<SharedPage> page(new SharedPage(std::move(file), static_cast<T*>(memory)));
  PILLION_RETURN_IF_ERROR(Check(**page));
  return page;
}

template <typename T>
SharedPage<T>::~SharedPage() {
  munmap(layout_, kPageBytes);
}

template class SharedPage<ControlLayout>;
template class SharedPage<DoorbellLayout>;

}  // namespace pillion::host
