#include "pipeline/replay.h"

#include <algorithm>

namespace pillion::pipeline {
namespace {

bool IsBackwardType(ActionType type) {
  return type == ActionType::kInputGradient || type == ActionType::kBackward;
}

}  // namespace

Replay::Replay(const Plan& plan, const Costs& costs, const std::vector<StageCost>& stage_costs,
               const SimulateOptions& options)
    : plan_(plan),
      costs_(costs),
      stage_costs_(stage_costs),
      options_(options),
      microbatches_(static_cast<size_t>(plan.microbatches)),
      explicit_transfers_(plan.HasTransfers()) {
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    first_unit_.push_back(static_cast<int32_t>(units_.size()));
    const Stage& stage = plan.stages[s];
    if (stage.shard_devices.empty()) units_.push_back({static_cast<int32_t>(s), stage.device});
    for (int32_t device : stage.shard_devices) units_.push_back({static_cast<int32_t>(s), device});
  }
  first_unit_.push_back(static_cast<int32_t>(units_.size()));

  const size_t keys = units_.size() * microbatches_;
  forward_input_.resize(keys);
  gradient_input_.resize(keys);
  forward_end_.assign(keys, kNotYet);
  gradient_end_.assign(keys, kNotYet);
  if (explicit_transfers_) {
    forward_arrival_.assign(keys, kNotYet);
    gradient_arrival_.assign(keys, kNotYet);
  }
  for (size_t u = 0; u < units_.size(); ++u) {
    const int32_t stage = units_[u].stage;
    const int32_t forward = plan.IsFirst(stage) ? 0 : UnitsOf(stage - 1);
    const int32_t gradient = plan.IsLast(stage) ? 0 : UnitsOf(stage + 1);
    for (size_t m = 0; m < microbatches_; ++m) {
      forward_input_[u * microbatches_ + m].missing = forward;
      gradient_input_[u * microbatches_ + m].missing = gradient;
    }
  }
  const size_t devices = static_cast<size_t>(plan.devices);
  next_.assign(devices, 0);
  free_at_.assign(devices, 0);
  if (!costs.links.empty()) link_free_at_.assign(devices * devices, 0);
  is_ready_.assign(devices, 0);
  times_.resize(devices);
  for (size_t d = 0; d < devices; ++d) times_[d].resize(plan.order[d].size());
}

int32_t Replay::UnitOn(int32_t stage, int32_t device) const {
  int32_t unit = first_unit_[stage];
  while (units_[unit].device != device) ++unit;
  return unit;
}

bool Replay::Run() {
  for (int32_t d = plan_.devices - 1; d >= 0; --d) Wake(d);
  while (!ready_.empty()) {
    const int32_t device = ready_.back();
    ready_.pop_back();
    is_ready_[device] = 0;
    while (next_[device] < plan_.order[device].size() && Advance(device)) {
    }
  }
  for (int32_t d = 0; d < plan_.devices; ++d) {
    if (next_[d] < plan_.order[d].size()) return false;
  }
  return true;
}

void Replay::Wake(int32_t device) {
  if (is_ready_[device]) return;
  is_ready_[device] = 1;
  ready_.push_back(device);
}

size_t Replay::BlockEnd(int32_t device, size_t index) const {
  const auto& order = plan_.order[device];
  size_t end = index + 1;
  if (options_.overlap == OverlapMode::kSequence) return end;
  while (end < order.size() && order[end].joins_previous) ++end;
  return end;
}

bool Replay::Advance(int32_t device) {
  const size_t begin = next_[device];
  const Action& first = plan_.order[device][begin];
  if (IsTransfer(first.type)) return AdvanceTransfer(device, first, begin);
  if (!IsCompute(first.type)) {
    times_[device][begin] = {free_at_[device], free_at_[device]};
    ++next_[device];
    return true;
  }
  const size_t end = BlockEnd(device, begin);
  Ticks start = free_at_[device];
  for (size_t i = begin; i < end; ++i) {
    const Dependency dependency = DependencyOf(device, begin, i);
    if (dependency.time != kNotYet) {
      start = std::max(start, dependency.time);
    } else if (!MadeInside(device, begin, end, dependency.needed)) {
      return false;
    }
  }
  RunCompute(device, begin, end, start);
  next_[device] = end;
  return true;
}

bool Replay::MadeInside(int32_t device, size_t begin, size_t end, const Action& needed) const {
  if (end - begin == 1) return false;
  for (size_t i = begin; i < end; ++i) {
    const Action& action = plan_.order[device][i];
    if (action.stage != needed.stage || action.microbatch != needed.microbatch) continue;
    if (action.type == needed.type || (IsBackwardType(action.type) && IsBackwardType(needed.type)))
      return true;
  }
  return false;
}

Replay::Dependency Replay::InputDependency(int32_t unit, const Action& action,
                                           bool gradient) const {
  Dependency dependency;
  const Input& input = (gradient ? gradient_input_ : forward_input_)[Key(unit, action.microbatch)];
  if (input.missing == 0) {
    dependency.time = input.time;
    return dependency;
  }
  // Name the first part that is missing.
  const int32_t producer = gradient ? action.stage + 1 : action.stage - 1;
  const auto& ends = gradient ? gradient_end_ : forward_end_;
  int32_t missing = first_unit_[producer];
  while (missing + 1 < first_unit_[producer + 1] &&
         ends[Key(missing, action.microbatch)] != kNotYet)
    ++missing;
  dependency.needed_device = units_[missing].device;
  dependency.needed.type = gradient ? ActionType::kInputGradient : ActionType::kForward;
  dependency.needed.stage = producer;
  dependency.needed.microbatch = action.microbatch;
  if (explicit_transfers_ && units_[missing].device != units_[unit].device) {
    dependency.needed.type = gradient ? ActionType::kRecvBackward : ActionType::kRecvForward;
    dependency.needed.stage = action.stage;
    dependency.needed_device = units_[unit].device;
  }
  return dependency;
}

Replay::Dependency Replay::ForwardOfAllShards(int32_t unit, const Action& action) const {
  Dependency dependency;
  dependency.time = 0;
  for (int32_t u = first_unit_[action.stage]; u < first_unit_[action.stage + 1]; ++u) {
    const Ticks end = forward_end_[Key(u, action.microbatch)];
    if (end == kNotYet) {
      dependency.time = kNotYet;
      dependency.needed = action;
      dependency.needed.type = ActionType::kForward;
      dependency.needed_device = units_[u].device;
      return dependency;
    }
    const Ticks latency = costs_.LinkBetween(units_[u].device, units_[unit].device).latency;
    dependency.time = std::max(dependency.time, end + latency);
  }
  return dependency;
}

Replay::Dependency Replay::DependencyOf(int32_t device, size_t block_begin, size_t index) const {
  const Action& action = plan_.order[device][index];
  const int32_t unit = UnitOn(action.stage, device);
  if (action.type == ActionType::kForward) return InputDependency(unit, action, /*gradient=*/false);
  if (action.type == ActionType::kWeightGradient) {
    Dependency dependency;
    dependency.time = gradient_end_[Key(unit, action.microbatch)];
    dependency.needed = action;
    dependency.needed.type = ActionType::kInputGradient;
    dependency.needed_device = device;
    return dependency;
  }
  const Dependency forward = ForwardOfAllShards(unit, action);
  const Dependency gradient = InputDependency(unit, action, /*gradient=*/true);
  if (forward.time == kNotYet) {
    // Inside a block the forward may come with it; then the gradient is what has to be looked at.
    const bool inside =
        MadeInside(device, block_begin, BlockEnd(device, block_begin), forward.needed);
    return inside ? gradient : forward;
  }
  if (gradient.time == kNotYet) return gradient;
  return forward.time > gradient.time ? forward : gradient;
}

void Replay::RunCompute(int32_t device, size_t begin, size_t end, Ticks start) {
  const auto& order = plan_.order[device];
  Ticks finish = start;
  for (size_t i = begin; i < end; ++i) finish += stage_costs_[order[i].stage].Of(order[i].type);
  free_at_[device] = finish;
  for (size_t i = begin; i < end; ++i) times_[device][i] = {start, finish};
  if (end - begin == 1) {
    Finish(device, order[begin], finish);
    return;
  }
  // Outputs of one block are ready together: links take them in this order.
  std::vector<Action> block(order.begin() + static_cast<int64_t>(begin),
                            order.begin() + static_cast<int64_t>(end));
  std::stable_sort(block.begin(), block.end(), [](const Action& a, const Action& b) {
    const bool a_forward = a.type == ActionType::kForward,
               b_forward = b.type == ActionType::kForward;
    if (a_forward != b_forward) return a_forward;
    if (a.stage != b.stage) return a.stage < b.stage;
    return a.microbatch < b.microbatch;
  });
  for (const Action& action : block) Finish(device, action, finish);
}

void Replay::Finish(int32_t device, const Action& action, Ticks end) {
  const int32_t unit = UnitOn(action.stage, device);
  const size_t key = Key(unit, action.microbatch);
  if (action.type == ActionType::kForward) {
    forward_end_[key] = end;
    for (int32_t u = first_unit_[action.stage]; u < first_unit_[action.stage + 1]; ++u)
      Wake(units_[u].device);
    if (!plan_.IsLast(action.stage)) SendOutputs(unit, action, /*gradient=*/false, end);
  } else if (IsBackwardType(action.type)) {
    gradient_end_[key] = end;
    if (!plan_.IsFirst(action.stage)) SendOutputs(unit, action, /*gradient=*/true, end);
  }
}

void Replay::SendOutputs(int32_t unit, const Action& action, bool gradient, Ticks ready) {
  const int32_t consumer = gradient ? action.stage - 1 : action.stage + 1;
  for (int32_t u = first_unit_[consumer]; u < first_unit_[consumer + 1]; ++u) {
    const bool local = units_[u].device == units_[unit].device;
    if (explicit_transfers_ && !local) continue;  // its SEND will do it
    Deliver(unit, u, action.microbatch, gradient, ready);
  }
}

void Replay::Deliver(int32_t from_unit, int32_t to_unit, int32_t microbatch, bool gradient,
                     Ticks ready) {
  const int32_t from = units_[from_unit].device, to = units_[to_unit].device;
  if (from == to) {
    Arrive(to_unit, microbatch, gradient, ready);
    return;
  }
  const int32_t from_stage = units_[from_unit].stage, to_stage = units_[to_unit].stage;
  Transfer transfer{from_stage, to_stage, microbatch, from, to};
  transfer.bytes = stage_costs_[gradient ? to_stage : from_stage].output_bytes;
  transfer.ready = transfer.start = transfer.arrival = ready;
  if (!costs_.links.empty()) {
    const Link link = costs_.LinkBetween(from, to);
    Ticks& link_free_at = link_free_at_[static_cast<size_t>(from) * plan_.devices + to];
    transfer.start = std::max(ready, link_free_at);
    link_free_at = transfer.start + link.Occupancy(transfer.bytes);
    transfer.arrival = link_free_at + link.latency;
    if (!options_.overlap_communication) free_at_[from] = std::max(free_at_[from], link_free_at);
  }
  transfers_.push_back(transfer);
  if (explicit_transfers_) {
    (gradient ? gradient_arrival_ : forward_arrival_)[Key(to_unit, microbatch)] = transfer.arrival;
    Wake(to);
  } else {
    Arrive(to_unit, microbatch, gradient, transfer.arrival);
  }
}

void Replay::Arrive(int32_t unit, int32_t microbatch, bool gradient, Ticks time) {
  Input& input = (gradient ? gradient_input_ : forward_input_)[Key(unit, microbatch)];
  --input.missing;
  input.time = std::max(input.time, time);
  if (input.missing == 0) Wake(units_[unit].device);
}

bool Replay::AdvanceTransfer(int32_t device, const Action& action, size_t index) {
  const int32_t unit = UnitOn(action.stage, device);
  const size_t key = Key(unit, action.microbatch);
  const bool gradient =
      action.type == ActionType::kSendBackward || action.type == ActionType::kRecvBackward;
  const Ticks start = free_at_[device];
  if (action.type == ActionType::kSendForward || action.type == ActionType::kSendBackward) {
    if ((gradient ? gradient_end_ : forward_end_)[key] == kNotYet) return false;
    const int32_t peer = gradient ? action.stage - 1 : action.stage + 1;
    Deliver(unit, first_unit_[peer], action.microbatch, gradient, start);
  } else {
    const Ticks arrival = (gradient ? gradient_arrival_ : forward_arrival_)[key];
    if (arrival == kNotYet) return false;
    free_at_[device] = std::max(start, arrival);
    Arrive(unit, action.microbatch, gradient, free_at_[device]);
  }
  times_[device][index] = {start, free_at_[device]};
  ++next_[device];
  return true;
}

std::vector<Replay::Wait> Replay::Waits() const {
  std::vector<Wait> waits;
  for (int32_t d = 0; d < plan_.devices; ++d) {
    const size_t begin = next_[d];
    if (begin >= plan_.order[d].size()) continue;
    Wait wait{d, begin, plan_.order[d][begin]};
    const Action& action = wait.action;
    if (action.type == ActionType::kSendForward || action.type == ActionType::kSendBackward) {
      const bool gradient = action.type == ActionType::kSendBackward;
      wait.needed = {gradient ? ActionType::kInputGradient : ActionType::kForward, false,
                     action.stage, action.microbatch};
      wait.needed_device = d;
    } else if (IsTransfer(action.type)) {
      const bool gradient = action.type == ActionType::kRecvBackward;
      const int32_t peer = gradient ? action.stage + 1 : action.stage - 1;
      wait.needed = {gradient ? ActionType::kSendBackward : ActionType::kSendForward, false, peer,
                     action.microbatch};
      wait.needed_device = plan_.stages[peer].device;
    } else {
      const size_t end = BlockEnd(d, begin);
      for (size_t i = begin; i < end; ++i) {
        const Dependency dependency = DependencyOf(d, begin, i);
        if (dependency.time != kNotYet || MadeInside(d, begin, end, dependency.needed)) continue;
        wait.action = plan_.order[d][i];
        wait.needed = dependency.needed;
        wait.needed_device = dependency.needed_device;
        break;
      }
    }
    waits.push_back(wait);
  }
  return waits;
}

}  // namespace pillion::pipeline
