#include "cli/demo/trainer.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/clock.h"
#include "base/file.h"

namespace pillion::demo {
namespace {

using nlohmann::json;

// Short bubbles at both ends and iterations of a fifth of a second, so that a run has many.
const std::vector<std::string> kGptShape = {"--microbatches", "4", "--batch", "3", "--seed", "1"};
const std::vector<std::string> kMetronomeShape = {"--busy-ms", "20",      "--bubbles",    "2",
                                                  "--bubble-ms", "15", "--jitter", "0.02", "--warm-up-ms", "1000"};

Status ReadGpt(const std::string& path, TrainerRecord* record) {
  PILLION_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  try {
    const json report = json::parse(text);
    for (const json& rank : report.at("ranks")) {
      std::vector<Iteration>& iterations = record->ranks.emplace_back();
      for (const json& each : rank.at("iterations")) {
        iterations.push_back({each.at("start_ns"), each.at("end_ns"), each.at("quiet")});
      }
    }
    report.at("losses").get_to(record->losses);
    report.at("losses_exact").get_to(record->losses_exact);
  } catch (const json::exception& error) {
    return Corruption("the trainer's report, " + path + ": " + error.what());
  }
  return Status();
}

Status ReadMetronome(const std::string& path, TrainerRecord* record) {
  PILLION_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  std::vector<Iteration>& iterations = record->ranks.emplace_back();
  std::istringstream lines(text);
  try {
    for (std::string line; std::getline(lines, line);) {
      const json each = json::parse(line);
      if (!each.contains("iteration")) continue;
      const int64_t start_ns = each.at("start_ns");
      const double duration_ns = each.at("duration_ms").get<double>() * kNanosPerMilli;
      iterations.push_back({start_ns, start_ns + static_cast<int64_t>(duration_ns), each.at("quiet")});
    }
  } catch (const json::exception& error) {
    return Corruption("the metronome's report, " + path + ": " + error.what());
  }
  return Status();
}

}  // namespace

Result<std::unique_ptr<Trainer>> Trainer::Start(const TrainerRun& run) {
  std::unique_ptr<Trainer> trainer(new Trainer(run.kind));
  const bool gpt = run.kind == TrainerKind::kGpt;
  const size_t processes = gpt ? 1 : run.devices.size();
  for (size_t rank = 0; rank < processes; ++rank) {
    ProgramOptions options;
    options.program = gpt ? "pillion-trainer" : "pillion-metronome";
    options.label = gpt ? run.name : run.name + " of " + run.devices[rank];
    options.arguments = gpt ? kGptShape : kMetronomeShape;
    std::vector<std::string> more = {"--iterations", std::to_string(run.iterations), "--run-id",
                                     std::to_string(run.run_id), "--ranks", std::to_string(run.devices.size())};
    if (gpt) {
      more.push_back("--json");
    } else {
      more.insert(more.end(), {"--device", run.devices[rank], "--rank", std::to_string(rank)});
    }
    options.arguments.insert(options.arguments.end(), more.begin(), more.end());
    options.environment = run.environment;
    const std::string file = run.directory + "/" + run.name + (gpt ? "" : "-" + run.devices[rank]);
    options.output = file + ".json";
    options.log = file + ".log";
    PILLION_ASSIGN_OR_RETURN(auto program, Program::Start(std::move(options)));
    trainer->programs_.push_back(std::move(program));
  }
  return trainer;
}

bool Trainer::Running() {
  bool any = false;
  for (const auto& program : programs_) any = program->Running() || any;
  return any;
}

Status Trainer::Check() {
  for (const auto& program : programs_) PILLION_RETURN_IF_ERROR(program->Check());
  return Status();
}

Result<TrainerRecord> Trainer::Read() const {
  TrainerRecord record;
  for (const auto& program : programs_) {
    PILLION_RETURN_IF_ERROR(kind_ == TrainerKind::kGpt ? ReadGpt(program->output(), &record)
                                                       : ReadMetronome(program->output(), &record));
  }
  return record;
}

}  // namespace pillion::demo
