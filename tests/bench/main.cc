// pillion-bench: what `pillion bench` runs. Results on stdout, messages on stderr.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>

#include "tests/bench/board_cost.h"
#include "tests/bench/harvest.h"

namespace {

using pillion::bench::HarvestOptions;
using pillion::bench::Mode;

CLI::App* AddHarvest(CLI::App* app, HarvestOptions* options, bool* json) {
  CLI::App* harvest = app->add_subcommand("harvest", "Side work in the bubbles of one device, by five ways of control");
  harvest->add_option("--device", options->device, "cpu (the last core) or cpuN")->capture_default_str();
  harvest->add_option("--busy-ms", options->busy_ms, "the trainer's compute before each bubble")->capture_default_str();
  harvest->add_option("--bubble-ms", options->bubble_ms, "length of a bubble")->capture_default_str();
  harvest->add_option("--step-ms", options->step_ms, "one step of the side work, alone")->capture_default_str();
  harvest->add_option("--jitter", options->jitter, "standard deviation of bubbles, as a share")->capture_default_str();
  harvest->add_option("--block-s", options->block_s, "length of a block")->capture_default_str();
  harvest->add_option("--rounds", options->rounds, "blocks of each mode")->check(CLI::Range(2, 1000))->capture_default_str();
  harvest->add_option("--seed", options->seed, "of the bubbles' jitter")->capture_default_str();
  std::map<std::string, Mode> modes;
  for (uint32_t i = 1; i < pillion::bench::kModes; ++i) {
    modes[pillion::bench::ModeName(static_cast<Mode>(i))] = static_cast<Mode>(i);
  }
  harvest->add_option("--modes", options->modes, "besides alone; default all")
      ->delimiter(',')->transform(CLI::CheckedTransformer(modes));
  harvest->add_flag("--json", *json, "one JSON value");
  harvest->footer("Example: pillion-bench harvest --device cpu --json");
  return harvest;
}

int Harvest(HarvestOptions options, bool json) {
  if (options.modes.empty()) {
    options.modes = {Mode::kPillion, Mode::kUncontrolled, Mode::kUncontrolledNice19, Mode::kFreeRideLike};
  }
  auto report = pillion::bench::RunHarvest(options);
  if (!report.ok()) {
    std::fprintf(stderr, "pillion-bench: %s\n", report.status().ToString().c_str());
    return report.status().code() == pillion::StatusCode::kInvalidArgument ? 2 : 1;
  }
  std::puts((json ? HarvestJson(*report) : HarvestText(*report)).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Benches of Pillion");
  app.require_subcommand(1);
  HarvestOptions harvest_options;
  bool json = false;
  CLI::App* harvest = AddHarvest(&app, &harvest_options, &json);
  CLI::App* board = app.add_subcommand("board", "What marking costs a trainer, per call");
  board->add_flag("--json", json, "one JSON value");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (harvest->parsed()) return Harvest(harvest_options, json);
  return pillion::bench::RunBoardCost(json);
}
