#include "worker/calls.h"

#include <algorithm>

#include "base/clock.h"
#include "base/log.h"

namespace pillion::worker {
namespace {
constexpr int64_t kRepeatReportNs = 3 * kNanosPerSecond;
constexpr size_t kBatchBytes = 512 << 10;

Epoch EpochOf(const wire::Body& report) {
  if (auto* finish = std::get_if<wire::Finish>(&report)) return finish->epoch;
  return std::get<wire::Release>(report).epoch;
}
}  // namespace

void Calls::OnGrant(wire::Grant grant) {
  if (auto ended = ended_.find(grant.task); ended != ended_.end()) {
    if (ended->second.epoch >= grant.epoch) return;
    ended_.erase(ended);
  }
  for (const auto& [number, held] : pending_) {
    if (held.task == grant.task && held.epoch >= grant.epoch) return;
  }
  if (!grant.input_files.empty()) {
    wire::Finish finish;
    finish.outcome = Unsupported("an input of the call is a file: return large results as paths");
    return End(grant, std::move(finish));
  }
  if (!EnsureHost()) {
    wire::Release release;
    release.cause = wire::ReleaseCause::kHostLost;
    release.detail = "its task host did not start";
    return End(grant, std::move(release));
  }
  pending_.emplace_back(next_call_++, std::move(grant));
  SendCall(pending_.back().second);
}

bool Calls::EnsureHost() {
  if (host_) return true;
  auto host = HostProcess::Spawn(context_.host, HostProcess::Mode::kCalls);
  if (!host.ok()) {
    log::Error("host of call tasks not started", {{"error", host.status().ToString()}});
    return false;
  }
  turns::ResidentOptions options;
  options.name = "calls";
  auto resident = context_.engine->AddResident((*host)->page(), std::move(options));
  if (!resident.ok()) {
    log::Error("host of call tasks not resident", {{"error", resident.status().ToString()}});
    return false;
  }
  host_ = std::move(*host);
  resident_ = *resident;
  context_.processes->Add(*resident, host_->pid());
  first_of_host_ = next_call_;
  return true;
}

void Calls::SendCall(const wire::Grant& grant) {
  CallMessage call;
  call.call = pending_.back().first;
  for (const auto& [number, held] : pending_) {
    if (&held == &grant) call.call = number;
  }
  call.program = grant.spec.program;
  call.library = grant.spec.library;
  call.arguments = grant.spec.arguments;
  for (size_t i = 0; i < grant.inputs.size(); ++i) {
    int32_t argument = i < grant.spec.dependencies.size() ? grant.spec.dependencies[i].argument : -1;
    if (argument < 0) continue;
    host_->Post(InputMessage{grant.inputs[i]});
    uint32_t position = static_cast<uint32_t>(argument);
    call.positions.append(reinterpret_cast<const char*>(&position), sizeof position);
  }
  host_->Post(std::move(call));
  context_.engine->PostCommand(*resident_);
}

void Calls::OnDone(CallDoneMessage done) {
  auto found = std::find_if(pending_.begin(), pending_.end(), [&](const auto& p) { return p.first == done.call; });
  if (found == pending_.end()) return;  // revoked meanwhile
  wire::Finish finish;
  finish.step = 1;
  finish.outcome = std::move(done.status);
  finish.result = std::move(done.result);
  wire::Grant grant = std::move(found->second);
  pending_.erase(found);
  End(grant, std::move(finish));
}

void Calls::End(const wire::Grant& grant, wire::Body report) {
  if (auto* finish = std::get_if<wire::Finish>(&report)) {
    finish->task = grant.task;
    finish->epoch = grant.epoch;
  } else if (auto* release = std::get_if<wire::Release>(&report)) {
    release->task = grant.task;
    release->epoch = grant.epoch;
  }
  ended_[grant.task] = {std::move(report), grant.epoch, false, 0};
}

bool Calls::OnRevoke(const wire::Revoke& revoke) {
  if (ended_.count(revoke.task) > 0) return true;
  auto found = std::find_if(pending_.begin(), pending_.end(), [&](const auto& p) {
    return p.second.task == revoke.task && p.second.epoch == revoke.epoch;
  });
  if (found == pending_.end()) return false;
  wire::Grant grant = std::move(found->second);
  // Dropped where it has not begun; the answer of one that runs is ignored.
  if (host_) {
    host_->Post(CancelCallMessage{found->first});
    context_.engine->PostCommand(*resident_);
  }
  pending_.erase(found);
  End(grant, wire::Release{{}, 0, revoke.cause, "revoked"});
  return true;
}

void Calls::Drop(const TaskId& task) {
  ended_.erase(task);
  auto same = [&](const auto& p) { return p.second.task == task; };
  pending_.erase(std::remove_if(pending_.begin(), pending_.end(), same), pending_.end());
}

void Calls::OnVerdict(const wire::Verdict& verdict) {
  auto found = ended_.find(verdict.task);
  if (found != ended_.end() && found->second.epoch == verdict.epoch) ended_.erase(found);
}

void Calls::OnReconnect() {
  for (auto& [task, ended] : ended_) ended.sent = false;
}

void Calls::OnOverrun(turns::ResidentId resident) {
  if (resident_ && *resident_ == resident) LoseHost(wire::ReleaseCause::kPreempted, "the call outlasted its bubble");
}

void Calls::LoseHost(wire::ReleaseCause cause, const std::string& why) {
  // It executes in the order sent and counts what it has executed; results of its last turn may be lost with it.
  const uint64_t running = first_of_host_ + (*host_->page())->total_items.load(std::memory_order_relaxed);
  context_.processes->Remove(*resident_);
  host_->Kill();
  context_.engine->RemoveResident(*resident_);
  resident_.reset();
  host_.reset();
  auto culprit = std::find_if(pending_.begin(), pending_.end(), [&](const auto& p) { return p.first == running; });
  if (culprit == pending_.end()) culprit = pending_.begin();
  if (culprit == pending_.end()) return;
  wire::Grant blamed = std::move(culprit->second);
  pending_.erase(culprit);
  log::Warning("host of call tasks lost", {{"task", blamed.task.ToString()}, {"why", why}});
  End(blamed, wire::Release{{}, 0, cause, why});
  auto rest = std::exchange(pending_, {});
  for (auto& [number, grant] : rest) OnGrant(std::move(grant));
}

void Calls::ReleaseAll() {
  auto rest = std::exchange(pending_, {});
  for (auto& [number, grant] : rest) {
    End(grant, wire::Release{{}, 0, wire::ReleaseCause::kPlannedMove, "the worker ends"});
  }
}

void Calls::SendEnded(int64_t now_ns) {
  if (!context_.uplink->ready()) return;
  wire::FinishBatch batch;
  std::vector<Ended*> in_batch;
  size_t bytes = 0;
  auto flush = [&] {
    if (batch.finishes.empty()) return;
    bool sent = context_.uplink->Ask(std::exchange(batch, {})) != 0;
    for (Ended* ended : in_batch) ended->sent = sent;
    in_batch.clear();
    bytes = 0;
  };
  for (auto& [task, ended] : ended_) {
    if (ended.sent && now_ns - ended.sent_ns < kRepeatReportNs) continue;
    ended.sent_ns = now_ns;
    auto* finish = std::get_if<wire::Finish>(&ended.report);
    if (finish == nullptr) {
      ended.sent = context_.uplink->Ask(ended.report) != 0;
      continue;
    }
    size_t size = 256 + finish->result.size() + finish->outcome.message().size();
    if (bytes + size > kBatchBytes) flush();
    batch.finishes.push_back(*finish);
    in_batch.push_back(&ended);
    bytes += size;
  }
  flush();
}

void Calls::Pump(int64_t now_ns) {
  if (host_) {
    std::optional<int> status = host_->TryReap();
    host_->Flush();
    for (auto message = host_->Receive(); message.ok(); message = host_->Receive()) {
      if (auto* done = std::get_if<CallDoneMessage>(&*message)) OnDone(std::move(*done));
    }
    if (status) {
      LoseHost(DiedByItself(*status) ? wire::ReleaseCause::kAppFailure : wire::ReleaseCause::kHostLost,
               "its task host " + DescribeExit(*status));
    }
  }
  SendEnded(now_ns);
}

void Calls::AddPolled(std::vector<pollfd>* polled) const {
  if (!host_) return;
  polled->push_back({host_->pidfd(), POLLIN, 0});
  polled->push_back({host_->socket_fd(), static_cast<short>(host_->has_unsent() ? POLLIN | POLLOUT : POLLIN), 0});
}

void Calls::AddHeld(std::vector<wire::HeldLease>* held) const {
  for (const auto& [number, grant] : pending_) held->push_back({grant.task, grant.epoch, 0, wire::HostState::kRunning});
  for (const auto& [task, ended] : ended_) {
    held->push_back({task, EpochOf(ended.report), 0, wire::HostState::kStopped});
  }
}

uint32_t Calls::Unreported() const {
  uint32_t count = Waiting();
  for (const auto& [task, ended] : ended_) count += ended.sent ? 0 : 1;
  return count;
}

}  // namespace pillion::worker
