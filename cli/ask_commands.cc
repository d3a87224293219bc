// status, list, get, explain.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "base/clock.h"
#include "cli/commands.h"

namespace pillion::cli {

using nlohmann::json;

namespace {

using ull = unsigned long long;  // printf's %llu

int RunStatus(const Context& context) {
  auto client = context.Connect();
  if (!client.ok()) return Fail(context, client.status(), false);
  auto status = client->GetStatus();
  if (!status.ok()) return Fail(context, status.status(), client->connected());
  if (context.json) {
    PrintJson({{"schema", 1},
               {"time", FormatIso8601Utc(WallNowNs())},
               {"head", {{"version", status->software_version}, {"incarnation", status->incarnation},
                         {"uptime_s", status->uptime_s}, {"hostile_messages", status->hostile_messages}}},
               {"jobs", status->jobs},
               {"tasks", {{"waiting", status->waiting}, {"queued", status->queued}, {"leased", status->leased},
                          {"succeeded", status->succeeded}, {"failed", status->failed},
                          {"cancelled", status->cancelled}, {"skipped", status->skipped}}},
               {"workers", {{"connected", status->workers_connected}, {"known", status->workers_known}}},
               {"store", {{"error", status->store_error.empty() ? json(nullptr) : json(status->store_error)},
                          {"write_ms_p50", status->store_write_ms_p50}, {"write_ms_p99", status->store_write_ms_p99},
                          {"bytes", status->store_bytes}}}});
    return kDone;
  }
  std::printf("head     version %s, up %s, incarnation %llu\n", status->software_version.c_str(),
              ForPeople(status->uptime_s).c_str(), static_cast<ull>(status->incarnation));
  std::printf("workers  %u connected, %u known\n", status->workers_connected, status->workers_known);
  std::printf("jobs     %llu\n", static_cast<ull>(status->jobs));
  std::printf("tasks    %llu waiting, %llu queued, %llu leased, %llu succeeded, %llu failed, %llu cancelled, %llu skipped\n",
              static_cast<ull>(status->waiting), static_cast<ull>(status->queued), static_cast<ull>(status->leased),
              static_cast<ull>(status->succeeded), static_cast<ull>(status->failed),
              static_cast<ull>(status->cancelled), static_cast<ull>(status->skipped));
  std::printf("store    writes p50 %.2f ms, p99 %.2f ms, %.1f MiB%s%s\n", status->store_write_ms_p50,
              status->store_write_ms_p99, static_cast<double>(status->store_bytes) / (1 << 20),
              status->store_error.empty() ? "" : "; NOT ACKNOWLEDGING: ", status->store_error.c_str());
  if (status->hostile_messages > 0) {
    std::printf("refused  %llu hostile messages\n", static_cast<ull>(status->hostile_messages));
  }
  return kDone;
}

template <typename T>
int PrintList(const Context& context, const char* key, const std::vector<T>& items, void (*print)(const T&)) {
  if (!context.json) {
    for (const T& item : items) print(item);
    return kDone;
  }
  json list = json::array();
  for (const T& item : items) list.push_back(ToJson(item));
  PrintJson({{"schema", 1}, {key, list}});
  return kDone;
}

void PrintJob(const wire::JobInfo& job) {
  std::printf("%s  %s  %llu tasks: %llu done, %llu leased, %llu queued, %llu waiting, %llu failed  %s %s\n",
              job.job.ToString().c_str(), FormatIso8601Utc(job.submitted_wall_ns).c_str(),
              static_cast<ull>(job.tasks), static_cast<ull>(job.succeeded), static_cast<ull>(job.leased),
              static_cast<ull>(job.queued), static_cast<ull>(job.waiting), static_cast<ull>(job.failed),
              job.owner.c_str(), job.name.c_str());
}

void PrintTask(const wire::TaskInfo& task) {
  std::printf("%s  %s  %s%s%s  step %llu", task.task.ToString().c_str(), Coloured(task.state).c_str(),
              task.program.c_str(), task.name.empty() ? "" : " ", task.name.c_str(), static_cast<ull>(task.step));
  if (task.items_total > 0) {
    std::printf("  %llu of %llu", static_cast<ull>(task.items_done), static_cast<ull>(task.items_total));
  }
  if (!task.worker.empty()) {
    std::printf("  on %s (%s)", task.worker.c_str(), std::string(HostStateName(task.host_state)).c_str());
  }
  if (!task.error.empty()) std::printf("  %s", task.error.c_str());
  std::printf("\n");
}

std::string Percent(double share) {
  if (share < 0) return "-";
  char text[16];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
  return text;
}

void PrintWorker(const wire::WorkerInfo& worker) {
  std::printf("%s  %s%s  %zu tasks  bubbles %s, harvested %s (of eligible %s)", worker.name.c_str(),
              worker.connected ? "connected" : "lost", worker.draining ? ", draining" : "", worker.leases.size(),
              Percent(worker.bubble_share).c_str(), Percent(worker.harvest_share).c_str(),
              Percent(worker.eligible_harvest_share).c_str());
  if (worker.slowdown_high > -1) {
    std::printf("  slowdown %.2f %% [%.2f, %.2f]", 100 * worker.slowdown_mean, 100 * worker.slowdown_low,
                100 * worker.slowdown_high);
  }
  std::printf("\n");
}

void PrintBubbles(const wire::WorkerInfo& worker) {
  const wire::Capacity& capacity = worker.capacity;
  if (!capacity.trainer_attached && capacity.slots.empty()) {
    std::printf("%s  no trainer: the whole device is free\n", worker.name.c_str());
    return;
  }
  std::printf("%s  iteration %.1f ms, guard %u us, %zu slots\n", worker.name.c_str(),
              capacity.iteration_period_us / 1000.0, capacity.guard_us, capacity.slots.size());
  for (size_t i = 0; i < capacity.slots.size(); ++i) {
    const wire::SlotForecast& slot = capacity.slots[i];
    std::printf("  slot %zu  p10 %.2f ms  p50 %.2f ms  p90 %.2f ms\n", i, slot.p10_us / 1000.0, slot.p50_us / 1000.0,
                slot.p90_us / 1000.0);
  }
}

struct ListOptions {
  std::string what;
  std::string job;
  std::string owner;
  uint32_t limit = 1000;
};

int RunList(const Context& context, const ListOptions& options) {
  JobId job;
  if (!options.job.empty()) {
    auto parsed = JobId::Parse(options.job);
    if (!parsed.ok()) return FailUsage(context, parsed.status());
    job = *parsed;
  }
  auto client = context.Connect();
  if (!client.ok()) return Fail(context, client.status(), false);
  if (options.what == "jobs") {
    auto jobs = client->ListJobs(options.limit, options.owner);
    if (!jobs.ok()) return Fail(context, jobs.status(), client->connected());
    return PrintList(context, "jobs", *jobs, PrintJob);
  }
  if (options.what == "tasks") {
    auto tasks = client->ListTasks(job, 0, options.limit);
    if (!tasks.ok()) return Fail(context, tasks.status(), client->connected());
    return PrintList(context, "tasks", *tasks, PrintTask);
  }
  auto workers = client->ListWorkers();
  if (!workers.ok()) return Fail(context, workers.status(), client->connected());
  return PrintList(context, "workers", *workers, options.what == "bubbles" ? PrintBubbles : PrintWorker);
}

struct GetOptions {
  std::string task;
  bool wait = false;
  double for_s = -1;
};

int RunGet(const Context& context, const GetOptions& options) {
  auto id = ParseTask(options.task);
  if (!id.ok()) return FailUsage(context, id.status());
  auto client = context.Connect();
  if (!client.ok()) return Fail(context, client.status(), false);
  auto task = options.wait
                  ? client->WaitTask(*id, options.for_s < 0 ? -1 : static_cast<int64_t>(options.for_s * 1000))
                  : client->GetTask(*id);
  if (!task.ok()) return Fail(context, task.status(), client->connected());
  const bool succeeded = task->state == wire::TaskState::kSucceeded;
  json result;
  if (succeeded) {
    auto bytes = client->GetEncoded(*id, 0);
    if (!bytes.ok()) return Fail(context, bytes.status(), client->connected());
    result = ResultToJson(*task, *bytes);
  }
  if (context.json) {
    json value = ToJson(*task);
    value["schema"] = 1;
    value["result"] = result;
    PrintJson(value);
  } else if (succeeded) {
    if (result.is_string()) {
      std::printf("%s\n", result.get_ref<const std::string&>().c_str());
    } else {
      PrintJson(result);
    }
  } else {
    PrintTask(*task);
  }
  if (succeeded || !IsFinal(task->state)) return kDone;
  return kFailed;
}

int RunExplain(const Context& context, const std::string& text) {
  auto id = ParseTask(text);
  if (!id.ok()) return FailUsage(context, id.status());
  auto client = context.Connect();
  if (!client.ok()) return Fail(context, client.status(), false);
  auto reply = client->Explain(*id);
  if (!reply.ok()) return Fail(context, reply.status(), client->connected());
  if (context.json) {
    json workers = json::array();
    for (const wire::ExplainLine& line : reply->workers) {
      workers.push_back({{"worker", line.worker}, {"eligible", line.eligible}, {"steps_per_s", line.steps_per_s},
                         {"reason", line.reason}});
    }
    PrintJson({{"schema", 1}, {"task", id->ToString()}, {"state", TaskStateName(reply->state)},
               {"summary", reply->summary}, {"workers", workers}});
    return kDone;
  }
  std::printf("%s: %s\n", Coloured(reply->state).c_str(), reply->summary.c_str());
  for (const wire::ExplainLine& line : reply->workers) {
    std::printf("  %s  %s  %.2f steps/s  %s\n", line.worker.c_str(), line.eligible ? "eligible" : "not eligible",
                line.steps_per_s, line.reason.c_str());
  }
  return kDone;
}

}  // namespace

void AddAskCommands(CLI::App* app, const Context* context, Run* run) {
  CLI::App* status = app->add_subcommand("status", "what the head holds and how it is");
  status->footer("Examples:\n  pillion status\n  pillion status --json");
  status->callback([=] { *run = [=] { return RunStatus(*context); }; });

  auto list_options = std::make_shared<ListOptions>();
  CLI::App* list = app->add_subcommand("list", "list jobs, tasks, workers or bubbles");
  list->add_option("what", list_options->what, "jobs, tasks, workers or bubbles")
      ->required()
      ->check(CLI::IsMember({"jobs", "tasks", "workers", "bubbles"}));
  list->add_option("job", list_options->job, "with tasks: all tasks of this job; default: open tasks of all jobs");
  list->add_option("--owner", list_options->owner, "with jobs: only this owner's");
  list->add_option("--limit", list_options->limit, "at most so many")->capture_default_str();
  list->footer("Examples:\n  pillion list jobs --limit 10\n  pillion list tasks\n  pillion list bubbles --json");
  list->callback([=] { *run = [=] { return RunList(*context, *list_options); }; });

  auto get_options = std::make_shared<GetOptions>();
  CLI::App* get = app->add_subcommand("get", "a task's result; exit code 1 when it did not succeed");
  get->add_option("task", get_options->task, "JOB.INDEX, or JOB for its first task")->required();
  get->add_flag("--wait", get_options->wait, "wait until it is finished");
  get->add_option("--for", get_options->for_s, "with --wait: give up after so many seconds (exit code 5)");
  get->footer("Examples:\n  pillion get 0123456789abcdef0123456789abcdef.3\n  pillion get --wait JOB --json");
  get->callback([=] { *run = [=] { return RunGet(*context, *get_options); }; });

  auto task = std::make_shared<std::string>();
  CLI::App* explain = app->add_subcommand("explain", "why a task is where it is, worker by worker");
  explain->add_option("task", *task, "JOB.INDEX, or JOB for its first task")->required();
  explain->footer("Examples:\n  pillion explain 0123456789abcdef0123456789abcdef.0");
  explain->callback([=] { *run = [=] { return RunExplain(*context, *task); }; });
}

}  // namespace pillion::cli
