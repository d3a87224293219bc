#include "api/board/board.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace pillion::board {
namespace {

// Only the 64-bit mixer of SplitMix64: every bit of the input moves every bit of the output.
uint64_t Mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
  return value ^ (value >> 31);
}

struct flock ByteLock(int64_t byte, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return lock;
}

// Waits for the lock; initialising takes microseconds, and the kernel drops the lock of a process that dies in it.
Status LockAndWait(int fd, int64_t byte, const std::string& path) {
  struct flock lock = ByteLock(byte, F_WRLCK);
  while (fcntl(fd, F_OFD_SETLKW, &lock) != 0) {
    if (errno != EINTR) return ErrnoStatus("lock " + path);
  }
  return Status::Ok();
}

void Unlock(int fd, int64_t byte) {
  struct flock lock = ByteLock(byte, F_UNLCK);
  (void)fcntl(fd, F_OFD_SETLK, &lock);
}

Status CheckName(const std::string& uuid) {
  if (uuid.empty() || uuid.size() >= sizeof Layout::device_uuid || uuid.find('/') != std::string::npos) {
    return InvalidArgument("'" + uuid + "' cannot name a board: 1 to 63 characters without '/' are expected");
  }
  return Status::Ok();
}

// Gives a file that nobody has initialised its size and contents. Under kLockInitialise.
Status InitialiseIfNew(int fd, const std::string& uuid, const std::string& path) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return ErrnoStatus("stat " + path);
  if (info.st_size != 0 && info.st_size < static_cast<off_t>(sizeof(Layout::magic))) {
    return Corruption(path + " is no board: it is too short");
  }
  if (info.st_size != 0) {
    uint64_t magic = 0;
    if (pread(fd, &magic, sizeof magic, 0) != sizeof magic) return ErrnoStatus("read " + path);
    if (magic != 0) return Status::Ok();
  }
  if (ftruncate(fd, sizeof(Layout)) != 0) return ErrnoStatus("resize " + path);
  void* memory = mmap(nullptr, sizeof(Layout), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return ErrnoStatus("map " + path);
  auto* layout = static_cast<Layout*>(memory);
  layout->major_version = kMajorVersion;
  layout->minor_version = kMinorVersion;
  layout->size_bytes = sizeof(Layout);
  std::memcpy(layout->device_uuid, uuid.c_str(), uuid.size() + 1);
  layout->rank.store(-1, std::memory_order_relaxed);
  layout->iteration.store(kNoIteration, std::memory_order_relaxed);
  layout->magic.store(kMagic, std::memory_order_release);
  munmap(memory, sizeof(Layout));
  return Status::Ok();
}

struct Header {
  uint64_t magic;
  uint16_t major_version;
  uint16_t minor_version;
  uint32_t size_bytes;
};

Status CheckHeader(int fd, const std::string& path) {
  Header header{};
  if (pread(fd, &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header) || header.magic != kMagic) {
    return Corruption(path + " is no board; remove it when no trainer and no worker runs on this device");
  }
  if (header.major_version != kMajorVersion) {
    return Unsupported(path + " has board version " + std::to_string(header.major_version) + ", this program speaks " +
                       std::to_string(kMajorVersion) + ": use trainer library and worker of one release");
  }
  struct stat info {};
  if (fstat(fd, &info) != 0) return ErrnoStatus("stat " + path);
  if (info.st_size < static_cast<off_t>(sizeof(Layout)) || header.size_bytes < sizeof(Layout)) {
    return Corruption(path + " is a board cut short");
  }
  return Status::Ok();
}

}  // namespace

std::string BoardDirectory() {
  if (const char* own = std::getenv("PILLION_BOARD_DIR"); own != nullptr && *own != 0) return own;
  return "/dev/shm/pillion-" + std::to_string(getuid());
}

std::string BoardPath(const std::string& device_uuid) { return BoardDirectory() + "/board-" + device_uuid; }

bool IsQuiet(uint64_t run_id, uint64_t iteration, uint32_t quiet_one_in) {
  if (quiet_one_in == 0 || iteration == kNoIteration) return false;
  uint64_t block = iteration / kQuietBlock;
  return Mix(run_id + 0x9E3779B97F4A7C15ull * (block + 1)) % quiet_one_in == 0;
}

Result<std::unique_ptr<Board>> Board::Open(const std::string& device_uuid, Access access) {
  PILLION_RETURN_IF_ERROR(CheckName(device_uuid));
  PILLION_RETURN_IF_ERROR(MakePrivateDirectory(BoardDirectory()));
  const std::string path = BoardPath(device_uuid);
  FileDescriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return ErrnoStatus("open " + path);
  PILLION_RETURN_IF_ERROR(LockAndWait(file.get(), kLockInitialise, path));
  Status initialised = InitialiseIfNew(file.get(), device_uuid, path);
  Unlock(file.get(), kLockInitialise);
  PILLION_RETURN_IF_ERROR(initialised);
  PILLION_RETURN_IF_ERROR(CheckHeader(file.get(), path));
  int protection = PROT_READ;
  if (access == Access::kReadWrite) {
    protection |= PROT_WRITE;
  } else {
    file = FileDescriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!file.valid()) return ErrnoStatus("open " + path);
  }
  // Populated now, so that no bubble edge pays for a page fault.
  void* memory = mmap(nullptr, sizeof(Layout), protection, MAP_SHARED | MAP_POPULATE, file.get(), 0);
  if (memory == MAP_FAILED) return ErrnoStatus("map " + path);
  return std::unique_ptr<Board>(new Board(std::move(file), static_cast<Layout*>(memory), path));
}

Board::~Board() { munmap(layout_, sizeof(Layout)); }

Status Board::TryLock(int64_t lock_byte) {
  struct flock lock = ByteLock(lock_byte, F_WRLCK);
  if (fcntl(file_.get(), F_OFD_SETLK, &lock) == 0) return Status::Ok();
  if (errno == EAGAIN || errno == EACCES) {
    return Unavailable(std::string("another ") + (lock_byte == kLockTrainer ? "trainer" : "worker") + " holds " +
                       path_);
  }
  return ErrnoStatus("lock " + path_);
}

bool Board::IsLocked(int64_t lock_byte) const {
  struct flock lock = ByteLock(lock_byte, F_WRLCK);
  return fcntl(file_.get(), F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace pillion::board
