#include "pipeline/tuner/baselines.h"

#include <algorithm>

#include "pipeline/schedules/schedules.h"
#include "pipeline/simulate.h"

namespace pillion::pipeline::tuner {
namespace {

std::vector<ScheduleOptions> VariantsOf(ScheduleKind kind, int32_t devices, int32_t microbatches) {
  ScheduleOptions options;
  options.devices = devices;
  options.microbatches = microbatches;
  std::vector<ScheduleOptions> variants;
  const bool chunked = kind == ScheduleKind::kInterleaved || kind == ScheduleKind::kBreadthFirst;
  for (const int32_t n : {1, 2, 3, 4}) {
    options.chunks = n;
    options.waves = n;
    if (chunked && n == 1) continue;
    if (kind == ScheduleKind::kHanayo && n > 2) continue;
    variants.push_back(options);
    if (!chunked && kind != ScheduleKind::kHanayo) break;
  }
  return variants;
}

bool UsesSplitBackward(const Plan& plan) {
  for (const auto& order : plan.order) {
    for (const Action& action : order) {
      if (action.type == ActionType::kInputGradient) return true;
    }
  }
  return false;
}

}  // namespace

std::optional<ClassicalPlan> FitsAndTakes(const Plan& plan, const Costs& costs) {
  const Result<SimulationResult> result = Simulate(plan, costs);
  if (!result.ok()) return std::nullopt;
  for (int32_t d = 0; d < plan.devices; ++d) {
    if (result->peak_live_layers[d] > costs.devices[d].live_layer_cap) return std::nullopt;
    if (result->peak_bytes[d] > costs.devices[d].memory_cap_bytes) return std::nullopt;
  }
  ClassicalPlan fitting{plan, result->makespan, {}};
  for (const auto& times : result->times) {
    std::vector<Ticks> start;
    for (const Interval& interval : times) start.push_back(interval.start);
    fitting.start.push_back(std::move(start));
  }
  return fitting;
}

Baselines RunBaselines(const Costs& costs, int32_t microbatches, bool split_backward) {
  Baselines baselines;
  const auto layers = static_cast<int32_t>(costs.layers.size());
  for (const ScheduleKind kind : AllSchedules()) {
    for (const ScheduleOptions& options : VariantsOf(kind, costs.device_count(), microbatches)) {
      Result<Plan> plan = GenerateSchedule(kind, options);
      if (!plan.ok() || plan->StagesPerCopy() > layers) continue;
      std::optional<Ticks>& best = baselines.ticks[std::string(ScheduleName(kind))];
      const int32_t stages = plan->StagesPerCopy();
      for (const auto& bounds : {EvenPartition(costs, stages), BalancedPartition(costs, stages)}) {
        if (!AssignLayers(bounds, &*plan).ok()) continue;
        std::optional<ClassicalPlan> fitting = FitsAndTakes(*plan, costs);
        if (!fitting) continue;
        if (!best || fitting->makespan < *best) best = fitting->makespan;
        if (plan->copies != 1 || (!split_backward && UsesSplitBackward(*plan))) continue;
        baselines.fitting.push_back(std::move(*fitting));
      }
    }
  }
  std::stable_sort(
      baselines.fitting.begin(), baselines.fitting.end(),
      [](const ClassicalPlan& a, const ClassicalPlan& b) { return a.makespan < b.makespan; });
  return baselines;
}

}  // namespace pillion::pipeline::tuner
