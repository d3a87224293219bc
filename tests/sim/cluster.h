// One simulated run: a scenario, a seed, a verdict.
#ifndef PILLION_TESTS_SIM_CLUSTER_H_
#define PILLION_TESTS_SIM_CLUSTER_H_

#include <string>
#include <vector>

#include "tests/sim/checker.h"
#include "tests/sim/scenario.h"

namespace pillion::sim {

struct RunResult {
  std::string scenario;
  uint64_t seed = 0;
  uint64_t events = 0;
  double virtual_s = 0;
  uint64_t grants = 0, moves = 0, losses = 0, succeeded = 0, tasks = 0, nested = 0;
  std::vector<Violation> violations;
};

// Sizes are drawn from the seed; everything follows from (scenario, seed, bug).
RunResult Run(const Scenario& scenario, uint64_t seed, PlantedBug bug = PlantedBug::kNone);

}  // namespace pillion::sim

#endif  // PILLION_TESTS_SIM_CLUSTER_H_
