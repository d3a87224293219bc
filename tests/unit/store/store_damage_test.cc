// What a power cut and a rotten disk leave in the write-ahead log.
#include <gtest/gtest.h>

#include <functional>

#include "base/file.h"
#include "store/crc32c.h"
#include "store/store.h"
#include "store/wal_scan.h"
#include "temporary.h"

namespace pillion::store {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryDirectory;

TEST(Crc32c, MatchesThePublishedCheckValue) {
  EXPECT_EQ(Crc32cExtend(0, "123456789", 9), 0xE3069283u);
  EXPECT_EQ(Crc32cExtend(Crc32cExtend(0, "12345", 5), "6789", 4), 0xE3069283u);
  EXPECT_EQ(Crc32cExtend(0, std::string(32, '\0').data(), 32), 0x8A9136AAu);
}

StoreOptions Options(const std::string& directory) {
  StoreOptions options;
  options.state_directory = directory;
  options.reserve_bytes = 0;
  return options;
}

constexpr int kBatches = 20;

// The state directory as a power cut finds it: kBatches synced batches in the log, the last of
// `last_bytes`.
class DamageTest : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    auto store = std::move(*OpenRecordStore(Options(directory_ / "live")));
    for (int i = 0; i < kBatches; ++i) {
      if (i + 1 == kBatches) last_begin_ = LogBytes(directory_ / "live").size();
      if (i == kBatches / 2) middle_begin_ = LogBytes(directory_ / "live").size();
      Batch batch;
      std::string value;
      for (int byte = 0; byte < (i + 1 == kBatches ? GetParam() : 9000); ++byte) {
        value.push_back(static_cast<char>(byte * 31 + i));
      }
      batch.Put(1, "batch" + std::to_string(i), value);
      batch.Put(2, "batch" + std::to_string(i), "second half");
      ASSERT_TRUE(store->Write(batch).ok());
    }
    fs::copy(directory_ / "live", directory_ / "image", fs::copy_options::recursive);
    fs::remove(directory_ / "image/lock");
    log_ = LogBytes(directory_ / "live");
    ASSERT_GT(log_.size(), last_begin_ + static_cast<size_t>(GetParam()));
  }

  static std::string LogPath(const std::string& state) {
    std::string found;
    for (const auto& entry : fs::directory_iterator(state + "/records")) {
      if (entry.path().extension() == ".log") {
        EXPECT_TRUE(found.empty()) << "one log file is expected";
        found = entry.path();
      }
    }
    return found;
  }
  static std::string LogBytes(const std::string& state) { return *ReadFile(LogPath(state)); }

  // A copy of the image whose log is `bytes`.
  std::string Damaged(const std::string& bytes) {
    std::string state = directory_ / "damaged" + std::to_string(copies_++);
    fs::copy(directory_ / "image", state, fs::copy_options::recursive);
    EXPECT_TRUE(WriteFileAtomically(LogPath(state), bytes).ok());
    return state;
  }

  // Opens, and again after a clean stop; counts the whole batches.
  static void ExpectBatches(const std::string& state, int expected, const std::string& what) {
    for (int opening = 0; opening < 2; ++opening) {
      Result<std::unique_ptr<RecordStore>> store = OpenRecordStore(Options(state));
      ASSERT_TRUE(store.ok()) << what << ": " << store.status().ToString();
      int halves[2] = {0, 0};
      ASSERT_TRUE((*store)
                      ->ForEach([&](uint8_t kind, std::string_view, std::string_view) {
                        ++halves[kind - 1];
                        return Status::Ok();
                      })
                      .ok());
      EXPECT_EQ(halves[0], expected) << what;
      EXPECT_EQ(halves[1], expected) << what;
    }
  }

  void ExpectRefused(const std::string& bytes, uint64_t offset, const std::string& what) {
    std::string state = Damaged(bytes);
    std::string log_path = LogPath(state);
    for (int opening = 0; opening < 2; ++opening) {
      Status status = OpenRecordStore(Options(state)).status();
      EXPECT_EQ(status.code(), StatusCode::kCorruption) << what;
      EXPECT_NE(status.message().find(log_path + " at offset " + std::to_string(offset)),
                std::string::npos)
          << what << ": " << status.message();
    }
    EXPECT_EQ(VerifyStateDirectory(state).status().code(), StatusCode::kCorruption) << what;
    EXPECT_EQ(*ReadFile(log_path), bytes) << what << ": the evidence was changed";
  }

  TemporaryDirectory directory_;
  std::string log_;
  size_t last_begin_ = 0, middle_begin_ = 0;
  int copies_ = 0;
};

TEST_P(DamageTest, AnIntactLogLosesNothing) {
  ExpectBatches(Damaged(log_), kBatches, "intact");
  WalFileScan scan = ScanWalFile(log_);
  EXPECT_EQ(scan.batches, static_cast<uint64_t>(kBatches));
  EXPECT_EQ(scan.good_bytes, log_.size());
  EXPECT_FALSE(scan.damaged);
}

TEST_P(DamageTest, ATornLastBatchIsDroppedWhole) {
  size_t length = log_.size() - last_begin_;
  for (size_t kept :
       {size_t{0}, size_t{1}, size_t{6}, size_t{7}, size_t{12}, length / 2, length - 1}) {
    std::string cut = log_.substr(0, last_begin_ + kept);
    ExpectBatches(Damaged(cut), kBatches - 1, "cut after " + std::to_string(kept));

    std::string zeros = cut + std::string(length - kept, '\0');
    if (zeros != log_)
      ExpectBatches(Damaged(zeros), kBatches - 1, "zeros after " + std::to_string(kept));

    std::string garbage = cut;
    for (size_t i = kept; i < length; ++i)
      garbage.push_back(static_cast<char>(0x5A ^ (i * 2654435761u >> 13)));
    ExpectBatches(Damaged(garbage), kBatches - 1, "garbage after " + std::to_string(kept));
  }
  for (size_t flipped = 0; flipped < length; flipped += flipped < 16 ? 1 : length / 7) {
    std::string bytes = log_;
    bytes[last_begin_ + flipped] ^= 0x10;
    ExpectBatches(Damaged(bytes), kBatches - 1, "byte flipped at " + std::to_string(flipped));
  }
}

TEST_P(DamageTest, WhatFollowsTheLastBatchDoesNoHarm) {
  for (size_t more : {1, 6, 7, 100, 70'000}) {
    ExpectBatches(Damaged(log_ + std::string(more, '\0')), kBatches, "zeros appended");
    ExpectBatches(Damaged(log_ + std::string(more, '\x77')), kBatches, "garbage appended");
  }
}

TEST_P(DamageTest, DamageInTheMiddleIsRefusedByFileAndOffset) {
  for (size_t flipped : {size_t{0}, size_t{4}, size_t{6}, size_t{7}, size_t{20}, size_t{3000}}) {
    std::string bytes = log_;
    bytes[middle_begin_ + flipped] ^= 0x10;
    ExpectRefused(bytes, middle_begin_, "byte flipped at " + std::to_string(flipped));
  }
  std::string zeros = log_;
  zeros.replace(middle_begin_, 4096, 4096, '\0');
  ExpectRefused(zeros, middle_begin_, "a page of zeros");
  std::string garbage = log_;
  garbage.replace(middle_begin_, 512, 512, '\xA7');
  ExpectRefused(garbage, middle_begin_, "a sector of garbage");
  std::string first = log_;
  first[3] ^= 1;
  ExpectRefused(first, 0, "the first record");
}

TEST_P(DamageTest, ATornOlderLogIsRefusedWhenANewerOneHasRecords) {
  std::string torn = log_.substr(0, log_.size() - 3);
  std::string logs = directory_ / "logs";
  ASSERT_TRUE(MakeDirectories(logs).ok());
  ASSERT_TRUE(WriteFileAtomically(logs + "/000009.log", torn).ok());
  ASSERT_TRUE(WriteFileAtomically(logs + "/000012.log", "").ok());
  ASSERT_TRUE(WriteFileAtomically(logs + "/notes.log", "not one of RocksDB's").ok());
  Result<WalScan> scan = ScanWal(logs);
  ASSERT_TRUE(scan.ok()) << scan.status().ToString();
  EXPECT_EQ(scan->torn_file, logs + "/000009.log");
  EXPECT_EQ(scan->torn_offset, last_begin_);

  ASSERT_TRUE(WriteFileAtomically(logs + "/000012.log", log_.substr(0, middle_begin_)).ok());
  Status status = ScanWal(logs).status();
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_NE(status.message().find("000009.log at offset " + std::to_string(last_begin_)),
            std::string::npos)
      << status.message();
}

TEST_P(DamageTest, MissingRecordsBetweenIntactOnesAreRefused) {
  // A whole block vanished, so that intact records meet that do not belong together.
  ASSERT_GT(log_.size(), size_t{3} * 32768);
  std::string bytes = log_;
  bytes.erase(32768, 32768);
  std::string state = Damaged(bytes);
  EXPECT_EQ(OpenRecordStore(Options(state)).status().code(), StatusCode::kCorruption);
}

INSTANTIATE_TEST_SUITE_P(LastBatch, DamageTest, ::testing::Values(40, 100'000));

}  // namespace
}  // namespace pillion::store
