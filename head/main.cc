// pillion-head: the daemon that owns the queue.
#include <signal.h>
#include <sys/signalfd.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <vector>

#include "api/config/settings.h"
#include "base/file.h"
#include "base/log.h"
#include "base/service_notify.h"
#include "base/version.h"
#include "head/server.h"
#include "store/store.h"

namespace pillion::head {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

// systemd's StateDirectory=, else the user's own place for state.
std::string DefaultStateDirectory() {
  if (const char* unit = std::getenv("STATE_DIRECTORY"); unit != nullptr && *unit != 0) return unit;
  if (const char* xdg = std::getenv("XDG_STATE_HOME"); xdg != nullptr && *xdg != 0) {
    return std::string(xdg) + "/pillion/head";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != 0) {
    return std::string(home) + "/.local/state/pillion/head";
  }
  return "/var/lib/pillion/head";
}

struct Options {
  std::string state_dir = DefaultStateDirectory();
  std::string checkpoint_dir;
  std::string runtime_dir = DefaultRuntimeDirectory();
  std::string listen = "tcp://127.0.0.1:0";
  int64_t metrics_port = -1;
  std::string policy = "fair";
  std::string log_level = "info";
  std::string log_format = "text";
  int64_t store_reserve_mib = limits::kStoreReserveBytes >> 20;
  int64_t finished_job_retention_s = ReactorOptions().finished_job_retention_ms / 1000;
  ReactorOptions reactor;
  bool verify = false;
  bool json = false;
  bool list_crash_points = false;
};

void Declare(config::Settings* settings, Options* options) {
  ReactorOptions& reactor = options->reactor;
  settings->Text("state_dir", &options->state_dir, "directory of the queue");
  settings->Text(
      "checkpoint_dir", &options->checkpoint_dir,
      "directory of large checkpoints, shared with the workers; default: checkpoints/ in the state "
      "directory");
  settings->Text("runtime_dir", &options->runtime_dir,
                 "directory (0700) where endpoint and keys are published");
  settings->Text("listen", &options->listen, "address to serve; port 0: any free one");
  settings->Integer("metrics_port", &options->metrics_port, -1, 65535,
                    "port of /metrics for Prometheus; 0: any free one, -1: none");
  settings->Choice("policy", &options->policy, {"fair", "fifo", "shortest", "deadline"},
                   "who is served first");
  settings->Choice("log_level", &options->log_level, {"debug", "info", "warning", "error"},
                   "least level logged");
  settings->Choice("log_format", &options->log_format, {"text", "json"},
                   "form of the log on stderr");
  settings->Integer("store_reserve_mib", &options->store_reserve_mib, 0, 1 << 20,
                    "disk space set aside so that a full disk can be recovered from");
  settings->Integer("heartbeat_ms", &reactor.heartbeat_ms, 10, 3600'000,
                    "how often workers report");
  settings->Integer("worker_lost_ms", &reactor.worker_lost_ms, 30, 24 * 3600'000,
                    "silence after which a worker's tasks are given to others");
  settings->Integer("reattach_grace_ms", &reactor.reattach_grace_ms, 30, 24 * 3600'000,
                    "how long a restarted head waits for the workers it knew");
  settings->Boolean("rebalance", &reactor.rebalance,
                    "move tasks to devices that give them clearly more");
  settings->Number("rebalance_ratio", &reactor.rebalance_ratio, 1, 1000,
                   "how much more that must be");
  settings->Integer("minimum_residence_ms", &reactor.minimum_residence_ms, 0, 24 * 3600'000,
                    "how long a task stays before it is moved for that");
  settings->Integer("finished_job_retention_s", &options->finished_job_retention_s, 0,
                    int64_t{10} * 365 * 86400, "how long finished jobs are kept");
  settings->Action("verify", &options->verify,
                   "check the state directory or backup, print what is there, and end");
  settings->Action("json", &options->json, "with --verify: print JSON");
  settings->Action("list_crash_points", &options->list_crash_points,
                   "print the names for PILLION_CRASH_AT, and end");
}

int Fail(const Status& status) {
  std::fprintf(stderr, "pillion-head: %s\n", status.message().c_str());
  return status.code() == StatusCode::kInvalidArgument ? kUsage : kFailed;
}

int Verify(const Options& options) {
  Result<store::VerifyReport> report = store::VerifyStateDirectory(options.state_dir);
  if (!report.ok()) {
    if (options.json) {
      nlohmann::json error = {{"error",
                               {{"code", StatusCodeName(report.status().code())},
                                {"message", report.status().message()}}}};
      std::printf("%s\n", error.dump().c_str());
    }
    return Fail(report.status());
  }
  uint64_t records = 0;
  nlohmann::json kinds = nlohmann::json::object();
  for (const auto& [kind, count] : report->records_by_kind) {
    records += count;
    kinds[std::to_string(kind)] = count;
  }
  if (options.json) {
    nlohmann::json result = {{"schema", 1},
                             {"state_dir", options.state_dir},
                             {"format_version", report->format_version},
                             {"records", records},
                             {"records_by_kind", kinds},
                             {"record_bytes", report->record_bytes},
                             {"log_batches", report->log_records},
                             {"torn_tail", report->torn_tail},
                             {"checkpoint_files", report->checkpoint_files},
                             {"problems", report->problems}};
    std::printf("%s\n", result.dump().c_str());
  } else {
    std::printf("%s: store format version %u, %llu records (%llu bytes), %llu checkpoint files\n",
                options.state_dir.c_str(), report->format_version,
                static_cast<unsigned long long>(records),
                static_cast<unsigned long long>(report->record_bytes),
                static_cast<unsigned long long>(report->checkpoint_files));
    if (!report->torn_tail.empty()) {
      std::printf("an unacknowledged last batch will be dropped at the next start: %s\n",
                  report->torn_tail.c_str());
    }
    for (const std::string& problem : report->problems)
      std::printf("damaged: %s\n", problem.c_str());
  }
  return report->problems.empty() ? 0 : kFailed;
}

Result<ServerOptions> MakeServerOptions(const Options& options) {
  ServerOptions server;
  server.state_directory = options.state_dir;
  server.checkpoint_directory = options.checkpoint_dir;
  server.runtime_directory = options.runtime_dir;
  PILLION_RETURN_IF_ERROR(
      ParseListenAddress(options.listen, &server.listen_host, &server.listen_port));
  server.metrics_port = static_cast<int>(options.metrics_port);
  server.store_reserve_bytes = static_cast<uint64_t>(options.store_reserve_mib) << 20;
  server.reactor = options.reactor;
  server.reactor.software_version = kVersion;
  server.reactor.finished_job_retention_ms = options.finished_job_retention_s * 1000;
  PILLION_ASSIGN_OR_RETURN(server.reactor.policy, ParsePolicy(options.policy));
  PILLION_ASSIGN_OR_RETURN(server.crash_points, CrashPoints::FromEnvironment());
  return server;
}

// SIGTERM and SIGINT arrive at a descriptor, in this thread and in all that libraries start.
FileDescriptor BlockStopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return FileDescriptor(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

int Serve(const Options& options) {
  ServiceNotifier notifier;
  FileDescriptor stop = BlockStopSignals();
  Result<ServerOptions> server_options = MakeServerOptions(options);
  if (!server_options.ok()) return Fail(server_options.status());
  Result<std::unique_ptr<Server>> server = Server::Start(std::move(*server_options));
  if (!server.ok()) return Fail(server.status());
  log::Info("serving", {{"address", (*server)->endpoint().address},
                        {"runtime_dir", options.runtime_dir},
                        {"state_dir", options.state_dir},
                        {"metrics_port", (*server)->metrics_port()}});
  notifier.Ready();
  (*server)->Run(stop.get(), &notifier);
  notifier.Stopping();
  return 0;
}

int Main(int argc, char** argv) {
  Options options;
  config::Settings settings(
      "pillion-head", "head",
      "Owns the queue of side tasks: keeps it on disk and hands tasks to workers.",
      "Examples:\n"
      "  pillion-head                                  for this user, on this machine\n"
      "  pillion-head --listen tcp://0.0.0.0:4700      for other machines too (see pillion "
      "keygen)\n"
      "  pillion-head --config /etc/pillion.toml --log-format json\n"
      "  pillion-head --verify --state-dir /backup/pillion");
  Declare(&settings, &options);
  if (std::optional<int> exit_code = settings.Parse(argc, argv)) return *exit_code;
  log::Level level = log::Level::kInfo;
  log::ParseLevel(options.log_level, &level);
  log::Configure("pillion-head", level,
                 options.log_format == "json" ? log::Format::kJson : log::Format::kText);
  if (options.list_crash_points) {
    for (const std::string& name : AllCrashPoints()) std::printf("%s\n", name.c_str());
    return 0;
  }
  return options.verify ? Verify(options) : Serve(options);
}

}  // namespace
}  // namespace pillion::head

int main(int argc, char** argv) { return pillion::head::Main(argc, argv); }
