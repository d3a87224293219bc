#include "pipeline/tune.h"

#include <gtest/gtest.h>

#include "exact.h"
#include "pipeline/simulate.h"

namespace pillion::pipeline {
namespace {

TuneOptions Evaluations(int32_t microbatches, int64_t evaluations) {
  TuneOptions options;
  options.microbatches = microbatches;
  options.max_evaluations = evaluations;
  return options;
}

Costs Alike(int32_t layers, int32_t devices, const Layer& layer) {
  Costs costs;
  costs.layers.assign(layers, layer);
  UseUniformDevices(devices, &costs);
  return costs;
}

TEST(Tune, FindsTheOptimumOfTinyCases) {
  int proved = 0, found = 0;
  for (uint64_t seed = 100; seed < 130; ++seed) {
    const int32_t layers = 2 + static_cast<int32_t>(seed % 3),
                  m = 1 + static_cast<int32_t>(seed / 3 % 3);
    const Costs costs = RandomTinyCosts(seed, 2, layers);
    const auto optimum = ExactOptimum(costs, m, 300'000);
    if (!optimum) continue;
    ++proved;
    const auto result = Tune(costs, Evaluations(m, 20'000));
    ASSERT_TRUE(result.ok()) << result.status().ToString();
    EXPECT_GE(result->makespan_ticks, *optimum) << "seed " << seed;
    EXPECT_LE(result->lower_bound_ticks, *optimum) << "seed " << seed;
    found += result->makespan_ticks == *optimum;
  }
  EXPECT_GE(proved, 20);
  EXPECT_GE(found * 100, proved * 90);
}

TEST(Tune, SameSeedSameResultOnAnyNumberOfThreads) {
  Costs costs = RandomTinyCosts(5, 3, 13);
  for (DeviceSpec& device : costs.devices) device.live_layer_cap = 15;
  TuneOptions options = Evaluations(6, 8000);
  options.threads = 1;
  const auto one = Tune(costs, options);
  options.threads = 3;
  const auto three = Tune(costs, options);
  ASSERT_TRUE(one.ok() && three.ok());
  EXPECT_TRUE(one->plan == three->plan);
  EXPECT_EQ(one->makespan_ticks, three->makespan_ticks);
  EXPECT_EQ(one->evaluations, three->evaluations);
  EXPECT_GE(one->evaluations, 8000);  // it did not end at the bound
}

TEST(Tune, NeverWorseThanTheClassics) {  // alike layers: a second copy of the weights gains nothing
  for (const int64_t cap : {int64_t{8}, int64_t{16}, kNoCap}) {
    Costs costs = Alike(16, 4, Layer{'T', 10, 12, 8});
    for (DeviceSpec& device : costs.devices) device.live_layer_cap = cap;
    const auto result = Tune(costs, Evaluations(8, 3000));
    ASSERT_TRUE(result.ok()) << result.status().ToString();
    for (const auto& [name, ticks] : result->baselines) {
      if (!ticks) continue;
      EXPECT_LE(result->makespan_ticks, *ticks) << name << " at cap " << cap;
    }
    const auto replay = Simulate(result->plan, costs);
    ASSERT_TRUE(replay.ok());
    EXPECT_EQ(replay->makespan, result->makespan_ticks);
    for (const int64_t peak : replay->peak_live_layers) EXPECT_LE(peak, cap);
    EXPECT_GE(result->makespan_ticks, result->lower_bound_ticks);
  }
}

TEST(Tune, LeavesTheStallThatOnlyOnePartitionMoveEnds) {
  // B=8, N=8, W=4, L=64: equal loads, where tuners that look at the spread of bubbles stop at 456.
  Costs costs = Alike(64, 4, Layer{'T', 1, 2, 0});
  TuneOptions options = Evaluations(8, 3000);
  options.split_backward = false;
  const auto result = Tune(costs, options);
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  EXPECT_LE(result->makespan_ticks, 447);
}

TEST(Tune, RecomputesWhenMemoryAsksForIt) {
  Layer layer{'T', 10, 10, 10};
  layer.activation_bytes_until_weight_gradient = 100;
  layer.output_bytes = 1;
  Costs costs = Alike(8, 2, layer);
  for (DeviceSpec& device : costs.devices)
    device.memory_cap_bytes = 250;  // less than half of one micro-batch
  TuneOptions options = Evaluations(4, 4000);
  EXPECT_EQ(Tune(costs, options).status().code(), StatusCode::kResourceExhausted);
  options.allow_recompute = true;
  const auto result = Tune(costs, options);
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  bool recomputes = false;
  for (const Stage& stage : result->plan.stages) recomputes |= stage.recompute;
  EXPECT_TRUE(recomputes);
}

TEST(Tune, FindsTheOnlyPlacementThatFits) {
  Costs costs = Alike(9, 3, Layer{'T', 1, 1, 1});
  costs.devices[0].live_layer_cap = 1;
  costs.devices[1].live_layer_cap = 6;
  costs.devices[2].live_layer_cap = 2;
  const auto result = Tune(costs, Evaluations(3, 500));
  ASSERT_TRUE(result.ok()) << result.status().ToString();
}

TEST(Tune, RefusesWhatMakesNoSense) {
  const Costs costs = Alike(4, 2, Layer{'T', 1, 1, 1});
  EXPECT_EQ(Tune(costs, Evaluations(0, 100)).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Tune(costs, TuneOptions{.microbatches = 2}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(Tune(Alike(2, 4, Layer{'T', 1, 1, 1}), Evaluations(2, 100)).status().code(),
            StatusCode::kInvalidArgument);
  Costs capped = costs;
  capped.devices[1].live_layer_cap = 1;
  capped.devices[0].live_layer_cap = 1;
  const auto result = Tune(capped, Evaluations(2, 100));
  EXPECT_EQ(result.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(result.status().message().find("device"), std::string::npos);
}

TEST(Tune, ProgressCanEndIt) {
  TuneOptions options = Evaluations(8, 1'000'000'000);
  int calls = 0;
  options.progress = [&calls](const TuneProgress&) { return ++calls < 2; };
  const auto result = Tune(Alike(12, 3, Layer{'T', 5, 6, 4}), options);
  ASSERT_TRUE(result.ok());
  EXPECT_LT(result->evaluations, 10'000'000);
}

}  // namespace
}  // namespace pillion::pipeline
