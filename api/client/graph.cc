#include "pillion/graph.h"

#include "base/limits.h"

namespace pillion {

Graph::Node Graph::Add(wire::TaskSpec spec) {
  if (tasks_.size() >= limits::kTasksPerJob && status_.ok()) {
    status_ = ResourceExhausted("a job has at most limits::kTasksPerJob = " + std::to_string(limits::kTasksPerJob) +
                                " tasks");
  }
  spec.index = static_cast<uint32_t>(tasks_.size());
  tasks_.push_back(std::move(spec));
  return Node{tasks_.back().index};
}

Graph::Node Graph::AddSteps(std::string program, std::string arguments_json, uint64_t max_steps,
                            wire::TaskOptions options) {
  wire::TaskSpec spec;
  spec.kind = wire::TaskKind::kSteps;
  spec.program = std::move(program);
  spec.arguments = std::move(arguments_json);
  spec.max_steps = max_steps;
  spec.options = options;
  return Add(std::move(spec));
}

Graph::Node Graph::AddCommand(std::string executable, std::string arguments_json, wire::TaskOptions options) {
  wire::TaskSpec spec;
  spec.kind = wire::TaskKind::kCommand;
  spec.program = std::move(executable);
  spec.arguments = std::move(arguments_json);
  spec.options = options;
  return Add(std::move(spec));
}

void Graph::Depends(Node task, Node on) {
  if ((task.index >= tasks_.size() || on.index >= tasks_.size()) && status_.ok()) {
    status_ = InvalidArgument("a dependency between tasks " + std::to_string(task.index) + " and " +
                              std::to_string(on.index) + " of a graph of " + std::to_string(tasks_.size()));
  }
  if (task.index < tasks_.size()) tasks_[task.index].dependencies.push_back({on.index, -1});
}

Status Graph::RefArgument(const TaskId& task, int32_t position, const Fetch& fetch, wire::TaskSpec* spec,
                          ValueWriter* out) {
  if (task.job == id_) {
    out->Undefined();
    spec->dependencies.push_back({task.index, position});
    return Status();
  }
  if (!fetch) return InvalidArgument("argument " + std::to_string(position) + " is the result of another job's task");
  PILLION_ASSIGN_OR_RETURN(std::string value, fetch(task));
  out->Encoded(value);
  return Status();
}

Status Graph::PrepareCall(const void* function, const std::string& library, wire::TaskSpec* spec) {
  PILLION_ASSIGN_OR_RETURN(FunctionName name, FindFunction(function));
  spec->kind = wire::TaskKind::kCall;
  spec->program = std::move(name.program);
  spec->library = name.library.empty() ? library : std::move(name.library);
  if (spec->arguments.size() > limits::kArgumentBytes) {
    return ResourceExhausted("the arguments of " + spec->program + " have " + std::to_string(spec->arguments.size()) +
                             " bytes, more than limits::kArgumentBytes = " + std::to_string(limits::kArgumentBytes));
  }
  return Status();
}

}  // namespace pillion
