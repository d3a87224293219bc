#include <cstdio>
#include <nlohmann/json.hpp>

#include "tests/bench/harvest.h"

namespace pillion::bench {
namespace {

nlohmann::ordered_json CellJson(const Cell& cell) {
  nlohmann::ordered_json json;
  json["mode"] = ModeName(cell.mode);
  json["bubble_ms"] = cell.bubble_ms;
  json["step_ms"] = cell.step_ms;
  json["iterations"] = cell.iterations;
  json["iteration_ms"] = cell.iteration_ms;
  json["useful_share"] = cell.useful_share;
  json["harvest_share"] = cell.harvest_share;
  json["eligible_harvest_share"] = cell.eligible_harvest_share;
  json["slowdown"] = {{"mean", cell.slowdown.mean}, {"ci95", {cell.slowdown.low, cell.slowdown.high}}};
  if (cell.has_losses) {
    json["losses"] = {{"no_task", cell.losses.no_task_ns},
                      {"memory", cell.losses.memory_ns},
                      {"shorter_than_step", cell.losses.shorter_than_step_ns},
                      {"guard", cell.losses.guard_ns},
                      {"tail", cell.losses.tail_ns},
                      {"switching", cell.losses.switching_ns},
                      {"forecast_miss", cell.losses.forecast_miss_ns},
                      {"unexplained", cell.unexplained}};
    json["intrusion_share"] = cell.intrusion_share;
    json["guard_us"] = cell.guard_us;
  } else {
    json["losses"] = nullptr;  // only Pillion keeps books
  }
  json["edge_to_step_us"] = {{"p50", cell.edge_to_step_p50_us}, {"p99", cell.edge_to_step_p99_us}};
  return json;
}

}  // namespace

std::string HarvestJson(const HarvestReport& report) {
  nlohmann::ordered_json json;
  json["schema"] = 1;
  json["device"] = "cpu";
  json["solo_step_ms"] = {{"before", report.solo_step_ms_before}, {"after", report.solo_step_ms_after}};
  json["cells"] = nlohmann::ordered_json::array();
  for (const Cell& cell : report.cells) json["cells"].push_back(CellJson(cell));
  return json.dump();
}

std::string HarvestText(const HarvestReport& report) {
  std::string text =
      "mode                  iteration   useful  harvest  slowdown (95 % interval)       edge to step p50/p99\n";
  char line[256];
  for (const Cell& cell : report.cells) {
    std::snprintf(line, sizeof line, "%-20s %7.2f ms  %6.1f%%  %6.1f%%  %6.2f%% (%6.2f%% to %6.2f%%)   %7.1f / %.1f us\n",
                  ModeName(cell.mode), cell.iteration_ms, 100 * cell.useful_share, 100 * cell.harvest_share,
                  100 * cell.slowdown.mean, 100 * cell.slowdown.low, 100 * cell.slowdown.high, cell.edge_to_step_p50_us,
                  cell.edge_to_step_p99_us);
    text += line;
    if (!cell.has_losses) continue;
    std::snprintf(line, sizeof line,
                  "  lost to: no task %.1f%%, shorter than a step %.1f%%, guard %.1f%%, tail %.1f%%, switching %.1f%%, "
                  "forecast miss %.1f%%; unexplained %.2f%%; intrusion %.2f%% of iterations, guard %.0f us\n",
                  100 * cell.losses.no_task_ns, 100 * cell.losses.shorter_than_step_ns, 100 * cell.losses.guard_ns,
                  100 * cell.losses.tail_ns, 100 * cell.losses.switching_ns, 100 * cell.losses.forecast_miss_ns,
                  100 * cell.unexplained, 100 * cell.intrusion_share, cell.guard_us);
    text += line;
  }
  std::snprintf(line, sizeof line, "one step alone: %.3f ms before, %.3f ms after\n", report.solo_step_ms_before,
                report.solo_step_ms_after);
  return text + line;
}

}  // namespace pillion::bench
