#include "cli/context.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/clock.h"

namespace pillion::cli {

using nlohmann::json;

namespace {

int CodeOf(const Status& status, bool reached) {
  switch (status.code()) {
    case StatusCode::kOk: return kDone;
    case StatusCode::kUnavailable: return reached ? kFailed : kUnreachable;
    case StatusCode::kDeadlineExceeded: return kTimedOut;
    case StatusCode::kInvalidArgument:
    case StatusCode::kAlreadyExists:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kResourceExhausted:
    case StatusCode::kPermissionDenied:
    case StatusCode::kUnsupported: return kRefused;
    default: return kFailed;
  }
}

int Tell(const Context& context, const Status& status, int code) {
  if (context.json) {
    PrintJson({{"error", {{"code", StatusCodeName(status.code())}, {"message", status.message()}}}});
  } else {
    std::fprintf(stderr, "pillion: %s\n", status.message().c_str());
  }
  return code;
}

json Share(double value) { return value < 0 || !std::isfinite(value) ? json(nullptr) : json(value); }

}  // namespace

Result<Client> Context::Connect(wire::Role role) const {
  ClientOptions options;
  options.runtime_directory = runtime_directory;
  options.key_file = key_file;
  options.role = role;
  options.timeout_ms = static_cast<int64_t>(timeout_s * 1000);
  return Client::Connect(std::move(options));
}

int Fail(const Context& context, const Status& status, bool reached) {
  return Tell(context, status, CodeOf(status, reached));
}

int FailUsage(const Context& context, const Status& status) { return Tell(context, status, kUsage); }

void PrintJson(const json& value) {
  // Names and results may hold any bytes; what is no UTF-8 is replaced.
  std::printf("%s\n", value.dump(-1, ' ', false, json::error_handler_t::replace).c_str());
}

bool StderrIsTerminal() { return isatty(STDERR_FILENO) == 1; }

std::string Coloured(wire::TaskState state) {
  const std::string name(TaskStateName(state));
  const char* no_color = std::getenv("NO_COLOR");
  if (isatty(STDOUT_FILENO) != 1 || (no_color != nullptr && *no_color != 0)) return name;
  const char* colour = "0";
  switch (state) {
    case wire::TaskState::kSucceeded: colour = "32"; break;
    case wire::TaskState::kFailed: colour = "31"; break;
    case wire::TaskState::kLeased: colour = "36"; break;
    case wire::TaskState::kCancelled:
    case wire::TaskState::kSkipped: colour = "33"; break;
    default: break;
  }
  return std::string("\x1b[") + colour + "m" + name + "\x1b[0m";
}

std::string ForPeople(double seconds) {
  char text[32];
  if (seconds < 120) {
    std::snprintf(text, sizeof text, "%.1f s", seconds);
  } else if (seconds < 7200) {
    std::snprintf(text, sizeof text, "%.0f min", seconds / 60);
  } else {
    std::snprintf(text, sizeof text, "%.1f h", seconds / 3600);
  }
  return text;
}

json ToJson(const wire::JobInfo& job) {
  return {{"job", job.job.ToString()},     {"name", job.name},           {"owner", job.owner},
          {"submitted", FormatIso8601Utc(job.submitted_wall_ns)},        {"finished", job.finished()},
          {"tasks", job.tasks},            {"waiting", job.waiting},     {"queued", job.queued},
          {"leased", job.leased},          {"succeeded", job.succeeded}, {"failed", job.failed},
          {"cancelled", job.cancelled},    {"skipped", job.skipped}};
}

json ToJson(const wire::TaskInfo& task) {
  static constexpr const char* kKinds[] = {"call", "steps", "command"};
  json value = {{"task", task.task.ToString()},
                {"name", task.name},
                {"program", task.program},
                {"kind", kKinds[static_cast<size_t>(task.kind)]},
                {"state", TaskStateName(task.state)},
                {"epoch", task.epoch},
                {"step", task.step},
                {"committed_step", task.committed_step},
                {"items_done", task.items_done},
                {"items_total", task.items_total},
                {"app_failures", task.app_failures},
                {"worker_losses", task.worker_losses},
                {"oom", task.out_of_memory},
                {"preemptions", task.preemptions},
                {"planned_moves", task.planned_moves}};
  if (task.state == wire::TaskState::kLeased) {
    value["host_state"] = HostStateName(task.host_state);
    value["worker"] = task.worker;
  }
  if (!task.error.empty()) value["error"] = task.error;
  return value;
}

json ToJson(const wire::WorkerInfo& worker) {
  json slots = json::array();
  for (const wire::SlotForecast& slot : worker.capacity.slots) {
    slots.push_back({{"p10_us", slot.p10_us}, {"p50_us", slot.p50_us}, {"p90_us", slot.p90_us}});
  }
  json leases = json::array();
  for (const TaskId& task : worker.leases) leases.push_back(task.ToString());
  return {{"worker", worker.name},
          {"device", worker.device.name},
          {"device_kind", DeviceKindName(worker.device.kind)},
          {"connected", worker.connected},
          {"draining", worker.draining},
          {"trainer_attached", worker.capacity.trainer_attached},
          {"iteration_period_us", worker.capacity.iteration_period_us},
          {"slots", slots},
          {"free_memory_bytes", worker.capacity.free_memory_bytes},
          {"guard_us", worker.capacity.guard_us},
          {"iterations", worker.iterations},
          {"bubble_share", Share(worker.bubble_share)},
          {"harvest_share", Share(worker.harvest_share)},
          {"eligible_harvest_share", Share(worker.eligible_harvest_share)},
          {"slowdown",
           worker.slowdown_high < worker.slowdown_low || (worker.slowdown_low == -1 && worker.slowdown_high == -1)
               ? json(nullptr)
               : json{{"mean", worker.slowdown_mean}, {"ci95", {worker.slowdown_low, worker.slowdown_high}}}},
          {"leases", leases}};
}

json ResultToJson(const wire::TaskInfo& task, const std::string& bytes) {
  json value = task.kind == wire::TaskKind::kCall ? json::from_cbor(bytes, true, false)
                                                  : json::parse(bytes, nullptr, false);
  if (value.is_discarded()) return bytes;
  return value;
}

Result<TaskId> ParseTask(const std::string& text) {
  if (text.find('.') != std::string::npos) return TaskId::Parse(text);
  PILLION_ASSIGN_OR_RETURN(JobId job, JobId::Parse(text));
  return TaskId{job, 0};
}

}  // namespace pillion::cli
