// Every classical pipeline schedule as a generator of plans.
#ifndef PILLION_PIPELINE_SCHEDULES_SCHEDULES_H_
#define PILLION_PIPELINE_SCHEDULES_SCHEDULES_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "pipeline/plan.h"

namespace pillion::pipeline {

enum class ScheduleKind : uint8_t {
  kGPipe,
  kOneFOneB,
  kInterleaved,
  kBreadthFirst,
  kZbH1,
  kZbH2,
  kZbV,
  kVHalf,
  kVMin,
  kDualPipe,
  kDualPipeV,
  kChimera,
  kHanayo,
  kZb2p,  // list-scheduled zero bubble with up to 2p micro-batches in flight
};
// "gpipe", "1f1b", "interleaved", "breadth-first", "zb-h1", "zb-h2", "zb-v", "v-half", "v-min",
// "dualpipe", "dualpipe-v", "chimera", "hanayo", "zb-2p".
std::string_view ScheduleName(ScheduleKind kind);
Result<ScheduleKind> ParseScheduleName(std::string_view name);
const std::vector<ScheduleKind>& AllSchedules();

struct ScheduleOptions {
  int32_t devices = 0;
  int32_t microbatches = 0;
  int32_t chunks = 2;  // stages per device: interleaved and breadth-first only
  int32_t group = 0;   // interleaved: micro-batches per group; 0: devices
  int32_t waves = 1;   // hanayo
  // Times of one action of one stage and of one hop between devices, for the schedules whose order
  // depends on them (V-Half, V-Min, Hanayo and zb-2p are list-scheduled). The others have one order
  // for all times.
  int64_t forward = 1;
  int64_t input_gradient = 1;
  int64_t weight_gradient = 1;
  int64_t communication = 0;
};

// The plan's stages have one layer each ([s, s+1) within a copy); AssignLayers gives them real
// ones. kInvalidArgument when the schedule has no such size (for example DualPipe with an odd
// number of devices or too few micro-batches): the message says which sizes it has.
Result<Plan> GenerateSchedule(ScheduleKind kind, const ScheduleOptions& options);

// Stages per copy that GenerateSchedule will make.
int32_t StagesOfSchedule(ScheduleKind kind, const ScheduleOptions& options);

}  // namespace pillion::pipeline

#endif  // PILLION_PIPELINE_SCHEDULES_SCHEDULES_H_
