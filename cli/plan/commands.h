// The verbs of pillion-plan. Results go to stdout, messages to stderr. Exit codes: 0 done, 1 the
// operation failed (a plan that hangs, caps that nothing keeps), 2 wrong input.
#ifndef PILLION_CLI_PLAN_COMMANDS_H_
#define PILLION_CLI_PLAN_COMMANDS_H_

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "pipeline/costs.h"
#include "pipeline/plan.h"

namespace CLI {
class App;
}

namespace pillion::plan {

using Run = std::function<int()>;
void AddTuneCommand(CLI::App* app, const bool* json, Run* run);
void AddReplayCommands(CLI::App* app, const bool* json, Run* run);  // simulate, check

// Prints the error; 1 for what the plan or the caps are at fault for, 2 for wrong input.
int Fail(bool json, const Status& status);
int FailUsage(bool json, const Status& status);
void PrintJson(const nlohmann::json& value);

// Model and devices as flags.
struct ModelFlags {
  std::string profile, model, link;
  std::string live_layers, memory_gib;  // one value, or one per device: "56" or "56,56,48,40"
};
void AddModelFlags(CLI::App* command, ModelFlags* flags);
Result<pipeline::Costs> LoadCosts(const ModelFlags& flags, int32_t devices);
Status ApplyCaps(const ModelFlags& flags, pipeline::Costs* costs);

// A JSON plan or a schedule table, told apart by the first character ('{'). With expected sizes
// above 0, a plan of another size is refused.
Result<pipeline::Plan> LoadPlan(const std::string& path, int32_t devices, int32_t microbatches);

}  // namespace pillion::plan

#endif  // PILLION_CLI_PLAN_COMMANDS_H_
