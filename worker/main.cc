// pillion-worker: the daemon of one device.
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>

#include "api/config/settings.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/log.h"
#include "worker/worker.h"

namespace pillion::worker {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

// As the head's default: systemd's StateDirectory=, else the user's own place for state.
std::string DefaultCheckpointDirectory() {
  if (const char* xdg = std::getenv("XDG_STATE_HOME"); xdg != nullptr && *xdg != 0) {
    return std::string(xdg) + "/pillion/head/checkpoints";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != 0) {
    return std::string(home) + "/.local/state/pillion/head/checkpoints";
  }
  return "/var/lib/pillion/head/checkpoints";
}

std::string HostBinaryBesideUs() {
  char path[PATH_MAX];
  ssize_t size = readlink("/proc/self/exe", path, sizeof path);
  std::string self(path, size > 0 ? static_cast<size_t>(size) : 0);
  return self.substr(0, self.rfind('/') + 1) + "pillion-host";
}

struct Options {
  std::string device = "cpu0";
  std::string runtime_dir = DefaultRuntimeDirectory();
  std::string checkpoint_dir = DefaultCheckpointDirectory();
  std::string host_binary = HostBinaryBesideUs();
  std::string name;
  std::string without_trainer = "run";
  std::string log_level = "info", log_format = "text";
  std::string report, timeline;
  int64_t max_residents = 4;
  int64_t quiet_one_in = 50;
  int64_t commit_interval_s = 10;
  double overhead_budget = 0.005;
};

void Declare(config::Settings* settings, Options* options) {
  settings->Text("device", &options->device, "the device to serve: cpu0, cpu1, … or cuda0, …");
  settings->Text("name", &options->name, "name of this worker; default: <host>/<device>");
  settings->Text("runtime_dir", &options->runtime_dir, "directory where the head publishes endpoint and keys");
  settings->Text("checkpoint_dir", &options->checkpoint_dir, "directory of large checkpoints; the head's");
  settings->Text("host_binary", &options->host_binary, "the program in which tasks run");
  settings->Integer("max_residents", &options->max_residents, 1, limits::kResidentsPerDevice - 1,
                    "most steps tasks that share the device");
  settings->Integer("quiet_one_in", &options->quiet_one_in, 0, 1 << 20,
                    "one trainer iteration of so many runs without side work, to measure against; 0: none");
  settings->Number("overhead_budget", &options->overhead_budget, 0, 1, "slowdown of the trainer that is allowed");
  settings->Choice("without_trainer", &options->without_trainer, {"run", "wait"},
                   "what tasks do while no trainer is attached");
  settings->Integer("commit_interval_s", &options->commit_interval_s, 1, 86400, "how often tasks are checkpointed");
  settings->Text("report", &options->report, "file for the figures as JSON, rewritten every 2 s");
  settings->Text("timeline", &options->timeline, "file for a Chrome trace, written at the end");
  settings->Choice("log_level", &options->log_level, {"debug", "info", "warning", "error"}, "least level logged");
  settings->Choice("log_format", &options->log_format, {"text", "json"}, "form of the log on stderr");
}

int Fail(const Status& status, int code) {
  std::fprintf(stderr, "pillion-worker: %s\n", status.message().c_str());
  return code;
}

FileDescriptor BlockStopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return FileDescriptor(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

// Waits for the head that makes the keys, if none ever ran here. kCancelled when asked to stop.
Result<wire::KeyPair> WaitForKeys(const std::string& runtime_directory, int stop_fd) {
  for (bool logged = false;;) {
    auto keys = wire::LoadKeys(runtime_directory, wire::Role::kWorker);
    if (keys.ok() || keys.status().code() != StatusCode::kUnavailable) return keys;
    if (!logged) log::Warning("no head has run here yet; waiting for its keys", {{"reason", keys.status().message()}});
    logged = true;
    pollfd stop{stop_fd, POLLIN, 0};
    if (poll(&stop, 1, 200) > 0) return Cancelled("asked to stop");
  }
}

WorkerOptions MakeWorkerOptions(const Options& options, const DeviceInfo& device) {
  WorkerOptions worker;
  worker.device = device;
  char host[HOST_NAME_MAX + 1] = {};
  gethostname(host, sizeof host - 1);
  worker.name = options.name.empty() ? std::string(host) + "/" + device.name : options.name;
  worker.runtime_directory = options.runtime_dir;
  worker.checkpoint_directory = options.checkpoint_dir;
  worker.host_binary = options.host_binary;
  worker.report_path = options.report;
  worker.timeline_path = options.timeline;
  worker.max_residents = static_cast<uint32_t>(options.max_residents);
  worker.commit_interval_ns = options.commit_interval_s * kNanosPerSecond;
  worker.engine.core = device.kind == DeviceKind::kCpu ? device.index : -1;
  worker.engine.overhead_budget = options.overhead_budget;
  worker.engine.quiet_one_in = static_cast<uint32_t>(options.quiet_one_in);
  worker.engine.run_without_trainer = options.without_trainer == "run";
  return worker;
}

int Main(int argc, char** argv) {
  Options options;
  config::Settings settings("pillion-worker", "worker",
                            "Serves one device: runs side tasks in the bubbles of its trainer.",
                            "Examples:\n"
                            "  pillion-worker --device cpu1\n"
                            "  pillion-worker --device cpu0 --without-trainer wait --report figures.json");
  Declare(&settings, &options);
  if (std::optional<int> exit_code = settings.Parse(argc, argv)) return *exit_code;
  log::Level level = log::Level::kInfo;
  log::ParseLevel(options.log_level, &level);
  log::Configure("pillion-worker", level, options.log_format == "json" ? log::Format::kJson : log::Format::kText);
  ServiceNotifier notifier;
  FileDescriptor stop = BlockStopSignals();
  auto device = FindDevice(options.device);
  if (!device.ok()) return Fail(device.status(), kUsage);
  auto keys = WaitForKeys(options.runtime_dir, stop.get());
  if (!keys.ok() && keys.status().code() == StatusCode::kCancelled) return 0;
  if (!keys.ok()) return Fail(keys.status(), kFailed);
  auto worker = Worker::Start(MakeWorkerOptions(options, *device), std::move(*keys));
  if (!worker.ok()) return Fail(worker.status(), kFailed);
  // From here on this thread only keeps house. The engine's thread was started before and has its own class.
  (void)SetSchedulingClass(SchedulingClass::kIdle);
  log::Info("serving", {{"device", device->name}, {"runtime_dir", options.runtime_dir}});
  notifier.Ready();
  (*worker)->Run(stop.get(), &notifier);
  notifier.Stopping();
  return 0;
}

}  // namespace
}  // namespace pillion::worker

int main(int argc, char** argv) { return pillion::worker::Main(argc, argv); }
