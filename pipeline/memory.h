// Bytes and live layers over time, from the times of a replay. Definitions: simulate.h.
#ifndef PILLION_PIPELINE_MEMORY_H_
#define PILLION_PIPELINE_MEMORY_H_

#include <vector>

#include "pipeline/simulate.h"

namespace pillion::pipeline {

// Fills peak_bytes, peak_live_layers, peak_live_pairs and, when asked for, memory from
// result->times.
void MeasureMemory(const Plan& plan, const std::vector<StageCost>& stage_costs, bool keep_samples,
                   SimulationResult* result);

}  // namespace pillion::pipeline

#endif  // PILLION_PIPELINE_MEMORY_H_
