// What the generators share.
#ifndef PILLION_PIPELINE_SCHEDULES_BUILDER_H_
#define PILLION_PIPELINE_SCHEDULES_BUILDER_H_

#include <functional>

#include "pipeline/plan.h"
#include "pipeline/schedules/schedules.h"

namespace pillion::pipeline {

class PlanBuilder {
 public:
  // Copies × stages_per_copy stages of one layer each; stage s of the whole plan lives on
  // device_of(s).
  PlanBuilder(const ScheduleOptions& options, int32_t stages_per_copy, int32_t copies,
              const std::function<int32_t(int32_t)>& device_of) {
    plan_.devices = options.devices;
    plan_.microbatches = options.microbatches;
    plan_.copies = copies;
    for (int32_t s = 0; s < stages_per_copy * copies; ++s) {
      Stage stage;
      stage.first_layer = s % stages_per_copy;
      stage.end_layer = stage.first_layer + 1;
      stage.device = device_of(s);
      plan_.stages.push_back(stage);
    }
    plan_.order.resize(static_cast<size_t>(options.devices));
  }

  // Appends to the order of the stage's device. Micro-batches that the plan does not have are left
  // out, so that generators may work with a larger number.
  void Add(ActionType type, int32_t stage, int32_t microbatch, bool joins_previous = false) {
    if (microbatch >= plan_.microbatches) return;
    plan_.order[plan_.stages[stage].device].push_back({type, joins_previous, stage, microbatch});
  }
  void Forward(int32_t stage, int32_t microbatch) { Add(ActionType::kForward, stage, microbatch); }
  void InputGradient(int32_t stage, int32_t microbatch) {
    Add(ActionType::kInputGradient, stage, microbatch);
  }
  void WeightGradient(int32_t stage, int32_t microbatch) {
    Add(ActionType::kWeightGradient, stage, microbatch);
  }
  void Backward(int32_t stage, int32_t microbatch) {
    Add(ActionType::kBackward, stage, microbatch);
  }

  int32_t DeviceOf(int32_t stage) const { return plan_.stages[stage].device; }
  Plan Take() { return std::move(plan_); }

 private:
  Plan plan_;
};

// One generator per kind; sizes have been checked by GenerateSchedule.
Plan MakeGPipe(const ScheduleOptions& options);
Plan MakeOneFOneB(const ScheduleOptions& options);
Plan MakeInterleaved(const ScheduleOptions& options);
Plan MakeBreadthFirst(const ScheduleOptions& options);
Plan MakeZbH1(const ScheduleOptions& options);
Plan MakeZbH2(const ScheduleOptions& options);
Plan MakeZbV(const ScheduleOptions& options);
Plan MakeVHalf(const ScheduleOptions& options);
Plan MakeVMin(const ScheduleOptions& options);
Plan MakeDualPipe(const ScheduleOptions& options);
Plan MakeDualPipeV(const ScheduleOptions& options);
Plan MakeChimera(const ScheduleOptions& options);
Plan MakeHanayo(const ScheduleOptions& options);
Plan MakeZb2p(const ScheduleOptions& options);

}  // namespace pillion::pipeline

#endif  // PILLION_PIPELINE_SCHEDULES_BUILDER_H_
