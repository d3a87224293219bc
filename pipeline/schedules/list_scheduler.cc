#include "pipeline/schedules/list_scheduler.h"

namespace pillion::pipeline {

ListScheduler::ListScheduler(const ScheduleOptions& options, int32_t stages, PlanBuilder* builder)
    : options_(options),
      microbatches_(static_cast<size_t>(options.microbatches)),
      stages_(stages),
      builder_(*builder),
      stages_of_(static_cast<size_t>(options.devices)),
      forward_end_(static_cast<size_t>(stages) * microbatches_, kNotYet),
      gradient_end_(static_cast<size_t>(stages) * microbatches_, kNotYet),
      next_forward_(static_cast<size_t>(stages), 0),
      next_gradient_(static_cast<size_t>(stages), 0),
      free_at_(static_cast<size_t>(options.devices), 0),
      live_(static_cast<size_t>(options.devices), 0),
      forwards_left_(static_cast<size_t>(options.devices), 0),
      has_done_gradient_(static_cast<size_t>(options.devices), 0),
      waiting_weights_(static_cast<size_t>(options.devices)) {
  for (int32_t s = 0; s < stages; ++s) {
    const int32_t device = builder_.DeviceOf(s);
    stages_of_[device].push_back(s);
    forwards_left_[device] += options.microbatches;
  }
}

Ticks ListScheduler::TicksOf(ActionType type) const {
  switch (type) {
    case ActionType::kForward:
      return options_.forward;
    case ActionType::kInputGradient:
      return options_.input_gradient;
    case ActionType::kWeightGradient:
      return options_.weight_gradient;
    default:
      return options_.input_gradient + options_.weight_gradient;
  }
}

bool ListScheduler::IsThere(const std::vector<Ticks>& ends, int32_t producer, const Action& action,
                            Ticks now) const {
  const Ticks end = ends[Key(producer, action.microbatch)];
  if (end == kNotYet) return false;
  const bool local = builder_.DeviceOf(producer) == builder_.DeviceOf(action.stage);
  return end + (local ? 0 : options_.communication) <= now;
}

bool ListScheduler::IsReady(const Action& action, Ticks now) const {
  if (action.type == ActionType::kForward) {
    return action.stage == 0 || IsThere(forward_end_, action.stage - 1, action, now);
  }
  if (!IsThere(forward_end_, action.stage, action, now)) return false;
  return action.stage == stages_ - 1 || IsThere(gradient_end_, action.stage + 1, action, now);
}

Action ListScheduler::OldestWeightGradient(int32_t device) const {
  return waiting_weights_[device].empty() ? Action() : waiting_weights_[device].front();
}

void ListScheduler::Run(const Policy& policy) {
  instants_.insert(0);
  while (!instants_.empty()) {
    const Ticks now = *instants_.begin();
    instants_.erase(instants_.begin());
    for (int32_t device = 0; device < options_.devices; ++device) {
      if (free_at_[device] > now) continue;
      const Action action = policy(device, now);
      if (action.type != ActionType::kIdle) Start(device, action, now);
    }
  }
}

void ListScheduler::Start(int32_t device, const Action& action, Ticks now) {
  const Ticks end = now + TicksOf(action.type);
  builder_.Add(action.type, action.stage, action.microbatch);
  free_at_[device] = end;
  instants_.insert(end);
  if (options_.communication > 0) instants_.insert(end + options_.communication);
  switch (action.type) {
    case ActionType::kForward:
      forward_end_[Key(action.stage, action.microbatch)] = end;
      ++next_forward_[action.stage];
      ++live_[device];
      --forwards_left_[device];
      break;
    case ActionType::kWeightGradient:
      waiting_weights_[device].pop_front();
      --live_[device];
      break;
    default:
      gradient_end_[Key(action.stage, action.microbatch)] = end;
      ++next_gradient_[action.stage];
      has_done_gradient_[device] = 1;
      if (action.type == ActionType::kBackward) {
        --live_[device];
      } else {
        waiting_weights_[device].push_back(
            {ActionType::kWeightGradient, false, action.stage, action.microbatch});
      }
  }
}

}  // namespace pillion::pipeline
