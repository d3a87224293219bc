// The exact optimum of tiny cases, by exhaustion: every placement of every layer, every active
// schedule.
#ifndef PILLION_TESTS_UNIT_TUNER_EXACT_H_
#define PILLION_TESTS_UNIT_TUNER_EXACT_H_

#include <cstdint>
#include <optional>

#include "pipeline/costs.h"

namespace pillion::pipeline {

// The smallest makespan over all plans with one copy of the weights and split backward; -1 when no
// plan keeps the live-layer caps; nullopt when more than `most_nodes` states had to be looked at.
// Needs free communication, speed 1 and at least 1 tick per operation of every layer: then one
// layer per stage loses nothing, because a longer stage is its layers one right after the other.
std::optional<Ticks> ExactOptimum(const Costs& costs, int32_t microbatches, int64_t most_nodes);

// A random model for such a case; body layers only.
Costs RandomTinyCosts(uint64_t seed, int32_t devices, int32_t layers);

}  // namespace pillion::pipeline

#endif  // PILLION_TESTS_UNIT_TUNER_EXACT_H_
