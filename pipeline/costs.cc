#include "pipeline/costs.h"

#include <algorithm>
#include <cmath>

#include "base/limits.h"

namespace pillion::pipeline {
namespace {

Ticks OnDevice(Ticks ticks, double speed) {
  if (speed == 1.0) return ticks;
  return std::max<Ticks>(1, std::llround(static_cast<double>(ticks) / speed));
}

int64_t Share(int64_t amount, int64_t shards) { return (amount + shards - 1) / shards; }

std::string LayerText(const Costs& costs, size_t index) {
  return "layer " + std::to_string(index) + " ('" + std::string(1, costs.layers[index].symbol) +
         "')";
}

Status ValidateLayer(const Costs& costs, size_t index) {
  const Layer& layer = costs.layers[index];
  struct Named {
    const char* name;
    int64_t value;
    int64_t most;
  };
  constexpr int64_t kMostBytes = int64_t{1} << 46;
  const Named values[] = {
      {"forward time", layer.forward, limits::kLayerTicks},
      {"input-gradient time", layer.input_gradient, limits::kLayerTicks},
      {"weight-gradient time", layer.weight_gradient, limits::kLayerTicks},
      {"parameter bytes", layer.parameter_bytes, kMostBytes},
      {"activation bytes freed at I", layer.activation_bytes_until_input_gradient, kMostBytes},
      {"activation bytes freed at W", layer.activation_bytes_until_weight_gradient, kMostBytes},
      {"output bytes", layer.output_bytes, kMostBytes},
  };
  for (const Named& value : values) {
    if (value.value >= 0 && value.value <= value.most) continue;
    return InvalidArgument(LayerText(costs, index) + ": " + value.name + " is " +
                           std::to_string(value.value) + "; 0 to " + std::to_string(value.most) +
                           " is possible");
  }
  return Status();
}

Status ValidateDevices(const Costs& costs) {
  for (size_t d = 0; d < costs.devices.size(); ++d) {
    const DeviceSpec& device = costs.devices[d];
    const std::string name = "device " + std::to_string(d);
    if (!std::isfinite(device.speed) || device.speed < 1e-3 || device.speed > 1e3) {
      return InvalidArgument(name + ": its speed factor has to be from 0.001 to 1000");
    }
    if (device.memory_cap_bytes < 0) return InvalidArgument(name + ": a memory cap below 0 bytes");
    if (device.live_layer_cap < 0) return InvalidArgument(name + ": a cap below 0 live layers");
  }
  return Status();
}

Status ValidateLinks(const Costs& costs) {
  if (costs.links.empty()) return Status();
  const size_t devices = costs.devices.size();
  if (costs.links.size() != devices * devices) {
    return InvalidArgument(std::to_string(costs.links.size()) + " links for " +
                           std::to_string(devices) + " devices; one for each pair is needed");
  }
  for (size_t i = 0; i < costs.links.size(); ++i) {
    const Link& link = costs.links[i];
    if (link.latency >= 0 && link.latency <= limits::kLayerTicks &&
        std::isfinite(link.bytes_per_tick) &&
        (link.bytes_per_tick == 0 || link.bytes_per_tick >= 1e-3)) {
      continue;
    }
    return InvalidArgument("the link from device " + std::to_string(i / devices) + " to device " +
                           std::to_string(i % devices) +
                           " has a latency or bandwidth that is negative or not finite");
  }
  return Status();
}

}  // namespace

Ticks Link::Occupancy(int64_t bytes) const {
  if (bytes_per_tick == 0 || bytes <= 0) return 0;
  return static_cast<Ticks>(std::ceil(static_cast<double>(bytes) / bytes_per_tick));
}

Link Costs::LinkBetween(int32_t from, int32_t to) const {
  if (from == to || links.empty()) return Link();
  return links[static_cast<size_t>(from) * devices.size() + static_cast<size_t>(to)];
}

Ticks StageCost::Of(ActionType type) const {
  switch (type) {
    case ActionType::kForward:
      return forward;
    case ActionType::kInputGradient:
      return input_gradient;
    case ActionType::kWeightGradient:
      return weight_gradient;
    case ActionType::kBackward:
      return backward;
    default:
      return 0;
  }
}

StageCost CostOfStage(const Costs& costs, const Plan& plan, int32_t index) {
  const Stage& stage = plan.stages[index];
  StageCost cost;
  for (int32_t l = stage.first_layer; l < stage.end_layer; ++l) {
    const Layer& layer = costs.layers[l];
    cost.forward += layer.forward;
    cost.input_gradient += layer.input_gradient;
    cost.weight_gradient += layer.weight_gradient;
    cost.parameter_bytes += layer.parameter_bytes;
    cost.activation_bytes_until_input_gradient += layer.activation_bytes_until_input_gradient;
    cost.activation_bytes_until_weight_gradient += layer.activation_bytes_until_weight_gradient;
    cost.body_layers += layer.is_body ? 1 : 0;
  }
  if (stage.first_layer > 0) cost.input_bytes = costs.layers[stage.first_layer - 1].output_bytes;
  if (!plan.IsLast(index) && stage.end_layer > 0)
    cost.output_bytes = costs.layers[stage.end_layer - 1].output_bytes;

  const int64_t shards =
      stage.shard_devices.empty() ? 1 : static_cast<int64_t>(stage.shard_devices.size());
  const double speed = costs.devices[stage.device].speed;
  for (Ticks* ticks : {&cost.forward, &cost.input_gradient, &cost.weight_gradient}) {
    *ticks = OnDevice(Share(std::max<Ticks>(1, *ticks), shards), speed);
  }
  for (int64_t* bytes : {&cost.parameter_bytes, &cost.activation_bytes_until_input_gradient,
                         &cost.activation_bytes_until_weight_gradient}) {
    *bytes = Share(*bytes, shards);
  }
  if (stage.recompute) cost.input_gradient += cost.forward;
  cost.backward = cost.input_gradient + cost.weight_gradient;
  return cost;
}

std::vector<StageCost> CostOfStages(const Costs& costs, const Plan& plan) {
  std::vector<StageCost> stages;
  stages.reserve(plan.stages.size());
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    stages.push_back(CostOfStage(costs, plan, static_cast<int32_t>(s)));
  }
  return stages;
}

Status ValidateCosts(const Costs& costs) {
  if (costs.layers.empty()) return InvalidArgument("the model has no layers");
  if (costs.layers.size() > static_cast<size_t>(limits::kModelLayers)) {
    return ResourceExhausted("the model has " + std::to_string(costs.layers.size()) +
                             " layers; at most " + std::to_string(limits::kModelLayers) +
                             " (kModelLayers) are possible");
  }
  if (costs.devices.empty()) return InvalidArgument("there are no devices");
  if (costs.devices.size() > static_cast<size_t>(limits::kPlanDevices)) {
    return ResourceExhausted(std::to_string(costs.devices.size()) + " devices; at most " +
                             std::to_string(limits::kPlanDevices) + " (kPlanDevices) are possible");
  }
  if (costs.tick_ns <= 0) return InvalidArgument("a tick has to be at least 1 ns long");
  for (size_t i = 0; i < costs.layers.size(); ++i) PILLION_RETURN_IF_ERROR(ValidateLayer(costs, i));
  PILLION_RETURN_IF_ERROR(ValidateDevices(costs));
  return ValidateLinks(costs);
}

void UseUniformDevices(int32_t count, Costs* costs) {
  costs->devices.assign(static_cast<size_t>(count), DeviceSpec());
  costs->links.clear();
}

void UseLinks(const Link& inside, const Link& between, int32_t node_size, Costs* costs) {
  const int32_t devices = costs->device_count();
  costs->links.assign(static_cast<size_t>(devices) * static_cast<size_t>(devices), Link());
  for (int32_t from = 0; from < devices; ++from) {
    for (int32_t to = 0; to < devices; ++to) {
      if (from == to) continue;
      costs->links[static_cast<size_t>(from) * devices + to] =
          from / node_size == to / node_size ? inside : between;
    }
  }
}

Costs UniformCosts(const Plan& plan, Ticks forward, Ticks input_gradient, Ticks weight_gradient) {
  Costs costs;
  costs.model = "uniform";
  Layer layer;
  layer.symbol = 'T';
  layer.forward = forward;
  layer.input_gradient = input_gradient;
  layer.weight_gradient = weight_gradient;
  layer.activation_bytes_until_weight_gradient = 1;
  int32_t layers = 0;
  for (const Stage& stage : plan.stages) layers = std::max(layers, stage.end_layer);
  costs.layers.assign(static_cast<size_t>(layers), layer);
  UseUniformDevices(plan.devices, &costs);
  return costs;
}

}  // namespace pillion::pipeline
