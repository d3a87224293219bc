// Reads RocksDB's write-ahead logs before RocksDB does. Its point-in-time recovery drops everything
// after the first bad record without a word; that is right after a power cut, whose torn last batch
// nobody was told about, and wrong for damage in the middle, which would silently lose acknowledged
// records. This scan tells them apart.
//
// Every batch is synced before the next one is written. So a bad record is a torn tail only when no
// intact record that begins a batch follows it, in its file or in a newer one.
#ifndef PILLION_STORE_WAL_SCAN_H_
#define PILLION_STORE_WAL_SCAN_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace pillion::store {

// What one log file holds.
struct WalFileScan {
  uint64_t batches = 0;
  uint64_t good_bytes = 0;      // length of the intact part, at a batch's end
  bool damaged = false;         // something other than zeros follows the intact part
  bool zero_tail = false;       // only zeros follow it
  std::string reason;           // of the damage
  bool intact_follows = false;  // an intact batch beginning lies behind the damage,
  uint64_t intact_offset = 0;   // here
  bool gap = false;             // records are missing before good_bytes although all are intact
};
WalFileScan ScanWalFile(std::string_view bytes);

struct WalScan {
  uint64_t batches = 0;
  uint64_t bytes = 0;
  std::string torn_file;  // not empty: its tail from torn_offset on is an unacknowledged batch
  uint64_t torn_offset = 0;
  std::string torn_reason;
  std::vector<std::pair<std::string, uint64_t>>
      zero_tails;  // file and offset from which on it is all zeros
};
// All log files of a RocksDB directory. kCorruption naming file and offset for damage that is no
// torn tail.
Result<WalScan> ScanWal(const std::string& directory);

// Cuts torn and zero tails off, durably, so that a later scan does not take it for damage in an
// older file.
Status TruncateTornTail(const WalScan& scan);

}  // namespace pillion::store

#endif  // PILLION_STORE_WAL_SCAN_H_
