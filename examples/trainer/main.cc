// pillion-trainer: trains a byte-level GPT as a pipeline, one process and one core per stage, and
// marks its bubbles. Without --rank it starts the ranks itself and prints one report; with --rank
// it is one of them and prints a JSON line per iteration.
#include <malloc.h>
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "api/board/board.h"
#include "base/cpu.h"
#include "base/file.h"
#include "base/ids.h"
#include "examples/trainer/corpus.h"
#include "examples/trainer/gpt.h"
#include "examples/trainer/launch.h"
#include "pillion/trainer.h"
#include "pipeline/executor/executor.h"
#include "pipeline/schedules/schedules.h"

namespace {

using nlohmann::json;
using namespace pillion;  // NOLINT: a program of one file

struct Options {
  trainer::GptOptions gpt;
  std::string text = trainer::kDefaultText;
  std::string schedule = "1f1b";
  int32_t stages = 2, microbatches = 8;
  uint64_t iterations = 60, run_id = 0;
  int32_t rank = -1;
  int64_t peer_timeout_ms = 60'000;
  bool as_json = false, no_board = false, actions = false;
};

void AddOptions(CLI::App* app, Options* o) {
  app->add_option("--stages,--ranks", o->stages, "processes; rank r runs on core r")
      ->check(CLI::Range(1, 64));
  app->add_option("--schedule", o->schedule, "1f1b, gpipe, interleaved or breadth-first");
  app->add_option("--microbatches", o->microbatches, "per iteration")->check(CLI::Range(1, 1024));
  app->add_option("--iterations", o->iterations)->check(CLI::Range(1, 1'000'000'000));
  app->add_option("--batch", o->gpt.batch, "samples of a micro-batch")->check(CLI::Range(1, 4096));
  app->add_option("--context", o->gpt.context, "bytes of a sample")->check(CLI::Range(1, 8192));
  app->add_option("--width", o->gpt.width)->check(CLI::Range(1, 16384));
  app->add_option("--heads", o->gpt.heads)->check(CLI::Range(1, 256));
  app->add_option("--layers", o->gpt.blocks, "transformer blocks")->check(CLI::Range(0, 1024));
  app->add_option("--learning-rate", o->gpt.learning_rate)->check(CLI::PositiveNumber);
  app->add_option("--seed", o->gpt.seed, "of weights and samples");
  app->add_option("--data", o->text, "training text: a file or a directory of files");
  app->add_option("--run-id", o->run_id,
                  "the same on all ranks; decides which iterations are quiet (default: random)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app->add_option("--rank", o->rank, "be this rank of --ranks, instead of starting all")
      ->check(CLI::Range(0, 63));
  app->add_option("--peer-timeout-ms", o->peer_timeout_ms, "longest wait for one message")
      ->check(CLI::PositiveNumber);
  app->add_flag("--json", o->as_json, "one JSON value at the end");
  app->add_flag("--actions", o->actions, "report the times of every action, too");
  app->add_flag("--no-board", o->no_board, "run without marking bubbles");
  for (CLI::Option* option : app->get_options()) option->capture_default_str();
  app->footer(
      "Examples:\n  pillion-trainer --iterations 100\n"
      "  pillion-trainer --stages 4 --layers 8 --schedule gpipe --data notes.txt --json");
}

// Blocks are dealt out evenly; the embedding rides with the first stage and the head with the last,
// so stages differ.
Result<pipeline::Plan> MakePlan(const Options& o) {
  PILLION_ASSIGN_OR_RETURN(pipeline::ScheduleKind kind, pipeline::ParseScheduleName(o.schedule));
  pipeline::ScheduleOptions schedule;
  schedule.devices = o.stages;
  schedule.microbatches = o.microbatches;
  PILLION_ASSIGN_OR_RETURN(pipeline::Plan plan, pipeline::GenerateSchedule(kind, schedule));
  for (const auto& order : plan.order) {
    for (const pipeline::Action& action : order) {
      if (action.type == pipeline::ActionType::kInputGradient) {
        return Unsupported("schedule " + o.schedule +
                           " splits the backward; this model computes it in one");
      }
    }
  }
  const auto stages = static_cast<int64_t>(plan.stages.size());
  std::vector<int32_t> bounds = {0};
  for (int64_t s = 1; s < stages; ++s)
    bounds.push_back(static_cast<int32_t>(1 + o.gpt.blocks * s / stages));
  bounds.push_back(o.gpt.layers());
  PILLION_RETURN_IF_ERROR(pipeline::AssignLayers(bounds, &plan));
  return plan;
}

pillion_board* OpenBoard(const Options& o) {
  if (o.no_board || o.rank >= OnlineCores()) return nullptr;
  const std::string device = "cpu" + std::to_string(o.rank);
  pillion_board_options options = PILLION_BOARD_OPTIONS_INIT;
  options.device = device.c_str();
  options.run_id = o.run_id;
  options.rank = o.rank;
  options.ranks = o.stages;
  pillion_board* board = pillion_board_open(&options);
  if (board == nullptr)
    std::fprintf(stderr, "pillion-trainer: without a board: %s\n", pillion_board_error());
  return board;
}

json ReportIteration(const Options& o, const executor::Program& program,
                     const executor::IterationTrace& trace, double loss, bool has_loss) {
  json line = {{"iteration", trace.iteration},
               {"start_ns", trace.start_ns},
               {"end_ns", trace.end_ns},
               {"quiet", trace.quiet},
               {"wait_ns", trace.WaitNs()}};
  if (has_loss) {
    char exact[64];
    std::snprintf(exact, sizeof exact, "%a", loss);
    line["loss"] = loss;
    line["loss_exact"] = exact;
  }
  for (size_t i = 0; o.actions && i < trace.actions.size(); ++i) {
    const executor::ActionTrace& a = trace.actions[i];
    line["actions"].push_back({pipeline::ActionName(program.instructions[o.rank][i].action),
                               a.ready_ns, a.start_ns, a.end_ns});
  }
  return line;
}

Status RunRank(const Options& o, const pipeline::Plan& plan, const executor::Program& program,
               const std::string& text) {
  PILLION_RETURN_IF_ERROR(PinThisThread(o.rank % OnlineCores()));
  // Activations of the same sizes come and go: keep their memory instead of giving it back to the
  // kernel each time.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  static char buffer[1 << 20];  // written out when full, or about once a second
  std::setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
  const SystemClock clock;
  PILLION_RETURN_IF_ERROR(MakePrivateDirectory(board::BoardDirectory()));
  const std::string meeting = board::BoardDirectory() + "/run-" + std::to_string(o.run_id);
  PILLION_ASSIGN_OR_RETURN(auto transport,
                           executor::OpenSharedTransport(meeting, o.rank, program, clock));
  PILLION_ASSIGN_OR_RETURN(auto gpt, trainer::MakeGpt(o.gpt, plan, o.rank, text));
  executor::ExecutorOptions options;
  options.board = OpenBoard(o);
  options.peer_timeout_ms = o.peer_timeout_ms;
  executor::Executor executor(program, gpt.get(), transport.get(), clock, options);
  Status status = executor.Join();
  const bool has_loss = plan.stages.back().device == o.rank;
  int64_t flushed_ns = 0;
  for (uint64_t i = 0; i < o.iterations && status.ok(); ++i) {
    if (status = executor.RunIteration(); !status.ok()) break;
    std::printf("%s\n",
                ReportIteration(o, program, executor.last(), gpt->loss(), has_loss).dump().c_str());
    if (executor.last().end_ns - flushed_ns > kNanosPerSecond) {
      std::fflush(stdout);
      flushed_ns = executor.last().end_ns;
    }
  }
  executor.Leave();
  std::fflush(stdout);
  pillion_board_close(options.board);
  return status;
}

json Describe(const Options& o, const executor::Program& program) {
  json ranks = json::array();
  for (int32_t rank = 0; rank < o.stages; ++rank) {
    ranks.push_back({{"rank", rank},
                     {"device", "cpu" + std::to_string(rank % OnlineCores())},
                     {"slots", program.WaitsOf(rank)},
                     {"iterations", json::array()}});
  }
  return {{"schema", 1},
          {"run_id", o.run_id},
          {"schedule", o.schedule},
          {"stages", o.stages},
          {"microbatches", o.microbatches},
          {"losses", json::array()},
          {"losses_exact", json::array()},
          {"ranks", ranks}};
}

// Starts all ranks and gathers their lines into one report.
Status Launch(const Options& o, const executor::Program& program,
              std::vector<std::string> arguments) {
  json report = Describe(o, program);
  arguments.insert(arguments.end(), {"--run-id", std::to_string(o.run_id)});
  std::string first_error;
  auto on_line = [&](int32_t rank, const std::string& line) {
    json iteration = json::parse(line, nullptr, false);
    if (iteration.is_discarded()) return;
    if (iteration.contains("error")) {
      if (first_error.empty()) first_error = iteration["error"]["message"].get<std::string>();
      return;
    }
    if (iteration.contains("loss")) {
      report["losses"].push_back(iteration["loss"]);
      report["losses_exact"].push_back(iteration["loss_exact"]);
      if (!o.as_json) {
        std::printf("iteration %llu  loss %.4f  %.1f ms\n",
                    iteration["iteration"].get<unsigned long long>(),
                    iteration["loss"].get<double>(),
                    static_cast<double>(iteration["end_ns"].get<int64_t>() -
                                        iteration["start_ns"].get<int64_t>()) /
                        1e6);
        std::fflush(stdout);
      }
    }
    report["ranks"][rank]["iterations"].push_back(std::move(iteration));
  };
  if (Status status = trainer::LaunchRanks(o.stages, arguments, on_line); !status.ok()) {
    return first_error.empty() ? status : status.WithContext(first_error);
  }
  if (o.as_json) std::printf("%s\n", report.dump().c_str());
  return Status();
}

Status Run(Options o, std::vector<std::string> arguments) {
  if (o.rank >= o.stages) {
    return InvalidArgument("rank " + std::to_string(o.rank) + " of " + std::to_string(o.stages) +
                           " ranks");
  }
  if (o.rank >= 0 && o.run_id == 0)
    return InvalidArgument("--rank needs the --run-id that all ranks share");
  PILLION_ASSIGN_OR_RETURN(pipeline::Plan plan, MakePlan(o));
  const std::vector<size_t> boundaries(plan.stages.size() - 1, o.gpt.boundary_bytes());
  PILLION_ASSIGN_OR_RETURN(executor::Program program, executor::Compile(plan, boundaries));
  PILLION_ASSIGN_OR_RETURN(std::string text, trainer::ReadText(o.text));
  PILLION_RETURN_IF_ERROR(trainer::CheckGpt(o.gpt, text));
  if (o.rank >= 0) return RunRank(o, plan, program, text);
  uint64_t unused = 0;
  while (o.run_id == 0) RandomWords(&o.run_id, &unused);
  return Launch(o, program, std::move(arguments));
}

}  // namespace

int main(int argc, char** argv) {
  // One thread per stage, also inside the linear algebra; read when the libraries load their first
  // matrix.
  setenv("OMP_NUM_THREADS", "1", 1);
  setenv("OPENBLAS_NUM_THREADS", "1", 1);
  CLI::App app("Trains a byte-level GPT as a pipeline and marks its bubbles for side tasks");
  Options options;
  AddOptions(&app, &options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const Status status = Run(options, std::vector<std::string>(argv, argv + argc));
  if (status.ok()) return 0;
  // A rank tells its launcher, which tells people.
  if (options.as_json || options.rank >= 0) {
    std::printf(
        "%s\n",
        json({{"error", {{"code", StatusCodeName(status.code())}, {"message", status.message()}}}})
            .dump()
            .c_str());
    std::fflush(stdout);
  }
  std::fprintf(stderr, "pillion-trainer: %s\n", status.message().c_str());
  return status.code() == StatusCode::kInvalidArgument || status.code() == StatusCode::kUnsupported
             ? 2
             : 1;
}
