// cancel, migrate, drain, announce.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <memory>

#include "base/limits.h"
#include "cli/commands.h"
#include "pillion/announcer.h"

namespace pillion::cli {

namespace {

int TellCount(const Context& context, const Result<uint64_t>& count, bool reached, const char* key, const char* text) {
  if (!count.ok()) return Fail(context, count.status(), reached);
  if (context.json) {
    PrintJson({{"schema", 1}, {key, *count}});
  } else {
    std::printf("%llu %s\n", static_cast<unsigned long long>(*count), text);
  }
  return kDone;
}

int RunCancel(const Context& context, const std::string& what) {
  JobId job;
  std::vector<uint32_t> indices;
  if (what.find('.') != std::string::npos) {
    auto task = TaskId::Parse(what);
    if (!task.ok()) return FailUsage(context, task.status());
    job = task->job;
    indices.push_back(task->index);
  } else {
    auto parsed = JobId::Parse(what);
    if (!parsed.ok()) return FailUsage(context, parsed.status());
    job = *parsed;
  }
  auto client = context.Connect();
  if (!client.ok()) return Fail(context, client.status(), false);
  auto count = client->Cancel(job, std::move(indices));
  return TellCount(context, count, client->connected(), "cancelled", "tasks cancelled");
}

int RunMigrate(const Context& context, const std::string& what, const std::string& to) {
  auto task = ParseTask(what);
  if (!task.ok()) return FailUsage(context, task.status());
  auto client = context.Connect(wire::Role::kOperator);
  if (!client.ok()) return Fail(context, client.status(), false);
  auto count = client->Migrate(*task, to);
  return TellCount(context, count, client->connected(), "moving", "tasks asked to move");
}

int RunDrain(const Context& context, const std::string& worker, bool undo) {
  auto client = context.Connect(wire::Role::kOperator);
  if (!client.ok()) return Fail(context, client.status(), false);
  auto count = client->Drain(worker, !undo);
  return TellCount(context, count, client->connected(), "moving", "tasks asked to move");
}

// "10", "10ms", "9.5/10/11" (p10/p50/p90): milliseconds.
Result<wire::SlotForecast> ParseSlot(const std::string& text) {
  std::vector<uint32_t> parts;
  std::string rest = text;
  while (true) {
    const size_t slash = rest.find('/');
    const std::string part = rest.substr(0, slash);
    size_t used = 0;
    double ms = -1;
    try {
      ms = std::stod(part, &used);
    } catch (const std::exception&) {
      used = 0;
    }
    const bool fits = used > 0 && (used == part.size() || part.substr(used) == "ms") && ms >= 0 && ms < 4e6;
    if (!fits) return InvalidArgument("'" + text + "' is no bubble length: milliseconds are expected, such as 20 or 18/20/23");
    parts.push_back(static_cast<uint32_t>(std::lround(ms * 1000)));
    if (slash == std::string::npos) break;
    rest = rest.substr(slash + 1);
  }
  if (parts.size() == 1) return wire::SlotForecast{parts[0], parts[0], parts[0]};
  if (parts.size() == 3 && parts[0] <= parts[1] && parts[1] <= parts[2]) {
    return wire::SlotForecast{parts[0], parts[1], parts[2]};
  }
  return InvalidArgument("'" + text + "': one length, or three that grow (p10/p50/p90)");
}

struct AnnounceOptions {
  std::string device;
  std::vector<std::string> slots;
  double period_ms = 0;
  double memory_mib = 0;
  uint32_t guard_us = 0;
};

int RunAnnounce(const Context& context, const AnnounceOptions& options) {
  wire::Capacity capacity;
  capacity.iteration_period_us = static_cast<uint32_t>(std::lround(options.period_ms * 1000));
  capacity.free_memory_bytes = static_cast<uint64_t>(options.memory_mib * (1 << 20));
  capacity.guard_us = options.guard_us;
  capacity.trainer_attached = options.period_ms > 0;
  uint64_t total_us = 0;
  for (const std::string& text : options.slots) {
    auto slot = ParseSlot(text);
    if (!slot.ok()) return FailUsage(context, slot.status());
    total_us += slot->p50_us;
    capacity.slots.push_back(*slot);
  }
  if (capacity.slots.size() > limits::kSlotsPerIteration) {
    return FailUsage(context, ResourceExhausted("an iteration has at most limits::kSlotsPerIteration = " +
                                                std::to_string(limits::kSlotsPerIteration) + " slots"));
  }
  if (!capacity.slots.empty() && total_us > capacity.iteration_period_us) {
    return FailUsage(context, InvalidArgument("the bubbles are longer than the iteration: --period-ms"));
  }
  AnnouncerOptions announcer_options;
  announcer_options.runtime_directory = context.runtime_directory;
  announcer_options.device = options.device;
  announcer_options.key_file = context.key_file;
  announcer_options.timeout_ms = static_cast<int64_t>(context.timeout_s * 1000);
  auto announcer = Announcer::Connect(announcer_options);
  if (!announcer.ok()) return Fail(context, announcer.status(), false);
  Status status = announcer->Announce(capacity);
  if (!status.ok()) return Fail(context, status, true);
  if (context.json) {
    PrintJson({{"schema", 1}, {"device", options.device}, {"slots", capacity.slots.size()}});
  } else {
    std::printf("announced %zu slots for %s\n", capacity.slots.size(), options.device.c_str());
  }
  return kDone;
}

}  // namespace

void AddSteerCommands(CLI::App* app, const Context* context, Run* run) {
  auto what = std::make_shared<std::string>();
  CLI::App* cancel = app->add_subcommand("cancel", "cancel a job, or a task and all that depends on it");
  cancel->add_option("job_or_task", *what, "JOB or JOB.INDEX")->required();
  cancel->footer("Examples:\n  pillion cancel 0123456789abcdef0123456789abcdef\n  pillion cancel JOB.17");
  cancel->callback([=] { *run = [=] { return RunCancel(*context, *what); }; });

  auto to = std::make_shared<std::string>();
  CLI::App* migrate = app->add_subcommand("migrate", "move a running task to another worker (operator's key)");
  migrate->add_option("task", *what, "JOB.INDEX, or JOB for its first task")->required();
  migrate->add_option("--to", *to, "name of the worker, as `list workers` shows it; default: the best other one");
  migrate->footer("Examples:\n  pillion migrate JOB.0\n  pillion migrate JOB.0 --to node7/cuda1");
  migrate->callback([=] { *run = [=] { return RunMigrate(*context, *what, *to); }; });

  auto undo = std::make_shared<bool>(false);
  CLI::App* drain = app->add_subcommand("drain", "let a worker take nothing more and move its tasks away");
  drain->add_option("worker", *what, "name of the worker, as `list workers` shows it")->required();
  drain->add_flag("--undo", *undo, "let it take tasks again");
  drain->footer("Examples:\n  pillion drain node7/cuda1\n  pillion drain node7/cuda1 --undo");
  drain->callback([=] { *run = [=] { return RunDrain(*context, *what, *undo); }; });

  auto options = std::make_shared<AnnounceOptions>();
  CLI::App* announce = app->add_subcommand("announce", "tell a worker what bubbles its device offers");
  announce->add_option("device", options->device, "cpu0, cuda1: the worker's device on this machine")->required();
  announce->add_option("--slot", options->slots, "a bubble of each iteration, in order: ms, or p10/p50/p90 in ms");
  announce->add_option("--period-ms", options->period_ms, "length of an iteration; 0: no trainer, all is free")
      ->check(CLI::Range(0.0, 4e6));
  announce->add_option("--memory-mib", options->memory_mib, "free device memory")->check(CLI::NonNegativeNumber);
  announce->add_option("--guard-us", options->guard_us, "left unused at the end of each bubble");
  announce->footer(
      "Examples:\n  pillion announce cpu0 --period-ms 80 --slot 20 --slot 18/20/23 --memory-mib 512\n"
      "  pillion announce cuda0        the device is free");
  announce->callback([=] { *run = [=] { return RunAnnounce(*context, *options); }; });
}

}  // namespace pillion::cli
