#include "api/board/board.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <vector>

#include "tests/unit/board/temporary_board_directory.h"

namespace pillion::board {
namespace {

TEST(Board, IsCreatedOnceAndSharedByAll) {
  TemporaryBoardDirectory directory;
  auto first = Board::Open("cpu-0", Board::Access::kReadWrite);
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  auto second = Board::Open("cpu-0", Board::Access::kReadOnly);
  ASSERT_TRUE(second.ok()) << second.status().ToString();
  EXPECT_STREQ((*second)->layout()->device_uuid, "cpu-0");
  EXPECT_EQ((*second)->layout()->iteration.load(), kNoIteration);
  (*first)->layout()->edge.store(EdgeWord(7, true));
  EXPECT_EQ((*second)->layout()->edge.load(), EdgeWord(7, true));

  struct stat info {};
  ASSERT_EQ(stat((*first)->path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST(Board, ManyProcessesMayRaceToCreateIt) {
  TemporaryBoardDirectory directory;
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    pid_t child = fork();
    if (child == 0) {
      auto board = Board::Open("cpu-0", i % 2 ? Board::Access::kReadOnly : Board::Access::kReadWrite);
      _exit(board.ok() && (*board)->layout()->magic.load() == kMagic ? 0 : 1);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

TEST(Board, LocksEndWithTheirProcess) {
  TemporaryBoardDirectory directory;
  auto board = Board::Open("cpu-0", Board::Access::kReadWrite);
  ASSERT_TRUE(board.ok());
  EXPECT_FALSE((*board)->IsLocked(kLockTrainer));

  int ready[2], leave[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(leave), 0);
  pid_t child = fork();
  if (child == 0) {
    auto own = Board::Open("cpu-0", Board::Access::kReadWrite);
    char byte = own.ok() && (*own)->TryLock(kLockTrainer).ok() ? 'y' : 'n';
    (void)!write(ready[1], &byte, 1);
    (void)!read(leave[0], &byte, 1);
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  ASSERT_EQ(byte, 'y');
  EXPECT_TRUE((*board)->IsLocked(kLockTrainer));
  EXPECT_FALSE((*board)->IsLocked(kLockWorker));
  EXPECT_EQ((*board)->TryLock(kLockTrainer).code(), StatusCode::kUnavailable);
  EXPECT_TRUE((*board)->TryLock(kLockWorker).ok());

  ASSERT_EQ(kill(child, SIGKILL), 0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_FALSE((*board)->IsLocked(kLockTrainer));
  EXPECT_TRUE((*board)->TryLock(kLockTrainer).ok());
  for (int fd : {ready[0], ready[1], leave[0], leave[1]}) close(fd);
}

TEST(Board, RefusesWhatIsNoBoard) {
  TemporaryBoardDirectory directory;
  std::ofstream(BoardPath("cpu-0")) << "this is a text, and certainly no board of any version";
  EXPECT_EQ(Board::Open("cpu-0", Board::Access::kReadWrite).status().code(), StatusCode::kCorruption);
  std::ofstream(BoardPath("cpu-1")) << "abc";
  EXPECT_EQ(Board::Open("cpu-1", Board::Access::kReadWrite).status().code(), StatusCode::kCorruption);
  EXPECT_EQ(Board::Open("../cpu", Board::Access::kReadWrite).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Board::Open("", Board::Access::kReadWrite).status().code(), StatusCode::kInvalidArgument);
}

TEST(Board, RefusesAnotherVersionNamingBoth) {
  TemporaryBoardDirectory directory;
  {
    auto board = Board::Open("cpu-0", Board::Access::kReadWrite);
    ASSERT_TRUE(board.ok());
    (*board)->layout()->major_version = kMajorVersion + 1;
  }
  auto again = Board::Open("cpu-0", Board::Access::kReadOnly);
  EXPECT_EQ(again.status().code(), StatusCode::kUnsupported);
  EXPECT_NE(again.status().message().find("version " + std::to_string(kMajorVersion + 1)), std::string::npos);
  EXPECT_NE(again.status().message().find("speaks " + std::to_string(kMajorVersion)), std::string::npos);
}

TEST(Board, RefusesADirectoryThatOthersCanEnter) {
  TemporaryBoardDirectory directory;
  ASSERT_EQ(chmod(directory.path().c_str(), 0755), 0);
  EXPECT_EQ(Board::Open("cpu-0", Board::Access::kReadWrite).status().code(), StatusCode::kPermissionDenied);
}

TEST(Board, QuietIterationsComeInBlocksAndInTheRightShare) {
  for (uint64_t run_id : {1ull, 42ull, 0xFFFFFFFFFFFFull}) {
    uint64_t quiet = 0;
    constexpr uint64_t kIterations = 400'000;
    for (uint64_t i = 0; i < kIterations; ++i) {
      bool is = IsQuiet(run_id, i, 50);
      EXPECT_EQ(is, IsQuiet(run_id, i - i % kQuietBlock, 50));
      quiet += is;
    }
    EXPECT_NEAR(static_cast<double>(quiet) / kIterations, 0.02, 0.003) << "run " << run_id;
  }
  EXPECT_FALSE(IsQuiet(1, 0, 0));
  EXPECT_TRUE(IsQuiet(1, 0, 1));
  EXPECT_FALSE(IsQuiet(1, kNoIteration, 1));
}

TEST(Board, SequencesSkipZeroWhenTheyWrap) {
  EXPECT_EQ(NextSequence(1), 2u);
  EXPECT_EQ(NextSequence(0x7FFFFFFFu), 1u);
}

}  // namespace
}  // namespace pillion::board
