#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>

#include "base/log.h"
#include "tests/sim/cluster.h"
#include "tests/sim/scale.h"

namespace pillion::sim {
namespace {

// PILLION_SIM_FIRST_SEED moves the window, so that a nightly run sees other seeds.
uint64_t FirstSeed() {
  const char* text = std::getenv("PILLION_SIM_FIRST_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

class Simulation : public testing::TestWithParam<int> {
 protected:
  Simulation() { log::Configure("sim_test", log::Level::kError, log::Format::kText); }
};

std::string ScenarioOf(const testing::TestParamInfo<int>& info) { return Scenarios()[info.param].name; }

TEST_P(Simulation, KeepsItsInvariants) {
  const Scenario& scenario = Scenarios()[GetParam()];
  uint64_t first = FirstSeed(), succeeded = 0, grants = 0, nested = 0;
  for (uint64_t seed = first; seed < first + 60; ++seed) {
    RunResult result = sim::Run(scenario, seed);
    succeeded += result.succeeded;
    grants += result.grants;
    nested += result.nested;
    for (const Violation& violation : result.violations) {
      ADD_FAILURE() << "scenario " << scenario.name << ", seed " << seed << ", after " << result.virtual_s
                    << " s: " << InvariantName(violation.invariant) << ": " << violation.text;
    }
    ASSERT_TRUE(result.violations.empty());
  }
  EXPECT_GT(succeeded, 300u) << "the scenario no longer does any work";
  EXPECT_GE(grants, succeeded);
  EXPECT_GT(nested, 30u) << "running tasks no longer add tasks";
}

INSTANTIATE_TEST_SUITE_P(Scenarios, Simulation, testing::Range(0, static_cast<int>(Scenarios().size())), ScenarioOf);

TEST(SimulationDeterminism, SameSeedSameRun) {
  log::Configure("sim_test", log::Level::kError, log::Format::kText);
  const Scenario& scenario = *FindScenario("everything");
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    RunResult first = sim::Run(scenario, seed), second = sim::Run(scenario, seed);
    EXPECT_EQ(first.events, second.events) << "seed " << seed;
    EXPECT_EQ(first.virtual_s, second.virtual_s) << "seed " << seed;
    EXPECT_EQ(first.grants, second.grants) << "seed " << seed;
  }
}

TEST(SimulationScale, ManyWorkersEndEverythingInBalance) {
  log::Configure("sim_test", log::Level::kError, log::Format::kText);
  ScaleOptions options;
  options.workers = 200;
  options.tasks = 20'000;
  options.slots = 4;
  ScaleResult result = RunScale(options);
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.finished, options.tasks);
  EXPECT_LT(result.virtual_s, result.ideal_s * 1.2) << "workers stood idle while tasks were queued";
  EXPECT_LT(result.balance, 1.3) << "one worker got far more than its share";
}

// A checker that cannot fail proves nothing: each planted bug must be noticed, by the invariant that it breaks.
struct Planted {
  PlantedBug bug;
  const char* scenario;
  std::set<Invariant> expected;  // any of them
};

class PlantedBugs : public testing::TestWithParam<Planted> {};

TEST_P(PlantedBugs, AreCaught) {
  log::Configure("sim_test", log::Level::kError, log::Format::kText);
  const Planted& planted = GetParam();
  std::map<Invariant, int> found;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    for (const Violation& violation : sim::Run(*FindScenario(planted.scenario), seed, planted.bug).violations) {
      if (planted.expected.count(violation.invariant) > 0) return;
      ++found[violation.invariant];
    }
  }
  std::string seen;
  for (const auto& [invariant, count] : found) {
    seen += std::string(" ") + InvariantName(invariant) + "=" + std::to_string(count);
  }
  FAIL() << PlantedBugName(planted.bug) << " was not caught; seen:" << seen;
}

std::string BugOf(const testing::TestParamInfo<Planted>& info) { return PlantedBugName(info.param.bug); }

INSTANTIATE_TEST_SUITE_P(
    Bugs, PlantedBugs,
    testing::Values(
        Planted{PlantedBug::kAcknowledgeBeforeCommit, "head_crashes", {Invariant::kNothingAcknowledgedIsLost}},
        Planted{PlantedBug::kLoseRecordSilently, "head_crashes", {Invariant::kNothingAcknowledgedIsLost}},
        Planted{PlantedBug::kDeletesNeededFile, "operators", {Invariant::kNothingAcknowledgedIsLost}},
        Planted{PlantedBug::kGrantBeforeEpochIsDurable, "calm", {Invariant::kEpochsGrow}},
        Planted{PlantedBug::kIllegalTransition, "calm", {Invariant::kLegalStates}},
        Planted{PlantedBug::kNoFencing, "zombies", {Invariant::kOneResult}},
        Planted{PlantedBug::kCheckpointGoesBack, "head_crashes", {Invariant::kCheckpointsNeverGoBack}},
        Planted{PlantedBug::kOverCapacity, "calm", {Invariant::kWithinCapacity}},
        Planted{PlantedBug::kRepeatGetsOtherAnswer, "lossy_network", {Invariant::kRepliesAreIdempotent}},
        Planted{PlantedBug::kRecoveryDependsOnRun, "head_crashes", {Invariant::kRecoveryIsIdempotent}},
        Planted{PlantedBug::kNeverEnds, "calm", {Invariant::kEverythingEnds}}),
    BugOf);

}  // namespace
}  // namespace pillion::sim
