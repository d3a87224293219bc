// The bounds are never above a true optimum, and tight where they are meant to be.
#include "pipeline/tuner/bounds.h"

#include <gtest/gtest.h>

#include "exact.h"
#include "pipeline/tuner/baselines.h"

namespace pillion::pipeline::tuner {
namespace {

LowerBound BoundOf(const Costs& costs, int32_t microbatches, bool split = true) {
  ProblemOptions options;
  options.microbatches = microbatches;
  options.split_backward = split;
  return ProveBound(MakeProblem(costs, options));
}

TEST(Bounds, NeverAboveTheOptimumOfTinyCases) {
  int proved = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const int32_t layers = 2 + static_cast<int32_t>(seed % 3),
                  m = 1 + static_cast<int32_t>(seed / 3 % 3);
    Costs costs = RandomTinyCosts(seed, 2, layers);
    if (seed % 4 == 0) {
      for (DeviceSpec& device : costs.devices) device.live_layer_cap = layers;
    }
    const auto optimum = ExactOptimum(costs, m, 300'000);
    if (!optimum || *optimum < 0) continue;
    ++proved;
    EXPECT_LE(BoundOf(costs, m).ticks, *optimum) << "seed " << seed;
  }
  EXPECT_GE(proved, 25);
}

TEST(Bounds, NeverAboveAClassicalPlanWithOneCopy) {
  // Two copies of a heavy head share its work, so that Chimera can be below: the bounds are about
  // one copy.
  int compared = 0, two_copies_below = 0;
  for (const Ticks head : {10, 60, 300}) {
    for (const int32_t p : {2, 4, 8}) {
      for (const bool links : {false, true}) {
        Costs costs;
        costs.layers.assign(16, Layer{'T', 10, 12, 8});
        for (Layer& layer : costs.layers) layer.output_bytes = 4;
        costs.layers.push_back(Layer{'L', head, head, 1});
        UseUniformDevices(p, &costs);
        if (links) UseLinks(Link{1, 2.0}, Link{3, 1.0}, 4, &costs);
        const LowerBound bound = BoundOf(costs, 2 * p);
        const Baselines baselines = RunBaselines(costs, 2 * p, true);
        for (const ClassicalPlan& plan : baselines.fitting) {
          ++compared;
          EXPECT_GE(plan.makespan, bound.ticks)
              << plan.plan.name << " on " << p << " devices, head " << head;
        }
        const auto chimera = baselines.ticks.find("chimera");
        if (chimera != baselines.ticks.end() && chimera->second)
          two_copies_below += *chimera->second < bound.ticks;
      }
    }
  }
  EXPECT_GE(compared, 100);
  EXPECT_GE(two_copies_below, 1);
}

TEST(Bounds, OneDeviceIsAllWork) {
  const Costs costs = RandomTinyCosts(3, 1, 4);
  Ticks total = 0;
  for (const Layer& l : costs.layers) total += l.forward + l.input_gradient + l.weight_gradient;
  EXPECT_EQ(BoundOf(costs, 5).ticks, total * 5);
}

TEST(Bounds, WholeLayersDoNotSplit) {
  // Three equal layers on two devices: one device has two of them.
  Costs costs;
  costs.layers.assign(3, Layer{'T', 10, 10, 10});
  UseUniformDevices(2, &costs);
  const LowerBound bound = BoundOf(costs, 4);
  EXPECT_EQ(bound.name, "packing");
  EXPECT_EQ(bound.ticks, 2 * 30 * 4);
}

TEST(Bounds, AHeavyHeadIsTheChain) {
  Costs costs;
  costs.layers.assign(4, Layer{'T', 10, 10, 10});
  costs.layers.push_back(Layer{'L', 100, 100, 1});
  UseUniformDevices(4, &costs);
  // 4 forwards, 8 times the head both ways, 4 gradients, and the last weight gradient.
  EXPECT_EQ(BoundOf(costs, 8).ticks, 40 + 8 * 200 + 40 + 10);
  EXPECT_EQ(BoundOf(costs, 8, false).ticks, 40 + 8 * 201 + 80);
}

}  // namespace
}  // namespace pillion::pipeline::tuner
