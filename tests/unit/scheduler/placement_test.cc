#include "scheduler/placement.h"

#include <gtest/gtest.h>

namespace pillion::scheduler {
namespace {

Offer TrainerOffer() {
  Offer offer;
  offer.trainer_attached = true;
  offer.iteration_period_us = 100'000;
  offer.guard_us = 500;
  offer.slot_lengths_us = {10'500, 5'500, 300};
  offer.memory_total_bytes = offer.memory_free_bytes = uint64_t{4} << 30;
  offer.programs = {"pagerank", "resize"};
  return offer;
}

Demand For(const std::string& program) {
  Demand demand;
  demand.program = program;
  return demand;
}

TEST(Placement, CountsWholeStepsOfEachSlot) {
  // (10.5 - 0.5) / 3 = 3 steps, (5.5 - 0.5) / 3 = 1 step, nothing in the third slot; 10 iterations a second.
  Fit fit = Evaluate(For("resize"), TrainerOffer(), 3000);
  ASSERT_TRUE(fit.ok());
  EXPECT_DOUBLE_EQ(fit.steps_per_s, 40);
}

TEST(Placement, WithoutTrainerTheDeviceIsFree) {
  Offer offer = TrainerOffer();
  offer.trainer_attached = false;
  offer.iteration_period_us = 0;
  EXPECT_DOUBLE_EQ(Evaluate(For("resize"), offer, 3000).steps_per_s, 1e6 / 3000);
}

TEST(Placement, NamesTheExactReason) {
  Offer offer = TrainerOffer();
  auto reason = [&](const Demand& demand, uint32_t step_us) {
    return Explain(Evaluate(demand, offer, step_us), demand, offer, step_us);
  };
  Demand demand = For("pagernk");
  EXPECT_EQ(reason(demand, 0), "does not have program 'pagernk' (nearest there: 'pagerank')");
  demand = For("resize");
  demand.device_kind = static_cast<uint8_t>(DeviceKind::kCuda);
  EXPECT_EQ(reason(demand, 0), "needs a cuda device, this is a cpu device");
  demand = For("resize");
  demand.memory_bytes = uint64_t{8} << 30;
  EXPECT_EQ(reason(demand, 0), "needs 8.0 GiB, the device has 4.0 GiB");
  demand.memory_bytes = uint64_t{3} << 30;
  offer.memory_free_bytes = uint64_t{1} << 30;
  EXPECT_EQ(reason(demand, 0), "needs 3.0 GiB, 1.0 GiB are free now");
  demand = For("resize");
  demand.minimum_bubble_us = 20'000;
  EXPECT_EQ(reason(demand, 0), "asks for bubbles of 20000 us, the longest here is 10500 us");
  demand = For("resize");
  EXPECT_EQ(Evaluate(demand, offer, 15'000).refusal, Refusal::kStepTooLong);
  EXPECT_EQ(reason(demand, 1000), "");
}

TEST(Placement, UnknownStepTimeStillGetsItsTry) {
  Offer offer = TrainerOffer();
  offer.slot_lengths_us = {900};
  EXPECT_TRUE(Evaluate(For("resize"), offer, 0).ok());
  EXPECT_EQ(Evaluate(For("resize"), offer, kAssumedStepUs).refusal, Refusal::kStepTooLong);
}

TEST(Placement, MovesOnlyWhatPaysBack) {
  MovePolicy policy;
  EXPECT_TRUE(WorthMoving({10, 20, 1000, 60'000}, policy));
  EXPECT_FALSE(WorthMoving({10, 14, 1000, 60'000}, policy)) << "not clearly better";
  EXPECT_FALSE(WorthMoving({10, 20, 1000, 1'000}, policy)) << "it has only just come";
  EXPECT_FALSE(WorthMoving({10, 20, 10, 60'000}, policy)) << "it would be done before the move has paid";
  EXPECT_TRUE(WorthMoving({0, 5, 0, 60'000}, policy)) << "it stands still where it is";
}

}  // namespace
}  // namespace pillion::scheduler
