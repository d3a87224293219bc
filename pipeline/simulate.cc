#include "pipeline/simulate.h"

#include <algorithm>
#include <cmath>

#include "pipeline/memory.h"
#include "pipeline/replay.h"
#include "pipeline/work.h"

namespace pillion::pipeline {
namespace {

// Everything a replay could add up has to fit; far larger than any real plan.
Status ValidateTotal(const Plan& plan, const Costs& costs,
                     const std::vector<StageCost>& stage_costs) {
  Link slowest;
  slowest.bytes_per_tick = 0;
  for (const Link& link : costs.links) {
    slowest.latency = std::max(slowest.latency, link.latency);
    if (link.bytes_per_tick > 0 &&
        (slowest.bytes_per_tick == 0 || link.bytes_per_tick < slowest.bytes_per_tick)) {
      slowest.bytes_per_tick = link.bytes_per_tick;
    }
  }
  double ticks = 0, bytes = 0;
  for (size_t s = 0; s < stage_costs.size(); ++s) {
    const StageCost& cost = stage_costs[s];
    const double shards =
        std::max<double>(1, static_cast<double>(plan.stages[s].shard_devices.size()));
    ticks += shards *
             (static_cast<double>(cost.forward + cost.backward) +
              4.0 * static_cast<double>(slowest.latency + slowest.Occupancy(cost.output_bytes)));
    bytes +=
        shards * static_cast<double>(cost.activation_bytes_until_input_gradient + cost.input_bytes +
                                     cost.activation_bytes_until_weight_gradient);
  }
  const double microbatches = plan.microbatches;
  if (ticks * microbatches < 4e18 && bytes * microbatches < 4e18) return Status();
  return InvalidArgument("the times or bytes of this plan add up to more than 64 bits hold");
}

Status StuckStatus(const Replay& replay) {
  std::string text;
  size_t named = 0;
  for (const Replay::Wait& wait : replay.Waits()) {
    if (++named > 8) {
      text += "; and so on";
      break;
    }
    text += (text.empty() ? "" : "; ") + ("device " + std::to_string(wait.device)) + " at " +
            ActionName(wait.action) + " waits for " + ActionName(wait.needed) + " of device " +
            std::to_string(wait.needed_device);
  }
  return FailedPrecondition("the plan cannot complete: " + text);
}

void MeasureTimes(const Plan& plan, SimulationResult* result) {
  const size_t devices = static_cast<size_t>(plan.devices);
  result->busy.assign(devices, 0);
  result->bubbles.resize(devices);
  for (size_t d = 0; d < devices; ++d) {
    Ticks first = -1, last = 0;
    for (size_t i = 0; i < plan.order[d].size(); ++i) {
      if (!IsCompute(plan.order[d][i].type)) continue;
      const Interval& time = result->times[d][i];
      if (first < 0) first = time.start;
      if (time.start > last) result->bubbles[d].push_back({last, time.start});
      // Actions of one atomic block share their interval, which is work once.
      result->busy[d] += time.end > last ? time.length() : 0;
      last = std::max(last, time.end);
    }
    result->makespan = std::max(result->makespan, last);
    result->device_span = std::max(result->device_span, first < 0 ? 0 : last - first);
  }
  for (size_t d = 0; d < devices; ++d) {
    Ticks last = 0;
    for (size_t i = 0; i < plan.order[d].size(); ++i) {
      if (IsCompute(plan.order[d][i].type)) last = std::max(last, result->times[d][i].end);
    }
    if (last < result->makespan) result->bubbles[d].push_back({last, result->makespan});
  }
}

Status ValidateShards(const Plan& plan) {
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    if (plan.stages[s].shard_devices.size() > 1 && plan.HasTransfers()) {
      return InvalidArgument(
          "stage " + std::to_string(s) +
          " is split over devices: such plans cannot spell out their sends and receives");
    }
  }
  return Status();
}

}  // namespace

Result<SimulationResult> Simulate(const Plan& plan, const Costs& costs,
                                  const SimulateOptions& options) {
  PILLION_RETURN_IF_ERROR(ValidateCosts(costs));
  PILLION_RETURN_IF_ERROR(ValidateShape(plan, static_cast<int32_t>(costs.layers.size())));
  PILLION_RETURN_IF_ERROR(ValidateShards(plan));
  if (costs.device_count() != plan.devices) {
    return InvalidArgument("the plan is for " + std::to_string(plan.devices) +
                           " devices, the costs are for " + std::to_string(costs.device_count()));
  }
  if (auto problems = FindWorkProblems(plan, 1); !problems.empty())
    return FailedPrecondition(problems.front());

  const std::vector<StageCost> stage_costs = CostOfStages(costs, plan);
  PILLION_RETURN_IF_ERROR(ValidateTotal(plan, costs, stage_costs));
  Replay replay(plan, costs, stage_costs, options);
  if (!replay.Run()) return StuckStatus(replay);

  SimulationResult result;
  result.times = replay.TakeTimes();
  result.transfers = replay.TakeTransfers();
  std::sort(result.transfers.begin(), result.transfers.end(),
            [](const Transfer& a, const Transfer& b) {
              if (a.start != b.start) return a.start < b.start;
              if (a.from_device != b.from_device) return a.from_device < b.from_device;
              if (a.to_device != b.to_device) return a.to_device < b.to_device;
              if (a.from_stage != b.from_stage) return a.from_stage < b.from_stage;
              if (a.to_stage != b.to_stage) return a.to_stage < b.to_stage;
              return a.microbatch < b.microbatch;
            });
  MeasureTimes(plan, &result);
  MeasureMemory(plan, stage_costs, options.keep_memory_samples, &result);
  return result;
}

}  // namespace pillion::pipeline
