// The simulator's semantics, each on a plan small enough to do by hand.
#include "pipeline/simulate.h"

#include <gtest/gtest.h>

#include "pipeline/schedules/schedules.h"

namespace pillion::pipeline {
namespace {

constexpr ActionType kF = ActionType::kForward, kI = ActionType::kInputGradient,
                     kW = ActionType::kWeightGradient, kB = ActionType::kBackward;

// Two stages on two devices, one micro-batch.
Plan TwoStages() {
  Plan plan;
  plan.devices = 2;
  plan.microbatches = 1;
  plan.stages = {{0, 1, 0}, {1, 2, 1}};
  plan.order = {{{kF, false, 0, 0}, {kB, false, 0, 0}}, {{kF, false, 1, 0}, {kB, false, 1, 0}}};
  return plan;
}

TEST(Simulate, TransfersTakeLatencyAndBandwidthAndQueueOnTheirLink) {
  Plan plan = *GenerateSchedule(ScheduleKind::kGPipe, {2, 2});
  Costs costs = UniformCosts(plan, 1, 1, 1);
  for (Layer& layer : costs.layers) layer.output_bytes = 30;
  UseLinks({5, 10.0}, {5, 10.0}, 1, &costs);  // occupies the link for 3 ticks, arrives 5 later
  auto result = Simulate(plan, costs);
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  // F0 ends at 1: link [1, 4), arrives 9. F1 ends at 2 but the link is free at 4: arrives 12.
  EXPECT_EQ(result->times[1][0], (Interval{9, 10}));
  EXPECT_EQ(result->times[1][1], (Interval{12, 13}));
  ASSERT_EQ(result->transfers.size(), 4u);
  EXPECT_EQ(result->transfers[1].ready, 2);
  EXPECT_EQ(result->transfers[1].start, 4);
  // B0 ends at 15: link until 18, arrives 23; B1 ends at 17: link [18, 21), arrives 26; then B1 of
  // stage 0.
  EXPECT_EQ(result->makespan, 28);

  SimulateOptions blocking;
  blocking.overlap_communication = false;
  result = Simulate(plan, costs, blocking);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->times[0][1], (Interval{4, 5}));  // device 0 was busy sending until 4
}

TEST(Simulate, SpeedAndLayersMakeTheTime) {
  Plan plan = TwoStages();
  Costs costs = UniformCosts(plan, 10, 20, 30);
  costs.devices[1].speed = 2.0;
  EXPECT_EQ(Simulate(plan, costs)->makespan, 10 + 5 + 10 + 15 + 50);
  costs.layers[0].forward = 0;  // at least one tick
  EXPECT_EQ(Simulate(plan, costs)->makespan, 1 + 5 + 10 + 15 + 50);
}

TEST(Simulate, MemoryIsHeldFromForwardToTheLaterOfIAndW) {
  Plan plan;
  plan.devices = 1;
  plan.microbatches = 2;
  plan.stages = {{0, 2, 0}};
  plan.order = {{{kF, false, 0, 0},
                 {kF, false, 0, 1},
                 {kI, false, 0, 0},
                 {kI, false, 0, 1},
                 {kW, false, 0, 0},
                 {kW, false, 0, 1}}};
  Costs costs = UniformCosts(plan, 1, 1, 1);
  for (Layer& layer : costs.layers) {
    layer.parameter_bytes = 1000;
    layer.activation_bytes_until_input_gradient = 10;
    layer.activation_bytes_until_weight_gradient = 1;
  }
  costs.layers[1].is_body = false;
  SimulateOptions options;
  options.keep_memory_samples = true;
  auto result = Simulate(plan, costs, options);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->peak_bytes[0], 2000 + 2 * 22);
  EXPECT_EQ(result->peak_live_layers[0], 2);
  EXPECT_EQ(result->peak_live_pairs[0], 2);
  EXPECT_EQ(result->memory[0].back().bytes, 2000);
  EXPECT_EQ(result->memory[0].back().live_pairs, 0);
  EXPECT_EQ(result->memory[0][3].bytes, 2000 + 4 + 20)
      << "after the first I its first part is gone";

  plan.stages[0].recompute = true;
  result = Simulate(plan, costs, options);
  EXPECT_EQ(result->makespan, 2 * (2 + 2 + 2 + 2));  // each I runs F again
  EXPECT_EQ(result->peak_live_pairs[0], 2);
}

TEST(Simulate, OverlapBlocksAreAtomicOrASequence) {
  Plan plan = *GenerateSchedule(ScheduleKind::kDualPipeV, {4, 10});
  Costs costs = UniformCosts(plan, 1, 1, 1);
  SimulateOptions sequence;
  sequence.overlap = OverlapMode::kSequence;
  EXPECT_EQ(Simulate(plan, costs)->makespan, 66);
  EXPECT_LE(Simulate(plan, costs, sequence)->makespan, 66);
}

TEST(Simulate, SplitHeadSharesTheWork) {
  Plan plan = TwoStages();
  plan.stages[1].device = 0;
  plan.stages[1].shard_devices = {0, 1};
  plan.order = {{{kF, false, 0, 0}, {kF, false, 1, 0}, {kB, false, 1, 0}, {kB, false, 0, 0}},
                {{kF, false, 1, 0}, {kB, false, 1, 0}}};
  auto result = Simulate(plan, UniformCosts(plan, 10, 10, 10));
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  EXPECT_EQ(result->makespan, 10 + 5 + 10 + 20);
}

TEST(Simulate, HangsAndWrongWorkAreNamed) {
  Plan plan = TwoStages();
  std::swap(plan.order[1][0], plan.order[1][1]);
  auto result = Simulate(plan, UniformCosts(plan, 1, 1, 1));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(result.status().message().find("device 1 at 1B0 waits for 1F0"), std::string::npos)
      << result.status().message();

  plan = TwoStages();
  plan.order[1].pop_back();
  EXPECT_NE(Simulate(plan, UniformCosts(plan, 1, 1, 1))
                .status()
                .message()
                .find("stage 1, micro-batch 0: no backward"),
            std::string::npos);
  plan = TwoStages();
  plan.order[0].push_back(plan.order[0][0]);
  EXPECT_NE(
      Simulate(plan, UniformCosts(plan, 1, 1, 1)).status().message().find("0F0 is done twice"),
      std::string::npos);
  plan = TwoStages();
  plan.stages[1].device = 7;
  EXPECT_EQ(Simulate(plan, UniformCosts(TwoStages(), 1, 1, 1)).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace pillion::pipeline
