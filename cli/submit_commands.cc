// submit, wait.
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/graph_file.h"

namespace pillion::cli {

using nlohmann::json;

namespace {

// One line on a terminal, drawn over itself; nothing elsewhere.
class ProgressBar {
 public:
  explicit ProgressBar(bool wanted) : active_(wanted && StderrIsTerminal()) {}
  ~ProgressBar() { Clear(); }

  void Show(const wire::JobInfo& job) {
    if (!active_) return;
    winsize size{};
    const int columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
    const uint64_t done = job.succeeded + job.failed + job.cancelled + job.skipped;
    char text[160];
    std::snprintf(text, sizeof text, " %llu/%llu done, %llu running, %llu queued, %llu waiting%s",
                  static_cast<unsigned long long>(done), static_cast<unsigned long long>(job.tasks),
                  static_cast<unsigned long long>(job.leased), static_cast<unsigned long long>(job.queued),
                  static_cast<unsigned long long>(job.waiting), job.failed > 0 ? ", some failed" : "");
    const int room = columns - static_cast<int>(std::string_view(text).size()) - 3;
    const int width = std::min(room, 40);
    std::string bar;
    if (width >= 8) {
      const int full = job.tasks == 0 ? 0 : static_cast<int>(static_cast<double>(done) / job.tasks * width);
      bar = "[" + std::string(full, '#') + std::string(width - full, '.') + "]";
    }
    std::fprintf(stderr, "\r\x1b[K%s%s", bar.c_str(), text);
    std::fflush(stderr);
    drawn_ = true;
  }

 private:
  void Clear() {
    if (drawn_) std::fprintf(stderr, "\r\x1b[K");
  }
  const bool active_;
  bool drawn_ = false;
};

// Exit code for a finished job: done only when every task succeeded.
int TellFinished(const Context& context, const wire::JobInfo& job, double waited_s) {
  if (context.json) {
    json value = ToJson(job);
    value["schema"] = 1;
    value["waited_s"] = waited_s;
    PrintJson(value);
  } else {
    std::printf("%s: %llu succeeded, %llu failed, %llu cancelled, %llu skipped\n", job.job.ToString().c_str(),
                static_cast<unsigned long long>(job.succeeded), static_cast<unsigned long long>(job.failed),
                static_cast<unsigned long long>(job.cancelled), static_cast<unsigned long long>(job.skipped));
    if (job.succeeded != job.tasks) {
      std::fprintf(stderr, "pillion: see `pillion list tasks %s`\n", job.job.ToString().c_str());
    }
  }
  return job.succeeded == job.tasks ? kDone : kFailed;
}

int WaitForJob(const Context& context, Client* client, const JobId& job, double for_s) {
  const int64_t start_ns = MonotonicNowNs();
  Result<wire::JobInfo> info = Internal("");
  {
    ProgressBar bar(!context.json);
    info = client->Wait(job, [&](const wire::JobInfo& now) { bar.Show(now); },
                        for_s < 0 ? -1 : static_cast<int64_t>(for_s * 1000));
  }
  if (!info.ok()) return Fail(context, info.status(), client->connected());
  return TellFinished(context, *info, static_cast<double>(MonotonicNowNs() - start_ns) / kNanosPerSecond);
}

struct SubmitOptions {
  std::string program;
  std::vector<std::string> arguments;
  std::string graph_file;
  wire::JobOptions job;
  wire::TaskSpec task;
  std::string device;
  double memory_mib = 0;
  double deadline_s = 0;
  bool command = false;
  bool wait = false;
  double for_s = -1;
};

Result<Graph> MakeGraph(const SubmitOptions& options) {
  if (!options.graph_file.empty()) {
    if (!options.program.empty()) return InvalidArgument("a program or --graph, not both");
    return ReadGraphFile(options.graph_file);
  }
  if (options.program.empty()) return InvalidArgument("what is to be submitted? A program, or --graph FILE");
  wire::TaskSpec task = options.task;
  task.kind = options.command ? wire::TaskKind::kCommand : wire::TaskKind::kSteps;
  task.program = options.program;
  task.options.memory_bytes = static_cast<uint64_t>(options.memory_mib * (1 << 20));
  task.options.deadline_ms = static_cast<int64_t>(options.deadline_s * 1000);
  if (options.device == "cpu") task.options.device_kind = static_cast<uint8_t>(DeviceKind::kCpu);
  if (options.device == "cuda") task.options.device_kind = static_cast<uint8_t>(DeviceKind::kCuda);
  PILLION_ASSIGN_OR_RETURN(task.arguments, ArgumentsFromPairs(options.arguments));
  Graph graph(options.job);
  graph.Add(std::move(task));
  return graph;
}

int RunSubmit(const Context& context, const SubmitOptions& options) {
  auto graph = MakeGraph(options);
  if (!graph.ok()) return FailUsage(context, graph.status());
  auto client = context.Connect();
  if (!client.ok()) return Fail(context, client.status(), false);
  auto job = client->Submit(*graph);
  if (!job.ok()) return Fail(context, job.status(), client->connected());
  if (options.wait) {
    if (!context.json) std::fprintf(stderr, "pillion: submitted %s\n", job->ToString().c_str());
    return WaitForJob(context, &*client, *job, options.for_s);
  }
  if (context.json) {
    PrintJson({{"schema", 1}, {"job", job->ToString()}, {"tasks", graph->size()}});
  } else {
    std::printf("%s\n", job->ToString().c_str());
  }
  return kDone;
}

}  // namespace

void AddSubmitCommands(CLI::App* app, const Context* context, Run* run) {
  auto options = std::make_shared<SubmitOptions>();
  CLI::App* submit = app->add_subcommand("submit", "submit a task or a graph; prints the job's id");
  submit->add_option("program", options->program, "registered program (with --command: an executable)");
  submit->add_option("arguments", options->arguments, "key=value …");
  submit->add_option("--graph", options->graph_file, "JSON file with many tasks (format: docs, or an example below)");
  submit->add_flag("--command", options->command, "the program is an executable file");
  submit->add_flag("--wait", options->wait, "wait until it is finished");
  submit->add_option("--for", options->for_s, "with --wait: give up after so many seconds (exit code 5)");
  submit->add_option("--name", options->job.name, "name of the job");
  submit->add_option("--owner", options->job.owner, "whose fair share it uses; default: the key's name");
  submit->add_option("--priority", options->job.priority, "higher first, within the owner's share");
  submit->add_option("--steps", options->task.max_steps, "end after so many steps; 0: when it says so");
  submit->add_option("--library", options->task.library, "shared library that registers the program");
  submit->add_option("--memory-mib", options->memory_mib, "device memory it needs")->check(CLI::NonNegativeNumber);
  submit->add_option("--device", options->device, "kind of device it needs")->check(CLI::IsMember({"cpu", "cuda"}));
  submit->add_option("--minimum-bubble-us", options->task.options.minimum_bubble_us, "shortest bubble to use");
  submit->add_option("--retries", options->task.options.app_retries, "failures of its own before it fails for good")
      ->capture_default_str();
  submit->add_option("--deadline-s", options->deadline_s, "seconds from now")->check(CLI::NonNegativeNumber);
  submit->add_flag("--wait-for-device", options->task.options.wait_for_device,
                   "queue it although no known worker could run it");
  submit->footer(
      "Examples:\n"
      "  pillion submit resize folder=/data/pictures width=320\n"
      "  pillion submit pagerank --steps 200 --name ranks --wait\n"
      "  pillion submit --graph nightly.json --json\n"
      "Graph file: {\"schema\": 1, \"tasks\": [{\"name\": \"a\", \"program\": \"resize\", \"arguments\": {…}},\n"
      "  {\"program\": \"pagerank\", \"after\": [\"a\"]}]}");
  submit->callback([=] { *run = [=] { return RunSubmit(*context, *options); }; });

  auto job = std::make_shared<std::string>();
  auto for_s = std::make_shared<double>(-1);
  CLI::App* wait = app->add_subcommand("wait", "wait for a job, with a progress bar; exit code 1 if a task failed");
  wait->add_option("job", *job, "job id")->required();
  wait->add_option("--for", *for_s, "give up after so many seconds (exit code 5)");
  wait->footer(
      "Examples:\n  pillion wait 0123456789abcdef0123456789abcdef\n"
      "  pillion wait $(pillion submit pagerank) --for 60");
  wait->callback([=] {
    *run = [=]() -> int {
      auto id = JobId::Parse(*job);
      if (!id.ok()) return FailUsage(*context, id.status());
      auto client = context->Connect();
      if (!client.ok()) return Fail(*context, client.status(), false);
      return WaitForJob(*context, &*client, *id, *for_s);
    };
  });
}

}  // namespace pillion::cli
