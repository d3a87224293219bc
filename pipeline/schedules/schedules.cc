#include "pipeline/schedules/schedules.h"

#include <string>

#include "base/limits.h"
#include "pipeline/schedules/builder.h"
#include "pipeline/simulate.h"

namespace pillion::pipeline {
namespace {

struct Schedule {
  ScheduleKind kind;
  std::string_view name;
  Plan (*make)(const ScheduleOptions&);
};

constexpr Schedule kSchedules[] = {
    {ScheduleKind::kGPipe, "gpipe", MakeGPipe},
    {ScheduleKind::kOneFOneB, "1f1b", MakeOneFOneB},
    {ScheduleKind::kInterleaved, "interleaved", MakeInterleaved},
    {ScheduleKind::kBreadthFirst, "breadth-first", MakeBreadthFirst},
    {ScheduleKind::kZbH1, "zb-h1", MakeZbH1},
    {ScheduleKind::kZbH2, "zb-h2", MakeZbH2},
    {ScheduleKind::kZbV, "zb-v", MakeZbV},
    {ScheduleKind::kVHalf, "v-half", MakeVHalf},
    {ScheduleKind::kVMin, "v-min", MakeVMin},
    {ScheduleKind::kDualPipe, "dualpipe", MakeDualPipe},
    {ScheduleKind::kDualPipeV, "dualpipe-v", MakeDualPipeV},
    {ScheduleKind::kChimera, "chimera", MakeChimera},
    {ScheduleKind::kHanayo, "hanayo", MakeHanayo},
    {ScheduleKind::kZb2p, "zb-2p", MakeZb2p},
};

Status ValidateSize(ScheduleKind kind, const ScheduleOptions& options) {
  const std::string name(ScheduleName(kind));
  const int32_t p = options.devices, m = options.microbatches;
  if (p < 1 || p > limits::kPlanDevices || m < 1 || m > limits::kPlanMicrobatches) {
    return InvalidArgument(
        name + ": " + std::to_string(p) + " devices and " + std::to_string(m) +
        " micro-batches; at least 1 of each, and not more than kPlanDevices and kPlanMicrobatches");
  }
  if (options.chunks < 1 || options.waves < 1 || options.group < 0) {
    return InvalidArgument(name + ": chunks and waves have to be at least 1, group at least 0");
  }
  for (int64_t ticks : {options.forward, options.input_gradient, options.weight_gradient}) {
    if (ticks < 1 || ticks > limits::kLayerTicks)
      return InvalidArgument(name + ": times have to be at least 1 tick");
  }
  if (options.communication < 0 || options.communication > limits::kLayerTicks) {
    return InvalidArgument(name + ": the time of a hop is out of range");
  }
  if (int64_t{p} * options.chunks > limits::kPlanStages ||
      int64_t{p} * options.waves * 2 > limits::kPlanStages ||
      int64_t{StagesOfSchedule(kind, options)} * m * 3 > limits::kPlanActions) {
    return ResourceExhausted(name +
                             ": more stages or actions than kPlanStages and kPlanActions allow");
  }
  switch (kind) {
    case ScheduleKind::kDualPipeV:
      if (m < 2 * p)
        return InvalidArgument(name + " needs at least twice as many micro-batches as devices");
      break;
    case ScheduleKind::kDualPipe:
      if (p % 2 != 0) return InvalidArgument(name + " needs an even number of devices");
      if (m % 2 != 0) return InvalidArgument(name + " needs an even number of micro-batches");
      if (m < 2 * p)
        return InvalidArgument(name + " needs at least twice as many micro-batches as devices");
      break;
    case ScheduleKind::kChimera:
      if (p % 2 != 0) return InvalidArgument(name + " needs an even number of devices");
      break;
    default:
      break;
  }
  return Status();
}

}  // namespace

std::string_view ScheduleName(ScheduleKind kind) {
  return kSchedules[static_cast<size_t>(kind)].name;
}

Result<ScheduleKind> ParseScheduleName(std::string_view name) {
  std::string known;
  for (const Schedule& schedule : kSchedules) {
    if (schedule.name == name) return schedule.kind;
    known += (known.empty() ? "" : ", ") + std::string(schedule.name);
  }
  return InvalidArgument("'" + std::string(name) + "' is no schedule; there are " + known);
}

const std::vector<ScheduleKind>& AllSchedules() {
  static const std::vector<ScheduleKind>* kinds = [] {
    auto* all = new std::vector<ScheduleKind>();
    for (const Schedule& schedule : kSchedules) all->push_back(schedule.kind);
    return all;
  }();
  return *kinds;
}

int32_t StagesOfSchedule(ScheduleKind kind, const ScheduleOptions& options) {
  switch (kind) {
    case ScheduleKind::kInterleaved:
    case ScheduleKind::kBreadthFirst:
      return options.devices * options.chunks;
    case ScheduleKind::kZbV:
    case ScheduleKind::kVHalf:
    case ScheduleKind::kVMin:
    case ScheduleKind::kDualPipeV:
      return 2 * options.devices;
    case ScheduleKind::kHanayo:
      return 2 * options.devices * options.waves;
    default:
      return options.devices;
  }
}

Result<Plan> GenerateSchedule(ScheduleKind kind, const ScheduleOptions& options) {
  PILLION_RETURN_IF_ERROR(ValidateSize(kind, options));
  Plan plan = kSchedules[static_cast<size_t>(kind)].make(options);
  plan.name = std::string(ScheduleName(kind));
  // Odd sizes (a last group that is not full, say) can make an order that waits for itself.
  auto simulated = Simulate(plan, UniformCosts(plan, 1, 1, 1));
  if (!simulated.ok()) {
    return InvalidArgument(plan.name + " has no order for " + std::to_string(options.devices) +
                           " devices, " + std::to_string(options.microbatches) +
                           " micro-batches: " + simulated.status().message());
  }
  return plan;
}

}  // namespace pillion::pipeline
