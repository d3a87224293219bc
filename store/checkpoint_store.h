// Checkpoints: where a task's saved state lies and how it becomes durable. One interface for local files, a
// shared directory, and bytes carried inline. Only the head deletes.
#ifndef PILLION_STORE_CHECKPOINT_STORE_H_
#define PILLION_STORE_CHECKPOINT_STORE_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/status.h"

namespace pillion::store {

// What a stored checkpoint is called; mirrors wire::CheckpointRef without depending on it.
struct StoredCheckpoint {
  Epoch epoch = 0;
  Step step = 0;
  uint64_t length_bytes = 0;
  uint64_t checksum = 0;
  std::string bytes;  // inline payload (≤ limits::kInlineCheckpointBytes), or
  std::string path;   // the file, relative to the store's root: the root may move or be mounted elsewhere
};

class CheckpointStore {
 public:
  virtual ~CheckpointStore() = default;

  // Durable when it returns: small payloads inline (nothing is written; the head's batch makes them durable),
  // larger ones as file <root>/<job>/<index>/<epoch>-<step>.ckpt: temporary name, fsync, rename, fsync of the
  // directory. A zombie's file has another epoch, so it overwrites nothing. kResourceExhausted on a full disk.
  virtual Result<StoredCheckpoint> Save(const TaskId& task, Epoch epoch, Step step, std::string_view payload) = 0;

  // The payload after checking header (task, epoch, step, length) and checksum: kCorruption names the file and
  // what is wrong; kNotFound when it is missing.
  virtual Result<std::string> Load(const TaskId& task, const StoredCheckpoint& checkpoint) = 0;

  // Head only. Deletes the task's files whose (epoch, step) is in none of `keep`, except files newer than all of
  // `keep`: their commit may be on its way. An empty `keep` deletes all of them.
  virtual Status Retain(const TaskId& task, const std::vector<StoredCheckpoint>& keep) = 0;
  // Head only. Deletes all files of a job.
  virtual Status RemoveJob(const JobId& job) = 0;
};

// Files under `root`, a local or shared directory (created with mode 0700).
Result<std::unique_ptr<CheckpointStore>> OpenFileCheckpointStore(const std::string& root);

}  // namespace pillion::store

#endif  // PILLION_STORE_CHECKPOINT_STORE_H_
