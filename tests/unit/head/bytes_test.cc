#include "head/bytes.h"

#include <gtest/gtest.h>

#include "head/records.h"

namespace pillion::head {
namespace {

TEST(Bytes, RoundTrip) {
  ByteWriter out;
  for (uint64_t value : {uint64_t{0}, uint64_t{127}, uint64_t{128}, UINT64_MAX}) out.Number(value);
  for (int64_t value : {int64_t{0}, int64_t{-1}, INT64_MIN, INT64_MAX}) out.Signed(value);
  out.Text("text");
  out.Fixed64(0x0123456789ABCDEF);
  std::string bytes = out.Take();
  ByteReader in(bytes);
  for (uint64_t value : {uint64_t{0}, uint64_t{127}, uint64_t{128}, UINT64_MAX}) EXPECT_EQ(in.Number(), value);
  for (int64_t value : {int64_t{0}, int64_t{-1}, INT64_MIN, INT64_MAX}) EXPECT_EQ(in.Signed(), value);
  EXPECT_EQ(in.Text(), "text");
  EXPECT_EQ(in.Fixed64(), 0x0123456789ABCDEFu);
  EXPECT_TRUE(in.ok() && in.AtEnd());
}

Task SampleTask() {
  Task task;
  task.state = wire::TaskState::kLeased;
  task.run = std::make_unique<Run>();
  task.run->epoch = 3;
  task.run->closed_epoch = 2;
  task.run->committed_step = 70;
  task.run->app_failures = 1;
  task.run->error = "app_failure on host/cpu0: it broke";
  task.run->checkpoints = std::make_unique<Checkpoints>();
  task.run->checkpoints->last = {3, 70, 4, 99, "data", ""};
  task.run->checkpoints->previous = {2, 60, 1000000, 98, "", "/checkpoints/file"};
  task.run->lost_workers = std::make_unique<std::vector<WorkerId>>(1, WorkerId{1, 2});
  task.run->lease = std::make_unique<Lease>();
  task.run->lease->worker = {5, 6};
  task.run->lease->worker_name = "host/cpu0";
  return task;
}

TEST(Records, TaskRoundTrip) {
  std::string bytes = EncodeTask(SampleTask());
  Task read;
  ASSERT_TRUE(DecodeTask(bytes, &read).ok());
  EXPECT_EQ(EncodeTask(read), bytes);
  EXPECT_EQ(read.run->checkpoints->previous.path, "/checkpoints/file");
  EXPECT_EQ(read.run->lease->worker, (WorkerId{5, 6}));
}

TEST(Records, EveryTruncationIsNoticed) {
  std::string bytes = EncodeTask(SampleTask());
  for (size_t size = 0; size < bytes.size(); ++size) {
    Task read;
    EXPECT_EQ(DecodeTask(std::string_view(bytes).substr(0, size), &read).code(), StatusCode::kCorruption) << size;
  }
  Task read;
  EXPECT_EQ(DecodeTask(bytes + "x", &read).code(), StatusCode::kCorruption);
}

TEST(Records, NewerVersionIsRefusedAndNamed) {
  std::string bytes = EncodeTask(SampleTask());
  bytes[0] = static_cast<char>(kRecordVersion + 1);
  Task read;
  Status status = DecodeTask(bytes, &read);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_NE(status.message().find("version 2"), std::string::npos);
}

TEST(Records, KeysSortByJobAndIndex) {
  EXPECT_LT(TaskKey({1, 2}, 255), TaskKey({1, 2}, 256));
  EXPECT_LT(TaskKey({1, 2}, UINT32_MAX), TaskKey({1, 3}, 0));
  EXPECT_EQ(*ParseTaskKey(TaskKey({1, 2}, 77)), (TaskId{{1, 2}, 77}));
}

// Bytes as version 1 wrote them: later builds must go on reading them.
TEST(Records, StoredSampleOfVersionOneIsStillRead) {
  const char hex[] =
      "010203024600000100000000226170705f6661696c757265206f6e20686f73742f637075303a2069742062726f6b6500000203460463"
      "00000000000000046461746100023cc0843d620000000000000000112f636865636b706f696e74732f66696c65010100000000000000"
      "0200000000000000050000000000000006000000000000000"
      "9686f73742f63707530";
  std::string bytes;
  for (size_t i = 0; hex[i] != 0; i += 2) bytes.push_back(static_cast<char>(std::stoi(std::string(hex + i, 2), nullptr, 16)));
  Task read;
  ASSERT_TRUE(DecodeTask(bytes, &read).ok());
  EXPECT_EQ(EncodeTask(read), EncodeTask(SampleTask()));
}

}  // namespace
}  // namespace pillion::head
