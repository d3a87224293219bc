#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/checksum.h"
#include "base/file.h"
#include "base/limits.h"
#include "store/checkpoint_file.h"
#include "store/checkpoint_store.h"

namespace pillion::store {
namespace {

std::string TaskDirectory(const TaskId& task) {
  return task.job.ToString() + "/" + std::to_string(task.index);
}

std::string RelativePath(const TaskId& task, Epoch epoch, Step step) {
  return TaskDirectory(task) + "/" + CheckpointFileName(epoch, step);
}

// Makes one directory and its entry durable.
Status MakeDurableDirectory(const std::string& parent, const std::string& name) {
  std::string path = parent + "/" + name;
  if (mkdir(path.c_str(), 0700) == 0) return FsyncDirectory(parent);
  if (errno == EEXIST) return Status::Ok();
  if (errno == ENOSPC || errno == EDQUOT)
    return ResourceExhausted("mkdir " + path + ": no space left on device");
  return ErrnoStatus("mkdir " + path);
}

Status CheckIdentity(const CheckpointHeader& header, const TaskId& task,
                     const StoredCheckpoint& checkpoint) {
  auto differs = [](std::string_view what, const std::string& found, const std::string& expected) {
    return Corruption("it is of " + std::string(what) + " " + found + ", not " + expected);
  };
  if (header.task != task) return differs("task", header.task.ToString(), task.ToString());
  if (header.epoch != checkpoint.epoch) {
    return differs("epoch", std::to_string(header.epoch), std::to_string(checkpoint.epoch));
  }
  if (header.step != checkpoint.step) {
    return differs("step", std::to_string(header.step), std::to_string(checkpoint.step));
  }
  if (header.length_bytes != checkpoint.length_bytes ||
      header.payload_checksum != checkpoint.checksum) {
    return Corruption("its length or checksum is not the committed one");
  }
  return Status::Ok();
}

class FileCheckpointStore final : public CheckpointStore {
 public:
  explicit FileCheckpointStore(std::string root) : root_(std::move(root)) {}

  Result<StoredCheckpoint> Save(const TaskId& task, Epoch epoch, Step step,
                                std::string_view payload) override {
    StoredCheckpoint stored;
    stored.epoch = epoch;
    stored.step = step;
    stored.length_bytes = payload.size();
    stored.checksum = Checksum64(payload);
    if (payload.size() <= limits::kInlineCheckpointBytes) {
      stored.bytes = payload;
      return stored;
    }
    std::string job = task.job.ToString();
    PILLION_RETURN_IF_ERROR(MakeDurableDirectory(root_, job));
    PILLION_RETURN_IF_ERROR(MakeDurableDirectory(root_ + "/" + job, std::to_string(task.index)));
    stored.path = RelativePath(task, epoch, step);
    CheckpointHeader header{task, epoch, step, stored.length_bytes, stored.checksum};
    PILLION_RETURN_IF_ERROR(WriteFileDurably(root_ + "/" + stored.path,
                                             {EncodeCheckpointHeader(header), payload}, 0600));
    return stored;
  }

  Result<std::string> Load(const TaskId& task, const StoredCheckpoint& checkpoint) override {
    if (checkpoint.path.empty()) {
      if (checkpoint.bytes.size() != checkpoint.length_bytes ||
          Checksum64(checkpoint.bytes) != checkpoint.checksum) {
        return Corruption("the inline checkpoint of task " + task.ToString() + " at step " +
                          std::to_string(checkpoint.step) +
                          " is damaged: length or checksum does not match");
      }
      return checkpoint.bytes;
    }
    if (checkpoint.path != RelativePath(task, checkpoint.epoch, checkpoint.step)) {
      return InvalidArgument("'" + checkpoint.path + "' is not the checkpoint file of task " +
                             task.ToString() + ", epoch " + std::to_string(checkpoint.epoch) +
                             ", step " + std::to_string(checkpoint.step));
    }
    std::string path = root_ + "/" + checkpoint.path;
    std::string payload;
    PILLION_ASSIGN_OR_RETURN(CheckpointHeader header, ReadCheckpointFile(path, &payload));
    PILLION_RETURN_IF_ERROR(
        CheckIdentity(header, task, checkpoint).WithContext("checkpoint file " + path));
    return payload;
  }

  Status Retain(const TaskId& task, const std::vector<StoredCheckpoint>& keep) override {
    using Version = std::pair<Epoch, Step>;
    std::vector<Version> kept;
    for (const StoredCheckpoint& checkpoint : keep)
      kept.emplace_back(checkpoint.epoch, checkpoint.step);
    std::sort(kept.begin(), kept.end());
    std::string directory = root_ + "/" + TaskDirectory(task);
    Result<std::vector<std::string>> names = ListDirectory(directory);
    if (!names.ok())
      return names.status().code() == StatusCode::kNotFound ? Status::Ok() : names.status();
    for (const std::string& name : *names) {
      // "1-20.ckpt.tmp.77.3" is what a crash leaves of "1-20.ckpt".
      std::string_view final_name = std::string_view(name).substr(0, name.find(".tmp."));
      Version version;
      if (!ParseCheckpointFileName(final_name, &version.first, &version.second)) continue;
      bool newer = !kept.empty() && version > kept.back();
      if (newer || (final_name == name && std::binary_search(kept.begin(), kept.end(), version)))
        continue;
      std::string path = directory + "/" + name;
      if (unlink(path.c_str()) != 0 && errno != ENOENT) return ErrnoStatus("delete " + path);
    }
    if (kept.empty()) rmdir(directory.c_str());
    return Status::Ok();
  }

  Status RemoveJob(const JobId& job) override {
    std::string path = root_ + "/" + job.ToString();
    std::error_code error;
    std::filesystem::remove_all(path, error);
    return error ? ErrnoStatus("delete " + path, error.value()) : Status::Ok();
  }

 private:
  const std::string root_;
};

}  // namespace

Result<std::unique_ptr<CheckpointStore>> OpenFileCheckpointStore(const std::string& root) {
  PILLION_RETURN_IF_ERROR(MakeDirectories(root, 0700).WithContext("checkpoint directory"));
  return std::unique_ptr<CheckpointStore>(std::make_unique<FileCheckpointStore>(root));
}

}  // namespace pillion::store
