// Durable records of the head: opaque keys and values, each with a record kind, in RocksDB. A log
// and a recovery source, never searched to find work: the head writes one batch per loop turn and
// reads everything once, at start.
//
// A state directory holds
//   FORMAT        "pillion-store <version>\n"; checked before anything else is touched
//   lock, owner   who uses the directory now
//   reserve       space given back when the disk is full, so that the store can always be opened
//   again records/      RocksDB checkpoints/  files (store/checkpoint_store.h)
#ifndef PILLION_STORE_STORE_H_
#define PILLION_STORE_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/limits.h"
#include "base/status.h"

namespace pillion::store {

// What this build writes, and the newest that it reads.
inline constexpr uint32_t kStoreFormatVersion = 1;

// The writes of one loop turn, in order. Clear keeps the memory for the next turn.
class Batch {
 public:
  void Put(uint8_t kind, std::string_view key, std::string_view value);
  void Delete(uint8_t kind, std::string_view key);
  void Clear();

  bool empty() const { return entries_.empty(); }
  size_t count() const { return entries_.size(); }
  size_t bytes() const { return data_.size(); }

  struct Entry {
    bool is_delete;
    std::string_view key;  // the kind is its first byte
    std::string_view value;
  };
  // Valid until the batch changes.
  Entry entry(size_t index) const;

 private:
  struct Range {
    size_t key_begin, value_begin, end;
    bool is_delete;
  };
  std::string data_;
  std::vector<Range> entries_;
};

struct StoreStatistics {
  uint64_t batches = 0, records = 0, bytes_written = 0;  // since the process opened the store
  uint64_t failures = 0, reopenings = 0;
  double write_ms_p50 = 0, write_ms_p99 = 0;  // of the last batches (up to 4096)
  uint64_t disk_bytes = 0;                    // tables and write-ahead log
};

struct StoreOptions {
  std::string state_directory;
  uint64_t reserve_bytes = limits::kStoreReserveBytes;  // 0: no reserve file (tests)
  const Clock* clock = nullptr;                         // for latencies; nullptr: the system's
};

// One thread at a time.
class RecordStore {
 public:
  virtual ~RecordStore() = default;

  // All of the batch or nothing, synced to disk when ok. After any error the store accepts no
  // writes (error() says why) until Reopen succeeds. The failed batch may or may not come back
  // then: write the same batch again, which is harmless, before acknowledging anything in it.
  // kResourceExhausted: the disk is full.
  virtual Status Write(const Batch& batch) = 0;

  // Why writes are refused now; ok when they are not.
  virtual Status error() const = 0;

  // Closes, checks and opens again; with a full disk the reserve is given back for that. Ok only
  // when writes are possible again and the reserve is in place. Cheap enough to be called every
  // second.
  virtual Status Reopen() = 0;

  // Every record in order of (kind, key); the views are valid during the call only. Stops at the
  // first error.
  using Visitor = std::function<Status(uint8_t kind, std::string_view key, std::string_view value)>;
  virtual Status ForEach(const Visitor& visit) = 0;

  // kNotFound when there is none.
  virtual Result<std::string> Get(uint8_t kind, std::string_view key) = 0;

  virtual StoreStatistics statistics() = 0;

  // A consistent copy of the whole state directory, checkpoints included, as `directory`, which
  // must not exist; files are linked where the file system allows it. It is complete when the
  // function returns ok.
  virtual Status Backup(const std::string& directory) = 0;
};

// Makes the directory (0700) or opens what is there.
//   kUnavailable        another process uses it: names its pid and start
//   kUnsupported        written by a newer version: names both
//   kCorruption         damage that a power cut cannot explain: names file and offset; nothing was
//   changed kFailedPrecondition a directory with other contents kPermissionDenied, kIoError  names
//   the path
// A full disk is no error here: the store opens, and error() says that writes are refused.
Result<std::unique_ptr<RecordStore>> OpenRecordStore(const StoreOptions& options);

struct VerifyReport {
  uint32_t format_version = 0;
  std::map<uint8_t, uint64_t> records_by_kind;
  uint64_t record_bytes = 0;
  uint64_t log_records = 0;  // batches in the write-ahead log
  std::string torn_tail;     // not empty: an unacknowledged last batch, dropped at the next start
  uint64_t checkpoint_files = 0;
  std::vector<std::string> problems;  // damaged checkpoint files, each with its reason
};
// Reads and checks everything in a state directory or backup that no head uses; changes nothing in
// its records. Damaged records are an error as in OpenRecordStore; damaged checkpoint files are
// listed.
Result<VerifyReport> VerifyStateDirectory(const std::string& state_directory);

}  // namespace pillion::store

#endif  // PILLION_STORE_STORE_H_
