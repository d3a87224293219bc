// A Plan as JSON: {"schema": 1, "name", "devices", "microbatches", "copies", "stages": [{"layers":
// [first, end], "device", "recompute", "shard_devices"}], "order": [[cell, …] per device]}; cells
// are those of the schedule table (csv.h), current dialect.
#ifndef PILLION_PIPELINE_FORMATS_PLAN_JSON_H_
#define PILLION_PIPELINE_FORMATS_PLAN_JSON_H_

#include <string>
#include <string_view>

#include "base/status.h"
#include "pipeline/plan.h"

namespace pillion::pipeline {

std::string FormatPlanJson(const Plan& plan);
// Errors name the key, or device and cell. The shape of what is returned is valid.
Result<Plan> ParsePlanJson(std::string_view text);

}  // namespace pillion::pipeline

#endif  // PILLION_PIPELINE_FORMATS_PLAN_JSON_H_
