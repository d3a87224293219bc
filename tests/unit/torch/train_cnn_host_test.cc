// train.cnn in a real pillion-host, which loads LibTorch on demand, moved from one process to another.
#include <gtest/gtest.h>

#include "tests/unit/board/temporary_board_directory.h"
#include "tests/unit/host_process/host_under_test.h"
#include "tests/unit/sidetasks/harness.h"

namespace pillion {
namespace {

using namespace worker;  // the messages

constexpr char kArguments[] = R"({"images": 600, "epochs": 12})";

TEST(TrainCnnHost, EndsTheSameAfterAMoveBetweenProcesses) {
  TemporaryBoardDirectory directory;
  auto board = board::Board::Open("cpu-0", board::Board::Access::kReadWrite);
  ASSERT_TRUE(board.ok()) << board.status().ToString();
  auto engine = turns::TurnEngine::Start({}, *std::move(board), [](turns::ResidentId, int64_t) {});
  ASSERT_TRUE(engine.ok()) << engine.status().ToString();
  InitMessage spec;
  spec.task = TaskId{JobId::Random(), 1};
  spec.epoch = 1;
  spec.program = "train.cnn";
  spec.arguments = kArguments;
  spec.device = "cpu0";
  spec.checkpoint_root = directory.path() + "/checkpoints";

  HostUnderTest first(engine->get(), "cpu-0", "steps");
  first.Post(spec);
  ReadyMessage ready = first.Await<ReadyMessage>();
  EXPECT_TRUE(ready.elastic);
  EXPECT_EQ(ready.items_total, 600u * 12);
  first.AddToEngine();
  first.Post(LoadMessage{});
  first.Await<ProgressMessage>();
  first.Post(SaveMessage{true});
  store::StoredCheckpoint saved = first.Await<SavedMessage>().checkpoint;
  ASSERT_GT(saved.step, 0u);
  first.Post(ExitMessage{});
  EXPECT_EQ(first.Join(), 0);

  ++spec.epoch;
  HostUnderTest second(engine->get(), "cpu-0", "steps");
  second.Post(spec);
  second.Await<ReadyMessage>();
  second.AddToEngine();
  second.Post(LoadMessage{saved, {}});
  LoadedMessage loaded = second.Await<LoadedMessage>();
  EXPECT_EQ(loaded.step, saved.step);
  EXPECT_GT(loaded.items_done, 0u);
  EXPECT_LT(loaded.items_done, 600u * 12);
  DoneMessage done = second.Await<DoneMessage>();
  EXPECT_EQ(done.items_done, 600u * 12);
  second.Post(ExitMessage{});
  EXPECT_EQ(second.Join(), 0);

  testing::RunReport whole = testing::RunProgram("train.cnn", kArguments);
  ASSERT_TRUE(whole.status.ok()) << whole.status.ToString();
  EXPECT_EQ(done.result, whole.result);
}

}  // namespace
}  // namespace pillion
