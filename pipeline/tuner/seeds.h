// Where the search starts: regular placements with partitions balanced per device and a grid of
// simple priorities.
#ifndef PILLION_PIPELINE_TUNER_SEEDS_H_
#define PILLION_PIPELINE_TUNER_SEEDS_H_

#include <cstdint>
#include <vector>

#include "pipeline/tuner/walker.h"

namespace pillion::pipeline::tuner {

enum class Pattern : uint8_t { kLoop, kWave };

// `chunks` stages per device, in loops (0..p-1, 0..p-1, …) or waves (0..p-1, p-1..0, …), with
// layer
// ranges that balance the devices: the head's device gets less of the rest. With own_head the last
// layer is a stage of its own, in addition, on the device where the pattern goes on.
Shape RegularShape(const Problem& problem, Pattern pattern, int32_t chunks, bool own_head);

// Decodes regular shapes under a grid of priorities; the best one of every shape, best first, at
// most `most`. Stops when the budget is spent, but not before one shape that fits was decoded. Adds
// the number of schedules made to *evaluations.
std::vector<Candidate> MakeSeeds(const Problem& problem, int32_t most, const Budget& budget,
                                 int64_t* evaluations);

}  // namespace pillion::pipeline::tuner

#endif  // PILLION_PIPELINE_TUNER_SEEDS_H_
