// Schedules that are a policy: Hanayo's waves, and the zero-bubble list schedule with a limit of
// 2p.
#include "pipeline/schedules/builder.h"
#include "pipeline/schedules/list_scheduler.h"

namespace pillion::pipeline {

// w waves, each down all devices and up again, so 2w stages per device with one copy of the
// weights. A device prefers backwards (they free activations), then the forward that is furthest
// down the model, so that waves roll on before new micro-batches enter; p micro-batches are in the
// pipeline at most, as on 1F1B's first rank.
Plan MakeHanayo(const ScheduleOptions& options) {
  const int32_t p = options.devices, stages = 2 * p * options.waves;
  PlanBuilder builder(options, stages, 1, [p](int32_t stage) {
    return stage / p % 2 == 0 ? stage % p : p - 1 - stage % p;
  });
  ListScheduler list(options, stages, &builder);
  list.Run([&](int32_t device, Ticks now) {
    const auto& mine = list.stages_of(device);
    for (int32_t s : mine) {
      const Action backward{ActionType::kBackward, false, s, list.next_gradient(s)};
      if (backward.microbatch < options.microbatches && list.IsReady(backward, now))
        return backward;
    }
    for (auto s = mine.rbegin(); s != mine.rend(); ++s) {
      const Action forward{ActionType::kForward, false, *s, list.next_forward(*s)};
      if (forward.microbatch >= options.microbatches || !list.IsReady(forward, now)) continue;
      if (*s == 0 && forward.microbatch - list.next_gradient(0) >= p) continue;
      return forward;
    }
    return Action();
  });
  return builder.Take();
}

// An input gradient whenever there is one, else a forward while fewer than 2p activations are held,
// else the oldest weight gradient.
Plan MakeZb2p(const ScheduleOptions& options) {
  PlanBuilder builder(options, options.devices, 1, [](int32_t stage) { return stage; });
  ListScheduler list(options, options.devices, &builder);
  list.Run([&](int32_t device, Ticks now) {
    const Action gradient{ActionType::kInputGradient, false, device, list.next_gradient(device)};
    if (gradient.microbatch < options.microbatches && list.IsReady(gradient, now)) return gradient;
    const Action forward{ActionType::kForward, false, device, list.next_forward(device)};
    if (forward.microbatch < options.microbatches && list.live(device) < 2 * options.devices &&
        list.IsReady(forward, now)) {
      return forward;
    }
    return list.OldestWeightGradient(device);
  });
  return builder.Take();
}

}  // namespace pillion::pipeline
