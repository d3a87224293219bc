#include "store/backup.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "base/file.h"
#include "store/checkpoint_file.h"

namespace pillion::store {
namespace {

namespace fs = std::filesystem;

Status FsStatus(const std::string& what, const std::error_code& error) {
  if (!error) return Status::Ok();
  if (error == std::errc::no_space_on_device)
    return ResourceExhausted(what + ": no space left on device");
  return ErrnoStatus(what, error.value());
}

std::string Parent(const std::string& path) {
  std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

// Checkpoint files never change once they have their name, so a link is as good as a copy.
Status LinkOrCopy(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::create_hard_link(from, to, error);
  if (!error) return Status::Ok();
  error.clear();
  fs::copy_file(from, to, error);
  PILLION_RETURN_IF_ERROR(FsStatus("copy " + from + " to " + to, error));
  FileDescriptor file(open(to.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return ErrnoStatus("open " + to);
  return fsync(file.get()) == 0 ? Status::Ok() : ErrnoStatus("fsync " + to);
}

bool IsCheckpointName(const std::string& name) {
  Epoch epoch;
  Step step;
  return ParseCheckpointFileName(name, &epoch, &step);
}

Status CopyCheckpoints(const std::string& from, const std::string& to) {
  PILLION_RETURN_IF_ERROR(MakeDirectories(to, 0700));
  Result<std::vector<std::string>> names = ListDirectory(from);
  if (!names.ok())
    return names.status().code() == StatusCode::kNotFound ? Status::Ok() : names.status();
  for (const std::string& name : *names) {
    std::string source = from + "/" + name;
    if (IsCheckpointName(name)) {
      PILLION_RETURN_IF_ERROR(LinkOrCopy(source, to + "/" + name));
    } else if (fs::is_directory(source)) {
      PILLION_RETURN_IF_ERROR(CopyCheckpoints(source, to + "/" + name));
    }
  }
  return FsyncDirectory(to);
}

Status Fill(const StateDirectory& from, const std::string& target,
            const std::function<Status(const std::string&)>& copy_records) {
  PILLION_RETURN_IF_ERROR(MakeDirectories(target, 0700));
  PILLION_RETURN_IF_ERROR(copy_records(target + "/records"));
  PILLION_RETURN_IF_ERROR(CopyCheckpoints(from.checkpoints_path(), target + "/checkpoints"));
  PILLION_ASSIGN_OR_RETURN(std::string format, ReadFile(from.path() + "/FORMAT"));
  return WriteFileDurably(target + "/FORMAT", format, 0600);
}

}  // namespace

Status WriteBackup(const StateDirectory& from, const std::string& target,
                   const std::function<Status(const std::string& records)>& copy_records) {
  if (target.empty() || target[0] != '/')
    return InvalidArgument("backup directory '" + target + "' is no absolute path");
  if (FileExists(target))
    return AlreadyExists("backup directory " + target + " exists: name a new one");
  std::string partial = target + ".partial";
  std::error_code error;
  fs::remove_all(partial, error);
  PILLION_RETURN_IF_ERROR(FsStatus("delete " + partial, error));
  Status status = Fill(from, partial, copy_records);
  if (status.ok() && rename(partial.c_str(), target.c_str()) != 0)
    status = ErrnoStatus("rename " + partial);
  if (!status.ok()) {
    fs::remove_all(partial, error);
    return status.WithContext("backup");
  }
  return FsyncDirectory(Parent(target));
}

Status VerifyCheckpointFiles(const std::string& directory, uint64_t* count,
                             std::vector<std::string>* problems) {
  if (!FileExists(directory)) return Status::Ok();
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(directory, error);
       !error && entry != fs::end(entry); entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (!IsCheckpointName(name)) continue;
    ++*count;
    std::string payload;
    Result<CheckpointHeader> header = ReadCheckpointFile(entry->path().string(), &payload);
    if (!header.ok()) {
      problems->push_back(header.status().message());
      continue;
    }
    std::string expected = header->task.job.ToString() + "/" + std::to_string(header->task.index) +
                           "/" + CheckpointFileName(header->epoch, header->step);
    if (entry->path().string() != directory + "/" + expected) {
      problems->push_back("checkpoint file " + entry->path().string() + " belongs at " + expected);
    }
  }
  return FsStatus("read " + directory, error);
}

}  // namespace pillion::store
