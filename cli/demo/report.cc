#include "cli/demo/report.h"

#include <cstdarg>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/file.h"

namespace pillion::demo {
namespace {

using nlohmann::json;

// The losses by their names here and in the workers' reports.
struct Loss {
  const char* name;
  const char* words;
};
constexpr Loss kLosses[] = {{"no_task", "no task"},
                            {"memory", "memory"},
                            {"shorter_than_step", "shorter than a step"},
                            {"guard", "guard"},
                            {"tail", "tail"},
                            {"switching", "switching"},
                            {"forecast_miss", "forecast miss"}};

json Share(double part, double whole) { return whole > 0 ? json(part / whole) : json(nullptr); }

json DeviceOf(const json& worker) {
  const double bubble_ns = worker.at("bubble_ns");
  const double iterations = worker.at("iterations").get<double>();
  json losses;
  for (const Loss& loss : kLosses) {
    losses[loss.name] = Share(worker.at("losses").at(std::string(loss.name) + "_ns"), bubble_ns);
  }
  losses["unexplained"] = Share(worker.at("unexplained_ns"), bubble_ns);
  return {{"device", worker.at("device")},
          {"iterations", worker.at("iterations").get<uint64_t>() + worker.at("quiet_iterations").get<uint64_t>()},
          {"iteration_ms",
           {{"quiet", worker.at("quiet_iteration_ns").get<double>() / 1e6},
            {"harvesting", worker.at("harvesting_iteration_ns").get<double>() / 1e6}}},
          {"bubble_share", Share(bubble_ns, worker.at("iteration_time_ns"))},
          {"harvest_share", Share(worker.at("harvest_ns"), bubble_ns)},
          {"eligible_harvest_share", Share(worker.at("eligible_harvest_ns"), worker.at("eligible_bubble_ns"))},
          {"useful_share", Share(worker.at("useful_ns"), bubble_ns)},
          {"intrusion_ms_per_iteration", Share(worker.at("intrusion_ns").get<double>() / 1e6, iterations)},
          {"losses", losses}};
}

json TrainerOf(const DemoRecord& record) {
  json trainer = {{"iterations", record.iterations},
                  {"loss_first", nullptr},
                  {"loss_last", nullptr},
                  {"losses_identical_to_quiet_run", nullptr}};
  if (!record.trainer.losses.empty()) {
    trainer["loss_first"] = record.trainer.losses.front();
    trainer["loss_last"] = record.trainer.losses.back();
  }
  if (record.losses_compared) trainer["losses_identical_to_quiet_run"] = record.losses_identical;
  return trainer;
}

__attribute__((format(printf, 2, 3))) void Append(std::string* to, const char* format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  *to += line;
}

double Number(const json& value) { return value.is_number() ? value.get<double>() : 0; }

std::string Percent(const json& value) {
  if (!value.is_number()) return "n/a";
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * value.get<double>());
  return text;
}

void AppendDevices(const json& report, std::string* text) {
  Append(text, "\nWhat the bubbles gave\n  %-8s %10s %10s %10s %10s %14s\n", "device", "bubbles", "harvest", "eligible",
         "useful", "intrusion");
  for (const json& device : report.at("devices")) {
    Append(text, "  %-8s %10s %10s %10s %10s %8.3f ms/it\n", device.at("device").get<std::string>().c_str(),
           Percent(device.at("bubble_share")).c_str(), Percent(device.at("harvest_share")).c_str(),
           Percent(device.at("eligible_harvest_share")).c_str(), Percent(device.at("useful_share")).c_str(),
           Number(device.at("intrusion_ms_per_iteration")));
  }
  *text += "  bubbles: share of the iteration; harvest: share of bubble time inside side-task steps; eligible: the same\n"
           "  of bubbles long enough for a step; useful: work done x its solo time / bubble time\n";
  for (const json& device : report.at("devices")) {
    Append(text, "  %s lost to:", device.at("device").get<std::string>().c_str());
    for (const Loss& loss : kLosses) {
      Append(text, " %s %s,", loss.words, Percent(device.at("losses").at(loss.name)).c_str());
    }
    Append(text, " unexplained %s\n", Percent(device.at("losses").at("unexplained")).c_str());
  }
}

void AppendCost(const json& report, const DemoRecord& record, std::string* text) {
  *text += "\nWhat it cost the trainer\n";
  if (record.slowdown) {
    Append(text, "  slowdown %.2f %%, 95 %% interval %.2f to %.2f %% (%llu quiet blocks against their neighbours)\n",
           100 * record.slowdown->mean, 100 * record.slowdown->low, 100 * record.slowdown->high,
           static_cast<unsigned long long>(record.slowdown->groups));
  } else {
    *text += "  slowdown not known: too few iterations had side work; train longer (--seconds)\n";
  }
  Append(text, "  recovered share of all device time, net of the slowdown: %s\n",
         Percent(report.at("recovered_share")).c_str());
  if (record.losses_compared) {
    Append(text, "  loss %.3f -> %.3f; the first %llu losses are %s those of a run without side tasks\n",
           record.trainer.losses.front(), record.trainer.losses.back(),
           static_cast<unsigned long long>(record.losses_compared_count),
           record.losses_identical ? "bit for bit" : "NOT");
  }
}

}  // namespace

Result<json> MakeReport(const DemoRecord& record, const std::string& timeline, double wall_s) {
  json report = {{"schema", 1}, {"devices", json::array()}, {"slowdown", nullptr}, {"recovered_share", nullptr},
                 {"tasks", json::array()}, {"trainer", TrainerOf(record)}, {"timeline", timeline}, {"wall_s", wall_s}};
  double useful_ns = 0, device_ns = 0;
  for (const std::string& path : record.report_files) {
    PILLION_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
    try {
      const json worker = json::parse(text);
      report["devices"].push_back(DeviceOf(worker));
      useful_ns += worker.at("useful_ns").get<double>();
      device_ns += worker.at("iteration_time_ns").get<double>();
    } catch (const json::exception& error) {
      return Corruption("the worker's report, " + path + ": " + error.what());
    }
  }
  report["slowdown"] = {{"mean", nullptr}, {"ci95", {nullptr, nullptr}}};
  if (record.slowdown) {
    report["slowdown"] = {{"mean", record.slowdown->mean}, {"ci95", {record.slowdown->low, record.slowdown->high}}};
    if (device_ns > 0) report["recovered_share"] = useful_ns / device_ns - record.slowdown->mean;
  }
  uint64_t migrations = 0;
  for (const TaskOutcome& task : record.tasks) {
    migrations += task.migrations;
    report["tasks"].push_back({{"task", task.task},
                               {"program", task.program},
                               {"state", task.state},
                               {"steps", task.steps},
                               {"migrations", task.migrations},
                               {"verified", task.verified}});
  }
  report["migrations"] = migrations;
  return report;
}

std::string ForPeople(const json& report, const DemoRecord& record) {
  std::string text;
  if (record.trainer_kind == TrainerKind::kGpt) {
    Append(&text, "Trained a GPT as a pipeline of two stages for %llu iterations; a quarter of them were left quiet.\n",
           static_cast<unsigned long long>(record.iterations));
  } else {
    Append(&text,
           "LibTorch is not there: two metronomes stood in for the trainer for %llu iterations each, a quarter of them\n"
           "quiet, and no model was trained, neither in the pipeline nor as a side task.\n",
           static_cast<unsigned long long>(record.iterations));
  }
  AppendDevices(report, &text);
  AppendCost(report, record, &text);
  Append(&text, "\nSide tasks\n  %-24s %-10s %8s %6s  %s\n", "program", "state", "steps", "moves",
         "result against an uncut, unmoved run");
  for (const TaskOutcome& task : record.tasks) {
    Append(&text, "  %-24s %-10s %8llu %6llu  %s\n", task.program.c_str(), task.state.c_str(),
           static_cast<unsigned long long>(task.steps), static_cast<unsigned long long>(task.migrations),
           task.verified ? "identical" : "DIFFERENT");
  }
  Append(&text, "  task %s went from %s to %s at step %llu\n", record.moved_task.c_str(), record.moved_from.c_str(),
         record.moved_to.c_str(), static_cast<unsigned long long>(record.moved_at_step));
  Append(&text, "\nTimeline of both devices (open in https://ui.perfetto.dev): %s\nAll of it took %.0f s.\n",
         report.at("timeline").get<std::string>().c_str(), Number(report.at("wall_s")));
  return text;
}

Status MergeTimelines(const std::vector<std::string>& files, const std::string& to) {
  json events = json::array();
  int process = 0;
  for (const std::string& path : files) {
    PILLION_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
    try {
      json trace = json::parse(text);
      ++process;
      for (json& event : trace.at("traceEvents")) {
        event["pid"] = process;
        events.push_back(std::move(event));
      }
    } catch (const json::exception& error) {
      return Corruption("the worker's timeline, " + path + ": " + error.what());
    }
  }
  return WriteFileAtomically(to, json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}}.dump() + "\n");
}

}  // namespace pillion::demo
