#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/device/device.h"
#include "base/file.h"
#include "base/futex.h"
#include "base/ids.h"
#include "base/status.h"

namespace pillion {
namespace {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    char pattern[] = "/tmp/pillion-base-XXXXXX";
    path_ = mkdtemp(pattern);
  }
  ~TemporaryDirectory() { (void)!system(("rm -rf " + path_).c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Result<int> Half(int value) {
  if (value % 2 != 0) return InvalidArgument("odd");
  return value / 2;
}
Status Quarter(int value, int* out) {
  PILLION_ASSIGN_OR_RETURN(int half, Half(value));
  PILLION_ASSIGN_OR_RETURN(*out, Half(half));
  return Status::Ok();
}

TEST(Status, MacrosPassErrorsOn) {
  int quarter = 0;
  EXPECT_TRUE(Quarter(8, &quarter).ok());
  EXPECT_EQ(quarter, 2);
  EXPECT_EQ(Quarter(6, &quarter).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(NotFound("x").WithContext("looking").ToString(), "not_found: looking: x");
}

TEST(Ids, RoundTripAndRefuse) {
  JobId job = JobId::Random();
  EXPECT_NE(job, JobId::Random());
  EXPECT_EQ(*JobId::Parse(job.ToString()), job);
  TaskId task{job, 41};
  EXPECT_EQ(*TaskId::Parse(task.ToString()), task);
  for (const char* bad : {"", "12", "zz", ".3"}) EXPECT_FALSE(TaskId::Parse(bad).ok()) << bad;
  EXPECT_FALSE(TaskId::Parse(job.ToString() + ".x").ok());
  EXPECT_FALSE(TaskId::Parse(job.ToString() + ".99999999999").ok());
}

TEST(Clock, Iso8601) { EXPECT_EQ(FormatIso8601Utc(1'700'000'000'123'000'000), "2023-11-14T22:13:20.123Z"); }

TEST(File, DurableWriteReplacesWhole) {
  TemporaryDirectory directory;
  std::string path = directory.path() + "/a/b";
  ASSERT_TRUE(MakeDirectories(directory.path() + "/a").ok());
  ASSERT_TRUE(WriteFileDurably(path, "one").ok());
  ASSERT_TRUE(WriteFileDurably(path, "two").ok());
  EXPECT_EQ(*ReadFile(path), "two");
  EXPECT_EQ(ListDirectory(directory.path() + "/a")->size(), 1u);
  EXPECT_EQ(ReadFile(path + "x").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ReadFile(path, 2).status().code(), StatusCode::kResourceExhausted);
}

TEST(File, LockExcludesAndDropsWithItsHolder) {
  TemporaryDirectory directory;
  std::string path = directory.path() + "/lock";
  {
    auto lock = FileLock::TryAcquire(path);
    ASSERT_TRUE(lock.ok());
    EXPECT_EQ(FileLock::TryAcquire(path).status().code(), StatusCode::kUnavailable);
  }
  EXPECT_TRUE(FileLock::TryAcquire(path).ok());
}

TEST(Futex, WakesOnEitherWordAndTimesOut) {
  std::atomic<uint32_t> first{0}, second{0};
  EXPECT_FALSE(FutexWait(&first, 0, MonotonicNowNs() + kNanosPerMilli));
  EXPECT_FALSE(FutexWaitEither(&first, 0, &second, 0, MonotonicNowNs() + kNanosPerMilli));
  std::thread waker([&] {
    second = 1;
    FutexWakeAll(&second);
  });
  while (second.load() == 0) FutexWaitEither(&first, 0, &second, 0);
  waker.join();
  EXPECT_EQ(second.load(), 1u);
}

TEST(Futex, WaitsOnReadOnlyMapping) {
  int fd = memfd_create("futex", 0);
  ASSERT_EQ(ftruncate(fd, 4096), 0);
  auto* writable = static_cast<std::atomic<uint32_t>*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  auto* readable = static_cast<std::atomic<uint32_t>*>(mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0));
  std::thread waker([&] {
    writable->store(1);
    FutexWakeAll(writable);
  });
  while (readable->load() == 0) FutexWait(readable, 0);
  waker.join();
  munmap(writable, 4096);
  munmap(readable, 4096);
  close(fd);
}

TEST(Device, PoolHasAHardMaximum) {
  auto info = FindDevice("cpu0");
  ASSERT_TRUE(info.ok());
  auto device = OpenDevice(*info, 1024);
  ASSERT_TRUE(device.ok());
  auto first = (*device)->Allocate(1000);
  ASSERT_TRUE(first.ok());
  auto second = (*device)->Allocate(1);
  EXPECT_EQ(second.status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ((*device)->Allocate(SIZE_MAX).status().code(), StatusCode::kResourceExhausted);
  (*device)->Free(*first);
  EXPECT_EQ((*device)->allocated_bytes(), 0u);
  EXPECT_TRUE((*device)->Allocate(1).ok());
}

TEST(Device, NamesAreChecked) {
  EXPECT_EQ(FindDevice("gpu0").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(FindDevice("cpu").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(FindDevice("cpu4096").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace pillion
