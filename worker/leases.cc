#include "worker/leases.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"

namespace pillion::worker {
namespace {

constexpr int64_t kLeaveNs = 30 * kNanosPerSecond;  // to save, after a revoke
constexpr int64_t kExitNs = 2 * kNanosPerSecond;    // of a host whose task is over

store::StoredCheckpoint ToStored(const wire::CheckpointRef& ref) {
  return {ref.epoch, ref.step, ref.length_bytes, ref.checksum, ref.bytes, ref.path};
}

}  // namespace

void ResidentProcesses::Add(turns::ResidentId id, pid_t pid) {
  std::lock_guard lock(mutex_);
  pids_[id] = pid;
}

void ResidentProcesses::Remove(turns::ResidentId id) {
  std::lock_guard lock(mutex_);
  pids_.erase(id);
}

void ResidentProcesses::Overran(turns::ResidentId id, int64_t) {
  std::lock_guard lock(mutex_);
  auto found = pids_.find(id);
  if (found == pids_.end()) return;
  kill(-found->second, SIGSTOP);
  overran_.push_back(id);
  uint64_t one = 1;
  (void)!write(event_fd_, &one, sizeof one);
}

std::vector<turns::ResidentId> ResidentProcesses::TakeOverran() {
  uint64_t count = 0;
  (void)!read(event_fd_, &count, sizeof count);
  std::lock_guard lock(mutex_);
  return std::exchange(overran_, {});
}

std::string Leases::Name(const Lease& lease) const {
  const wire::TaskSpec& spec = lease.grant.spec;
  return (spec.name.empty() ? spec.program : spec.name) + " " + std::to_string(lease.grant.task.index);
}

// ---- what the head says ----------------------------------------------------------------------------

void Leases::OnGrant(wire::Grant grant, int64_t now_ns) {
  auto found = leases_.find(grant.task);
  if (found != leases_.end()) {
    if (found->second.grant.epoch >= grant.epoch) return;
    Drop(grant.task);
  }
  log::Info("task granted", {{"task", grant.task.ToString()},
                             {"epoch", grant.epoch},
                             {"program", grant.spec.program},
                             {"from_step", grant.checkpoint.step}});
  TaskId task = grant.task;
  Lease& lease = leases_[task];
  lease.grant = std::move(grant);
  lease.step = lease.committed_step = lease.grant.checkpoint.step;
  Start(&lease, now_ns);
}

void Leases::Start(Lease* lease, int64_t now_ns) {
  const wire::Grant& grant = lease->grant;
  if (grant.spec.kind != wire::TaskKind::kSteps) {
    wire::Finish finish;
    finish.outcome = Unsupported("this worker runs no tasks of kind command");
    return Finish(lease, std::move(finish));
  }
  if (!grant.input_files.empty()) {
    wire::Finish finish;
    finish.outcome = Unsupported("an input of the task is a file, which steps tasks do not take: pass its path");
    return Finish(lease, std::move(finish));
  }
  auto host = HostProcess::Spawn(context_.host, HostProcess::Mode::kSteps);
  if (!host.ok()) return Release(lease, wire::ReleaseCause::kHostLost, host.status().ToString());
  lease->host = std::move(*host);
  lease->deadline_ns = now_ns + limits::kHostStartMs * kNanosPerMilli;
  // All of them, empty ones too: a task finds its inputs by the order of its dependencies.
  for (const std::string& input : grant.inputs) lease->host->Post(InputMessage{input});
  InitMessage init;
  init.task = grant.task;
  init.epoch = grant.epoch;
  init.program = grant.spec.program;
  init.library = grant.spec.library;
  init.arguments = grant.spec.arguments;
  init.device = context_.host.device;
  init.checkpoint_root = context_.checkpoint_root;
  init.max_steps = grant.spec.max_steps;
  init.memory_limit_bytes = grant.spec.options.memory_bytes;
  lease->host->Post(std::move(init));
}

void Leases::OnRevoke(const wire::Revoke& revoke, int64_t now_ns) {
  auto found = leases_.find(revoke.task);
  if (found == leases_.end() || found->second.grant.epoch != revoke.epoch) {
    if (!revoke.discard) context_.uplink->Ask(wire::Release{revoke.task, revoke.epoch, revoke.cause, "not held"});
    return;
  }
  Lease* lease = &found->second;
  if (lease->phase == Phase::kEnded) return;
  log::Info("task revoked", {{"task", revoke.task.ToString()}, {"epoch", revoke.epoch}, {"discard", revoke.discard}});
  if (revoke.discard) {
    KillHost(lease);
    return Release(lease, revoke.cause, "discarded");
  }
  Leave(lease, revoke.cause, now_ns);
}

void Leases::Leave(Lease* lease, wire::ReleaseCause cause, int64_t now_ns) {
  if (lease->phase == Phase::kEnded || lease->phase == Phase::kLeaving) return;
  if (lease->phase != Phase::kRunning) {  // nothing to save yet
    KillHost(lease);
    return Release(lease, cause, "");
  }
  lease->phase = Phase::kLeaving;
  lease->leave_cause = cause;
  lease->deadline_ns = now_ns + kLeaveNs;
  PostToHost(lease, SaveMessage{true});
}

void Leases::LeaveAll(int64_t now_ns) {
  for (auto& [task, lease] : leases_) Leave(&lease, wire::ReleaseCause::kPlannedMove, now_ns);
}

void Leases::AbandonAll() {
  for (auto& [task, lease] : leases_) KillHost(&lease);
  exiting_.clear();
}

void Leases::Drop(const TaskId& task) {
  auto found = leases_.find(task);
  if (found == leases_.end()) return;
  log::Info("lease dropped", {{"task", task.ToString()}, {"epoch", found->second.grant.epoch}});
  KillHost(&found->second);
  leases_.erase(found);
}

// ---- what hosts say --------------------------------------------------------------------------------

void Leases::Receive(Lease* lease, int64_t now_ns) {
  while (lease->host) {
    auto message = lease->host->Receive();
    if (message.ok()) {
      OnHostMessage(lease, std::move(*message), now_ns);
      continue;
    }
    if (message.status().code() != StatusCode::kCorruption) return;  // nothing now, or its death is coming
    KillHost(lease);
    return Release(lease, wire::ReleaseCause::kAppFailure, message.status().ToString());
  }
}

void Leases::OnHostMessage(Lease* lease, HostMessage message, int64_t now_ns) {
  if (auto* ready = std::get_if<ReadyMessage>(&message)) {
    if (lease->phase != Phase::kStarting) return;
    lease->phase = Phase::kLoading;
    lease->memory_bytes = ready->memory_bytes;
    lease->items_total = ready->items_total;
    lease->host->Post(LoadMessage{ToStored(lease->grant.checkpoint), ToStored(lease->grant.previous_checkpoint)});
  } else if (auto* loaded = std::get_if<LoadedMessage>(&message)) {
    OnLoaded(lease, *loaded, now_ns);
  } else if (auto* progress = std::get_if<ProgressMessage>(&message)) {
    lease->step = progress->step;
    lease->items_done = progress->items_done;
    lease->progress = *progress;
  } else if (auto* saved = std::get_if<SavedMessage>(&message)) {
    OnSaved(lease, std::move(*saved), now_ns);
  } else if (auto* done = std::get_if<DoneMessage>(&message)) {
    lease->step = done->step;
    lease->items_done = done->items_done;
    SendProgress(lease, now_ns);
    LetHostExit(lease, now_ns);
    wire::Finish finish;
    finish.step = done->step;
    finish.result = std::move(done->result);
    Finish(lease, std::move(finish));
  } else if (auto* failed = std::get_if<FailedMessage>(&message)) {
    OnFailed(lease, *failed, now_ns);
  } else if (auto* line = std::get_if<LogMessage>(&message)) {
    log::Info("task says", {{"task", lease->grant.task.ToString()}, {"line", line->line}});
    if (lease->log_lines.size() < 256) lease->log_lines.push_back(std::move(line->line));
  } else if (auto* metric = std::get_if<MetricMessage>(&message)) {
    if (lease->metrics.size() < 256 || lease->metrics.count(metric->name)) lease->metrics[metric->name] = metric->value;
  }
}

void Leases::OnLoaded(Lease* lease, const LoadedMessage& loaded, int64_t now_ns) {
  if (lease->phase != Phase::kLoading) return;
  lease->step = loaded.step;
  lease->items_done = loaded.items_done;
  if (!loaded.detail.empty()) {
    log::Warning("checkpoint passed over", {{"task", lease->grant.task.ToString()}, {"detail", loaded.detail}});
  }
  turns::ResidentOptions options;
  options.name = Name(*lease);
  options.memory_bytes = lease->memory_bytes;
  auto resident = context_.engine->AddResident(lease->host->page(), std::move(options));
  if (!resident.ok()) {
    KillHost(lease);
    return Release(lease, wire::ReleaseCause::kPreempted, resident.status().ToString());
  }
  lease->resident = *resident;
  context_.processes->Add(*resident, lease->host->pid());
  lease->phase = Phase::kRunning;
  lease->deadline_ns = 0;
  lease->next_commit_ns = now_ns + context_.commit_interval_ns;
  lease->progress = ProgressMessage{loaded.step, loaded.items_done, 0, 0, 0};
}

void Leases::OnSaved(Lease* lease, SavedMessage saved, int64_t now_ns) {
  lease->save_asked = false;
  lease->next_commit_ns = now_ns + context_.commit_interval_ns;
  lease->items_done = saved.items_done;
  const store::StoredCheckpoint& stored = saved.checkpoint;
  if (stored.epoch != 0) {
    lease->step = std::max(lease->step, stored.step);
    wire::Commit commit;
    commit.task = lease->grant.task;
    commit.checkpoint = {stored.epoch, stored.step, stored.length_bytes, stored.checksum, stored.bytes, stored.path};
    commit.items_done = saved.items_done;
    commit.items_total = lease->items_total;
    // A commit that waits behind one on its way is replaced: only the newest matters.
    bool replace = lease->reports.size() > (lease->request != 0 ? 1u : 0u) &&
                   std::holds_alternative<wire::Commit>(lease->reports.back());
    if (replace) lease->reports.pop_back();
    lease->reports.push_back(std::move(commit));
  }
  // A save asked before the revoke is not held; its answer is as good, for the host is ended at once.
  if (lease->phase == Phase::kLeaving) {
    LetHostExit(lease, now_ns);
    Release(lease, lease->leave_cause, stored.epoch == 0 ? "its state could not be saved" : "");
  }
}

void Leases::OnFailed(Lease* lease, const FailedMessage& failed, int64_t now_ns) {
  lease->step = failed.step;
  bool was_loading = lease->phase == Phase::kStarting || lease->phase == Phase::kLoading;
  LetHostExit(lease, now_ns);
  wire::Finish finish;
  finish.step = failed.step;
  finish.outcome = failed.status.ok() ? TaskFailed("failed without saying why") : failed.status;
  if (was_loading && failed.status.code() == StatusCode::kResourceExhausted) {
    finish.cause = wire::ReleaseCause::kOutOfMemory;
  }
  Finish(lease, std::move(finish));
}

void Leases::OnHostDeath(Lease* lease, int wait_status) {
  KillHost(lease);
  if (lease->phase == Phase::kEnded) return;
  wire::ReleaseCause cause =
      DiedByItself(wait_status) ? wire::ReleaseCause::kAppFailure : wire::ReleaseCause::kHostLost;
  Release(lease, cause, "its task host " + DescribeExit(wait_status));
}

void Leases::OnOverrun(turns::ResidentId resident) {
  for (auto& [task, lease] : leases_) {
    if (!lease.resident || *lease.resident != resident) continue;
    log::Warning("step outlasted its bubble and ignored the stop flag", {{"task", task.ToString()}});
    KillHost(&lease);
    return Release(&lease, wire::ReleaseCause::kPreempted, "a step outlasted its bubble and ignored the stop flag");
  }
}

// ---- hosts -----------------------------------------------------------------------------------------

void Leases::PostToHost(Lease* lease, HostMessage message) {
  lease->host->Post(std::move(message));
  if (lease->resident) context_.engine->PostCommand(*lease->resident);
}

void Leases::LetHostExit(Lease* lease, int64_t now_ns) {
  if (!lease->host) return;
  PostToHost(lease, ExitMessage{});
  if (lease->resident) {
    context_.processes->Remove(*lease->resident);
    context_.engine->RemoveResident(*lease->resident);
    lease->resident.reset();
  }
  exiting_.push_back({std::move(lease->host), now_ns + kExitNs});
}

void Leases::KillHost(Lease* lease) {
  if (!lease->host) return;
  if (lease->resident) {
    context_.processes->Remove(*lease->resident);
    lease->host->Kill();
    context_.engine->RemoveResident(*lease->resident);
    lease->resident.reset();
  }
  lease->host.reset();
}

void Leases::CheckTimes(Lease* lease, int64_t now_ns) {
  if (lease->phase == Phase::kEnded) return;
  if (lease->deadline_ns != 0 && now_ns >= lease->deadline_ns) {
    bool leaving = lease->phase == Phase::kLeaving;
    KillHost(lease);
    // A busy device starves Init and Load, which run in the idle class: that is no failure of the task's code.
    return Release(lease, leaving ? lease->leave_cause : wire::ReleaseCause::kHostLost,
                   leaving ? "it did not save in time" : "Init and Load took longer than the limit kHostStartMs");
  }
  if (lease->phase == Phase::kRunning && !lease->save_asked && now_ns >= lease->next_commit_ns) {
    lease->next_commit_ns = now_ns + context_.commit_interval_ns;
    if (lease->step == lease->committed_step && lease->reports.empty()) return;  // nothing new
    lease->save_asked = true;
    PostToHost(lease, SaveMessage{false});
  }
}

void Leases::Pump(int64_t now_ns) {
  for (auto& [task, lease] : leases_) {
    if (lease.host) {
      std::optional<int> status = lease.host->TryReap();  // before its last words are read
      lease.host->Flush();
      Receive(&lease, now_ns);
      if (status && lease.host) OnHostDeath(&lease, *status);
    }
    CheckTimes(&lease, now_ns);
    if (now_ns >= lease.next_progress_ns) SendProgress(&lease, now_ns);
    SendReports(&lease, now_ns);
  }
  for (auto at = exiting_.begin(); at != exiting_.end();) {
    at->host->Flush();
    if (now_ns >= at->kill_ns) at->host->Kill();
    at = at->host->TryReap() ? exiting_.erase(at) : at + 1;
  }
}

void Leases::AddPolled(std::vector<pollfd>* polled) const {
  auto add = [polled](const HostProcess& host) {
    polled->push_back({host.pidfd(), POLLIN, 0});
    polled->push_back({host.socket_fd(), static_cast<short>(host.has_unsent() ? POLLIN | POLLOUT : POLLIN), 0});
  };
  for (const auto& [task, lease] : leases_) {
    if (lease.host) add(*lease.host);
  }
  for (const Exiting& exiting : exiting_) polled->push_back({exiting.host->pidfd(), POLLIN, 0});
}

}  // namespace pillion::worker
