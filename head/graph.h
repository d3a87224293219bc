// Checks on a submitted graph.
#ifndef PILLION_HEAD_GRAPH_H_
#define PILLION_HEAD_GRAPH_H_

#include "base/status.h"
#include "head/task.h"

namespace pillion::head {

// kInvalidArgument naming one cycle, task by task, when the job's edges contain any.
Status CheckAcyclic(const Job& job);

// "task 7" or "task 7 ('resize')".
std::string TaskLabel(uint32_t index, std::string_view name);

}  // namespace pillion::head

#endif  // PILLION_HEAD_GRAPH_H_
