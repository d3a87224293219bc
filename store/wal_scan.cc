#include "store/wal_scan.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/file.h"
#include "store/crc32c.h"

// The format, as far as Pillion's options let RocksDB write it (no recycling, no compression):
//   file   := block*                       blocks of 32 KiB, the last one shorter
//   block  := record* padding              padding: zeros, when fewer than 7 bytes are left
//   record := crc32c:u32 length:u16 type:u8 payload[length]      little-endian; the crc covers type
//   and payload type   := 1 full | 2 first | 3 middle | 4 last               a batch is one full
//   record, or first middle* last batch  := sequence:u64 count:u32 …     count records with
//   consecutive sequence numbers
namespace pillion::store {
namespace {

constexpr uint64_t kBlockBytes = 32 << 10;
constexpr uint64_t kHeaderBytes = 7;
constexpr uint64_t kBatchHeaderBytes = 12;
enum Type : uint8_t { kZero = 0, kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

template <typename T>
T Load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

uint64_t BlockLeft(uint64_t offset) { return kBlockBytes - offset % kBlockBytes; }

struct Record {
  Type type = kZero;
  std::string_view payload;
  uint64_t end = 0;
};

// Why the record at `offset` is not intact; nullptr when it is.
const char* ReadRecord(std::string_view bytes, uint64_t offset, Record* record) {
  if (bytes.size() - offset < kHeaderBytes) return "the header is cut off";
  const char* header = bytes.data() + offset;
  uint64_t length = Load<uint16_t>(header + 4);
  uint8_t type = static_cast<uint8_t>(header[6]);
  if (type < kFull || type > kLast) return "unknown record type";
  if (kHeaderBytes + length > BlockLeft(offset)) return "the length goes past its block";
  if (kHeaderBytes + length > bytes.size() - offset) return "the payload is cut off";
  uint32_t crc = Crc32cExtend(0, header + 6, 1 + length);
  uint32_t masked = ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
  if (Load<uint32_t>(header) != masked) return "the checksum does not match";
  record->type = static_cast<Type>(type);
  record->payload = bytes.substr(offset + kHeaderBytes, length);
  record->end = offset + kHeaderBytes + length;
  return nullptr;
}

// The first intact record at or after `offset` that begins a batch. Damage may have hit a length,
// so every byte position is tried; the cheap checks come first.
bool FindIntactBeginning(std::string_view bytes, uint64_t offset, uint64_t* found) {
  for (; offset + kHeaderBytes <= bytes.size(); ++offset) {
    if (BlockLeft(offset) < kHeaderBytes) continue;
    auto type = static_cast<uint8_t>(bytes[offset + 6]);
    if (type != kFull && type != kFirst) continue;
    uint64_t length = Load<uint16_t>(bytes.data() + offset + 4);
    if (length < kBatchHeaderBytes && type == kFull) continue;
    // A first record always fills its block.
    if (type == kFirst && kHeaderBytes + length != BlockLeft(offset)) continue;
    Record record;
    if (ReadRecord(bytes, offset, &record) == nullptr) {
      *found = offset;
      return true;
    }
  }
  return false;
}

bool AllZero(std::string_view bytes) {
  return bytes.find_first_not_of('\0') == std::string_view::npos;
}

// Reads batches one after the other until the end or the first thing that is wrong.
class FileScanner {
 public:
  explicit FileScanner(std::string_view bytes) : bytes_(bytes) {}

  WalFileScan Run() {
    while (offset_ < bytes_.size()) {
      if (BlockLeft(offset_) < kHeaderBytes) {
        std::string_view padding = bytes_.substr(offset_, BlockLeft(offset_));
        if (!AllZero(padding)) return Damaged("block padding is not zero");
        offset_ += padding.size();
        continue;
      }
      Record record;
      if (const char* reason = ReadRecord(bytes_, offset_, &record)) return Damaged(reason);
      bool begins = record.type == kFull || record.type == kFirst;
      if (begins == in_batch_) return Damaged("the records of a batch are out of order");
      if (begins) header_.clear();
      header_ += record.payload.substr(0, kBatchHeaderBytes - header_.size());
      offset_ = record.end;
      in_batch_ = record.type == kFirst || record.type == kMiddle;
      if (!in_batch_ && !EndBatch()) return scan_;
    }
    if (in_batch_) return Damaged("the last batch is cut off");
    return scan_;
  }

 private:
  // False: the scan stops, because this batch does not continue the one before.
  bool EndBatch() {
    if (header_.size() < kBatchHeaderBytes) {
      Damaged("a batch without a header");
      return false;
    }
    auto sequence = Load<uint64_t>(header_.data());
    if (scan_.batches > 0 && sequence != next_sequence_) {
      scan_.gap = true;
      return false;
    }
    next_sequence_ = sequence + Load<uint32_t>(header_.data() + 8);
    ++scan_.batches;
    scan_.good_bytes = offset_;
    return true;
  }

  WalFileScan Damaged(const char* reason) {
    if (!in_batch_ && AllZero(bytes_.substr(offset_))) {
      scan_.zero_tail = true;
      return scan_;
    }
    scan_.damaged = true;
    scan_.reason = reason;
    scan_.intact_follows = FindIntactBeginning(bytes_, offset_, &scan_.intact_offset);
    return scan_;
  }

  const std::string_view bytes_;
  WalFileScan scan_;
  uint64_t offset_ = 0;
  bool in_batch_ = false;
  std::string header_;  // of the current batch; it may be split over two records
  uint64_t next_sequence_ = 0;
};

Result<std::vector<std::string>> LogFilesInOrder(const std::string& directory) {
  PILLION_ASSIGN_OR_RETURN(std::vector<std::string> names, ListDirectory(directory));
  std::vector<std::pair<uint64_t, std::string>> logs;
  for (const std::string& name : names) {
    size_t dot = name.find('.');
    if (dot == 0 || dot > 19 || name.substr(std::min(dot, name.size())) != ".log") continue;
    if (name.find_first_not_of("0123456789") != dot) continue;
    logs.emplace_back(std::stoull(name), name);
  }
  std::sort(logs.begin(), logs.end());
  std::vector<std::string> paths;
  for (const auto& log : logs) paths.push_back(directory + "/" + log.second);
  return paths;
}

std::string At(const std::string& path, uint64_t offset) {
  return path + " at offset " + std::to_string(offset);
}

constexpr const char* kAdvice =
    "; acknowledged records may be lost, so the store was not opened and nothing was changed: "
    "restore a backup, or "
    "move this file away to go on without its records";

}  // namespace

WalFileScan ScanWalFile(std::string_view bytes) { return FileScanner(bytes).Run(); }

Result<WalScan> ScanWal(const std::string& directory) {
  PILLION_ASSIGN_OR_RETURN(std::vector<std::string> paths, LogFilesInOrder(directory));
  WalScan result;
  for (const std::string& path : paths) {
    PILLION_ASSIGN_OR_RETURN(std::string bytes, ReadFile(path));
    WalFileScan scan = ScanWalFile(bytes);
    result.batches += scan.batches;
    result.bytes += bytes.size();
    bool begun = scan.batches > 0 || scan.damaged || scan.gap;
    if (begun && !result.torn_file.empty()) {
      return Corruption("write-ahead log " + At(result.torn_file, result.torn_offset) + ": " +
                        result.torn_reason + ", and the newer log " + path + " has records" +
                        kAdvice);
    }
    if (scan.gap) {
      return Corruption("write-ahead log " + At(path, scan.good_bytes) +
                        ": records are missing before it" + kAdvice);
    }
    if (scan.intact_follows) {
      return Corruption("write-ahead log " + At(path, scan.good_bytes) + ": " + scan.reason +
                        ", and intact records follow at offset " +
                        std::to_string(scan.intact_offset) + kAdvice);
    }
    if (scan.damaged) {
      result.torn_file = path;
      result.torn_offset = scan.good_bytes;
      result.torn_reason = scan.reason;
    } else if (scan.zero_tail) {
      result.zero_tails.emplace_back(path, scan.good_bytes);
    }
  }
  return result;
}

Status TruncateTornTail(const WalScan& scan) {
  auto cuts = scan.zero_tails;
  if (!scan.torn_file.empty()) cuts.emplace_back(scan.torn_file, scan.torn_offset);
  for (const auto& [path, length] : cuts) {
    FileDescriptor file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file.valid()) return ErrnoStatus("open " + path);
    if (ftruncate(file.get(), static_cast<off_t>(length)) != 0)
      return ErrnoStatus("truncate " + path);
    if (fsync(file.get()) != 0) return ErrnoStatus("fsync " + path);
  }
  return Status::Ok();
}

}  // namespace pillion::store
