// The tuner: an anytime search over partition, placement and order together. Implemented in pipeline/tuner.
#ifndef PILLION_PIPELINE_TUNE_H_
#define PILLION_PIPELINE_TUNE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/status.h"
#include "pipeline/costs.h"
#include "pipeline/plan.h"

namespace pillion::pipeline {

struct TuneProgress {
  double seconds = 0;
  int64_t evaluations = 0;
  Ticks best_makespan_ticks = 0;  // 0: no plan within the caps yet
  Ticks lower_bound_ticks = 0;
  std::string phase;
};

struct TuneOptions {
  int32_t microbatches = 0;
  uint64_t seed = 1;
  // The search ends at the first of these; 0 = not limited. At least one must be set. With evaluations only, the
  // result is a function of costs, options and seed, whatever the machine and the number of threads.
  int64_t max_evaluations = 0;
  double max_seconds = 0;
  int32_t threads = 0;       // 0: all cores
  int32_t max_stages = 0;    // per device; 0: the tuner's choice
  bool split_backward = true;  // may use I and W; false: B only
  bool allow_recompute = false;
  // Called from one thread at a time, at most a few times per second. Returning false ends the search early with the
  // best plan so far.
  std::function<bool(const TuneProgress&)> progress;
};

struct TuneResult {
  Plan plan;                     // keeps every cap of costs.devices; Simulate gives makespan_ticks for it
  Ticks makespan_ticks = 0;
  Ticks lower_bound_ticks = 0;   // proved: no plan under the caps with one copy of the weights is faster
  std::string lower_bound_name;  // which bound it is
  double gap = 0;                // makespan / lower bound - 1
  // Classical schedules under the same caps and communication, each with the better of the even and the balanced
  // partition; nullopt: does not fit. Those with two copies of the weights (chimera, dualpipe) are listed too, but the
  // tuner searches plans with one copy: only against those is it never worse.
  std::map<std::string, std::optional<Ticks>> baselines;
  double seconds = 0;
  int64_t evaluations = 0;
};

// The devices, links and caps are those of `costs`. kInvalidArgument for options or costs that make no sense (zero
// layers, more devices than layers, …); kResourceExhausted when no plan keeps the caps: names a device and
// what would do.
Result<TuneResult> Tune(const Costs& costs, const TuneOptions& options);

}  // namespace pillion::pipeline

#endif  // PILLION_PIPELINE_TUNE_H_
