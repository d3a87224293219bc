// What the simulated tasks compute. Every result is a function of the job alone, so whoever ran what and however often
// it moved, there is one right answer.
#ifndef PILLION_TESTS_SIM_WORKLOAD_H_
#define PILLION_TESTS_SIM_WORKLOAD_H_

#include <string>
#include <vector>

#include "api/wire/messages.h"
#include "tests/sim/world.h"

namespace pillion::sim {

// The state of a steps task after `step` steps.
inline uint64_t StateAt(const TaskId& task, Step step) {
  uint64_t state = Mix(task.job.low, task.index);
  for (Step i = 0; i < step; ++i) state = Mix(state, i);
  return state;
}

inline std::string ResultOf(const TaskId& task, const wire::TaskSpec& spec, const std::vector<std::string>& inputs) {
  uint64_t value = spec.kind == wire::TaskKind::kSteps ? StateAt(task, spec.max_steps) : Mix(task.job.low, task.index);
  for (const std::string& input : inputs) {
    for (char c : input) value = Mix(value, static_cast<uint8_t>(c));
  }
  return std::to_string(value);
}

struct SimJob {
  JobId id;
  std::vector<wire::SubmitChunk> chunks;
  std::vector<wire::TaskSpec> specs;

  std::string Expected(uint32_t index) const {
    std::vector<std::string> inputs;
    if (specs[index].kind == wire::TaskKind::kCall) {
      for (const wire::Dependency& d : specs[index].dependencies) {
        if (d.argument >= 0) inputs.push_back(Expected(d.index));
      }
    }
    return ResultOf({id, index}, specs[index], inputs);
  }
};

// What a steps task adds to its job while it runs: two calls, the second with the first one's result.
std::vector<wire::TaskSpec> NestedTasks();

SimJob MakeJob(uint64_t number, int most_tasks, Random* random);

}  // namespace pillion::sim

#endif  // PILLION_TESTS_SIM_WORKLOAD_H_
