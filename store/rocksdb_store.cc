#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/checkpoint.h>
#include <rocksdb/write_batch.h>

#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "base/file.h"
#include "base/log.h"
#include "store/backup.h"
#include "store/latency_window.h"
#include "store/state_directory.h"
#include "store/store.h"
#include "store/wal_scan.h"

namespace pillion::store {
namespace {

// RocksDB's own log goes to ours, warnings and worse. A LOG file beside the data would abort the
// process on a full disk (Debian builds RocksDB with assertions on).
class ForwardingLogger final : public rocksdb::Logger {
 public:
  ForwardingLogger() : rocksdb::Logger(rocksdb::InfoLogLevel::WARN_LEVEL) {}
  using rocksdb::Logger::Logv;
  void Logv(const rocksdb::InfoLogLevel level, const char* format, va_list arguments) override {
    if (level < rocksdb::InfoLogLevel::WARN_LEVEL || level >= rocksdb::InfoLogLevel::HEADER_LEVEL)
      return;
    char text[1024];
    std::vsnprintf(text, sizeof text, format, arguments);
    std::string_view line = text;
    while (!line.empty() && line.back() == '\n') line.remove_suffix(1);
    log::Warning("rocksdb", {{"text", line}});
  }
  void Logv(const char*, va_list) override {}
};

rocksdb::Options StoreRocksOptions() {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.info_log = std::make_shared<ForwardingLogger>();
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  // A torn last batch is dropped on recovery. ScanWal has refused everything else before.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  options.paranoid_checks = true;
  options.write_buffer_size = 16 << 20;
  options.max_total_wal_size = 64 << 20;
  options.max_background_jobs = 2;
  options.compression = rocksdb::kNoCompression;
  options.max_open_files = 256;
  options.keep_log_file_num = 1;
  options.max_bgerror_resume_count = 0;  // Reopen does that, after a scan
  // What the write-ahead scan and the rule "one synced batch at a time" rely on being off.
  options.allow_2pc = false;
  options.enable_pipelined_write = false;
  options.unordered_write = false;
  options.two_write_queues = false;
  options.manual_wal_flush = false;
  options.recycle_log_file_num = 0;
  options.wal_compression = rocksdb::kNoCompression;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(16 << 20);
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

Status Translate(const rocksdb::Status& status, const std::string& what) {
  if (status.ok()) return Status::Ok();
  if (status.IsNoSpace())
    return ResourceExhausted(what + ": the disk is full (" + status.ToString() + ")");
  std::string text = what + ": " + status.ToString();
  if (status.IsCorruption()) return Corruption(text);
  if (status.IsNotFound()) return NotFound(text);
  return IoError(text);
}

// Checks the log, cuts an unacknowledged tail and opens.
Result<std::unique_ptr<rocksdb::DB>> OpenChecked(const std::string& path) {
  PILLION_RETURN_IF_ERROR(MakeDirectories(path, 0700));
  PILLION_ASSIGN_OR_RETURN(WalScan scan, ScanWal(path));
  if (!scan.torn_file.empty()) {
    log::Warning(
        "an unacknowledged batch at the end of the write-ahead log is dropped",
        {{"file", scan.torn_file}, {"offset", scan.torn_offset}, {"reason", scan.torn_reason}});
  }
  PILLION_RETURN_IF_ERROR(TruncateTornTail(scan));
  rocksdb::DB* raw = nullptr;
  rocksdb::Status status = rocksdb::DB::Open(StoreRocksOptions(), path, &raw);
  std::unique_ptr<rocksdb::DB> db(raw);
  PILLION_RETURN_IF_ERROR(Translate(status, "open the store " + path));
  return db;
}

// Tables, log and the rest; 0 while the directory cannot be read.
uint64_t DirectoryBytes(const std::string& path) {
  uint64_t total = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code vanished;
    uint64_t size = entry->file_size(vanished);
    if (!vanished) total += size;
  }
  return total;
}

Status VisitAll(rocksdb::DB* db, const std::string& path, const RecordStore::Visitor& visit) {
  rocksdb::ReadOptions read;
  read.fill_cache = false;
  read.readahead_size = 2 << 20;
  std::unique_ptr<rocksdb::Iterator> iterator(db->NewIterator(read));
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    rocksdb::Slice key = iterator->key();
    rocksdb::Slice value = iterator->value();
    if (key.empty()) return Corruption("a record without a kind in " + path);
    PILLION_RETURN_IF_ERROR(visit(static_cast<uint8_t>(key[0]),
                                  std::string_view(key.data() + 1, key.size() - 1),
                                  std::string_view(value.data(), value.size())));
  }
  return Translate(iterator->status(), "read the store " + path);
}

class RocksRecordStore final : public RecordStore {
 public:
  RocksRecordStore(StateDirectory directory, uint64_t reserve_bytes, const Clock* clock)
      : directory_(std::move(directory)), reserve_bytes_(reserve_bytes), clock_(clock) {}
  ~RocksRecordStore() override { (void)Close(); }

  // The first opening: damage is an error, a full disk is a state.
  Status Start() {
    Status status = OpenAndReserve();
    if (status.code() == StatusCode::kResourceExhausted && db_ != nullptr) return Status::Ok();
    return status;
  }

  Status Write(const Batch& batch) override {
    if (!error_.ok()) return error_;
    if (batch.empty()) return Status::Ok();
    rocksdb::WriteBatch writes(batch.bytes() + batch.count() * 16);
    for (size_t i = 0; i < batch.count(); ++i) {
      Batch::Entry entry = batch.entry(i);
      rocksdb::Slice key(entry.key.data(), entry.key.size());
      if (entry.is_delete) {
        writes.Delete(key);
      } else {
        writes.Put(key, rocksdb::Slice(entry.value.data(), entry.value.size()));
      }
    }
    rocksdb::WriteOptions synced;
    synced.sync = true;
    int64_t begin_ns = clock_->NowNs();
    Status status =
        Translate(db_->Write(synced, &writes), "write to the store " + directory_.records_path());
    latencies_.Add(clock_->NowNs() - begin_ns);
    if (!status.ok()) {
      ++statistics_.failures;
      error_ = status;
      healthy_ = false;
      return status;
    }
    ++statistics_.batches;
    statistics_.records += batch.count();
    statistics_.bytes_written += batch.bytes();
    return Status::Ok();
  }

  Status error() const override { return error_; }

  Status Reopen() override {
    if (error_.ok()) return error_;
    if (!healthy_) {
      // Recovery needs about as much space as the log is long.
      if (Status closed = Close(); !closed.ok())
        log::Warning("closing the store", {{"error", closed.ToString()}});
      directory_.GiveReserveBack();
      ++statistics_.reopenings;
    }
    return OpenAndReserve();
  }

  Status ForEach(const Visitor& visit) override {
    if (db_ == nullptr) return error_;
    return VisitAll(db_.get(), directory_.records_path(), visit);
  }

  Result<std::string> Get(uint8_t kind, std::string_view key) override {
    if (db_ == nullptr) return error_;
    std::string full(1, static_cast<char>(kind));
    full += key;
    std::string value;
    rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), full, &value);
    if (status.IsNotFound()) return NotFound("no such record");
    PILLION_RETURN_IF_ERROR(Translate(status, "read the store " + directory_.records_path()));
    return value;
  }

  StoreStatistics statistics() override {
    StoreStatistics result = statistics_;
    result.write_ms_p50 = latencies_.QuantileMs(0.50);
    result.write_ms_p99 = latencies_.QuantileMs(0.99);
    result.disk_bytes = DirectoryBytes(directory_.records_path());
    return result;
  }

  Status Backup(const std::string& target) override {
    if (db_ == nullptr) return error_;
    return WriteBackup(directory_, target, [this](const std::string& records) {
      rocksdb::Checkpoint* raw = nullptr;
      rocksdb::Status status = rocksdb::Checkpoint::Create(db_.get(), &raw);
      std::unique_ptr<rocksdb::Checkpoint> checkpoint(raw);
      if (status.ok()) status = checkpoint->CreateCheckpoint(records);
      return Translate(status, "copy the store to " + records);
    });
  }

 private:
  Status Close() {
    if (db_ == nullptr) return Status::Ok();
    Status status = Translate(db_->Close(), "close the store " + directory_.records_path());
    db_.reset();
    return status;
  }

  // Leaves error_ as the reason for refusing writes, and returns it.
  Status OpenAndReserve() {
    if (!healthy_) {
      Result<std::unique_ptr<rocksdb::DB>> opened = OpenChecked(directory_.records_path());
      if (!opened.ok() && opened.status().code() == StatusCode::kResourceExhausted) {
        directory_.GiveReserveBack();
        opened = OpenChecked(directory_.records_path());
      }
      if (!opened.ok()) return error_ = opened.status();
      db_ = std::move(*opened);
      healthy_ = true;
    }
    return error_ = directory_.TakeReserve(reserve_bytes_);
  }

  const StateDirectory directory_;
  const uint64_t reserve_bytes_;
  const Clock* const clock_;
  std::unique_ptr<rocksdb::DB> db_;
  bool healthy_ = false;  // db_ is open and has seen no error since
  Status error_;          // why writes are refused
  StoreStatistics statistics_;
  LatencyWindow latencies_;
};

}  // namespace

Result<std::unique_ptr<RecordStore>> OpenRecordStore(const StoreOptions& options) {
  static const SystemClock system_clock;
  PILLION_ASSIGN_OR_RETURN(StateDirectory directory, StateDirectory::Open(options.state_directory));
  auto store =
      std::make_unique<RocksRecordStore>(std::move(directory), options.reserve_bytes,
                                         options.clock != nullptr ? options.clock : &system_clock);
  PILLION_RETURN_IF_ERROR(store->Start());
  return std::unique_ptr<RecordStore>(std::move(store));
}

Result<VerifyReport> VerifyStateDirectory(const std::string& state_directory) {
  PILLION_ASSIGN_OR_RETURN(StateDirectory directory, StateDirectory::OpenExisting(state_directory));
  VerifyReport report;
  report.format_version = directory.format_version();
  std::string path = directory.records_path();
  PILLION_ASSIGN_OR_RETURN(WalScan scan, ScanWal(path));
  report.log_records = scan.batches;
  if (!scan.torn_file.empty()) {
    report.torn_tail =
        scan.torn_file + " at offset " + std::to_string(scan.torn_offset) + ": " + scan.torn_reason;
  }
  rocksdb::Options options = StoreRocksOptions();
  options.create_if_missing = false;
  rocksdb::DB* raw = nullptr;
  rocksdb::Status status = rocksdb::DB::OpenForReadOnly(options, path, &raw);
  std::unique_ptr<rocksdb::DB> db(raw);
  PILLION_RETURN_IF_ERROR(Translate(status, "open the store " + path));
  PILLION_RETURN_IF_ERROR(Translate(db->VerifyChecksum(), "verify the tables of " + path));
  PILLION_RETURN_IF_ERROR(
      VisitAll(db.get(), path, [&](uint8_t kind, std::string_view key, std::string_view value) {
        ++report.records_by_kind[kind];
        report.record_bytes += 1 + key.size() + value.size();
        return Status::Ok();
      }));
  PILLION_RETURN_IF_ERROR(VerifyCheckpointFiles(directory.checkpoints_path(),
                                                &report.checkpoint_files, &report.problems));
  return report;
}

}  // namespace pillion::store
