#include "worker/turns/slowdown.h"

#include <gtest/gtest.h>

#include <random>

namespace pillion::turns {
namespace {

// 1 block of 8 quiet iterations in every `period`.
void Feed(SlowdownMeter* meter, int iterations, int period, double slowdown, double noise, double drift, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> jitter(1, noise);
  double base_ns = 40e6;
  for (int i = 0; i < iterations; ++i) {
    bool quiet = i / 8 % period == period / 2;
    meter->Observe(quiet, base_ns * jitter(random) * (quiet ? 1 : 1 + slowdown));
    base_ns *= 1 + drift;
  }
}

TEST(Slowdown, IsUnknownWithoutQuietBlocks) {
  SlowdownMeter meter;
  EXPECT_FALSE(meter.Estimate().known);
  Feed(&meter, 8, 50, 0, 0, 0, 1);
  EXPECT_FALSE(meter.Estimate().known);
}

TEST(Slowdown, FindsTheTrueValueWithinItsInterval) {
  int inside = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SlowdownMeter meter;
    Feed(&meter, 4000, 10, 0.02, 0.01, 0, seed);
    Interval interval = meter.Estimate();
    ASSERT_TRUE(interval.known);
    EXPECT_NEAR(interval.mean, 0.02, 0.01);
    inside += interval.low <= 0.02 && 0.02 <= interval.high;
  }
  EXPECT_GE(inside, 88);  // 95 of 100 expected
}

TEST(Slowdown, DriftOfTheMachineIsNoSlowdown) {
  SlowdownMeter meter;
  Feed(&meter, 4000, 10, 0.0, 0.001, 0.0001, 7);  // 49 % slower at the end
  EXPECT_NEAR(meter.Estimate().mean, 0, 0.002);
}

TEST(Slowdown, OneStalledIterationDoesNotCount) {
  SlowdownMeter meter;
  for (int i = 0; i < 2000; ++i) {
    double duration = i % 97 == 50 ? 4e9 : 40e6;
    meter.Observe(i / 8 % 10 == 5, duration);
  }
  EXPECT_NEAR(meter.Estimate().mean, 0, 1e-9);
}

TEST(Slowdown, KeepsOnlyTheNewestBlocks) {
  SlowdownMeter meter(4);
  Feed(&meter, 4000, 10, 0.10, 0.001, 0, 3);
  Feed(&meter, 800, 10, 0.0, 0.001, 0, 4);
  EXPECT_EQ(meter.blocks(), 4u);
  EXPECT_NEAR(meter.Estimate().mean, 0, 0.005);
  meter.Forget();
  EXPECT_FALSE(meter.Estimate().known);
}

}  // namespace
}  // namespace pillion::turns
