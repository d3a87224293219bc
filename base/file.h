// Files: whole reads, durable atomic writes, locks. Every error names the path and errno's text.
#ifndef PILLION_BASE_FILE_H_
#define PILLION_BASE_FILE_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace pillion {

// Owns a file descriptor. Movable.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// The whole file; kNotFound when it does not exist; kResourceExhausted when longer than `limit_bytes`.
Result<std::string> ReadFile(const std::string& path, uint64_t limit_bytes = UINT64_MAX);

// Durable and all-or-nothing: temporary name in the same directory, write, fsync, rename, fsync of the directory.
Status WriteFileDurably(const std::string& path, std::string_view bytes, int mode = 0644);
// The same of several parts, one after the other.
Status WriteFileDurably(const std::string& path, std::initializer_list<std::string_view> parts, int mode = 0644);

// All or nothing without fsync, for files that may be lost with the machine (endpoints, reports).
Status WriteFileAtomically(const std::string& path, std::string_view bytes, int mode = 0644);

// mkdir -p; new directories get `mode`.
Status MakeDirectories(const std::string& path, int mode = 0755);
Status FsyncDirectory(const std::string& path);
bool FileExists(const std::string& path);
// Names (not paths) in a directory, sorted; kNotFound when there is none.
Result<std::vector<std::string>> ListDirectory(const std::string& path);

// An exclusive advisory lock (open file description) held while the object lives; the kernel drops it when the
// process dies. kUnavailable when somebody else holds it.
class FileLock {
 public:
  static Result<FileLock> TryAcquire(const std::string& path, int mode = 0600);

 private:
  explicit FileLock(FileDescriptor file) : file_(std::move(file)) {}
  FileDescriptor file_;
};

// Where processes of one user on one host meet: $PILLION_RUNTIME_DIR, else $XDG_RUNTIME_DIR/pillion, else
// /tmp/pillion-<uid>. Holds keys and endpoints, mode 0700. Does not create it.
std::string DefaultRuntimeDirectory();

// Creates `path` with mode 0700, or refuses (kPermissionDenied) when it belongs to somebody else or others
// can enter it.
Status MakePrivateDirectory(const std::string& path);

}  // namespace pillion

#endif  // PILLION_BASE_FILE_H_
