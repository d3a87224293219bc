// What the work of a plan costs: layers (time, bytes), devices (speed, caps) and links between
// them. Times are whole ticks; one tick is tick_ns nanoseconds (profiles use 10 µs). Plain values,
// no thread safety of their own.
#ifndef PILLION_PIPELINE_COSTS_H_
#define PILLION_PIPELINE_COSTS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "pipeline/plan.h"

namespace pillion::pipeline {

using Ticks = int64_t;
inline constexpr int64_t kNoCap = INT64_MAX;

struct Layer {
  char symbol = '?';
  Ticks forward = 0;  // for one micro-batch on a device of speed 1
  Ticks input_gradient = 0;
  Ticks weight_gradient = 0;
  int64_t parameter_bytes = 0;  // weights, gradients and optimiser state together
  // Activations that one micro-batch leaves behind in F: the first part is freed at the end of I,
  // the second at the end of the later of I and W (both at the end of B when the backward is not
  // split).
  int64_t activation_bytes_until_input_gradient = 0;
  int64_t activation_bytes_until_weight_gradient = 0;
  int64_t output_bytes =
      0;                // what goes to the next stage, and as gradient comes back, per micro-batch
  bool is_body = true;  // counts for live layers; false for the embedding and the head
};

struct DeviceSpec {
  double speed = 1.0;                 // ticks on this device = round(ticks / speed), at least 1
  int64_t memory_cap_bytes = kNoCap;  // parameters and activations
  int64_t live_layer_cap = kNoCap;
};

// One direction of one pair of devices. A transfer occupies it for ceil(bytes / bytes_per_tick)
// ticks (0 when bytes_per_tick is 0, which means: infinitely fast) and arrives latency ticks after
// that.
struct Link {
  Ticks latency = 0;
  double bytes_per_tick = 0;

  Ticks Occupancy(int64_t bytes) const;
  bool IsFree() const { return latency == 0 && bytes_per_tick == 0; }
};

struct Costs {
  int64_t tick_ns = 10'000;
  std::string model;
  std::vector<Layer> layers;
  std::vector<DeviceSpec> devices;
  std::vector<Link> links;  // empty: communication is free; else [from * devices + to]

  int32_t device_count() const { return static_cast<int32_t>(devices.size()); }
  Link LinkBetween(int32_t from, int32_t to) const;  // free when from == to or links is empty
};

// One stage on its device. Every operation takes the sum over its layers, at least 1 tick, divided
// by the device's speed (rounded, at least 1). An empty stage costs 1 tick per operation too: the
// work of launching it. A split stage costs ceil(1/n) of it on each of its n devices, parameters
// and activations likewise.
struct StageCost {
  Ticks forward = 0;
  Ticks input_gradient = 0;  // including the second forward when the stage recomputes
  Ticks weight_gradient = 0;
  Ticks backward = 0;  // input_gradient + weight_gradient
  int64_t parameter_bytes = 0;
  // Held from the start of F, from the start of I (or B) when the stage recomputes: see simulate.h.
  int64_t activation_bytes_until_input_gradient = 0;
  int64_t activation_bytes_until_weight_gradient = 0;
  int64_t input_bytes = 0;  // output_bytes of the layer before the stage; 0 for the first
  int64_t output_bytes =
      0;  // of its last layer; an empty stage passes its input on; 0 after the last stage
  int32_t body_layers = 0;

  Ticks Of(ActionType type) const;  // 0 for actions that are not compute
};
StageCost CostOfStage(const Costs& costs, const Plan& plan, int32_t stage);
std::vector<StageCost> CostOfStages(const Costs& costs, const Plan& plan);

// No layers or devices, negative times or bytes, speeds that are not finite and positive, caps
// below 0, negative or infinite links, sums that could overflow: kInvalidArgument naming layer,
// device or link.
Status ValidateCosts(const Costs& costs);

struct ProfileOptions {
  double bytes_per_parameter =
      18;  // bf16 weight and gradient, fp32 master copy, two Adam moments, fp32 gradient
  int64_t tick_ns = 10'000;
};

// Reads `model` from a profile (JSON, grammar at the top of profile.cc); layers only, no devices.
// An empty model name takes the only model. Errors name model, layer type and key.
Result<Costs> LoadProfile(std::string_view json, std::string_view model,
                          const ProfileOptions& options = {});
Result<std::vector<std::string>> ListProfileModels(std::string_view json);

// `count` devices of speed 1 without caps and free communication, replacing what was there.
void UseUniformDevices(int32_t count, Costs* costs);

// Every pair of the devices gets the link `inside` when both are in the same node of `node_size`
// consecutive devices, else `between`.
void UseLinks(const Link& inside, const Link& between, int32_t node_size, Costs* costs);

// Text of --link: "LATENCY_US,GB_PER_S" for all pairs, or
// "LATENCY_US,GB_PER_S/NODE_SIZE,LATENCY_US,GB_PER_S" (inside nodes, then between them), for
// example "8,200/8,8,25". Latency and occupancy are rounded up to whole ticks.
Status ParseLinks(std::string_view text, Costs* costs);

// One layer per stage of a copy, each with these costs and 1 byte of activation (freed at W), for
// replays of a table in which F, I, W are the times of one action of one stage; uniform devices.
Costs UniformCosts(const Plan& plan, Ticks forward, Ticks input_gradient, Ticks weight_gradient);

// Bounds (see AssignLayers) of the contiguous partition into `stages` whose largest F + I + W is
// smallest; among those the one whose earlier stages are filled first. No stage is without layers
// when stages <= layers.
std::vector<int32_t> BalancedPartition(const Costs& costs, int32_t stages);
// The same number of body layers everywhere (the first stages get one more when it does not
// divide); the layers before the first body layer ride with the first stage, those after the last
// with the last one.
std::vector<int32_t> EvenPartition(const Costs& costs, int32_t stages);

}  // namespace pillion::pipeline

#endif  // PILLION_PIPELINE_COSTS_H_
