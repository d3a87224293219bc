#include "pipeline/check.h"

#include <algorithm>

#include "pipeline/replay.h"
#include "pipeline/work.h"

namespace pillion::pipeline {
namespace {

constexpr size_t kMostProblems = 16;

// Follows from device to device who waits for whom until one comes back. A stuck device waits for
// a stuck device (perhaps itself) because all the work is there: a device that finished has done it.
std::vector<StuckAt> FindCycle(const std::vector<Replay::Wait>& waits, int32_t devices) {
  std::vector<const Replay::Wait*> wait_of(static_cast<size_t>(devices), nullptr);
  for (const Replay::Wait& wait : waits) wait_of[wait.device] = &wait;
  std::vector<char> seen(static_cast<size_t>(devices), 0);
  std::vector<StuckAt> path;
  const Replay::Wait* at = waits.empty() ? nullptr : &waits.front();
  while (at != nullptr && seen[at->device] == 0) {
    seen[at->device] = 1;
    path.push_back({at->device, at->index, at->action, at->needed, at->needed_device});
    at = wait_of[at->needed_device];
  }
  if (at == nullptr) return path;
  auto first = std::find_if(path.begin(), path.end(),
                            [&](const StuckAt& stuck) { return stuck.device == at->device; });
  path.erase(path.begin(), first);
  return path;
}

// The replay names the gradient that is missing; the plan may make it in a full backward.
void NameFullBackwards(const Plan& plan, std::vector<StuckAt>* cycle) {
  for (StuckAt& stuck : *cycle) {
    if (stuck.needed.type != ActionType::kInputGradient) continue;
    Action full = stuck.needed;
    full.type = ActionType::kBackward;
    for (const Action& action : plan.order[stuck.needed_device]) {
      full.joins_previous = action.joins_previous;
      if (action == full) stuck.needed.type = ActionType::kBackward;
    }
  }
}

std::string DescribeCycle(const std::vector<StuckAt>& cycle) {
  std::string text;
  for (const StuckAt& stuck : cycle) {
    text += (text.empty() ? "device " : "; device ") + std::to_string(stuck.device) + " at " +
            ActionName(stuck.action) + " (action " + std::to_string(stuck.index) +
            ") waits for " + ActionName(stuck.needed);
    text += stuck.needed_device == stuck.device
                ? ", which comes later in its own order"
                : " of device " + std::to_string(stuck.needed_device);
  }
  return text;
}

std::vector<std::string> FindMemoryProblems(const Costs& costs, const SimulationResult& result) {
  std::vector<std::string> problems;
  for (size_t d = 0; d < costs.devices.size(); ++d) {
    const DeviceSpec& spec = costs.devices[d];
    const std::string device = "device " + std::to_string(d) + " reaches ";
    if (result.peak_live_layers[d] > spec.live_layer_cap) {
      problems.push_back(device + std::to_string(result.peak_live_layers[d]) +
                         " live layers; its cap is " + std::to_string(spec.live_layer_cap));
    }
    if (result.peak_bytes[d] > spec.memory_cap_bytes) {
      problems.push_back(device + std::to_string(result.peak_bytes[d]) + " bytes; its cap is " +
                         std::to_string(spec.memory_cap_bytes));
    }
  }
  return problems;
}

}  // namespace

Result<CheckReport> Check(const Plan& plan, const Costs& costs, const SimulateOptions& options) {
  PILLION_RETURN_IF_ERROR(ValidateCosts(costs));
  PILLION_RETURN_IF_ERROR(ValidateShape(plan, static_cast<int32_t>(costs.layers.size())));
  CheckReport report;
  report.work_problems = FindWorkProblems(plan, kMostProblems);
  if (!report.work_problems.empty()) {
    report.reason = report.work_problems.front();
    return report;
  }
  auto result = Simulate(plan, costs, options);
  if (result.ok()) {
    report.completes = true;
    report.memory_problems = FindMemoryProblems(costs, *result);
    report.fits = report.memory_problems.empty();
    if (!report.fits) report.reason = report.memory_problems.front();
    return report;
  }
  if (result.status().code() != StatusCode::kFailedPrecondition) return result.status();
  const std::vector<StageCost> stage_costs = CostOfStages(costs, plan);
  Replay replay(plan, costs, stage_costs, options);
  if (replay.Run()) return result.status();
  report.cycle = FindCycle(replay.Waits(), plan.devices);
  NameFullBackwards(plan, &report.cycle);
  report.reason = DescribeCycle(report.cycle);
  return report;
}

}  // namespace pillion::pipeline
