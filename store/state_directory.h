// The state directory around the records: its format version, its lock and its reserve of disk
// space.
#ifndef PILLION_STORE_STATE_DIRECTORY_H_
#define PILLION_STORE_STATE_DIRECTORY_H_

#include <cstdint>
#include <string>

#include "base/file.h"
#include "base/status.h"

namespace pillion::store {

class StateDirectory {
 public:
  // Makes the directory and its FORMAT file when there is none, and locks it until destruction.
  // Errors as in OpenRecordStore.
  static Result<StateDirectory> Open(const std::string& path);
  // As Open, of a directory that must exist already.
  static Result<StateDirectory> OpenExisting(const std::string& path);

  const std::string& path() const { return path_; }
  uint32_t format_version() const { return format_version_; }
  std::string records_path() const { return path_ + "/records"; }
  std::string checkpoints_path() const { return path_ + "/checkpoints"; }

  // Sets `bytes` of disk aside in the file `reserve`. kResourceExhausted when the disk does not
  // have them and a quarter more.
  Status TakeReserve(uint64_t bytes) const;
  void GiveReserveBack() const;

 private:
  StateDirectory(std::string path, FileLock lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}
  static Result<StateDirectory> Lock(const std::string& path);
  Status ReadFormat();

  std::string path_;
  FileLock lock_;
  uint32_t format_version_ = 0;
};

// "pillion-store 1\n" → 1; kCorruption otherwise.
Result<uint32_t> ParseFormat(const std::string& text);

}  // namespace pillion::store

#endif  // PILLION_STORE_STATE_DIRECTORY_H_
