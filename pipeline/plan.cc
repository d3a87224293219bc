#include "pipeline/plan.h"

#include <algorithm>

#include "base/limits.h"

namespace pillion::pipeline {
namespace {

constexpr std::string_view kTypeNames[] = {"F",       "I",       "W",           "B",
                                           "SEND_F",  "RECV_F",  "SEND_B",      "RECV_B",
                                           "UNSHARD", "RESHARD", "REDUCE_GRAD", ""};

std::string Place(int32_t device, size_t index) {
  return "device " + std::to_string(device) + ", action " + std::to_string(index);
}

Status ValidateCounts(const Plan& plan) {
  auto in_range = [](const char* what, int64_t value, int64_t most) {
    if (value >= 1 && value <= most) return Status();
    return InvalidArgument("the plan has " + std::to_string(value) + " " + what + "; 1 to " +
                           std::to_string(most) + " are possible");
  };
  PILLION_RETURN_IF_ERROR(in_range("devices", plan.devices, limits::kPlanDevices));
  PILLION_RETURN_IF_ERROR(in_range("micro-batches", plan.microbatches, limits::kPlanMicrobatches));
  PILLION_RETURN_IF_ERROR(
      in_range("stages", static_cast<int64_t>(plan.stages.size()), limits::kPlanStages));
  PILLION_RETURN_IF_ERROR(in_range("weight copies", plan.copies, 2));
  if (plan.stages.size() % static_cast<size_t>(plan.copies) != 0) {
    return InvalidArgument(std::to_string(plan.stages.size()) + " stages do not divide into " +
                           std::to_string(plan.copies) + " copies of the model");
  }
  if (plan.order.size() != static_cast<size_t>(plan.devices)) {
    return InvalidArgument("the plan orders work for " + std::to_string(plan.order.size()) +
                           " devices but has " + std::to_string(plan.devices));
  }
  int64_t actions = 0;
  for (const auto& order : plan.order) actions += static_cast<int64_t>(order.size());
  if (actions > limits::kPlanActions) {
    return ResourceExhausted("the plan has " + std::to_string(actions) + " actions; at most " +
                             std::to_string(limits::kPlanActions) + " (kPlanActions) are possible");
  }
  return Status();
}

Status ValidateStages(const Plan& plan, int32_t layers) {
  const int32_t per_copy = plan.StagesPerCopy();
  for (int32_t s = 0; s < static_cast<int32_t>(plan.stages.size()); ++s) {
    const Stage& stage = plan.stages[s];
    const std::string name = "stage " + std::to_string(s);
    if (stage.device < 0 || stage.device >= plan.devices) {
      return InvalidArgument(name + " is on device " + std::to_string(stage.device) + " of " +
                             std::to_string(plan.devices));
    }
    if (!stage.shard_devices.empty() && stage.shard_devices.front() != stage.device) {
      return InvalidArgument(name + ": the first of its shard devices has to be its device");
    }
    std::vector<int32_t> shards = stage.shard_devices;
    std::sort(shards.begin(), shards.end());
    if (std::adjacent_find(shards.begin(), shards.end()) != shards.end()) {
      return InvalidArgument(name + " is split twice over the same device");
    }
    for (int32_t device : shards) {
      if (device < 0 || device >= plan.devices) {
        return InvalidArgument(name + " is split over device " + std::to_string(device) + " of " +
                               std::to_string(plan.devices));
      }
    }
    const int32_t expected = plan.IsFirst(s) ? 0 : plan.stages[s - 1].end_layer;
    if (stage.first_layer != expected || stage.end_layer < stage.first_layer) {
      return InvalidArgument(name + " has layers [" + std::to_string(stage.first_layer) + ", " +
                             std::to_string(stage.end_layer) + "); it has to begin at layer " +
                             std::to_string(expected));
    }
    if (layers >= 0 && s % per_copy == per_copy - 1 && stage.end_layer != layers) {
      return InvalidArgument("the stages hold " + std::to_string(stage.end_layer) +
                             " layers, the model has " + std::to_string(layers));
    }
  }
  return Status();
}

bool LivesOn(const Stage& stage, int32_t device) {
  if (stage.shard_devices.empty()) return stage.device == device;
  return std::find(stage.shard_devices.begin(), stage.shard_devices.end(), device) !=
         stage.shard_devices.end();
}

Status ValidateAction(const Plan& plan, int32_t device, size_t index) {
  const Action& action = plan.order[device][index];
  if (action.joins_previous &&
      (index == 0 || !IsCompute(action.type) || !IsCompute(plan.order[device][index - 1].type))) {
    return InvalidArgument(Place(device, index) +
                           ": only F, I, W and B can be overlapped, and only with the one before");
  }
  if (action.type == ActionType::kIdle) {
    if (action.stage == -1 && action.microbatch == -1) return Status();
    return InvalidArgument(Place(device, index) + ": an idle cell has no stage and no micro-batch");
  }
  if (action.stage < 0 || action.stage >= static_cast<int32_t>(plan.stages.size())) {
    return InvalidArgument(Place(device, index) + " (" + ActionName(action) +
                           "): there are stages 0 to " + std::to_string(plan.stages.size() - 1));
  }
  if (!LivesOn(plan.stages[action.stage], device)) {
    return InvalidArgument(Place(device, index) + " (" + ActionName(action) + "): stage " +
                           std::to_string(action.stage) + " lives on device " +
                           std::to_string(plan.stages[action.stage].device));
  }
  if (!IsCompute(action.type) && !IsTransfer(action.type)) {
    if (action.microbatch == -1) return Status();
    return InvalidArgument(Place(device, index) + " (" + ActionName(action) +
                           ") takes no micro-batch");
  }
  if (action.microbatch < 0 || action.microbatch >= plan.microbatches) {
    return InvalidArgument(Place(device, index) + " (" + ActionName(action) +
                           "): there are micro-batches 0 to " +
                           std::to_string(plan.microbatches - 1));
  }
  return Status();
}

}  // namespace

std::string_view ActionTypeName(ActionType type) { return kTypeNames[static_cast<size_t>(type)]; }

std::string ActionName(const Action& action) {
  if (action.type == ActionType::kIdle) return "idle";
  std::string name = std::to_string(action.stage);
  name += ActionTypeName(action.type);
  if (IsCompute(action.type) || IsTransfer(action.type)) name += std::to_string(action.microbatch);
  return name;
}

bool Plan::HasTransfers() const {
  for (const auto& actions : order) {
    for (const Action& action : actions) {
      if (IsTransfer(action.type)) return true;
    }
  }
  return false;
}

Status ValidateShape(const Plan& plan, int32_t layers) {
  PILLION_RETURN_IF_ERROR(ValidateCounts(plan));
  PILLION_RETURN_IF_ERROR(ValidateStages(plan, layers));
  for (int32_t device = 0; device < plan.devices; ++device) {
    for (size_t i = 0; i < plan.order[device].size(); ++i) {
      PILLION_RETURN_IF_ERROR(ValidateAction(plan, device, i));
    }
  }
  return Status();
}

Status AssignLayers(const std::vector<int32_t>& bounds, Plan* plan) {
  const int32_t per_copy = plan->StagesPerCopy();
  if (bounds.size() != static_cast<size_t>(per_copy) + 1 || bounds.front() != 0 ||
      !std::is_sorted(bounds.begin(), bounds.end())) {
    return InvalidArgument("a partition into " + std::to_string(per_copy) + " stages needs " +
                           std::to_string(per_copy + 1) + " bounds that begin at 0 and never fall");
  }
  for (size_t s = 0; s < plan->stages.size(); ++s) {
    plan->stages[s].first_layer = bounds[s % per_copy];
    plan->stages[s].end_layer = bounds[s % per_copy + 1];
  }
  return Status();
}

}  // namespace pillion::pipeline
