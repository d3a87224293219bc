// The format of one checkpoint file.
//   file   := header payload
//   header := magic[8] version:u32 header_bytes:u32 job_high:u64 job_low:u64 index:u32 zero:u32
//             epoch:u64 step:u64 length:u64 payload_checksum:u64 header_checksum:u64
//                                                                   little-endian, 80 bytes
// magic is "PILCKPT" and a zero byte; checksums are XXH3 of 64 bits, the header's over all that
// stands before it. A newer version may lengthen the header; readers refuse versions that they do
// not know.
#ifndef PILLION_STORE_CHECKPOINT_FILE_H_
#define PILLION_STORE_CHECKPOINT_FILE_H_

#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/status.h"

namespace pillion::store {

inline constexpr uint32_t kCheckpointFileVersion = 1;
inline constexpr size_t kCheckpointHeaderBytes = 80;

struct CheckpointHeader {
  TaskId task;
  Epoch epoch = 0;
  Step step = 0;
  uint64_t length_bytes = 0;
  uint64_t payload_checksum = 0;
};

std::string EncodeCheckpointHeader(const CheckpointHeader& header);

// Any bytes may come in. kCorruption says what is wrong; kUnsupported names both versions.
Result<CheckpointHeader> ParseCheckpointHeader(std::string_view bytes);

// Reads and checks a whole file; every error names it.
Result<CheckpointHeader> ReadCheckpointFile(const std::string& path, std::string* payload);

// "<epoch>-<step>.ckpt" ↔ numbers; false for every other name.
std::string CheckpointFileName(Epoch epoch, Step step);
bool ParseCheckpointFileName(std::string_view name, Epoch* epoch, Step* step);

}  // namespace pillion::store

#endif  // PILLION_STORE_CHECKPOINT_FILE_H_
