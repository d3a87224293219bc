#include "tests/sim/workload.h"

namespace pillion::sim {

std::vector<wire::TaskSpec> NestedTasks() {
  std::vector<wire::TaskSpec> tasks(2);
  for (uint32_t i = 0; i < 2; ++i) {
    tasks[i].index = i;
    tasks[i].kind = wire::TaskKind::kCall;
    tasks[i].program = "hash";
  }
  tasks[1].dependencies.push_back({0, 0});
  return tasks;
}

SimJob MakeJob(uint64_t number, int most_tasks, Random* random) {
  SimJob job;
  job.id = {0x51, number};
  uint32_t tasks = 1 + static_cast<uint32_t>(random->Below(most_tasks));
  for (uint32_t i = 0; i < tasks; ++i) {
    wire::TaskSpec spec;
    spec.index = i;
    spec.kind = random->Chance(0.5) ? wire::TaskKind::kCall : wire::TaskKind::kSteps;
    spec.program = spec.kind == wire::TaskKind::kCall ? "hash" : "walk";
    spec.max_steps = spec.kind == wire::TaskKind::kSteps ? 5 + random->Below(60) : 0;
    spec.options.priority = static_cast<int32_t>(random->Below(3));
    spec.options.app_retries = static_cast<uint32_t>(random->Below(4));
    uint64_t edges = i == 0 ? 0 : random->Below(3);
    for (uint64_t e = 0; e < edges; ++e) {
      wire::Dependency dependency;
      dependency.index = static_cast<uint32_t>(random->Below(i));
      bool repeated = false;
      for (const wire::Dependency& other : spec.dependencies) repeated = repeated || other.index == dependency.index;
      if (repeated) continue;
      dependency.argument = random->Chance(0.7) ? static_cast<int32_t>(e) : -1;
      spec.dependencies.push_back(dependency);
    }
    job.specs.push_back(std::move(spec));
  }
  size_t per_chunk = 1 + random->Below(tasks);
  for (size_t first = 0; first < tasks; first += per_chunk) {
    wire::SubmitChunk chunk;
    chunk.job = job.id;
    chunk.chunk = static_cast<uint32_t>(job.chunks.size());
    chunk.last = first + per_chunk >= tasks;
    chunk.options.owner = "owner" + std::to_string(number % 2);
    for (size_t i = first; i < std::min<size_t>(tasks, first + per_chunk); ++i) chunk.tasks.push_back(job.specs[i]);
    job.chunks.push_back(std::move(chunk));
  }
  return job;
}

}  // namespace pillion::sim
