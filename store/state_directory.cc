#include "store/state_directory.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>

#include "base/clock.h"
#include "store/store.h"

namespace pillion::store {
namespace {

constexpr std::string_view kFormatPrefix = "pillion-store ";

bool IsOurs(const std::string& name) {
  return name == "lock" || name == "owner" || name == "reserve" || name == "lost+found" ||
         name.rfind("owner.tmp", 0) == 0 || name.rfind("FORMAT.tmp", 0) == 0;
}

std::string FormatText() {
  return std::string(kFormatPrefix) + std::to_string(kStoreFormatVersion) + "\n";
}

}  // namespace

Result<uint32_t> ParseFormat(const std::string& text) {
  std::string_view rest = text;
  if (rest.rfind(kFormatPrefix, 0) == 0) {
    rest.remove_prefix(kFormatPrefix.size());
    if (rest.size() >= 2 && rest.size() <= 9 && rest.back() == '\n' &&
        rest.find_first_not_of("0123456789") == rest.size() - 1) {
      return static_cast<uint32_t>(std::stoul(std::string(rest)));
    }
  }
  return Corruption("the FORMAT file is damaged: '" + text.substr(0, 80) + "' instead of '" +
                    FormatText().substr(0, FormatText().size() - 1) + "'");
}

Result<StateDirectory> StateDirectory::Lock(const std::string& path) {
  std::string lock_path = path + "/lock";
  Result<FileLock> lock = FileLock::TryAcquire(lock_path);
  if (!lock.ok()) {
    if (lock.status().code() != StatusCode::kUnavailable)
      return lock.status().WithContext("state directory");
    Result<std::string> owner = ReadFile(path + "/owner", 4096);
    return Unavailable("state directory " + path + " is in use by " +
                       (owner.ok() ? "another process (" + *owner + ")" : "another process") +
                       ": stop it, or give another --state-dir");
  }
  std::string owner =
      "pid " + std::to_string(getpid()) + ", since " + FormatIso8601Utc(WallNowNs());
  // A full disk may forbid the note; the lock itself needs no space.
  (void)WriteFileAtomically(path + "/owner", owner, 0600);
  return StateDirectory(path, std::move(*lock));
}

Status StateDirectory::ReadFormat() {
  std::string format_path = path_ + "/FORMAT";
  PILLION_ASSIGN_OR_RETURN(std::string text, ReadFile(format_path, 4096));
  Result<uint32_t> version = ParseFormat(text);
  if (!version.ok()) return version.status().WithContext(format_path);
  if (*version > kStoreFormatVersion) {
    return Unsupported("state directory " + path_ + " has store format version " +
                       std::to_string(*version) + ", this program reads up to version " +
                       std::to_string(kStoreFormatVersion) +
                       ": start the newer Pillion that wrote it");
  }
  format_version_ = *version;
  return Status::Ok();
}

Result<StateDirectory> StateDirectory::Open(const std::string& path) {
  PILLION_RETURN_IF_ERROR(MakeDirectories(path, 0700).WithContext("state directory"));
  PILLION_ASSIGN_OR_RETURN(std::vector<std::string> names, ListDirectory(path));
  bool has_format = false;
  for (const std::string& name : names) has_format |= name == "FORMAT";
  if (!has_format) {
    for (const std::string& name : names) {
      if (IsOurs(name)) continue;
      return FailedPrecondition(
          path + " holds '" + name +
          "' but no FORMAT file, so it is no Pillion state directory: name an empty one");
    }
  }
  PILLION_ASSIGN_OR_RETURN(StateDirectory directory, Lock(path));
  if (!FileExists(path + "/FORMAT")) {
    PILLION_RETURN_IF_ERROR(WriteFileDurably(path + "/FORMAT", FormatText(), 0600));
    PILLION_RETURN_IF_ERROR(FsyncDirectory(path + "/.."));  // the directory's own entry
  }
  PILLION_RETURN_IF_ERROR(directory.ReadFormat());
  return directory;
}

Result<StateDirectory> StateDirectory::OpenExisting(const std::string& path) {
  if (!FileExists(path + "/FORMAT")) {
    return NotFound(path + " is no Pillion state directory: it has no FORMAT file");
  }
  PILLION_ASSIGN_OR_RETURN(StateDirectory directory, Lock(path));
  PILLION_RETURN_IF_ERROR(directory.ReadFormat());
  return directory;
}

Status StateDirectory::TakeReserve(uint64_t bytes) const {
  if (bytes == 0) return Status::Ok();
  const uint64_t headroom = bytes / 4;
  Status full = ResourceExhausted("the disk of " + path_ +
                                  " is full: " + std::to_string((bytes + headroom) >> 20) +
                                  " MiB must be free before anything is acknowledged again");
  std::string reserve = path_ + "/reserve";
  FileDescriptor file(open(reserve.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.valid()) return errno == ENOSPC ? full : ErrnoStatus("open " + reserve);
  int error = posix_fallocate(file.get(), 0, static_cast<off_t>(bytes));
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    GiveReserveBack();
    return full;
  }
  if (error != 0) return ErrnoStatus("reserve space in " + reserve, error);
  // Without some room beyond it the next write would fail at once, and so on every second.
  struct statvfs disk {};
  if (fstatvfs(file.get(), &disk) == 0 && disk.f_bavail * disk.f_frsize < headroom) return full;
  return Status::Ok();
}

void StateDirectory::GiveReserveBack() const { unlink((path_ + "/reserve").c_str()); }

}  // namespace pillion::store
