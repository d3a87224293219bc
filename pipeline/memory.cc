#include "pipeline/memory.h"

#include <algorithm>

namespace pillion::pipeline {
namespace {

// Walks one device's order. Its actions follow each other (those of a block share start and end),
// so ends come before the starts at the same instant by themselves.
class DeviceMemory {
 public:
  DeviceMemory(const Plan& plan, const std::vector<StageCost>& stage_costs, bool keep_samples)
      : plan_(plan), stage_costs_(stage_costs), keep_samples_(keep_samples) {}

  void Run(int32_t device, SimulationResult* result) {
    const auto& order = plan_.order[device];
    const auto& times = result->times[device];
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      const Stage& stage = plan_.stages[s];
      const bool here =
          stage.shard_devices.empty()
              ? stage.device == device
              : std::count(stage.shard_devices.begin(), stage.shard_devices.end(), device) > 0;
      if (here) now_.bytes += stage_costs_[s].parameter_bytes;
    }
    peak_ = now_;
    Sample(0);
    for (size_t begin = 0; begin < order.size();) {
      size_t end = begin + 1;
      while (end < order.size() && order[end].joins_previous && times[end] == times[begin]) ++end;
      for (size_t i = begin; i < end; ++i) Start(order[i]);
      if (IsCompute(order[begin].type)) Sample(times[begin].start);
      for (size_t i = begin; i < end; ++i) End(order[i]);
      if (IsCompute(order[begin].type)) Sample(times[begin].end);
      begin = end;
    }
    result->peak_bytes[device] = peak_.bytes;
    result->peak_live_layers[device] = peak_.live_layers;
    result->peak_live_pairs[device] = peak_.live_pairs;
    if (keep_samples_) result->memory[device] = std::move(samples_);
  }

 private:
  void Activate(const StageCost& cost, int direction) {
    now_.live_layers += direction * cost.body_layers;
    now_.live_pairs += direction;
    now_.bytes += direction * cost.activation_bytes_until_weight_gradient;
  }

  void Start(const Action& action) {
    if (!IsCompute(action.type)) return;
    const StageCost& cost = stage_costs_[action.stage];
    const bool recompute = plan_.stages[action.stage].recompute;
    const bool forward = action.type == ActionType::kForward;
    if (action.type == ActionType::kWeightGradient) return;
    if (recompute && forward) {
      now_.bytes += cost.input_bytes;
    } else if (recompute || forward) {
      Activate(cost, 1);
      now_.bytes += cost.activation_bytes_until_input_gradient;
    }
  }

  void End(const Action& action) {
    if (!IsCompute(action.type) || action.type == ActionType::kForward) return;
    const StageCost& cost = stage_costs_[action.stage];
    if (action.type != ActionType::kWeightGradient) {
      now_.bytes -= cost.activation_bytes_until_input_gradient;
      if (plan_.stages[action.stage].recompute) now_.bytes -= cost.input_bytes;
    }
    if (action.type != ActionType::kInputGradient) Activate(cost, -1);
  }

  void Sample(Ticks time) {
    peak_.bytes = std::max(peak_.bytes, now_.bytes);
    peak_.live_layers = std::max(peak_.live_layers, now_.live_layers);
    peak_.live_pairs = std::max(peak_.live_pairs, now_.live_pairs);
    if (!keep_samples_) return;
    now_.time = time;
    if (!samples_.empty() && samples_.back().time == time) {
      samples_.back() = now_;
    } else {
      samples_.push_back(now_);
    }
  }

  const Plan& plan_;
  const std::vector<StageCost>& stage_costs_;
  const bool keep_samples_;
  MemorySample now_, peak_;
  std::vector<MemorySample> samples_;
};

}  // namespace

void MeasureMemory(const Plan& plan, const std::vector<StageCost>& stage_costs, bool keep_samples,
                   SimulationResult* result) {
  const size_t devices = static_cast<size_t>(plan.devices);
  result->peak_bytes.assign(devices, 0);
  result->peak_live_layers.assign(devices, 0);
  result->peak_live_pairs.assign(devices, 0);
  if (keep_samples) result->memory.resize(devices);
  for (int32_t d = 0; d < plan.devices; ++d)
    DeviceMemory(plan, stage_costs, keep_samples).Run(d, result);
}

}  // namespace pillion::pipeline
