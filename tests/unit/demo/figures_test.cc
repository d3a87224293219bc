#include "cli/demo/figures.h"

#include <gtest/gtest.h>

#include "api/board/board.h"

namespace pillion::demo {
namespace {

// Iterations of `quiet_ns`, longer by `slowdown` with side work, on a machine that slows down by `drift` per iteration.
std::vector<Iteration> MakeRun(uint64_t run_id, uint64_t groups, double quiet_ns, double slowdown, double drift) {
  std::vector<Iteration> iterations;
  double now_ns = 1e9;
  for (uint64_t i = 0; i < IterationsOf(groups); ++i) {
    const bool quiet = board::IsQuiet(run_id, i, kQuietOneIn);
    const double noise = 1 + 1e-4 * static_cast<double>(i * 7919 % 11);
    const double length_ns = quiet_ns * (quiet ? 1 : 1 + slowdown) * (1 + drift * static_cast<double>(i)) * noise;
    iterations.push_back({static_cast<int64_t>(now_ns), static_cast<int64_t>(now_ns + length_ns), quiet});
    now_ns += length_ns;
  }
  return iterations;
}

TEST(ChooseRunId, EachGroupHasOneQuietBlock) {
  for (uint64_t groups : {uint64_t{2}, uint64_t{9}, kMostGroups}) {
    const uint64_t run_id = ChooseRunId(12345, groups);
    bool before = false;
    for (uint64_t i = 0; i < kWarmUpIterations; ++i) EXPECT_FALSE(board::IsQuiet(run_id, i, kQuietOneIn));
    for (uint64_t group = 0; group < groups; ++group) {
      uint64_t quiet = 0;
      for (uint64_t block = 0; block < kQuietOneIn; ++block) {
        const uint64_t first = kWarmUpIterations + group * kGroupIterations + block * kBlockIterations;
        const bool is = board::IsQuiet(run_id, first, kQuietOneIn);
        EXPECT_FALSE(is && before) << "block at " << first;
        before = is;
        quiet += is;
      }
      EXPECT_EQ(quiet, 1u) << "group " << group;
    }
  }
}

TEST(MeasureSlowdown, FindsTheSlowdownInSpiteOfDrift) {
  const uint64_t run_id = ChooseRunId(1, 10);
  auto slowdown = MeasureSlowdown({MakeRun(run_id, 10, 1e8, 0.05, 1e-4)}, 0, INT64_MAX);
  ASSERT_TRUE(slowdown);
  EXPECT_EQ(slowdown->groups, 10u);
  EXPECT_NEAR(slowdown->mean, 0.05, 0.003);
  EXPECT_LT(slowdown->low, slowdown->mean);
  EXPECT_GT(slowdown->high, slowdown->mean);
}

TEST(MeasureSlowdown, LeavesOutStallsAndWhatHadNoSideWork) {
  const uint64_t run_id = ChooseRunId(1, 4);
  std::vector<Iteration> run = MakeRun(run_id, 4, 1e8, 0.02, 0);
  const int64_t half_ns = run[kWarmUpIterations + 2 * kGroupIterations].start_ns;
  for (size_t i = 60; i < run.size(); ++i) {  // the machine stalls for a second in iteration 59
    run[i].start_ns += 1'000'000'000;
    run[i].end_ns += 1'000'000'000;
  }
  auto slowdown = MeasureSlowdown({run}, 0, INT64_MAX);
  ASSERT_TRUE(slowdown);
  EXPECT_NEAR(slowdown->mean, 0.02, 0.003);
  slowdown = MeasureSlowdown({run}, half_ns + 1'000'000'000, INT64_MAX);
  ASSERT_TRUE(slowdown);
  EXPECT_EQ(slowdown->groups, 2u);
  EXPECT_FALSE(MeasureSlowdown({run}, 0, half_ns / 2));
  EXPECT_FALSE(MeasureSlowdown({}, 0, INT64_MAX));
  EXPECT_FALSE(MeasureSlowdown({std::vector<Iteration>()}, 0, INT64_MAX));
}

}  // namespace
}  // namespace pillion::demo
