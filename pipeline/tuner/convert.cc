#include "pipeline/tuner/convert.h"

namespace pillion::pipeline::tuner {

Plan ToPlan(const Problem& problem, const Shape& shape, const Schedule& schedule) {
  Plan plan;
  plan.name = "tuned";
  plan.devices = problem.devices;
  plan.microbatches = problem.microbatches;
  for (int32_t s = 0; s < shape.stages(); ++s) {
    Stage stage;
    stage.first_layer = shape.bound[s];
    stage.end_layer = shape.bound[s + 1];
    stage.device = shape.device[s];
    stage.recompute = problem.allow_recompute && shape.recompute[s];
    plan.stages.push_back(stage);
  }
  std::vector<int32_t> count(plan.stages.size() * kKinds, 0);
  const ActionType types[kKinds] = {
      ActionType::kForward,
      problem.split_backward ? ActionType::kInputGradient : ActionType::kBackward,
      ActionType::kWeightGradient};
  for (const auto& symbols : schedule.order) {
    std::vector<Action>& order = plan.order.emplace_back();
    for (const int32_t symbol : symbols) {
      Action action;
      action.type = types[symbol % kKinds];
      action.stage = symbol / kKinds;
      action.microbatch = count[symbol]++;
      order.push_back(action);
    }
  }
  return plan;
}

Candidate ToCandidate(const Problem& problem, const ClassicalPlan& classical) {
  const Plan& plan = classical.plan;
  Candidate candidate;
  Shape& shape = candidate.shape;
  shape.bound.push_back(0);
  std::vector<int32_t> index(plan.stages.size(), -1);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    if (stage.first_layer == stage.end_layer) continue;
    index[s] = shape.stages();
    shape.device.push_back(stage.device);
    shape.bound.push_back(stage.end_layer);
  }
  shape.recompute.assign(shape.device.size(), 0);
  candidate.keys.assign(shape.device.size() * kKinds * problem.microbatches, 0);
  for (int32_t d = 0; d < plan.devices; ++d) {
    for (size_t i = 0; i < plan.order[d].size(); ++i) {
      const Action& action = plan.order[d][i];
      if (!IsCompute(action.type) || index[action.stage] < 0) continue;
      auto set = [&](Kind kind, Ticks later) {
        candidate.keys[(index[action.stage] * kKinds + kind) * problem.microbatches +
                       action.microbatch] = classical.start[d][i] + later;
      };
      if (action.type == ActionType::kForward) set(kForward, 0);
      if (action.type == ActionType::kInputGradient || action.type == ActionType::kBackward)
        set(kInput, 0);
      if (action.type == ActionType::kBackward) set(kWeight, 1);
      if (action.type == ActionType::kWeightGradient) set(kWeight, 0);
    }
  }
  return candidate;
}

}  // namespace pillion::pipeline::tuner
