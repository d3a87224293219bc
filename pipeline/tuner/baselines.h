// The classical schedules under the same caps and links: what the tuner has to beat, and starts
// from.
#ifndef PILLION_PIPELINE_TUNER_BASELINES_H_
#define PILLION_PIPELINE_TUNER_BASELINES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/costs.h"
#include "pipeline/plan.h"

namespace pillion::pipeline::tuner {

struct ClassicalPlan {
  Plan plan;
  Ticks makespan = 0;
  std::vector<std::vector<Ticks>> start;  // [device][index in order]
};

struct Baselines {
  // By schedule name, the best over chunks, waves and partitions; nullopt: none keeps the caps.
  // Schedules that do not exist for these counts of devices, micro-batches and layers are left out.
  std::map<std::string, std::optional<Ticks>> ticks;
  std::vector<ClassicalPlan> fitting;  // those with one copy of the weights, fastest first
};

// Without `split_backward`, schedules that use I and W are reported but not in `fitting`.
Baselines RunBaselines(const Costs& costs, int32_t microbatches, bool split_backward);

// Whether the caps hold for a plan that completes, and its makespan; nullopt when they do not.
std::optional<ClassicalPlan> FitsAndTakes(const Plan& plan, const Costs& costs);

}  // namespace pillion::pipeline::tuner

#endif  // PILLION_PIPELINE_TUNER_BASELINES_H_
