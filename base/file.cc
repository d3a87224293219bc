#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>

namespace pillion {
namespace {

std::string DirectoryOf(const std::string& path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status WriteAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      if (errno == ENOSPC || errno == EDQUOT) {
        return ResourceExhausted("write " + path + ": no space left on device");
      }
      return ErrnoStatus("write " + path);
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return Status::Ok();
}

Status WriteByRename(const std::string& path, std::initializer_list<std::string_view> parts, int mode,
                     bool durable) {
  static std::atomic<uint64_t> counter{0};
  std::string temporary = path + ".tmp." + std::to_string(getpid()) + "." + std::to_string(counter++);
  FileDescriptor file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!file.valid()) return ErrnoStatus("create " + temporary);
  Status status;
  for (std::string_view part : parts) {
    if (status.ok()) status = WriteAll(file.get(), part, temporary);
  }
  if (status.ok() && durable && fsync(file.get()) != 0) status = ErrnoStatus("fsync " + temporary);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) status = ErrnoStatus("rename to " + path);
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  return durable ? FsyncDirectory(DirectoryOf(path)) : Status::Ok();
}

}  // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) close(fd_);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) close(fd_);
}

Result<std::string> ReadFile(const std::string& path, uint64_t limit_bytes) {
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) {
    return errno == ENOENT ? NotFound("no file " + path) : ErrnoStatus("open " + path);
  }
  std::string bytes;
  struct stat info {};
  if (fstat(file.get(), &info) == 0 && S_ISREG(info.st_mode)) {
    if (static_cast<uint64_t>(info.st_size) > limit_bytes) {
      return ResourceExhausted(path + " is longer than " + std::to_string(limit_bytes) + " bytes");
    }
    bytes.reserve(static_cast<size_t>(info.st_size));
  }
  char buffer[1 << 16];
  while (true) {
    ssize_t got = read(file.get(), buffer, sizeof buffer);
    if (got < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus("read " + path);
    }
    if (got == 0) return bytes;
    bytes.append(buffer, static_cast<size_t>(got));
    if (bytes.size() > limit_bytes) {
      return ResourceExhausted(path + " is longer than " + std::to_string(limit_bytes) + " bytes");
    }
  }
}

Status WriteFileDurably(const std::string& path, std::string_view bytes, int mode) {
  return WriteByRename(path, {bytes}, mode, true);
}
Status WriteFileDurably(const std::string& path, std::initializer_list<std::string_view> parts, int mode) {
  return WriteByRename(path, parts, mode, true);
}
Status WriteFileAtomically(const std::string& path, std::string_view bytes, int mode) {
  return WriteByRename(path, {bytes}, mode, false);
}

Status MakeDirectories(const std::string& path, int mode) {
  if (path.empty()) return InvalidArgument("an empty directory name");
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    std::string part = path.substr(0, end);
    if (mkdir(part.c_str(), static_cast<mode_t>(mode)) != 0 && errno != EEXIST) {
      return ErrnoStatus("mkdir " + part);
    }
    if (end == std::string::npos) break;
  }
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return ErrnoStatus("stat " + path);
  if (!S_ISDIR(info.st_mode)) return IoError(path + " exists and is no directory");
  return Status::Ok();
}

Status FsyncDirectory(const std::string& path) {
  FileDescriptor directory(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) return ErrnoStatus("open " + path);
  if (fsync(directory.get()) != 0) return ErrnoStatus("fsync " + path);
  return Status::Ok();
}

bool FileExists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

Result<std::vector<std::string>> ListDirectory(const std::string& path) {
  DIR* directory = opendir(path.c_str());
  if (directory == nullptr) {
    return errno == ENOENT ? NotFound("no directory " + path) : ErrnoStatus("open " + path);
  }
  std::vector<std::string> names;
  while (dirent* entry = readdir(directory)) {
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(std::move(name));
  }
  closedir(directory);
  std::sort(names.begin(), names.end());
  return names;
}

Result<FileLock> FileLock::TryAcquire(const std::string& path, int mode) {
  FileDescriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, mode));
  if (!file.valid()) return ErrnoStatus("open " + path);
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (fcntl(file.get(), F_OFD_SETLK, &whole) != 0) {
    if (errno == EAGAIN || errno == EACCES) return Unavailable(path + " is locked by another process");
    return ErrnoStatus("lock " + path);
  }
  return FileLock(std::move(file));
}

std::string DefaultRuntimeDirectory() {
  if (const char* own = std::getenv("PILLION_RUNTIME_DIR"); own != nullptr && *own != 0) return own;
  if (const char* xdg = std::getenv("XDG_RUNTIME_DIR"); xdg != nullptr && *xdg != 0) {
    return std::string(xdg) + "/pillion";
  }
  return "/tmp/pillion-" + std::to_string(getuid());
}

Status MakePrivateDirectory(const std::string& path) {
  PILLION_RETURN_IF_ERROR(MakeDirectories(path, 0700));
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return ErrnoStatus("stat " + path);
  if (!S_ISDIR(info.st_mode)) return PermissionDenied(path + " is no directory of its own (a link?)");
  if (info.st_uid != getuid()) return PermissionDenied(path + " belongs to another user");
  if ((info.st_mode & 0077) != 0) {
    return PermissionDenied(path + " can be entered by others: run chmod 700 on it");
  }
  return Status::Ok();
}

}  // namespace pillion
