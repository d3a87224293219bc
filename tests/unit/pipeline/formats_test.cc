// The schedule table and the JSON plan, both ways.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/formats/csv.h"
#include "pipeline/formats/plan_json.h"
#include "pipeline/schedules/schedules.h"
#include "pipeline/simulate.h"

namespace pillion::pipeline {
namespace {

using testing::HasSubstr;

constexpr char kComputeOld[] = "0F0,0F1,,0B0,0W0,0B1,0W1\n,1F0,1B0,1F1,1B1,1W0,1W1\n";
constexpr char kTransfersOld[] =
    "0F0,0SEND_F0,0RECV_B0,0BW0\n1RECV_F0,1F0,1BW0,1SEND_B0\n";
constexpr char kCurrent[] =
    "0UNSHARD,0F0,0F1,(0I0;0F2)OVERLAP_F_B,0W0,0B1,0B2,0REDUCE_GRAD,0RESHARD\n"
    ",1F0,1B0,1F1,1B1,1F2,1B2\n";

CsvSchedule Read(const std::string& text) {
  auto schedule = ParseScheduleCsv(text);
  EXPECT_TRUE(schedule.ok()) << schedule.status().ToString();
  return schedule.ok() ? *schedule : CsvSchedule();
}

TEST(ScheduleCsv, ImportThenExportIsTheIdentityInBothDialects) {
  for (const char* text : {kComputeOld, kTransfersOld, kCurrent}) {
    const CsvSchedule schedule = Read(text);
    auto again = FormatScheduleCsv(schedule.plan, schedule.dialect);
    ASSERT_TRUE(again.ok()) << again.status().ToString();
    EXPECT_EQ(*again, text);
  }
}

TEST(ScheduleCsv, DetectsAndTranslatesTheOldDialect) {
  const CsvSchedule compute = Read(kComputeOld);
  EXPECT_EQ(compute.dialect, CsvDialect::kOld);
  EXPECT_EQ(compute.plan.order[0][3], (Action{ActionType::kInputGradient, false, 0, 0}));
  const CsvSchedule transfers = Read(kTransfersOld);
  EXPECT_EQ(transfers.dialect, CsvDialect::kOld);
  EXPECT_EQ(transfers.plan.order[1][2], (Action{ActionType::kBackward, false, 1, 0}));
  EXPECT_EQ(Read(kCurrent).dialect, CsvDialect::kCurrent);
  // F, F, idle until 1I0 is done at 3, then I, W, and 1I1 is done at 5: I, W.
  auto result = Simulate(compute.plan, UniformCosts(compute.plan, 1, 1, 1));
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  EXPECT_EQ(result->makespan, 7);
}

TEST(ScheduleCsv, KeepsBlocksIdleCellsAndLineEnds) {
  const Plan plan = Read("0F0,,0F1,(0B0;0F2)OVERLAP_F_B,0B1,0B2\r\n").plan;
  EXPECT_EQ(plan.devices, 1);
  EXPECT_EQ(plan.microbatches, 3);
  ASSERT_EQ(plan.order[0].size(), 7u);
  EXPECT_EQ(plan.order[0][1].type, ActionType::kIdle);
  EXPECT_FALSE(plan.order[0][3].joins_previous);
  EXPECT_TRUE(plan.order[0][4].joins_previous);
}

TEST(ScheduleCsv, EveryScheduleWithOneCopyComesBack) {
  ScheduleOptions options;
  options.devices = 4;
  options.microbatches = 8;
  int compared = 0;
  for (ScheduleKind kind : AllSchedules()) {
    auto plan = GenerateSchedule(kind, options);
    ASSERT_TRUE(plan.ok()) << ScheduleName(kind);
    auto json = ParsePlanJson(FormatPlanJson(*plan));
    ASSERT_TRUE(json.ok()) << json.status().ToString();
    EXPECT_EQ(*json, *plan) << ScheduleName(kind);
    EXPECT_EQ(json->name, plan->name);
    auto text = FormatScheduleCsv(*plan);
    EXPECT_EQ(text.ok(), plan->copies == 1) << ScheduleName(kind);
    if (!text.ok()) continue;
    EXPECT_EQ(Read(*text).plan, *plan) << ScheduleName(kind);
    auto old = FormatScheduleCsv(*plan, CsvDialect::kOld);
    ASSERT_TRUE(old.ok());
    EXPECT_EQ(Read(*old).plan, *plan) << ScheduleName(kind);
    ++compared;
  }
  EXPECT_GT(compared, 8);
}

TEST(ScheduleCsv, ErrorsNameRowColumnAndToken) {
  struct Case {
    const char* text;
    std::vector<const char*> parts;
  };
  const Case cases[] = {
      {"0F0,0B0\n1F0,1X0\n", {"row 2, column 2", "'1X0'"}},
      {"0F0,0BW0x\n", {"row 1, column 2", "'0BW0x'"}},
      {"0F\n", {"row 1, column 1", "'0F'", "micro-batch"}},
      {"F0\n", {"row 1, column 1", "'F0'", "stage"}},
      {"0F99999999999\n", {"row 1, column 1", "micro-batch"}},
      {"0UNSHARD3\n", {"'0UNSHARD3'", "takes no micro-batch"}},
      {"0F0,(0F1;0B0)OVERLAP\n", {"row 1, column 2", "overlap block"}},
      {"(0F1)OVERLAP_F_B\n", {"row 1, column 1", "two or more"}},
      {"(0F1;0SEND_F0)OVERLAP_F_B\n", {"row 1, column 1", "overlaps something else"}},
      {"0F0,0B0\n0F1\n", {"row 2, column 1", "'0F1'", "row 1 already"}},
      {"0F0,2F0\n", {"stage 1 is in no row"}},
      {"", {"no actions"}},
  };
  for (const Case& bad : cases) {
    auto schedule = ParseScheduleCsv(bad.text);
    ASSERT_FALSE(schedule.ok()) << bad.text;
    EXPECT_EQ(schedule.status().code(), StatusCode::kInvalidArgument);
    for (const char* part : bad.parts) EXPECT_THAT(schedule.status().message(), HasSubstr(part));
  }
}

TEST(ScheduleCsv, MergesOnlyAdjacentBackwardsOfOnePair) {
  const Plan plan = Read("0F0,0F1,0I0,0W0,0I1,1F0,0W1\n").plan;
  auto text = FormatScheduleCsv(MergeAdjacentBackwards(plan));
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(*text, "0F0,0F1,0B0,0I1,1F0,0W1\n");
}

TEST(PlanJson, ErrorsNameTheKeyOrCell) {
  const std::string good =
      R"({"schema":1,"devices":1,"microbatches":1,"stages":[{"layers":[0,1],"device":0}],)";
  EXPECT_TRUE(ParsePlanJson(good + R"("order":[["0F0","0B0"]]})").ok());
  auto cell = ParsePlanJson(good + R"("order":[["0F0","0Q0"]]})");
  ASSERT_FALSE(cell.ok());
  EXPECT_THAT(cell.status().message(), HasSubstr("device 0, cell 1"));
  auto key = ParsePlanJson(R"({"schema":1,"devices":-1})");
  ASSERT_FALSE(key.ok());
  EXPECT_THAT(key.status().message(), HasSubstr("'devices'"));
  EXPECT_FALSE(ParsePlanJson("[").ok());
}

}  // namespace
}  // namespace pillion::pipeline
