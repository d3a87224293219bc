// Between the tuner's candidates and plans.
#ifndef PILLION_PIPELINE_TUNER_CONVERT_H_
#define PILLION_PIPELINE_TUNER_CONVERT_H_

#include "pipeline/plan.h"
#include "pipeline/tuner/baselines.h"
#include "pipeline/tuner/walker.h"

namespace pillion::pipeline::tuner {

Plan ToPlan(const Problem& problem, const Shape& shape, const Schedule& schedule);

// A candidate with the plan's stages and its start times as keys; stages without layers are left
// out. The plan has one copy of the weights.
Candidate ToCandidate(const Problem& problem, const ClassicalPlan& classical);

}  // namespace pillion::pipeline::tuner

#endif  // PILLION_PIPELINE_TUNER_CONVERT_H_
