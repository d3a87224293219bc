// Every generator against the published makespans, bubbles and activation peaks.
#include "pipeline/schedules/schedules.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "pipeline/simulate.h"

namespace pillion::pipeline {
namespace {

struct Times {
  Ticks f = 1, i = 1, w = 1, hop = 0;
};

SimulationResult Replay(ScheduleKind kind, ScheduleOptions options, const Times& times) {
  options.forward = times.f;
  options.input_gradient = times.i;
  options.weight_gradient = times.w;
  options.communication = times.hop;
  auto plan = GenerateSchedule(kind, options);
  EXPECT_TRUE(plan.ok()) << plan.status().ToString();
  if (!plan.ok()) return SimulationResult();
  Costs costs = UniformCosts(*plan, times.f, times.i, times.w);
  if (times.hop > 0) UseLinks({times.hop, 0}, {times.hop, 0}, 1, &costs);
  auto result = Simulate(*plan, costs);
  EXPECT_TRUE(result.ok()) << result.status().ToString();
  return result.ok() ? *result : SimulationResult();
}

int32_t WorstPeak(const SimulationResult& result) {
  return *std::max_element(result.peak_live_pairs.begin(), result.peak_live_pairs.end());
}

constexpr Times kUnit{1, 1, 1, 0};
constexpr Times kUneven{10, 12, 8, 0};

TEST(Schedules, StraightOnesMatchTheirFormulas) {
  for (int32_t p : {1, 2, 4, 7}) {
    for (int32_t m : {p, 2 * p + 1, 8}) {
      if (m < 2 * p - 1) continue;
      for (const Times& t : {kUnit, kUneven, Times{3, 4, 2, 0}}) {
        const Ticks f = t.f, b = t.i + t.w, work = m * (f + b);
        EXPECT_EQ(Replay(ScheduleKind::kGPipe, {p, m}, t).makespan, work + (p - 1) * (f + b));
        EXPECT_EQ(Replay(ScheduleKind::kOneFOneB, {p, m}, t).makespan, work + (p - 1) * (f + b));
        EXPECT_EQ(Replay(ScheduleKind::kZbH1, {p, m}, t).makespan, work + (p - 1) * (f + t.i - t.w))
            << p << " " << m;
        EXPECT_EQ(Replay(ScheduleKind::kZbH2, {p, m}, t).device_span,
                  work + (p - 1) * (f + t.i - 2 * t.w))
            << p << " " << m;
      }
      EXPECT_EQ(WorstPeak(Replay(ScheduleKind::kGPipe, {p, m}, kUnit)), m);
      EXPECT_EQ(WorstPeak(Replay(ScheduleKind::kOneFOneB, {p, m}, kUnit)), std::min(p, m));
      EXPECT_EQ(WorstPeak(Replay(ScheduleKind::kZbH1, {p, m}, kUnit)), std::min(p, m));
      EXPECT_EQ(WorstPeak(Replay(ScheduleKind::kZbH2, {p, m}, kUnit)), std::min(2 * p - 1, m));
    }
  }
}

TEST(Schedules, LoopedOnesMatchTheirFormulas) {
  for (int32_t p : {2, 4}) {
    for (int32_t v : {2, 4}) {
      for (const Times& t : {kUnit, kUneven}) {
        // One action of one stage is 1/v of a device's time.
        const int32_t m = 2 * p;
        const Ticks both = t.f + t.i + t.w;
        const Ticks expected = both * (m * v + p - 1);
        EXPECT_EQ(Replay(ScheduleKind::kInterleaved, {p, m, v}, t).makespan, expected);
        EXPECT_EQ(Replay(ScheduleKind::kBreadthFirst, {p, m, v}, t).makespan, expected);
        EXPECT_EQ(WorstPeak(Replay(ScheduleKind::kInterleaved, {p, m, v}, t)),
                  2 * (p - 1) + (v - 1) * p + 1);
        EXPECT_EQ(WorstPeak(Replay(ScheduleKind::kBreadthFirst, {p, m, v}, t)), m * v);
      }
    }
  }
}

TEST(Schedules, PublishedTableForFourDevicesAndEightMicrobatches) {
  // In units of one action of one stage: half a device for v = 2 and the V kinds, a quarter for v
  // = 4.
  const struct {
    ScheduleKind kind;
    int32_t chunks;
    Ticks unit, uneven;  // makespan from 0
  } rows[] = {{ScheduleKind::kGPipe, 1, 33, 330},        {ScheduleKind::kOneFOneB, 1, 33, 330},
              {ScheduleKind::kInterleaved, 2, 57, 570},  {ScheduleKind::kInterleaved, 4, 105, 1050},
              {ScheduleKind::kBreadthFirst, 2, 57, 570}, {ScheduleKind::kZbH1, 1, 27, 282},
              {ScheduleKind::kZbV, 2, 51, 516}};
  for (const auto& row : rows) {
    EXPECT_EQ(Replay(row.kind, {4, 8, row.chunks}, kUnit).makespan, row.unit)
        << ScheduleName(row.kind);
    EXPECT_EQ(Replay(row.kind, {4, 8, row.chunks}, kUneven).makespan, row.uneven)
        << ScheduleName(row.kind);
  }
  EXPECT_EQ(Replay(ScheduleKind::kZbH2, {4, 8}, kUnit).device_span, 24);
  EXPECT_EQ(Replay(ScheduleKind::kZbV, {4, 8}, kUnit).device_span, 48);
  EXPECT_EQ(Replay(ScheduleKind::kVHalf, {4, 8}, kUnit).device_span, 53);
  EXPECT_EQ(Replay(ScheduleKind::kVMin, {4, 8}, kUnit).device_span, 59);
}

TEST(Schedules, ZeroBubbleAuthorsFigures) {
  const struct {
    int32_t p, m;
    Ticks v_min, v_half, zb_v, limit_p, limit_2p;
  } rows[] = {{4, 8, 59, 53, 48, 27, 24},
              {4, 16, 107, 101, 96, 51, 48},
              {8, 16, 123, 113, 96, 55, 48},
              {8, 32, 219, 209, 192, 103, 96}};
  for (const auto& row : rows) {
    const ScheduleOptions size{row.p, row.m};
    EXPECT_EQ(Replay(ScheduleKind::kVMin, size, kUnit).device_span, row.v_min) << row.p;
    EXPECT_EQ(Replay(ScheduleKind::kVHalf, size, kUnit).device_span, row.v_half) << row.p;
    EXPECT_EQ(Replay(ScheduleKind::kZbV, size, kUnit).device_span, row.zb_v) << row.p;
    EXPECT_EQ(Replay(ScheduleKind::kZbH1, size, kUnit).device_span, row.limit_p) << row.p;
    EXPECT_EQ(Replay(ScheduleKind::kZb2p, size, kUnit).device_span, row.limit_2p) << row.p;
    EXPECT_EQ(WorstPeak(Replay(ScheduleKind::kVHalf, size, kUnit)),
              row.p + 2);  // (p + 2)/2 activations of a device
    EXPECT_EQ(WorstPeak(Replay(ScheduleKind::kZbV, size, kUnit)), 2 * row.p);
  }
  const Times uneven{10, 12, 8, 1};
  EXPECT_EQ(Replay(ScheduleKind::kVMin, {4, 8}, uneven).device_span, 728);
  EXPECT_EQ(Replay(ScheduleKind::kZbH1, {4, 8}, uneven).device_span, 294);
  EXPECT_EQ(Replay(ScheduleKind::kZb2p, {4, 8}, uneven).device_span, 256);
  // Their own generators search with these times and reach 576 and 514; the rules that we follow
  // are a little longer.
  EXPECT_LE(Replay(ScheduleKind::kVHalf, {4, 8}, uneven).device_span, 586);
  EXPECT_LE(Replay(ScheduleKind::kZbV, {4, 8}, uneven).device_span, 520);
}

TEST(Schedules, DualPipeMatchesItsFormula) {
  EXPECT_EQ(Replay(ScheduleKind::kDualPipeV, {4, 10}, kUnit).makespan, 66);
  for (int32_t q : {1, 2, 3, 4}) {
    for (int32_t m : {2 * q, 2 * q + 3}) {
      for (const Times& t : {kUnit, Times{3, 4, 2, 0}}) {
        const Ticks b = t.i + t.w, formula = 2 * m * (t.f + b) + (q - 1) * (t.f + b + b - 3 * t.w);
        const auto v = Replay(ScheduleKind::kDualPipeV, {q, m}, t);
        // The formula takes I and W for equal; where they are not, the replay is at most as long.
        if (t.i == t.w) {
          EXPECT_EQ(v.makespan, formula) << q << " " << m;
        }
        EXPECT_LE(v.makespan, formula) << q << " " << m;
        EXPECT_LE(WorstPeak(v), 2 * q + 1);
        const auto both = Replay(ScheduleKind::kDualPipe, {2 * q, 2 * m}, t);
        EXPECT_EQ(both.makespan, v.makespan) << q << " " << m;
        EXPECT_LE(WorstPeak(both), 2 * q + 1);
      }
    }
  }
}

TEST(Schedules, ChimeraMatchesItsRatioWhenForwardAndBackwardTakeTheSame) {
  for (int32_t p : {2, 4, 8}) {
    for (int32_t m : {p, 2 * p, 4 * p}) {
      const auto result = Replay(ScheduleKind::kChimera, {p, m}, {2, 1, 1, 0});
      EXPECT_EQ(result.makespan, 2 * (2 * m + p - 2));
      EXPECT_EQ(WorstPeak(result), p == 2 ? 2 : p);
      EXPECT_EQ(*std::min_element(result.peak_live_pairs.begin(), result.peak_live_pairs.end()),
                p / 2 + 1);
    }
  }
}

TEST(Schedules, HanayoStaysAtItsBubbleRatio) {
  for (int32_t p : {4, 8}) {
    for (int32_t waves : {1, 2, 4}) {
      const auto result = Replay(ScheduleKind::kHanayo, {p, p, 1, 0, waves}, kUnit);
      const double makespan = static_cast<double>(result.makespan);
      const double ratio = (makespan - 3.0 * p * 2 * waves) / makespan;
      EXPECT_LE(ratio, (2.0 * p - 2) / (3.0 * p * waves + p - 1) + 0.002) << p << " " << waves;
      EXPECT_LE(WorstPeak(result), p * 2 * waves);
    }
  }
}

TEST(Schedules, EverySizeCompletesOrIsRefused) {
  for (ScheduleKind kind : AllSchedules()) {
    EXPECT_EQ(*ParseScheduleName(ScheduleName(kind)), kind);
    for (int32_t p = 1; p <= 13; ++p) {
      for (int32_t m : {1, 2, p, 2 * p, 2 * p + 1}) {
        auto plan = GenerateSchedule(kind, {p, m, 2, 0, 1});  // simulates what it made
        if (plan.ok()) {
          EXPECT_EQ(StagesOfSchedule(kind, {p, m, 2, 0, 1}), plan->StagesPerCopy());
        } else {
          EXPECT_EQ(plan.status().code(), StatusCode::kInvalidArgument) << plan.status().ToString();
          EXPECT_TRUE(kind == ScheduleKind::kDualPipe || kind == ScheduleKind::kDualPipeV ||
                      kind == ScheduleKind::kChimera || kind == ScheduleKind::kInterleaved)
              << plan.status().ToString();
        }
      }
    }
  }
  EXPECT_FALSE(GenerateSchedule(ScheduleKind::kGPipe, {0, 4}).ok());
  EXPECT_FALSE(GenerateSchedule(ScheduleKind::kGPipe, {4, -1}).ok());
  EXPECT_FALSE(ParseScheduleName("1f1c").ok());
}

}  // namespace
}  // namespace pillion::pipeline
