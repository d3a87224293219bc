// The decoder's schedules are what the simulator replays, to the tick, and keep caps without a
// deadlock.
#include "pipeline/tuner/decoder.h"

#include <gtest/gtest.h>

#include "exact.h"
#include "pipeline/simulate.h"
#include "pipeline/tuner/convert.h"
#include "pipeline/tuner/seeds.h"

namespace pillion::pipeline::tuner {
namespace {

// A random model on random devices with everything that can matter.
Costs RandomCosts(uint64_t seed, bool links, bool caps) {
  Random random(seed);
  Costs costs;
  const int32_t layers = 5 + random.Below(20);
  for (int32_t j = 0; j < layers; ++j) {
    Layer layer;
    layer.forward = random.Below(200);
    layer.input_gradient = random.Below(300);
    layer.weight_gradient = random.Below(100);
    layer.parameter_bytes = random.Below(1000);
    layer.activation_bytes_until_input_gradient = random.Below(500);
    layer.activation_bytes_until_weight_gradient = random.Below(500);
    layer.output_bytes = 1 + random.Below(100);
    layer.is_body = j > 0 && j + 1 < layers;
    costs.layers.push_back(layer);
  }
  UseUniformDevices(1 + random.Below(5), &costs);
  for (DeviceSpec& device : costs.devices) {
    if (random.Below(3) == 0) device.speed = 0.5 + random.Unit();
    if (caps && random.Below(2) == 0) device.live_layer_cap = layers + random.Below(20);
    if (caps && random.Below(2) == 0)
      device.memory_cap_bytes = layers * 1500 + random.Below(layers * 500);
  }
  if (links) UseLinks(Link{3, 2.0}, Link{11, 0.7}, 2, &costs);
  return costs;
}

// A random shape with random keys.
Candidate RandomCandidate(const Problem& problem, Random* random) {
  Candidate candidate;
  candidate.shape.bound.push_back(0);
  for (int32_t end = 1; end <= problem.layers; ++end) {
    if (end < problem.layers && random->Below(2) == 0) continue;
    candidate.shape.bound.push_back(end);
    candidate.shape.device.push_back(random->Below(problem.devices));
    candidate.shape.recompute.push_back(static_cast<uint8_t>(random->Below(2)));
  }
  SetSteadyKeys(problem, random->Below(500), random->Below(500), random->Below(3000), &candidate);
  for (Ticks& key : candidate.keys) key += random->Below(2000);
  candidate.wait_penalty = 1 << random->Below(12);
  return candidate;
}

void ExpectReplayAgrees(uint64_t seed, bool links, bool caps, bool split, bool recompute) {
  const Costs costs = RandomCosts(seed, links, caps);
  ProblemOptions options;
  Random random(seed * 77);
  options.microbatches = 1 + random.Below(9);
  options.split_backward = split;
  options.allow_recompute = recompute;
  const Problem problem = MakeProblem(costs, options);
  Decoder decoder(problem);
  Table table;
  for (int trial = 0; trial < 10; ++trial) {
    const Candidate candidate = RandomCandidate(problem, &random);
    table.Fill(problem, candidate.shape);
    if (!table.fits) continue;
    const Ticks makespan =
        decoder.Run(table, candidate.keys, candidate.wait_penalty, INT64_MAX / 2);
    ASSERT_GT(makespan, 0);
    EXPECT_GE(makespan, table.floor);
    EXPECT_EQ(decoder.Run(table, candidate.keys, candidate.wait_penalty, makespan - 1), -1);
    EXPECT_EQ(decoder.Run(table, candidate.keys, candidate.wait_penalty, makespan), makespan);
    Schedule schedule;
    decoder.Extract(table, &schedule);
    const Plan plan = ToPlan(problem, candidate.shape, schedule);
    ASSERT_TRUE(ValidateShape(plan, problem.layers).ok());
    const auto result = Simulate(plan, costs);
    ASSERT_TRUE(result.ok()) << result.status().ToString();
    // The decoder may wait on purpose where a replay of its order need not.
    EXPECT_LE(result->makespan, makespan) << "seed " << seed;
    for (int32_t d = 0; d < problem.devices; ++d) {
      EXPECT_LE(result->peak_live_layers[d], costs.devices[d].live_layer_cap) << "seed " << seed;
      EXPECT_LE(result->peak_bytes[d], costs.devices[d].memory_cap_bytes) << "seed " << seed;
    }
    ASSERT_EQ(result->makespan, makespan) << "seed " << seed;
  }
}

TEST(Decoder, AgreesWithTheSimulator) {
  for (uint64_t seed = 1; seed <= 60; ++seed)
    ExpectReplayAgrees(seed, false, false, seed % 5 != 0, false);
}

TEST(Decoder, AgreesWithTheSimulatorUnderCapsAndLinks) {
  for (uint64_t seed = 1; seed <= 60; ++seed)
    ExpectReplayAgrees(seed, seed % 2 == 0, true, seed % 5 != 0, false);
}

TEST(Decoder, AgreesWithTheSimulatorWhenRecomputing) {
  for (uint64_t seed = 1; seed <= 60; ++seed)
    ExpectReplayAgrees(seed, seed % 2 == 0, true, seed % 5 != 0, true);
}

TEST(Decoder, TheTightestCapStillCompletes) {
  // One micro-batch at a time is all that fits.
  Costs costs;
  costs.layers.assign(8, Layer{'T', 10, 10, 10});
  UseUniformDevices(2, &costs);
  for (DeviceSpec& device : costs.devices) device.live_layer_cap = 4;
  ProblemOptions options;
  options.microbatches = 5;
  const Problem problem = MakeProblem(costs, options);
  Random random(5);
  Decoder decoder(problem);
  Table table;
  int fitting = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const Candidate candidate = RandomCandidate(problem, &random);
    table.Fill(problem, candidate.shape);
    if (!table.fits) continue;
    ++fitting;
    EXPECT_GT(decoder.Run(table, candidate.keys, candidate.wait_penalty, INT64_MAX / 2), 0);
  }
  EXPECT_GT(fitting, 10);
}

}  // namespace
}  // namespace pillion::pipeline::tuner
