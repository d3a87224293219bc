// The demo's results for people and programs, and the timeline of all devices in one file.
#ifndef PILLION_CLI_DEMO_REPORT_H_
#define PILLION_CLI_DEMO_REPORT_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/demo/demo.h"

namespace pillion::demo {

// The value of `pillion demo --json`, from the run and the workers' report files. Figures that could not be measured
// are null.
Result<nlohmann::json> MakeReport(const DemoRecord& record, const std::string& timeline, double wall_s);

// The same in short tables.
std::string ForPeople(const nlohmann::json& report, const DemoRecord& record);

// One Chrome trace of the workers' traces: one process per device.
Status MergeTimelines(const std::vector<std::string>& files, const std::string& to);

}  // namespace pillion::demo

#endif  // PILLION_CLI_DEMO_REPORT_H_
