// Check on plans that complete, hang, lack work or need too much memory.
#include "pipeline/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "pipeline/schedules/schedules.h"

namespace pillion::pipeline {
namespace {

using testing::HasSubstr;

Plan Make(ScheduleKind kind, int32_t devices, int32_t microbatches) {
  ScheduleOptions options;
  options.devices = devices;
  options.microbatches = microbatches;
  auto plan = GenerateSchedule(kind, options);
  EXPECT_TRUE(plan.ok()) << plan.status().ToString();
  return plan.ok() ? *plan : Plan();
}

CheckReport Report(const Plan& plan, const Costs& costs) {
  auto report = Check(plan, costs);
  EXPECT_TRUE(report.ok()) << report.status().ToString();
  return report.ok() ? *report : CheckReport();
}

TEST(Check, EveryScheduleCompletes) {
  for (ScheduleKind kind : AllSchedules()) {
    const Plan plan = Make(kind, 4, 8);
    const CheckReport report = Report(plan, UniformCosts(plan, 1, 1, 1));
    EXPECT_TRUE(report.completes && report.fits) << ScheduleName(kind) << ": " << report.reason;
    EXPECT_EQ(report.reason, "");
  }
}

TEST(Check, NamesTheCycleBetweenDevices) {
  Plan plan = Make(ScheduleKind::kGPipe, 2, 2);
  // Device 0 wants the gradient of micro-batch 0 before it sends micro-batch 1 on; device 1 wants
  // the forward of micro-batch 1 before it makes that gradient.
  plan.order[0] = {{ActionType::kForward, false, 0, 0},
                   {ActionType::kBackward, false, 0, 0},
                   {ActionType::kForward, false, 0, 1},
                   {ActionType::kBackward, false, 0, 1}};
  plan.order[1] = {{ActionType::kForward, false, 1, 0},
                   {ActionType::kForward, false, 1, 1},
                   {ActionType::kBackward, false, 1, 0},
                   {ActionType::kBackward, false, 1, 1}};
  const CheckReport report = Report(plan, UniformCosts(plan, 1, 1, 1));
  EXPECT_FALSE(report.completes);
  ASSERT_EQ(report.cycle.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(report.cycle[i].needed_device, report.cycle[1 - i].device);
  }
  EXPECT_THAT(report.reason, HasSubstr("device 0 at 0B0 (action 1) waits for 1B0 of device 1"));
  EXPECT_THAT(report.reason, HasSubstr("device 1 at 1F1 (action 1) waits for 0F1 of device 0"));
}

TEST(Check, MisorderedWorkOfOneDeviceIsACycleOfOne) {
  Plan plan = Make(ScheduleKind::kZbH1, 2, 2);
  auto& order = plan.order[1];
  std::reverse(order.begin(), order.end());
  const CheckReport report = Report(plan, UniformCosts(plan, 1, 1, 1));
  EXPECT_FALSE(report.completes);
  ASSERT_EQ(report.cycle.size(), 1u);
  EXPECT_EQ(report.cycle[0].device, 1);
  EXPECT_THAT(report.reason, HasSubstr("later in its own order"));
}

TEST(Check, NamesMissingAndDoubledWork) {
  const Plan whole = Make(ScheduleKind::kOneFOneB, 2, 3);
  Plan missing = whole, doubled = whole;
  missing.order[1].pop_back();
  const CheckReport without = Report(missing, UniformCosts(whole, 1, 1, 1));
  EXPECT_FALSE(without.completes);
  EXPECT_FALSE(without.work_problems.empty());
  doubled.order[0].push_back(doubled.order[0].front());
  const CheckReport twice = Report(doubled, UniformCosts(whole, 1, 1, 1));
  EXPECT_FALSE(twice.completes);
  EXPECT_FALSE(twice.reason.empty());
}

TEST(Check, ReportsMemoryOverTheCap) {
  const Plan plan = Make(ScheduleKind::kGPipe, 2, 4);
  Costs costs = UniformCosts(plan, 1, 1, 1);
  costs.devices[1].live_layer_cap = 3;
  const CheckReport report = Report(plan, costs);
  EXPECT_TRUE(report.completes);
  EXPECT_FALSE(report.fits);
  EXPECT_EQ(report.reason, "device 1 reaches 4 live layers; its cap is 3");
}

TEST(Check, RefusesABadShape) {
  Plan plan = Make(ScheduleKind::kGPipe, 2, 2);
  const Costs costs = UniformCosts(plan, 1, 1, 1);
  plan.order[0][0].stage = 9;
  auto report = Check(plan, costs);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace pillion::pipeline
