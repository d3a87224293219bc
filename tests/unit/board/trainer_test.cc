#include "pillion/trainer.h"

#include <gtest/gtest.h>

#include <string>

#include "api/board/board.h"
#include "tests/unit/board/temporary_board_directory.h"

extern "C" uint32_t HeaderIsC(void);

namespace pillion::board {
namespace {

pillion_board* OpenTrainer(uint64_t run_id = 42) {
  pillion_board_options options = PILLION_BOARD_OPTIONS_INIT;
  options.device = "cpu0";
  options.run_id = run_id;
  options.rank = 1;
  options.ranks = 2;
  return pillion_board_open(&options);
}

TEST(Trainer, MarksIterationsAndBubbles) {
  EXPECT_EQ(HeaderIsC(), sizeof(pillion_board_options));
  TemporaryBoardDirectory directory;
  auto worker = Board::Open("cpu-0", Board::Access::kReadWrite);
  ASSERT_TRUE(worker.ok());
  const Layout& layout = *(*worker)->layout();
  pillion_board* board = OpenTrainer();
  ASSERT_NE(board, nullptr) << pillion_board_error();
  EXPECT_TRUE((*worker)->IsLocked(kLockTrainer));
  EXPECT_EQ(layout.run_id.load(), 42u);
  EXPECT_EQ(layout.rank.load(), 1);
  EXPECT_EQ(layout.trainer_generation.load(), 1u);
  EXPECT_EQ(layout.iteration.load(), kNoIteration);

  for (uint64_t iteration = 0; iteration < 300; ++iteration) {
    pillion_iteration(board, nullptr, 2);
    EXPECT_EQ(layout.iteration.load(), iteration);
    EXPECT_EQ(layout.iterations[iteration % kIterationRing].iteration.load(), iteration);
    EXPECT_GT(layout.iterations[iteration % kIterationRing].start_ns.load(), 0);
    for (uint32_t slot = 0; slot < 2; ++slot) {
      uint32_t sequence = static_cast<uint32_t>(iteration) * 2 + slot + 1;
      const RingEntry& entry = layout.ring[sequence % limits::kBoardRing];
      pillion_bubble_begin(board, nullptr);
      EXPECT_EQ(layout.edge.load(), EdgeWord(sequence, true));
      EXPECT_EQ(entry.sequence.load(), sequence);
      EXPECT_EQ(entry.slot.load(), slot);
      EXPECT_EQ(entry.iteration.load(), iteration);
      EXPECT_EQ(entry.close_ns.load(), 0);
      pillion_bubble_end(board, nullptr);
      EXPECT_EQ(layout.edge.load(), EdgeWord(sequence, false));
      EXPECT_GE(entry.close_ns.load(), entry.open_ns.load());
    }
  }
  EXPECT_EQ(layout.slots_per_iteration.load(), 2u);

  uint32_t lengths[] = {1500, 2500};
  pillion_expect(board, lengths, 2);
  EXPECT_EQ(layout.expected_slots.load(), 2u);
  EXPECT_EQ(layout.expected_us[1].load(), 2500u);
  pillion_claim_memory(board, 12345);
  EXPECT_EQ(layout.memory_claim_bytes.load(), 12345u);
  pillion_board_close(board);
  EXPECT_FALSE((*worker)->IsLocked(kLockTrainer));
}

TEST(Trainer, ASecondTrainerIsRefusedAndARestartedOneGoesOnCounting) {
  TemporaryBoardDirectory directory;
  pillion_board* first = OpenTrainer(1);
  ASSERT_NE(first, nullptr) << pillion_board_error();
  EXPECT_EQ(OpenTrainer(2), nullptr);
  EXPECT_NE(std::string(pillion_board_error()).find("another trainer"), std::string::npos);
  pillion_iteration(first, nullptr, 1);
  pillion_bubble_begin(first, nullptr);
  pillion_board_close(first);  // in an open bubble, as if it had died there

  auto worker = Board::Open("cpu-0", Board::Access::kReadOnly);
  ASSERT_TRUE(worker.ok());
  EXPECT_EQ((*worker)->layout()->edge.load(), EdgeWord(1, false));
  pillion_board* second = OpenTrainer(2);
  ASSERT_NE(second, nullptr) << pillion_board_error();
  EXPECT_EQ((*worker)->layout()->trainer_generation.load(), 2u);
  EXPECT_EQ((*worker)->layout()->iteration.load(), kNoIteration);
  pillion_iteration(second, nullptr, 1);
  pillion_bubble_begin(second, nullptr);
  EXPECT_EQ((*worker)->layout()->edge.load(), EdgeWord(2, true));
  pillion_board_close(second);
}

TEST(Trainer, QuietAgreesWithTheWorker) {
  TemporaryBoardDirectory directory;
  auto worker = Board::Open("cpu-0", Board::Access::kReadWrite);
  ASSERT_TRUE(worker.ok());
  (*worker)->layout()->quiet_one_in.store(4);
  pillion_board* board = OpenTrainer(99);
  ASSERT_NE(board, nullptr);
  EXPECT_EQ(pillion_iteration_is_quiet(board), 0);
  int quiet = 0;
  for (uint64_t i = 0; i < 400; ++i) {
    pillion_iteration(board, nullptr, 1);
    EXPECT_EQ(pillion_iteration_is_quiet(board) == 1, IsQuiet(99, i, 4)) << i;
    quiet += pillion_iteration_is_quiet(board);
  }
  EXPECT_GT(quiet, 0);
  EXPECT_LT(quiet, 400);
  pillion_board_close(board);
}

TEST(Trainer, NullBoardsAndUnknownDevicesDoNothing) {
  TemporaryBoardDirectory directory;
  pillion_iteration(nullptr, nullptr, 1);
  pillion_bubble_begin(nullptr, nullptr);
  pillion_bubble_end(nullptr, nullptr);
  pillion_expect(nullptr, nullptr, 1);
  pillion_claim_memory(nullptr, 1);
  pillion_board_close(nullptr);
  EXPECT_EQ(pillion_iteration_is_quiet(nullptr), 0);
  EXPECT_EQ(pillion_board_open(nullptr), nullptr);
  EXPECT_EQ(pillion_trainer_abi_version(), 1u);

  pillion_board_options options = PILLION_BOARD_OPTIONS_INIT;
  options.device = "tpu0";
  EXPECT_EQ(pillion_board_open(&options), nullptr);
  EXPECT_NE(std::string(pillion_board_error()).find("tpu0"), std::string::npos);
  options.device = "cuda4711";
  EXPECT_EQ(pillion_board_open(&options), nullptr);
  EXPECT_STRNE(pillion_board_error(), "");
}

}  // namespace
}  // namespace pillion::board
