// The file in which the ranks of a host meet. Byte 0 is locked while somebody creates or inspects
// it, byte 1 + r as long as rank r's process lives.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <new>

#include "base/file.h"
#include "pipeline/executor/slot_memory.h"

namespace pillion::executor {
namespace {

struct flock LockOf(int64_t byte, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return lock;
}

constexpr int64_t kLockCreate = 0;
int64_t LockOfRank(int32_t rank) { return 1 + rank; }

bool IsLocked(int fd, int64_t byte) {
  struct flock lock = LockOf(byte, F_WRLCK);
  return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

class SharedFile final : public SlotMemory {
 public:
  SharedFile(FileDescriptor file, uint8_t* base, size_t bytes, std::string path, int32_t rank)
      : file_(std::move(file)), base_(base), bytes_(bytes), path_(std::move(path)), rank_(rank) {}
  ~SharedFile() override { munmap(base_, bytes_); }

  uint8_t* base() override { return base_; }
  bool IsAlive(int32_t rank) override {
    return rank == rank_ || IsLocked(file_.get(), LockOfRank(rank));
  }
  void AllJoined() override {
    if (rank_ == 0) unlink(path_.c_str());
  }

 private:
  const FileDescriptor file_;
  uint8_t* const base_;
  const size_t bytes_;
  const std::string path_;
  const int32_t rank_;
};

// Opens or creates, and holds the creation lock. Somebody may unlink the file between our open and
// our lock: then the lock is on a file that nobody will find, and we start over.
Result<FileDescriptor> OpenLocked(const std::string& path) {
  while (true) {
    FileDescriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file.valid()) return ErrnoStatus("open " + path);
    struct flock lock = LockOf(kLockCreate, F_WRLCK);
    int result;
    while ((result = fcntl(file.get(), F_OFD_SETLKW, &lock)) != 0 && errno == EINTR) {
    }
    if (result != 0) return ErrnoStatus("lock " + path);
    struct stat info {};
    if (fstat(file.get(), &info) != 0) return ErrnoStatus("stat " + path);
    if (info.st_nlink == 0) continue;
    if (info.st_uid != geteuid()) return PermissionDenied(path + " belongs to another user");
    return file;
  }
}

bool AnyRankLives(int fd, int32_t ranks) {
  for (int32_t rank = 0; rank < ranks; ++rank) {
    if (IsLocked(fd, LockOfRank(rank))) return true;
  }
  return false;
}

Status CheckSame(const Header& header, const Program& program, size_t bytes,
                 const std::string& path) {
  if (header.magic.load(std::memory_order_acquire) == kSlotMemoryMagic &&
      header.size_bytes == bytes && header.fingerprint == program.Fingerprint()) {
    return Status();
  }
  return InvalidArgument(
      path + ": the other ranks of this run have another plan; give all ranks the same options");
}

}  // namespace

Result<std::unique_ptr<Transport>> OpenSharedTransport(const std::string& path, int32_t rank,
                                                       const Program& program, const Clock& clock) {
  if (rank < 0 || rank >= program.ranks) {
    return InvalidArgument("rank " + std::to_string(rank) + " of a plan with " +
                           std::to_string(program.ranks) + " ranks");
  }
  PILLION_ASSIGN_OR_RETURN(FileDescriptor file, OpenLocked(path));
  const size_t bytes = SlotMemoryLayout(program).size_bytes();
  struct stat info {};
  if (fstat(file.get(), &info) != 0) return ErrnoStatus("stat " + path);
  const bool fresh = !AnyRankLives(file.get(), program.ranks);
  if (fresh &&
      (ftruncate(file.get(), 0) != 0 || ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)) {
    return ErrnoStatus("resize " + path);
  }
  // Memory for all of it now, or the first write to a page of a full /dev/shm would be a SIGBUS.
  if (fresh) {
    if (int error = posix_fallocate(file.get(), 0, static_cast<off_t>(bytes)); error != 0) {
      return ErrnoStatus("reserve " + std::to_string(bytes) + " bytes in " + path, error);
    }
  } else if (static_cast<size_t>(info.st_size) != bytes) {
    return InvalidArgument(
        path + ": the other ranks of this run have another plan; give all ranks the same options");
  }
  struct flock mine = LockOf(LockOfRank(rank), F_WRLCK);
  if (fcntl(file.get(), F_OFD_SETLK, &mine) != 0) {
    return AlreadyExists(path + ": a live process is rank " + std::to_string(rank) + " already");
  }
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) return ErrnoStatus("map " + path);
  const int fd = file.get();
  auto memory = std::make_shared<SharedFile>(std::move(file), static_cast<uint8_t*>(mapped), bytes,
                                             path, rank);
  auto* header = reinterpret_cast<Header*>(memory->base());
  if (fresh) {
    header->fingerprint = program.Fingerprint();
    header->size_bytes = bytes;
    header->magic.store(kSlotMemoryMagic, std::memory_order_release);
  } else {
    PILLION_RETURN_IF_ERROR(CheckSame(*header, program, bytes, path));
  }
  struct flock release = LockOf(kLockCreate, F_UNLCK);
  if (fcntl(fd, F_OFD_SETLK, &release) != 0) return ErrnoStatus("unlock " + path);
  return MakeMemoryTransport(std::move(memory), rank, program, clock);
}

}  // namespace pillion::executor
