// pillion tune: searches a plan and writes what runtimes read.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/plan/commands.h"
#include "pipeline/formats/csv.h"
#include "pipeline/formats/plan_json.h"
#include "pipeline/simulate.h"
#include "pipeline/tune.h"

namespace pillion::plan {
namespace {

using nlohmann::json;

struct TuneFlags {
  ModelFlags model;
  int32_t devices = 0;
  double seconds = 0;
  std::string out, torch_csv;
  bool no_split = false;
  pipeline::TuneOptions options;
};

json BaselinesOf(const pipeline::TuneResult& result) {
  json baselines = json::object();
  for (const auto& [name, ticks] : result.baselines) {
    baselines[name] = ticks ? json(*ticks) : json("does not fit");
  }
  return baselines;
}

json ToJson(const pipeline::TuneResult& result, const pipeline::SimulationResult& replay) {
  json stages = json::array();
  for (const pipeline::Stage& stage : result.plan.stages) {
    stages.push_back({{"layers", {stage.first_layer, stage.end_layer}},
                      {"device", stage.device},
                      {"recompute", stage.recompute}});
  }
  return {{"schema", 1},
          {"makespan_ticks", result.makespan_ticks},
          {"lower_bound_ticks", result.lower_bound_ticks},
          {"lower_bound", result.lower_bound_name},
          {"gap", result.gap},
          {"baselines", BaselinesOf(result)},
          {"stages", std::move(stages)},
          {"peak_live_layers", replay.peak_live_layers},
          {"peak_bytes", replay.peak_bytes},
          {"transfers", replay.transfers.size()},
          {"seconds", result.seconds},
          {"evaluations", result.evaluations}};
}

void PrintForPeople(const pipeline::TuneResult& result) {
  std::printf("makespan %lld ticks, at least %lld (%s), gap %.2f %%, %zu stages, %.1f s\n",
              static_cast<long long>(result.makespan_ticks),
              static_cast<long long>(result.lower_bound_ticks), result.lower_bound_name.c_str(),
              100 * result.gap, result.plan.stages.size(), result.seconds);
  for (const auto& [name, ticks] : result.baselines) {
    std::printf("  %-14s %s\n", name.c_str(), ticks ? std::to_string(*ticks).c_str() : "does not fit");
  }
}

bool ShowProgress(const pipeline::TuneProgress& progress) {
  std::fprintf(stderr, "\r\033[K%.0f s  %s  best %lld  bound %lld  %lld plans", progress.seconds,
               progress.phase.c_str(), static_cast<long long>(progress.best_makespan_ticks),
               static_cast<long long>(progress.lower_bound_ticks),
               static_cast<long long>(progress.evaluations));
  return true;
}

// B where I and W follow each other, unless that costs time or memory: the table then has the
// tuned plan as it is.
pipeline::Plan ForRuntime(const pipeline::TuneResult& result, const pipeline::Costs& costs) {
  pipeline::Plan merged = pipeline::MergeAdjacentBackwards(result.plan);
  auto replay = pipeline::Simulate(merged, costs);
  if (!replay.ok() || replay->makespan > result.makespan_ticks) return result.plan;
  for (size_t d = 0; d < costs.devices.size(); ++d) {
    if (replay->peak_bytes[d] > costs.devices[d].memory_cap_bytes ||
        replay->peak_live_layers[d] > costs.devices[d].live_layer_cap) {
      return result.plan;
    }
  }
  return merged;
}

Status WriteFiles(const TuneFlags& flags, const pipeline::TuneResult& result,
                  const pipeline::Costs& costs) {
  if (!flags.out.empty()) {
    PILLION_RETURN_IF_ERROR(
        WriteFileAtomically(flags.out, pipeline::FormatPlanJson(result.plan)));
  }
  if (!flags.torch_csv.empty()) {
    PILLION_ASSIGN_OR_RETURN(std::string table,
                             pipeline::FormatScheduleCsv(ForRuntime(result, costs)));
    PILLION_RETURN_IF_ERROR(WriteFileAtomically(flags.torch_csv, table));
  }
  return Status();
}

int RunTune(bool as_json, TuneFlags flags) {
  if (flags.devices < 1) return FailUsage(as_json, InvalidArgument("--devices has to be 1 or more"));
  auto costs = LoadCosts(flags.model, flags.devices);
  if (!costs.ok()) return FailUsage(as_json, costs.status());
  pipeline::TuneOptions& options = flags.options;
  options.split_backward = !flags.no_split;
  options.max_seconds = flags.seconds;
  if (flags.seconds == 0 && options.max_evaluations == 0) options.max_seconds = 20;
  const bool live = !as_json && isatty(STDERR_FILENO) != 0;
  if (live) options.progress = ShowProgress;
  auto result = pipeline::Tune(*costs, options);
  if (live) std::fprintf(stderr, "\r\033[K");
  if (!result.ok()) return Fail(as_json, result.status());
  auto replay = pipeline::Simulate(result->plan, *costs);
  if (!replay.ok()) return Fail(as_json, Internal("the tuned plan: " + replay.status().message()));
  if (Status written = WriteFiles(flags, *result, *costs); !written.ok()) return Fail(as_json, written);
  if (as_json) {
    PrintJson(ToJson(*result, *replay));
  } else {
    PrintForPeople(*result);
  }
  return 0;
}

}  // namespace

void AddTuneCommand(CLI::App* app, const bool* as_json, Run* run) {
  auto flags = std::make_shared<TuneFlags>();
  CLI::App* tune = app->add_subcommand("tune", "search partition, placement and order of a pipeline");
  AddModelFlags(tune, &flags->model);
  tune->get_option("--profile")->required();
  tune->add_option("--devices", flags->devices, "pipeline devices")->required();
  tune->add_option("--microbatches", flags->options.microbatches, "micro-batches per step")->required();
  tune->add_option("--seconds", flags->seconds, "how long to search (20 unless --evaluations)");
  tune->add_option("--evaluations", flags->options.max_evaluations,
                   "how many plans to try: the same answer on every machine");
  tune->add_option("--seed", flags->options.seed, "of the search")->capture_default_str();
  tune->add_option("--threads", flags->options.threads, "0: all cores");
  tune->add_option("--max-stages", flags->options.max_stages, "per device; 0: any");
  tune->add_flag("--no-split-backward", flags->no_split, "full backwards only");
  tune->add_flag("--recompute", flags->options.allow_recompute, "may recompute activations");
  tune->add_option("--out", flags->out, "file for the plan (JSON)");
  tune->add_option("--torch-csv", flags->torch_csv, "file for PyTorch's schedule table");
  tune->footer(
      "Examples:\n"
      "  pillion tune --profile layers.json --model my-9b --devices 4 --microbatches 8 --json\n"
      "  pillion tune --profile layers.json --devices 8 --microbatches 16 --live-layers 56 \\\n"
      "    --link 8,200/8,8,25 --seconds 60 --out plan.json --torch-csv schedule.csv");
  tune->callback([=] { *run = [=] { return RunTune(*as_json, *flags); }; });
}

}  // namespace pillion::plan
