// Says of any plan whether it can run to its end, and if not, exactly why.
#ifndef PILLION_PIPELINE_CHECK_H_
#define PILLION_PIPELINE_CHECK_H_

#include <string>
#include <vector>

#include "pipeline/costs.h"
#include "pipeline/plan.h"
#include "pipeline/simulate.h"

namespace pillion::pipeline {

// A device that stands still at `action` because `needed` of `needed_device` never happens.
struct StuckAt {
  int32_t device = 0;
  size_t index = 0;  // in the device's order
  Action action;
  Action needed;
  int32_t needed_device = 0;
};

struct CheckReport {
  bool completes = false;  // all work is there once and no device waits for ever
  bool fits = false;       // it completes and keeps every cap of the costs
  // Empty when it completes and fits; else a sentence.
  std::string reason;
  std::vector<std::string> work_problems;    // missing, doubled or contradictory work
  std::vector<StuckAt> cycle;                // each waits for the next, the last for the first
  std::vector<std::string> memory_problems;  // one per cap that is exceeded
};

// kInvalidArgument when the plan's shape is wrong or does not fit the costs. Where buffers are the
// limit (caps of the devices) the plan's own order is kept: a cap is reported, it never blocks.
Result<CheckReport> Check(const Plan& plan, const Costs& costs, const SimulateOptions& options = {});

}  // namespace pillion::pipeline

#endif  // PILLION_PIPELINE_CHECK_H_
