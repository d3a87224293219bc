// Copies of a state directory, and the check of its checkpoint files.
#ifndef PILLION_STORE_BACKUP_H_
#define PILLION_STORE_BACKUP_H_

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "store/state_directory.h"

namespace pillion::store {

// `copy_records` makes the directory that it is given. Everything goes to "<target>.partial" first,
// which is renamed when all of it is on disk; what an interrupted backup left there is deleted.
Status WriteBackup(const StateDirectory& from, const std::string& target,
                   const std::function<Status(const std::string& records)>& copy_records);

// Counts the checkpoint files below `directory` and appends one line for each that is damaged.
Status VerifyCheckpointFiles(const std::string& directory, uint64_t* count,
                             std::vector<std::string>* problems);

}  // namespace pillion::store

#endif  // PILLION_STORE_BACKUP_H_
