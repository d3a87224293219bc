// pillion simulate and pillion check: what a given plan or table does.
#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cli/plan/commands.h"
#include "pipeline/check.h"
#include "pipeline/simulate.h"

namespace pillion::plan {
namespace {

using nlohmann::json;

struct ReplayFlags {
  ModelFlags model;
  std::string file, cost = "F=1,I=1,W=1", overlap = "atomic";
  int32_t devices = 0, microbatches = 0;

  pipeline::SimulateOptions Options() const {
    pipeline::SimulateOptions options;
    options.overlap = overlap == "atomic" ? pipeline::OverlapMode::kAtomic
                                          : pipeline::OverlapMode::kSequence;
    return options;
  }
};

struct Loaded {
  pipeline::Plan plan;
  pipeline::Costs costs;
};

// "F=1,I=1,W=1"; every one of the three once.
Result<std::vector<int64_t>> ParseCost(const std::string& text) {
  std::vector<int64_t> ticks(3, 0);
  for (const std::string& part : CLI::detail::split(text, ',')) {
    const size_t which = part.size() > 2 && part[1] == '=' ? std::string("FIW").find(part[0])
                                                           : std::string::npos;
    int64_t value = 0;
    const char* end = part.data() + part.size();
    if (which == std::string::npos || ticks[which] != 0 ||
        std::from_chars(part.data() + 2, end, value).ptr != end || value < 1 || value > 1'000'000'000) {
      return InvalidArgument("--cost: '" + part +
                             "' is none of F=TICKS, I=TICKS, W=TICKS, each once, from 1 to 1e9");
    }
    ticks[which] = value;
  }
  for (int64_t value : ticks) {
    if (value == 0) return InvalidArgument("--cost needs F, I and W, for example F=10,I=12,W=8");
  }
  return ticks;
}

Result<Loaded> Load(const ReplayFlags& flags) {
  Loaded loaded;
  PILLION_ASSIGN_OR_RETURN(loaded.plan, LoadPlan(flags.file, flags.devices, flags.microbatches));
  if (!flags.model.profile.empty()) {
    PILLION_ASSIGN_OR_RETURN(loaded.costs, LoadCosts(flags.model, loaded.plan.devices));
    return loaded;
  }
  PILLION_ASSIGN_OR_RETURN(auto ticks, ParseCost(flags.cost));
  // The costs are those of one action of one stage, whatever layers the plan gave it.
  std::vector<int32_t> bounds(static_cast<size_t>(loaded.plan.StagesPerCopy()) + 1);
  std::iota(bounds.begin(), bounds.end(), 0);
  PILLION_RETURN_IF_ERROR(pipeline::AssignLayers(bounds, &loaded.plan));
  loaded.costs = pipeline::UniformCosts(loaded.plan, ticks[0], ticks[1], ticks[2]);
  PILLION_RETURN_IF_ERROR(ApplyCaps(flags.model, &loaded.costs));
  return loaded;
}

int RunSimulate(bool as_json, const ReplayFlags& flags) {
  auto loaded = Load(flags);
  if (!loaded.ok()) return FailUsage(as_json, loaded.status());
  auto result = pipeline::Simulate(loaded->plan, loaded->costs, flags.Options());
  if (!result.ok()) return Fail(as_json, result.status());
  std::vector<pipeline::Ticks> bubble;
  for (pipeline::Ticks busy : result->busy) bubble.push_back(result->makespan - busy);
  if (as_json) {
    PrintJson({{"schema", 1},
               {"makespan", result->makespan},
               {"device_span", result->device_span},
               {"bubble", bubble},
               {"peak", result->peak_live_pairs},
               {"peak_live_layers", result->peak_live_layers},
               {"peak_bytes", result->peak_bytes},
               {"transfers", result->transfers.size()}});
    return 0;
  }
  std::printf("makespan %lld, longest device span %lld\n", static_cast<long long>(result->makespan),
              static_cast<long long>(result->device_span));
  for (size_t d = 0; d < bubble.size(); ++d) {
    std::printf("device %zu: bubble %lld, peak %d live (stage, micro-batch) pairs\n", d,
                static_cast<long long>(bubble[d]), result->peak_live_pairs[d]);
  }
  return 0;
}

int RunCheck(bool as_json, const ReplayFlags& flags) {
  auto loaded = Load(flags);
  if (!loaded.ok()) return FailUsage(as_json, loaded.status());
  auto report = pipeline::Check(loaded->plan, loaded->costs, flags.Options());
  if (!report.ok()) return Fail(as_json, report.status());
  if (as_json) {
    json cycle = json::array();
    for (const pipeline::StuckAt& stuck : report->cycle) {
      cycle.push_back({{"device", stuck.device},
                       {"index", stuck.index},
                       {"action", pipeline::ActionName(stuck.action)},
                       {"needs", pipeline::ActionName(stuck.needed)},
                       {"of_device", stuck.needed_device}});
    }
    PrintJson({{"schema", 1},
               {"completes", report->completes},
               {"fits", report->fits},
               {"reason", report->reason},
               {"cycle", std::move(cycle)},
               {"work_problems", report->work_problems},
               {"memory_problems", report->memory_problems}});
  } else {
    std::printf("%s%s%s\n", report->completes ? "completes" : "does not complete",
                report->reason.empty() ? "" : ": ", report->reason.c_str());
  }
  return report->completes && report->fits ? 0 : 1;
}

void AddReplayFlags(CLI::App* command, ReplayFlags* flags) {
  command->add_option("file", flags->file, "JSON plan or PyTorch schedule CSV")->required();
  command->add_option("--cost", flags->cost, "ticks of one action of one stage, without --profile")
      ->capture_default_str();
  command->add_option("--overlap", flags->overlap, "how blocks run")
      ->check(CLI::IsMember({"atomic", "sequence"}))
      ->capture_default_str();
  command->add_option("--devices", flags->devices, "refuse a plan for another number");
  command->add_option("--microbatches", flags->microbatches, "refuse a plan for another number");
  AddModelFlags(command, &flags->model);
}

}  // namespace

void AddReplayCommands(CLI::App* app, const bool* as_json, Run* run) {
  auto simulated = std::make_shared<ReplayFlags>();
  CLI::App* simulate = app->add_subcommand("simulate", "replay a plan: time, bubbles, memory");
  AddReplayFlags(simulate, simulated.get());
  simulate->footer("Examples:\n  pillion simulate schedule.csv --cost F=10,I=12,W=8 --json\n"
                   "  pillion simulate plan.json --profile layers.json --model my-9b");
  simulate->callback([=] { *run = [=] { return RunSimulate(*as_json, *simulated); }; });

  auto checked = std::make_shared<ReplayFlags>();
  CLI::App* check = app->add_subcommand("check", "does a plan complete, and if not, why");
  AddReplayFlags(check, checked.get());
  check->footer("Examples:\n  pillion check schedule.csv --devices 4 --microbatches 8 --json\n"
                "  pillion check plan.json --profile layers.json --model my-9b --live-layers 56");
  check->callback([=] { *run = [=] { return RunCheck(*as_json, *checked); }; });
}

}  // namespace pillion::plan
