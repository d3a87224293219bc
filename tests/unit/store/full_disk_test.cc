// A disk that fills up under the store. 64 MiB of which 16 belong to somebody else at first.
#include <gtest/gtest.h>

#include <set>

#include "base/file.h"
#include "store/store.h"
#include "temporary.h"

namespace pillion::store {
namespace {

using testing::SmallDisk;

class FullDiskTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!disk_.mounted()) GTEST_SKIP() << "mounting a small file system needs root";
    ASSERT_TRUE(WriteFileAtomically(disk_ / "somebody-else", std::string(16 << 20, 'x')).ok());
    options_.state_directory = disk_ / "state";
    options_.reserve_bytes = 26 << 20;
    store_ = std::move(*OpenRecordStore(options_));
  }

  // Writes until the disk is full; the batch that failed stays in batch_.
  Status Fill() {
    for (int i = 0; i < 1000; ++i) {
      batch_.Clear();
      failed_ = "key" + std::to_string(acknowledged_.size());
      batch_.Put(1, failed_, std::string(100'000, 'v'));
      if (Status status = store_->Write(batch_); !status.ok()) return status;
      acknowledged_.insert(failed_);
    }
    return Internal("the disk does not fill up");
  }

  // Reopening turns the log into tables, which makes room at first: goes on until there is none.
  Status FillForGood() {
    for (int i = 0; i < 20; ++i) {
      Status full = Fill();
      if (full.code() != StatusCode::kResourceExhausted || !store_->Reopen().ok()) return full;
    }
    return Internal("reopening helps every time");
  }

  std::set<std::string> Keys() {
    std::set<std::string> keys;
    EXPECT_TRUE(store_
                    ->ForEach([&](uint8_t, std::string_view key, std::string_view value) {
                      EXPECT_EQ(value.size(), 100'000u);
                      keys.insert(std::string(key));
                      return Status::Ok();
                    })
                    .ok());
    return keys;
  }

  bool AllAcknowledgedThere() {
    std::set<std::string> keys = Keys();
    keys.erase(failed_);  // may or may not have come back
    return keys == acknowledged_;
  }

  SmallDisk disk_{64};
  StoreOptions options_;
  std::unique_ptr<RecordStore> store_;
  Batch batch_;
  std::set<std::string> acknowledged_;
  std::string failed_;
};

TEST_F(FullDiskTest, StopsAcknowledgingLosesNothingAndGoesOnWhenThereIsSpace) {
  Status full = Fill();
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted) << full.ToString();
  EXPECT_EQ(store_->error(), full);
  EXPECT_EQ(store_->Write(batch_), full);
  if (store_->Reopen().ok()) {
    EXPECT_TRUE(AllAcknowledgedThere());
    full = FillForGood();
    EXPECT_EQ(full.code(), StatusCode::kResourceExhausted) << full.ToString();
  }
  EXPECT_GT(acknowledged_.size(), 100u);

  for (int attempt = 0; attempt < 3; ++attempt) {
    Status reopened = store_->Reopen();
    EXPECT_EQ(reopened.code(), StatusCode::kResourceExhausted) << reopened.ToString();
    EXPECT_EQ(store_->Write(batch_).code(), StatusCode::kResourceExhausted);
    EXPECT_TRUE(AllAcknowledgedThere());  // readable meanwhile, thanks to the reserve
  }

  std::filesystem::remove(disk_ / "somebody-else");
  Status reopened = store_->Reopen();
  ASSERT_TRUE(reopened.ok()) << reopened.ToString();
  EXPECT_TRUE(store_->error().ok());
  ASSERT_TRUE(store_->Write(batch_).ok());
  acknowledged_.insert(failed_);
  EXPECT_EQ(Keys(), acknowledged_);
  EXPECT_GE(store_->statistics().failures, 1u);
}

TEST_F(FullDiskTest, AFreshProcessOpensOnAFullDiskToo) {
  ASSERT_EQ(FillForGood().code(), StatusCode::kResourceExhausted);
  store_.reset();
  Result<std::unique_ptr<RecordStore>> opened = OpenRecordStore(options_);
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  store_ = std::move(*opened);
  EXPECT_EQ(store_->error().code(), StatusCode::kResourceExhausted) << store_->error().ToString();
  EXPECT_TRUE(AllAcknowledgedThere());
  std::filesystem::remove(disk_ / "somebody-else");
  ASSERT_TRUE(store_->Reopen().ok());
  ASSERT_TRUE(store_->Write(batch_).ok());
}

}  // namespace
}  // namespace pillion::store
