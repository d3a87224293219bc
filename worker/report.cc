#include "worker/report.h"

#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"

namespace pillion::worker {
namespace {

using nlohmann::json;

double Share(double part, double whole) { return whole > 0 ? part / whole : -1; }

json ToJson(const turns::Losses& losses) {
  return {{"no_task_ns", losses.no_task_ns},
          {"memory_ns", losses.memory_ns},
          {"shorter_than_step_ns", losses.shorter_than_step_ns},
          {"guard_ns", losses.guard_ns},
          {"tail_ns", losses.tail_ns},
          {"switching_ns", losses.switching_ns},
          {"forecast_miss_ns", losses.forecast_miss_ns}};
}

}  // namespace

Status WriteReport(const std::string& path, const std::string& device, const turns::DeviceFigures& f) {
  json slowdown = {{"known", f.slowdown.known}, {"mean", f.slowdown.mean}, {"low", f.slowdown.low},
                   {"high", f.slowdown.high}};
  json report = {{"schema", 1},
                 {"device", device},
                 {"iterations", f.iterations},
                 {"quiet_iterations", f.quiet_iterations},
                 {"bubbles", f.bubbles},
                 {"quiet_iteration_ns", f.quiet_iteration_ns},
                 {"harvesting_iteration_ns", f.harvesting_iteration_ns},
                 {"iteration_time_ns", f.iteration_time_ns},
                 {"bubble_ns", f.bubble_ns},
                 {"harvest_ns", f.harvest_ns},
                 {"eligible_bubble_ns", f.eligible_bubble_ns},
                 {"eligible_harvest_ns", f.eligible_harvest_ns},
                 {"useful_ns", f.useful_ns},
                 {"intrusion_ns", f.intrusion_ns},
                 {"free_ns", f.free_ns},
                 {"steps", f.steps},
                 {"overruns", f.overruns},
                 {"losses", ToJson(f.losses)},
                 {"unexplained_ns", f.unexplained_ns},
                 {"slowdown", slowdown},
                 {"edge_to_step_p50_us", f.edge_to_step_p50_us},
                 {"edge_to_step_p99_us", f.edge_to_step_p99_us},
                 {"guard_us", f.guard_us},
                 {"quantile", f.quantile},
                 {"bubbles_missed", f.bubbles_missed},
                 {"trainer_restarts", f.trainer_restarts}};
  return WriteFileAtomically(path, report.dump() + "\n");
}

Status WriteTimeline(const std::string& path, const std::string& device,
                     const std::vector<turns::TimelineEvent>& events) {
  using Kind = turns::TimelineEvent::Kind;
  constexpr int kTrainer = 1, kBubbles = 2, kFirstTask = 3;
  json trace = json::array();
  auto lane = [&trace](int tid, const std::string& name) {
    trace.push_back({{"ph", "M"}, {"name", "thread_name"}, {"pid", 1}, {"tid", tid}, {"args", {{"name", name}}}});
  };
  trace.push_back({{"ph", "M"}, {"name", "process_name"}, {"pid", 1}, {"args", {{"name", device}}}});
  lane(kTrainer, "trainer");
  lane(kBubbles, "bubbles");
  std::map<std::string, int> lanes;
  for (const turns::TimelineEvent& event : events) {
    json entry = {{"ph", "X"},
                  {"pid", 1},
                  {"ts", static_cast<double>(event.start_ns) / 1e3},
                  {"dur", static_cast<double>(event.end_ns - event.start_ns) / 1e3}};
    switch (event.kind) {
      case Kind::kIteration:
      case Kind::kQuietIteration:
        entry["tid"] = kTrainer;
        entry["name"] = (event.kind == Kind::kQuietIteration ? "quiet iteration " : "iteration ") +
                        std::to_string(event.iteration);
        break;
      case Kind::kBubble:
        entry["tid"] = kBubbles;
        entry["name"] = "slot " + std::to_string(event.slot);
        break;
      case Kind::kTurn: {
        auto [found, fresh] = lanes.emplace(event.name, kFirstTask + static_cast<int>(lanes.size()));
        if (fresh) lane(found->second, event.name);
        entry["tid"] = found->second;
        entry["name"] = std::to_string(event.steps) + " steps";
        break;
      }
    }
    trace.push_back(std::move(entry));
  }
  return WriteFileAtomically(path, json{{"traceEvents", std::move(trace)}, {"displayTimeUnit", "ms"}}.dump() + "\n");
}

void FillFigures(const turns::DeviceFigures& figures, wire::WorkerInfo* info) {
  info->iterations = figures.iterations;
  if (figures.iterations == 0) return;
  info->bubble_share = Share(figures.bubble_ns, figures.iteration_time_ns);
  info->harvest_share = Share(figures.harvest_ns, figures.bubble_ns);
  info->eligible_harvest_share = Share(figures.eligible_harvest_ns, figures.eligible_bubble_ns);
  if (!figures.slowdown.known) return;
  info->slowdown_mean = figures.slowdown.mean;
  info->slowdown_low = figures.slowdown.low;
  info->slowdown_high = figures.slowdown.high;
}

}  // namespace pillion::worker
