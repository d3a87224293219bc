// Runs a pipeline forwards in time, one policy decision per free device and instant, and appends
// what it decides to a plan. For the schedules that are defined by a policy, not by a table.
#ifndef PILLION_PIPELINE_SCHEDULES_LIST_SCHEDULER_H_
#define PILLION_PIPELINE_SCHEDULES_LIST_SCHEDULER_H_

#include <deque>
#include <functional>
#include <set>
#include <vector>

#include "pipeline/costs.h"
#include "pipeline/schedules/builder.h"

namespace pillion::pipeline {

class ListScheduler {
 public:
  // `stages` stages in one copy, placed as in the builder's plan.
  ListScheduler(const ScheduleOptions& options, int32_t stages, PlanBuilder* builder);

  // Returns a ready action for a free device, or an idle one to wait. The policy owns the choice,
  // so it must not hold back for ever: Run ends when nothing is left to happen.
  using Policy = std::function<Action(int32_t device, Ticks now)>;
  void Run(const Policy& policy);

  bool IsReady(const Action& action, Ticks now) const;
  // The W that has waited longest on this device, or an idle action.
  Action OldestWeightGradient(int32_t device) const;

  int32_t live(int32_t device) const {
    return live_[device];
  }  // (stage, micro-batch) pairs between F and W or B
  int32_t forwards_left(int32_t device) const { return forwards_left_[device]; }
  bool has_done_gradient(int32_t device) const { return has_done_gradient_[device] != 0; }
  // Micro-batches start each stage in their order.
  int32_t next_forward(int32_t stage) const { return next_forward_[stage]; }
  int32_t next_gradient(int32_t stage) const { return next_gradient_[stage]; }
  const std::vector<int32_t>& stages_of(int32_t device) const { return stages_of_[device]; }

 private:
  static constexpr Ticks kNotYet = -1;
  size_t Key(int32_t stage, int32_t microbatch) const {
    return static_cast<size_t>(stage) * microbatches_ + static_cast<size_t>(microbatch);
  }
  Ticks TicksOf(ActionType type) const;
  bool IsThere(const std::vector<Ticks>& ends, int32_t producer, const Action& action,
               Ticks now) const;
  void Start(int32_t device, const Action& action, Ticks now);

  const ScheduleOptions options_;
  const size_t microbatches_;
  const int32_t stages_;
  PlanBuilder& builder_;
  std::vector<std::vector<int32_t>> stages_of_;
  std::vector<Ticks> forward_end_, gradient_end_;  // [stage, micro-batch]
  std::vector<int32_t> next_forward_, next_gradient_;
  std::vector<Ticks> free_at_;  // [device], and the counters below
  std::vector<int32_t> live_, forwards_left_;
  std::vector<char> has_done_gradient_;
  std::vector<std::deque<Action>> waiting_weights_;
  std::set<Ticks> instants_;  // at which something becomes possible
};

}  // namespace pillion::pipeline

#endif  // PILLION_PIPELINE_SCHEDULES_LIST_SCHEDULER_H_
