// A real process that writes and acknowledges through a pipe is killed at any moment, again and
// again.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include "store/store.h"
#include "temporary.h"

namespace pillion::store {
namespace {

using testing::TemporaryDirectory;

StoreOptions Options(const std::string& directory) {
  StoreOptions options;
  options.state_directory = directory;
  options.reserve_bytes = 0;
  return options;
}

std::string Key(uint32_t number) {
  char text[16];
  std::snprintf(text, sizeof text, "%08u", number);
  return text;
}

// Batch n puts record n; every batch also rewrites one record. Never returns.
[[noreturn]] void WriteForever(const std::string& directory, uint32_t next, int acknowledge_fd) {
  Result<std::unique_ptr<RecordStore>> store = OpenRecordStore(Options(directory));
  if (!store.ok()) _exit(3);
  Batch batch;
  for (;; ++next) {
    batch.Clear();
    batch.Put(1, Key(next), std::string(next * 7919 % 50'000, 'v'));
    batch.Put(2, "last", Key(next));
    if (!(*store)->Write(batch).ok()) _exit(4);
    if (write(acknowledge_fd, &next, sizeof next) != sizeof next) _exit(5);
  }
}

TEST(StoreKill, NothingAcknowledgedIsLostAndBatchesAreWhole) {
  uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  TemporaryDirectory directory;
  std::string state = directory / "state";
  uint32_t stored = 0;  // records 0 … stored - 1 exist
  for (int round = 0; round < 12; ++round) {
    int pipe_fds[2];
    ASSERT_EQ(pipe(pipe_fds), 0);
    pid_t child = fork();
    if (child == 0) {
      close(pipe_fds[0]);
      WriteForever(state, stored, pipe_fds[1]);
    }
    close(pipe_fds[1]);
    uint32_t wanted = 1 + random() % 300;
    uint32_t acknowledged = stored;
    for (uint32_t number; acknowledged < stored + wanted &&
                          read(pipe_fds[0], &number, sizeof number) == sizeof number;) {
      acknowledged = number + 1;
    }
    kill(child, SIGKILL);
    for (uint32_t number; read(pipe_fds[0], &number, sizeof number) == sizeof number;)
      acknowledged = number + 1;
    close(pipe_fds[0]);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer failed with exit code " << WEXITSTATUS(status);

    Result<std::unique_ptr<RecordStore>> store = OpenRecordStore(Options(state));
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    uint32_t found = 0;
    std::string last;
    ASSERT_TRUE((*store)
                    ->ForEach([&](uint8_t kind, std::string_view key, std::string_view value) {
                      if (kind == 2) {
                        last = value;
                      } else {
                        EXPECT_EQ(key, Key(found));
                        EXPECT_EQ(value.size(), found * 7919 % 50'000);
                        ++found;
                      }
                      return Status::Ok();
                    })
                    .ok());
    EXPECT_GE(found, acknowledged);
    EXPECT_LE(found, acknowledged + 1);
    EXPECT_EQ(last, Key(found - 1));
    stored = found;
  }
}

}  // namespace
}  // namespace pillion::store
