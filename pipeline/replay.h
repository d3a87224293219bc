// The engine of Simulate and Check: runs the orders of a plan as far as they go. Semantics:
// simulate.h.
//
// No event queue is needed to be exact: a device's order is fixed, and so is, by it, the order in
// which each of its outgoing links serves. Every time is a maximum over times that are final when
// they are read, so devices may be advanced in any order, each until it waits for somebody.
#ifndef PILLION_PIPELINE_REPLAY_H_
#define PILLION_PIPELINE_REPLAY_H_

#include <string>
#include <vector>

#include "pipeline/costs.h"
#include "pipeline/plan.h"
#include "pipeline/simulate.h"

namespace pillion::pipeline {

class Replay {
 public:
  // Plan and costs have to be valid and are borrowed. Doubled work must have been refused before.
  Replay(const Plan& plan, const Costs& costs, const std::vector<StageCost>& stage_costs,
         const SimulateOptions& options);

  // True when every device came to the end of its order.
  bool Run();

  // What a stuck device waits for; empty after a complete run.
  struct Wait {
    int32_t device = 0;
    size_t index = 0;           // in the device's order
    Action action;              // the one there, or for a block the member that cannot start
    Action needed;              // what would have to happen first
    int32_t needed_device = 0;  // and where
  };
  std::vector<Wait> Waits() const;

  const std::vector<std::vector<Interval>>& times() const { return times_; }
  std::vector<std::vector<Interval>> TakeTimes() { return std::move(times_); }
  std::vector<Transfer> TakeTransfers() { return std::move(transfers_); }

 private:
  static constexpr Ticks kNotYet = -1;
  // A stage on one of its devices: a shard, or simply the stage.
  struct Unit {
    int32_t stage = 0;
    int32_t device = 0;
  };
  // An input of one unit and micro-batch: parts still missing and the latest arrival so far.
  struct Input {
    int32_t missing = 0;
    Ticks time = 0;
  };
  struct Dependency {
    Ticks time = kNotYet;  // kNotYet: `needed` on `needed_device` has not happened
    Action needed;
    int32_t needed_device = 0;
  };

  size_t Key(int32_t unit, int32_t microbatch) const {
    return static_cast<size_t>(unit) * microbatches_ + static_cast<size_t>(microbatch);
  }
  int32_t UnitOn(int32_t stage, int32_t device) const;
  int32_t UnitsOf(int32_t stage) const { return first_unit_[stage + 1] - first_unit_[stage]; }

  bool Advance(int32_t device);  // one action or block; false when it waits
  size_t BlockEnd(int32_t device, size_t index) const;
  Dependency DependencyOf(int32_t device, size_t block_begin, size_t index) const;
  Dependency InputDependency(int32_t unit, const Action& action, bool gradient) const;
  Dependency ForwardOfAllShards(int32_t unit, const Action& action) const;
  bool MadeInside(int32_t device, size_t begin, size_t end, const Action& needed) const;
  void RunCompute(int32_t device, size_t begin, size_t end, Ticks start);
  void Finish(int32_t device, const Action& action, Ticks end);
  void SendOutputs(int32_t unit, const Action& action, bool gradient, Ticks ready);
  void Deliver(int32_t from_unit, int32_t to_unit, int32_t microbatch, bool gradient, Ticks ready);
  void Arrive(int32_t unit, int32_t microbatch, bool gradient, Ticks time);
  bool AdvanceTransfer(int32_t device, const Action& action, size_t index);
  void Wake(int32_t device);

  const Plan& plan_;
  const Costs& costs_;
  const std::vector<StageCost>& stage_costs_;
  const SimulateOptions options_;
  const size_t microbatches_;
  const bool explicit_transfers_;

  std::vector<Unit> units_;
  std::vector<int32_t> first_unit_;  // [stage] → its first unit; one more at the end
  std::vector<Input> forward_input_, gradient_input_;  // [unit, micro-batch]; explicit: set by RECV
  std::vector<Ticks> forward_end_, gradient_end_;      // [unit, micro-batch]
  std::vector<Ticks> forward_arrival_,
      gradient_arrival_;  // explicit transfers: when the peer's SEND arrives

  std::vector<size_t> next_;         // [device] index in its order
  std::vector<Ticks> free_at_;       // [device]
  std::vector<Ticks> link_free_at_;  // [from * devices + to]
  std::vector<int32_t> ready_;       // devices to advance
  std::vector<char> is_ready_;
  std::vector<std::vector<Interval>> times_;
  std::vector<Transfer> transfers_;
};

}  // namespace pillion::pipeline

#endif  // PILLION_PIPELINE_REPLAY_H_
