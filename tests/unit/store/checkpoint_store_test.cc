#include "store/checkpoint_store.h"

#include <gtest/gtest.h>

#include "base/checksum.h"
#include "base/file.h"
#include "base/limits.h"
#include "store/checkpoint_file.h"
#include "temporary.h"

namespace pillion::store {
namespace {

using testing::SmallDisk;
using testing::TemporaryDirectory;

TaskId SomeTask() { return {JobId{0x1234, 0x5678}, 7}; }
std::string Payload(char fill, size_t bytes = limits::kInlineCheckpointBytes + 1) {
  return std::string(bytes, fill);
}

class CheckpointStoreTest : public ::testing::Test {
 protected:
  CheckpointStoreTest() : store_(std::move(*OpenFileCheckpointStore(directory_ / "checkpoints"))) {}

  StoredCheckpoint SaveFile(Epoch epoch, Step step) {
    return *store_->Save(SomeTask(), epoch, step, Payload('a'));
  }
  std::string PathOf(const StoredCheckpoint& stored) {
    return directory_ / "checkpoints/" + stored.path;
  }
  std::vector<std::string> Names() {
    auto names = ListDirectory(directory_ / "checkpoints/" + SomeTask().job.ToString() + "/7");
    return names.ok() ? *names : std::vector<std::string>{};
  }

  TemporaryDirectory directory_;
  std::unique_ptr<CheckpointStore> store_;
};

TEST_F(CheckpointStoreTest, SmallStatesStayInline) {
  std::string payload = Payload('x', limits::kInlineCheckpointBytes);
  StoredCheckpoint stored = *store_->Save(SomeTask(), 3, 40, payload);
  EXPECT_TRUE(stored.path.empty());
  EXPECT_EQ(*store_->Load(SomeTask(), stored), payload);
  EXPECT_TRUE(ListDirectory(directory_ / "checkpoints")->empty());

  stored.bytes[5] ^= 1;
  Status status = store_->Load(SomeTask(), stored).status();
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_NE(status.message().find(SomeTask().ToString()), std::string::npos) << status.message();
}

TEST_F(CheckpointStoreTest, LargeStatesAreFilesThatAnotherStoreCanRead) {
  StoredCheckpoint stored = SaveFile(3, 40);
  EXPECT_EQ(stored.path, SomeTask().job.ToString() + "/7/3-40.ckpt");
  EXPECT_TRUE(stored.bytes.empty());
  EXPECT_EQ(stored.checksum, Checksum64(Payload('a')));
  auto other = std::move(*OpenFileCheckpointStore(directory_ / "checkpoints"));
  EXPECT_EQ(*other->Load(SomeTask(), stored), Payload('a'));
}

TEST_F(CheckpointStoreTest, EveryFlippedByteIsFound) {
  StoredCheckpoint stored = SaveFile(1, 2);
  const std::string intact = *ReadFile(PathOf(stored));
  for (size_t i = 0; i < intact.size(); i += i < kCheckpointHeaderBytes ? 1 : 4999) {
    std::string damaged = intact;
    damaged[i] ^= 0x20;
    ASSERT_TRUE(WriteFileAtomically(PathOf(stored), damaged).ok());
    Status status = store_->Load(SomeTask(), stored).status();
    EXPECT_TRUE(status.code() == StatusCode::kCorruption ||
                status.code() == StatusCode::kUnsupported)
        << i << ": " << status.ToString();
    EXPECT_NE(status.message().find(PathOf(stored)), std::string::npos) << status.message();
  }
}

TEST_F(CheckpointStoreTest, CutAndLengthenedFilesAreFound) {
  StoredCheckpoint stored = SaveFile(1, 2);
  const std::string intact = *ReadFile(PathOf(stored));
  for (size_t length : {size_t{0}, size_t{7}, size_t{15}, kCheckpointHeaderBytes - 1,
                        kCheckpointHeaderBytes, intact.size() - 1}) {
    ASSERT_TRUE(WriteFileAtomically(PathOf(stored), intact.substr(0, length)).ok());
    EXPECT_EQ(store_->Load(SomeTask(), stored).status().code(), StatusCode::kCorruption) << length;
  }
  ASSERT_TRUE(WriteFileAtomically(PathOf(stored), intact + "x").ok());
  EXPECT_EQ(store_->Load(SomeTask(), stored).status().code(), StatusCode::kCorruption);
}

TEST_F(CheckpointStoreTest, AnotherTasksEpochsOrStepsFileIsRefused) {
  StoredCheckpoint first = SaveFile(1, 2);
  StoredCheckpoint second = SaveFile(1, 3);
  ASSERT_TRUE(WriteFileAtomically(PathOf(second), *ReadFile(PathOf(first))).ok());
  Status status = store_->Load(SomeTask(), second).status();
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_NE(status.message().find("step 2, not 3"), std::string::npos) << status.message();

  StoredCheckpoint elsewhere = first;
  elsewhere.path = "../../../etc/passwd";
  EXPECT_EQ(store_->Load(SomeTask(), elsewhere).status().code(), StatusCode::kInvalidArgument);
  TaskId other_task{SomeTask().job, 8};
  EXPECT_EQ(store_->Load(other_task, first).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(CheckpointStoreTest, AMissingFileIsNotFound) {
  StoredCheckpoint stored = SaveFile(1, 2);
  std::filesystem::remove(PathOf(stored));
  EXPECT_EQ(store_->Load(SomeTask(), stored).status().code(), StatusCode::kNotFound);
}

TEST_F(CheckpointStoreTest, ANewerFileVersionIsRefusedByName) {
  StoredCheckpoint stored = SaveFile(1, 2);
  std::string bytes = *ReadFile(PathOf(stored));
  bytes[8] = 9;
  ASSERT_TRUE(WriteFileAtomically(PathOf(stored), bytes).ok());
  Status status = store_->Load(SomeTask(), stored).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_NE(status.message().find("version 9"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("version 1"), std::string::npos) << status.message();
}

TEST_F(CheckpointStoreTest, RetainKeepsTheGivenAndWhatMayStillBeCommitted) {
  StoredCheckpoint zombie = SaveFile(1, 900), old = SaveFile(2, 10), previous = SaveFile(2, 20),
                   current = SaveFile(2, 30), coming = SaveFile(2, 40);
  ASSERT_TRUE(WriteFileAtomically(PathOf(old) + ".tmp.1.0", "left by a crash").ok());
  ASSERT_TRUE(WriteFileAtomically(PathOf(coming) + ".tmp.1.0", "being written").ok());
  ASSERT_TRUE(
      WriteFileAtomically(directory_ / "checkpoints/" + SomeTask().job.ToString() + "/7/README", "")
          .ok());
  ASSERT_TRUE(store_->Retain(SomeTask(), {previous, current}).ok());
  EXPECT_EQ(Names(), (std::vector<std::string>{"2-20.ckpt", "2-30.ckpt", "2-40.ckpt",
                                               "2-40.ckpt.tmp.1.0", "README"}));
  EXPECT_TRUE(store_->Load(SomeTask(), previous).ok());
  EXPECT_TRUE(store_->Load(SomeTask(), current).ok());
}

TEST_F(CheckpointStoreTest, RetainingNothingDeletesTheTasksFilesAndRemoveJobAll) {
  SaveFile(1, 1);
  SaveFile(1, 2);
  TaskId sibling{SomeTask().job, 8};
  StoredCheckpoint kept = *store_->Save(sibling, 1, 1, Payload('b'));
  ASSERT_TRUE(store_->Retain(SomeTask(), {}).ok());
  EXPECT_TRUE(Names().empty());
  EXPECT_TRUE(store_->Load(sibling, kept).ok());
  ASSERT_TRUE(store_->RemoveJob(SomeTask().job).ok());
  EXPECT_TRUE(ListDirectory(directory_ / "checkpoints")->empty());
  EXPECT_TRUE(store_->RemoveJob(SomeTask().job).ok());
  EXPECT_TRUE(store_->Retain(SomeTask(), {kept}).ok());
}

TEST(CheckpointStore, AFullDiskIsResourceExhaustedAndLeavesNothingBehind) {
  SmallDisk disk(1);
  if (!disk.mounted()) GTEST_SKIP() << "mounting a small file system needs root";
  auto store = std::move(*OpenFileCheckpointStore(disk / "checkpoints"));
  Result<StoredCheckpoint> saved = store->Save(SomeTask(), 1, 1, std::string(2 << 20, 'x'));
  EXPECT_EQ(saved.status().code(), StatusCode::kResourceExhausted) << saved.status().ToString();
  EXPECT_TRUE(ListDirectory(disk / "checkpoints/" + SomeTask().job.ToString() + "/7")->empty());
  EXPECT_TRUE(store->Save(SomeTask(), 1, 1, std::string(500 << 10, 'x')).ok());
}

TEST(CheckpointStore, ADirectoryThatCannotBeMadeIsNamed) {
  TemporaryDirectory directory;
  ASSERT_TRUE(WriteFileAtomically(directory / "file", "").ok());
  Status status = OpenFileCheckpointStore(directory / "file/checkpoints").status();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find(directory / "file"), std::string::npos) << status.message();
}

TEST(CheckpointFileName, OnlyExactNamesParse) {
  Epoch epoch;
  Step step;
  EXPECT_TRUE(ParseCheckpointFileName("18446744073709551615-0.ckpt", &epoch, &step));
  EXPECT_EQ(epoch, UINT64_MAX);
  for (const char* bad : {"", "1", "1-", "-1.ckpt", "1-2", "1-2.ckpt.tmp.3", "1--2.ckpt",
                          "a-2.ckpt", "18446744073709551616-0.ckpt"}) {
    EXPECT_FALSE(ParseCheckpointFileName(bad, &epoch, &step)) << bad;
  }
}

}  // namespace
}  // namespace pillion::store
