#include "worker/turns/residents.h"

#include <gtest/gtest.h>

#include "worker/host/step_estimate.h"

namespace pillion::turns {
namespace {

constexpr int64_t kMs = 1'000'000;

class ResidentsTest : public testing::Test {
 protected:
  Resident* Add(double value, int64_t step_ns, uint64_t memory_bytes = 0) {
    auto page = host::ControlPage::Create("test");
    EXPECT_TRUE(page.ok());
    pages_.push_back(*page);
    (**page)->ready.store(1);
    (**page)->step_estimate_ns.store(step_ns);
    ResidentOptions options;
    options.value = value;
    options.memory_bytes = memory_bytes;
    residents_.push_back(std::make_unique<Resident>(static_cast<ResidentId>(residents_.size() + 1), *page, options));
    return residents_.back().get();
  }
  Choice Pick(int64_t usable_ns, uint64_t memory = UINT64_MAX, bool may_try = false) {
    return Choose(residents_, usable_ns, memory, may_try, 0, now_ns_);
  }
  int64_t now_ns_ = 0;
  std::vector<std::shared_ptr<host::ControlPage>> pages_;
  std::vector<std::unique_ptr<Resident>> residents_;
};

TEST_F(ResidentsTest, TheBestValueThatFitsIsChosen) {
  Resident* large = Add(5, 8 * kMs);
  Resident* small = Add(1, 1 * kMs);
  EXPECT_EQ(Pick(10 * kMs).resident, large);
  EXPECT_EQ(Pick(5 * kMs).resident, small);
  Choice none = Pick(kMs / 2);
  EXPECT_EQ(none.resident, nullptr);
  EXPECT_EQ(none.cause, Cause::kShorterThanStep);
  EXPECT_EQ(none.shortest_step_ns, 1 * kMs);
}

TEST_F(ResidentsTest, EqualValuesTakeTurnsAndWhoDoesNotComeWaits) {
  Resident* a = Add(1, kMs);
  Resident* b = Add(1, kMs);
  a->last_served = 2;
  b->last_served = 1;
  EXPECT_EQ(Pick(5 * kMs).resident, b);
  b->missed_in_row = 1;
  EXPECT_EQ(Pick(5 * kMs).resident, a);
}

TEST_F(ResidentsTest, CausesAreNamed) {
  EXPECT_EQ(Pick(5 * kMs).cause, Cause::kNoTask);
  Resident* task = Add(1, kMs, 1000);
  EXPECT_EQ(Pick(5 * kMs, 999).cause, Cause::kMemory);
  EXPECT_EQ(Pick(5 * kMs, 1000).resident, task);
  task->paused = true;
  EXPECT_EQ(Pick(5 * kMs).cause, Cause::kNoTask);
}

TEST_F(ResidentsTest, UnknownStepTimesAreTriedOnlyWhereAllowed) {
  Resident* task = Add(1, 0);
  EXPECT_EQ(Pick(5 * kMs).resident, nullptr);
  EXPECT_EQ(Pick(5 * kMs, UINT64_MAX, true).resident, task);
}

TEST_F(ResidentsTest, StepsThatSeemTooLongAreTriedAgainLater) {
  Resident* task = Add(1, 30 * kMs);
  now_ns_ = kFirstRetryNs;
  EXPECT_EQ(Pick(5 * kMs, UINT64_MAX, true).resident, nullptr);
  now_ns_ = kFirstRetryNs + 1;
  EXPECT_EQ(Pick(5 * kMs).resident, nullptr);
  Choice choice = Pick(5 * kMs, UINT64_MAX, true);
  EXPECT_EQ(choice.resident, task);
  EXPECT_TRUE(choice.afresh);
  EXPECT_FALSE(Pick(40 * kMs, UINT64_MAX, true).afresh);
}

TEST_F(ResidentsTest, ATurnIsOneWordAndCannotBeTakenBackOnceTaken) {
  Resident* task = Add(1, kMs);
  TurnOrder order;
  order.edge = 9;
  EXPECT_TRUE(task->Arm(order));
  EXPECT_FALSE(task->Arm(order));
  EXPECT_TRUE(task->Disarm());
  EXPECT_TRUE(task->Arm(order));
  host::ControlLayout& page = **pages_[0];
  uint32_t word = page.turn.load();
  page.turn.store(host::TurnWord(host::TurnIdOf(word), host::TurnState::kTaken));
  EXPECT_FALSE(task->Disarm());
  EXPECT_TRUE(task->in_turn());
  EXPECT_FALSE(task->Collect().has_value());
}

TEST_F(ResidentsTest, RecordsThatCannotBeTrueCountAsNothing) {
  Resident* task = Add(1, kMs);
  EXPECT_TRUE(task->Arm({}));
  host::ControlLayout& page = **pages_[0];
  uint32_t id = host::TurnIdOf(page.turn.load());
  host::TurnRecord& record = page.records[id % host::kRecordRing];
  record.steps.store(3);
  record.first_start_ns.store(100);
  record.last_start_ns.store(300);
  record.last_end_ns.store(400);
  record.step_time_ns.store(300);
  record.end.store(4711);
  page.turn.store(host::TurnWord(id, host::TurnState::kEnded));
  EXPECT_EQ(task->Collect()->steps, 3u);
  EXPECT_EQ(task->Collect()->end, host::TurnEnd::kResting);
  record.step_time_ns.store(1'000'000);  // more than there was time
  EXPECT_EQ(task->Collect()->steps, 0u);
  record.step_time_ns.store(300);
  record.last_end_ns.store(50);
  EXPECT_EQ(task->Collect()->steps, 0u);
}

TEST(SoloTimeTest, TurnsWithoutATrainerWin) {
  SoloTime solo;
  for (int i = 0; i < 10; ++i) solo.Observe(false, i < 2 ? 2.0 : 3.0);
  EXPECT_LE(solo.unit_ns(), 3.0);
  solo.Observe(true, 1.0);
  solo.Observe(false, 9.0);
  EXPECT_DOUBLE_EQ(solo.unit_ns(), 1.0);
}

TEST(StepEstimateTest, OneDisturbedStepDoesNotCountALongerKindDoes) {
  host::StepEstimate estimate;
  EXPECT_EQ(estimate.high_ns(), 0);
  for (int i = 0; i < 32; ++i) estimate.Observe(100 + i % 3);
  EXPECT_EQ(estimate.high_ns(), 102);
  estimate.Observe(5000);
  EXPECT_EQ(estimate.high_ns(), 102);
  for (int i = 0; i < 5; ++i) estimate.Observe(300);
  EXPECT_EQ(estimate.high_ns(), 300);
}

}  // namespace
}  // namespace pillion::turns
