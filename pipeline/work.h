// Whether a plan does all the work exactly once: the part of Check that needs no replay.
#ifndef PILLION_PIPELINE_WORK_H_
#define PILLION_PIPELINE_WORK_H_

#include <string>
#include <vector>

#include "pipeline/plan.h"

namespace pillion::pipeline {

// One sentence per problem, at most `most`: micro-batches in no copy or in two, missing or doubled
// F, I, W, B, I without W, B beside I or W, and (in plans with transfers) sends or receives that
// are doubled, lack their partner or cross no devices. The plan's shape has to be valid
// (ValidateShape).
std::vector<std::string> FindWorkProblems(const Plan& plan, size_t most);

// copy[m] = the copy whose stages do micro-batch m; 0 when none does.
std::vector<int32_t> CopyOfMicrobatches(const Plan& plan);

}  // namespace pillion::pipeline

#endif  // PILLION_PIPELINE_WORK_H_
