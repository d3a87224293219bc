// What leases report to the head, and what it answers.
#include "base/clock.h"
#include "base/log.h"
#include "worker/leases.h"

namespace pillion::worker {
namespace {
constexpr int64_t kRepeatReportNs = 3 * kNanosPerSecond;  // a head with a full disk does not answer
constexpr int64_t kProgressNs = 500 * kNanosPerMilli;
}  // namespace

void Leases::Release(Lease* lease, wire::ReleaseCause cause, std::string detail) {
  if (lease->phase == Phase::kEnded) return;
  lease->phase = Phase::kEnded;
  log::Info("task released", {{"task", lease->grant.task.ToString()},
                              {"epoch", lease->grant.epoch},
                              {"cause", wire::ReleaseCauseName(cause)},
                              {"step", lease->step},
                              {"detail", detail}});
  lease->reports.push_back(wire::Release{lease->grant.task, lease->grant.epoch, cause, std::move(detail)});
}

void Leases::Finish(Lease* lease, wire::Finish finish) {
  if (lease->phase == Phase::kEnded) return;
  lease->phase = Phase::kEnded;
  finish.task = lease->grant.task;
  finish.epoch = lease->grant.epoch;
  log::Info(finish.outcome.ok() ? "task done" : "task failed", {{"task", lease->grant.task.ToString()},
                                                                {"epoch", lease->grant.epoch},
                                                                {"step", finish.step},
                                                                {"error", finish.outcome.message()}});
  lease->reports.push_back(std::move(finish));
}

void Leases::SendReports(Lease* lease, int64_t now_ns) {
  if (lease->reports.empty() || !context_.uplink->ready()) return;
  if (lease->request != 0 && now_ns - lease->sent_ns < kRepeatReportNs) return;
  lease->request = context_.uplink->Ask(lease->reports.front());
  lease->sent_ns = now_ns;
  if (lease->request != 0 && !std::holds_alternative<wire::Commit>(lease->reports.front())) lease->end_sent = true;
}

void Leases::SendProgress(Lease* lease, int64_t now_ns) {
  lease->next_progress_ns = now_ns + kProgressNs;
  if (!context_.uplink->ready()) return;
  if (!lease->log_lines.empty()) {
    context_.uplink->Tell(
        wire::TaskLog{lease->grant.task, lease->grant.epoch, std::exchange(lease->log_lines, {})});
  }
  if (!lease->progress) return;
  wire::Progress progress;
  progress.task = lease->grant.task;
  progress.epoch = lease->grant.epoch;
  progress.step = lease->step;
  progress.items_done = lease->items_done;
  progress.items_total = lease->items_total;
  progress.state = wire::HostState::kRunning;
  progress.step_time_p50_us = lease->progress->step_p50_us;
  progress.step_time_p99_us = lease->progress->step_p99_us;
  progress.peak_memory_bytes = lease->progress->peak_memory_bytes;
  progress.metrics.assign(lease->metrics.begin(), lease->metrics.end());
  if (context_.uplink->Tell(std::move(progress))) lease->progress.reset();
}

void Leases::OnVerdict(uint64_t request_id, const wire::Verdict& verdict) {
  auto found = leases_.find(verdict.task);
  if (found == leases_.end()) return;
  Lease* lease = &found->second;
  if (lease->grant.epoch != verdict.epoch || lease->request != request_id || request_id == 0) return;
  lease->request = 0;
  bool commit = std::holds_alternative<wire::Commit>(lease->reports.front());
  if (commit && verdict.status.ok()) lease->committed_step = verdict.step;
  lease->reports.pop_front();
  bool stale = verdict.status.code() == StatusCode::kStale || verdict.status.code() == StatusCode::kNotFound;
  if (!verdict.status.ok()) {
    log::Warning("the head turned a report down",
                 {{"task", verdict.task.ToString()}, {"epoch", verdict.epoch}, {"error", verdict.status.ToString()}});
  }
  // A commit below the head's step comes from a task that fell back to its checkpoint before; it has to get past it.
  bool behind = commit && stale && verdict.step < lease->grant.checkpoint.step;
  if (stale && !behind) return Drop(verdict.task);
  if (lease->phase == Phase::kEnded && lease->reports.empty()) leases_.erase(found);
}

void Leases::OnReconnect() {
  for (auto& [task, lease] : leases_) {
    lease.request = 0;
    lease.end_sent = false;
  }
}

std::vector<wire::HeldLease> Leases::Held() const {
  std::vector<wire::HeldLease> held;
  for (const auto& [task, lease] : leases_) {
    wire::HostState state = lease.phase == Phase::kRunning ? wire::HostState::kRunning
                            : lease.host                   ? wire::HostState::kCreated
                                                           : wire::HostState::kStopped;
    held.push_back({task, lease.grant.epoch, lease.step, state});
  }
  return held;
}

uint32_t Leases::Occupied() const {
  uint32_t count = 0;
  for (const auto& [task, lease] : leases_) count += lease.host ? 1 : 0;
  return count;
}

uint32_t Leases::Unreported() const {
  uint32_t count = 0;
  for (const auto& [task, lease] : leases_) count += lease.end_sent ? 0 : 1;
  return count;
}

uint64_t Leases::DeclaredMemory() const {
  uint64_t bytes = 0;
  for (const auto& [task, lease] : leases_) bytes += lease.host ? lease.memory_bytes : 0;
  return bytes;
}

}  // namespace pillion::worker
