#include "head/graph.h"

#include <algorithm>

#include "head/records.h"

namespace pillion::head {

std::string TaskLabel(uint32_t index, std::string_view name) {
  std::string label = "task " + std::to_string(index);
  if (!name.empty()) label += " ('" + std::string(name) + "')";
  return label;
}

Status CheckAcyclic(const Job& job) {
  // Take away what waits for nothing, again and again; what is left lies on cycles or behind them.
  std::vector<uint32_t> unmet(job.tasks.size());
  std::vector<uint32_t> free;
  for (uint32_t i = 0; i < job.tasks.size(); ++i) {
    unmet[i] = job.tasks[i].unmet;
    if (unmet[i] == 0) free.push_back(i);
  }
  size_t taken = 0;
  while (!free.empty()) {
    uint32_t index = free.back();
    free.pop_back();
    ++taken;
    for (uint32_t e = job.tasks[index].first_edge; e != kNone32; e = job.edges[e].next) {
      if (--unmet[job.edges[e].dependent] == 0) free.push_back(job.edges[e].dependent);
    }
  }
  if (taken == job.tasks.size()) return Status();

  // Going backwards from any task that is left, always to a dependency that is left, must close a cycle.
  uint32_t at = 0;
  while (unmet[at] == 0) ++at;
  std::vector<uint32_t> path;
  std::vector<bool> seen(job.tasks.size());
  while (!seen[at]) {
    seen[at] = true;
    path.push_back(at);
    for (const wire::Dependency& dependency : DependenciesOf(job, at)) {
      if (unmet[dependency.index] != 0) {
        at = dependency.index;
        break;
      }
    }
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), at));
  std::reverse(path.begin(), path.end());  // now in the order in which they would have to run
  std::string text = "the dependencies form a cycle: ";
  constexpr size_t kShown = 12;
  for (size_t i = 0; i < path.size() && i < kShown; ++i) text += TaskLabel(path[i], NameOf(job, path[i])) + " -> ";
  if (path.size() > kShown) text += "... " + std::to_string(path.size() - kShown) + " more -> ";
  return InvalidArgument(text + TaskLabel(path[0], NameOf(job, path[0])));
}

}  // namespace pillion::head
