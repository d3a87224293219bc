// What workers say.
#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "head/reactor_impl.h"

namespace pillion::head {
namespace {

constexpr uint8_t kUnlistedHeartbeats = 3;  // in a row, before a lease counts as never received
constexpr int64_t kRepeatRevokeNs = 10 * kNanosPerSecond;
constexpr int64_t kForgetWorkerNs = 3600 * kNanosPerSecond;

}  // namespace

Worker* Reactor::Impl::WorkerOf(const Session& session) {
  auto found = workers_.find(session.worker);
  return found == workers_.end() ? nullptr : found->second.get();
}

Worker* Reactor::Impl::FindWorker(std::string_view text) {
  auto named = worker_names_.find(std::string(text));
  if (named != worker_names_.end()) return workers_.at(named->second).get();
  for (const auto& [name, id] : worker_names_) {
    Worker* worker = workers_.at(id).get();
    if (worker->info.device.uuid == text || worker->info.device.name == text) return worker;
  }
  return nullptr;
}

Worker* Reactor::Impl::AddWorker(const WorkerId& id) {
  std::unique_ptr<Worker>& worker = workers_[id];
  if (!worker) {
    worker = std::make_unique<Worker>();
    worker->id = id;
  }
  return worker.get();
}

void Reactor::Impl::SetRoom(Worker* worker, uint32_t room, uint32_t call_room) {
  worker->room = room;
  worker->call_room = call_room;
  if (worker->Grantable() && (room > 0 || call_room > 0)) {
    with_room_.insert(worker->id);
  } else {
    with_room_.erase(worker->id);
  }
}

void Reactor::Impl::SetCapacity(Worker* worker, const wire::Capacity& capacity) {
  worker->info.capacity = capacity;
  scheduler::Offer& offer = worker->offer;
  offer.device_kind = worker->info.device.kind;
  offer.memory_total_bytes = worker->info.device.memory_bytes;
  // A worker that says nothing about memory and has no trainer: the whole device counts as free.
  bool silent = capacity.free_memory_bytes == 0 && !capacity.trainer_attached;
  offer.memory_free_bytes = silent ? offer.memory_total_bytes : capacity.free_memory_bytes;
  offer.trainer_attached = capacity.trainer_attached || capacity.iteration_period_us != 0;
  offer.iteration_period_us = capacity.iteration_period_us;
  offer.guard_us = capacity.guard_us;
  offer.slot_lengths_us.clear();
  for (const wire::SlotForecast& slot : capacity.slots) offer.slot_lengths_us.push_back(slot.p10_us);
}

void Reactor::Impl::Disconnected(Worker* worker) {
  worker->peer = 0;
  SetRoom(worker, 0, 0);
}

void Reactor::Impl::LoseWorker(Worker* worker, Now now) {
  log::Warning("worker lost", {{"worker", worker->info.name}, {"leases", worker->leases.size()}});
  if (worker->peer != 0) effects_->Disconnect(worker->peer);
  Disconnected(worker);
  std::vector<uint64_t> leases(worker->leases.begin(), worker->leases.end());
  for (uint64_t packed : leases) queue_.Apply(LoseLease{Unpack(packed), true}, now.ns);
  Settle(now);
}

void Reactor::Impl::CheckSilence(Now now) {
  std::vector<WorkerId> lost, forgotten;
  for (const auto& [id, worker] : workers_) {
    bool matters = worker->connected() || !worker->leases.empty();
    if (matters && now.ns >= worker->lost_at_ns) lost.push_back(id);
    if (!matters && now.ns >= worker->lost_at_ns + kForgetWorkerNs) forgotten.push_back(id);
  }
  std::sort(lost.begin(), lost.end());  // the table's order must not show in what happens
  for (const WorkerId& id : lost) LoseWorker(workers_.at(id).get(), now);
  for (const WorkerId& id : forgotten) {
    auto name = worker_names_.find(workers_.at(id)->info.name);
    if (name != worker_names_.end() && name->second == id) worker_names_.erase(name);
    workers_.erase(id);
  }
}

void Reactor::Impl::OnWorkerHello(const Request& request, wire::WorkerHello hello) {
  if (request.sender.role != wire::Role::kWorker) {
    return ReplyError(request, PermissionDenied("the key of '" + std::string(request.sender.user) +
                                                "' may not speak for a worker"));
  }
  if (hello.worker.IsZero() || hello.name.empty()) {
    return ReplyError(request, InvalidArgument("a worker's hello needs an id and a name"));
  }
  if (workers_.size() >= limits::kWorkers && workers_.count(hello.worker) == 0) {
    return ReplyError(request, ResourceExhausted("the head knows " + std::to_string(workers_.size()) +
                                                 " workers, which is the limit"));
  }
  auto same_name = worker_names_.find(hello.name);
  if (same_name != worker_names_.end() && same_name->second != hello.worker) {
    // One worker per device, so this one has taken the other's place.
    WorkerId old = same_name->second;
    LoseWorker(workers_.at(old).get(), request.now);
    workers_.erase(old);
  }
  if (Worker* before = WorkerOf(*request.session); before != nullptr && before->id != hello.worker) {
    if (before->peer == request.sender.peer) Disconnected(before);
  }
  Worker* worker = AddWorker(hello.worker);
  if (worker->peer != 0 && worker->peer != request.sender.peer) effects_->Disconnect(worker->peer);
  request.session->said_hello = true;
  request.session->role = wire::Role::kWorker;
  request.session->worker = hello.worker;
  request.session->user = request.sender.user;
  worker->peer = request.sender.peer;
  worker->said_hello = true;
  worker->info.name = hello.name;
  worker->info.device = hello.device;
  worker_names_[hello.name] = hello.worker;
  worker->offer.programs = std::move(hello.programs);
  std::sort(worker->offer.programs.begin(), worker->offer.programs.end());
  SetCapacity(worker, worker->info.capacity);
  worker->draining = drained_.count(hello.name) > 0;
  worker->silent_since_ns = request.now.ns;
  worker->lost_at_ns = request.now.ns + options_.worker_lost_ms * kNanosPerMilli;
  SetRoom(worker, 0, 0);  // until it pulls
  wire::Welcome welcome;
  welcome.incarnation = incarnation_;
  welcome.software_version = options_.software_version;
  welcome.heartbeat_ms = options_.heartbeat_ms;
  Reattach(worker, hello, &welcome, request.now);
  log::Info("worker said hello", {{"worker", hello.name},
                                  {"device", hello.device.name},
                                  {"held", hello.held.size()},
                                  {"dropped", welcome.drop.size()}});
  Reply(request, std::move(welcome));
  for (uint64_t packed : worker->leases) {
    const Task& task = queue_.task(Unpack(packed));
    if (!task.run->lease->revoking) continue;
    TaskRef ref = Unpack(packed);
    effects_->SendAfterCommit(worker->peer, {0, wire::Revoke{{queue_.job(ref.job)->id, ref.index}, task.run->epoch,
                                                            wire::ReleaseCause::kPlannedMove, false}});
  }
  if (worker->draining) effects_->SendAfterCommit(worker->peer, {0, wire::Drain{true}});
}

bool Reactor::Impl::FindLease(Worker* worker, const TaskId& id, Epoch epoch, TaskRef* ref) {
  Task* task = queue_.FindTask(id, ref);
  return task != nullptr && task->state == wire::TaskState::kLeased && task->run->epoch == epoch &&
         task->run->lease->worker == worker->id;
}

// What the worker holds and the head agrees with goes on; what the head thinks it holds and it does not never
// reached it; what it holds beyond that has been given to somebody else or has ended.
void Reactor::Impl::Reattach(Worker* worker, const wire::WorkerHello& hello, wire::Welcome* welcome, Now now) {
  std::set<uint64_t> held;
  for (const wire::HeldLease& lease : hello.held) {
    TaskRef ref;
    if (!FindLease(worker, lease.task, lease.epoch, &ref)) {
      welcome->drop.push_back(lease.task);
      continue;
    }
    held.insert(Pack(ref));
    Run& run = *queue_.task(ref).run;
    run.lease->attached = true;
    run.lease->host_state = lease.state;
    run.lease->unlisted = 0;
    run.step = std::max(run.step, lease.step);
  }
  std::vector<uint64_t> leases(worker->leases.begin(), worker->leases.end());
  for (uint64_t packed : leases) {
    if (held.count(packed) == 0) queue_.Apply(LoseLease{Unpack(packed), false}, now.ns);
  }
  Settle(now);
}

void Reactor::Impl::OnPull(Worker* worker, const wire::Pull& pull) {
  uint32_t want = std::min(pull.want, limits::kGrantsPerPull);
  uint32_t calls = std::min(pull.call_slots, want);
  uint32_t others = want - calls;
  if (pull.held != wire::Pull::kHeldUnknown) worker->lists_leases = true;
  if (pull.held != wire::Pull::kHeldUnknown && worker->leases.size() > pull.held) {
    uint32_t on_their_way = static_cast<uint32_t>(worker->leases.size()) - pull.held;
    calls -= std::min(calls, on_their_way);
    others -= std::min(others, on_their_way);
  }
  others -= std::min(others, worker->reserved);
  if (pull.free_memory_bytes != 0) worker->offer.memory_free_bytes = pull.free_memory_bytes;
  SetRoom(worker, others, calls);
}

void Reactor::Impl::OnHeartbeat(Worker* worker, const wire::Heartbeat& heartbeat, Now now) {
  wire::WorkerInfo& info = worker->info;
  const wire::WorkerInfo& news = heartbeat.info;
  info.bubble_share = news.bubble_share;
  info.harvest_share = news.harvest_share;
  info.eligible_harvest_share = news.eligible_harvest_share;
  info.slowdown_mean = news.slowdown_mean;
  info.slowdown_low = news.slowdown_low;
  info.slowdown_high = news.slowdown_high;
  info.iterations = news.iterations;
  SetCapacity(worker, news.capacity);
  CheckListed(worker, news.leases, now);
  RepeatRevokes(worker, now);
}

// A revoke that got lost would keep room reserved at the target for as long as the task runs.
void Reactor::Impl::RepeatRevokes(Worker* worker, Now now) {
  for (uint64_t packed : worker->leases) {
    TaskRef ref = Unpack(packed);
    Run& run = *queue_.task(ref).run;
    if (!run.lease || !run.lease->revoking || now.ns - run.lease->revoked_ns < kRepeatRevokeNs) continue;
    run.lease->revoked_ns = now.ns;
    TaskId id{queue_.job(ref.job)->id, ref.index};
    effects_->SendNow(worker->peer, {0, wire::Revoke{id, run.epoch, wire::ReleaseCause::kPlannedMove, false}});
  }
}

// A grant that got lost on its way is noticed here: the worker does not list it, again and again.
void Reactor::Impl::CheckListed(Worker* worker, const std::vector<TaskId>& listed, Now now) {
  if (!listed.empty()) worker->lists_leases = true;
  if (!worker->lists_leases || !store_error_.ok()) return;
  std::set<TaskId> names(listed.begin(), listed.end());
  std::vector<uint64_t> leases(worker->leases.begin(), worker->leases.end());
  for (uint64_t packed : leases) {
    TaskRef ref = Unpack(packed);
    TaskId id{queue_.job(ref.job)->id, ref.index};
    Run& run = *queue_.task(ref).run;
    if (names.count(id) > 0) {
      run.lease->unlisted = 0;
    } else if (++run.lease->unlisted >= kUnlistedHeartbeats) {
      effects_->SendNow(worker->peer, {0, wire::Revoke{id, run.epoch, wire::ReleaseCause::kPlannedMove, true}});
      queue_.Apply(LoseLease{ref, false}, now.ns);
    }
  }
}

void Reactor::Impl::OnProgress(Worker* worker, const wire::Progress& progress) {
  Status status = queue_.Apply(Progress{progress.task, worker->id, progress.epoch, progress.step, progress.items_done,
                                        progress.items_total, progress.state});
  if (!status.ok()) return;
  TaskRef ref;
  queue_.FindTask(progress.task, &ref);
  const Job& job = *queue_.job(ref.job);
  const Template& t = job.templates[job.tasks[ref.index].template_id];
  DeviceKind kind = worker->info.device.kind;
  if (classes_.Learn(t.program, kind, progress.step_time_p50_us, progress.peak_memory_bytes)) {
    effects_->Put(RecordKind::kProfile, ProfileKey(static_cast<uint8_t>(kind), t.program),
                  EncodeProfile(classes_.ProfileOf(t.program, kind)));
  }
}

wire::Verdict Reactor::Impl::ApplyCommit(Worker* worker, wire::Commit commit) {
  wire::Verdict verdict{commit.task, commit.checkpoint.epoch, commit.checkpoint.step, {}};
  verdict.status = queue_.Apply(
      Commit{commit.task, worker->id, std::move(commit.checkpoint), commit.items_done, commit.items_total});
  return verdict;
}

wire::Verdict Reactor::Impl::ApplyFinish(Worker* worker, wire::Finish finish, Now now) {
  wire::Verdict verdict{finish.task, finish.epoch, finish.step, {}};
  verdict.status = queue_.Apply(Finish{finish.task, worker->id, finish.epoch, finish.step, std::move(finish.outcome),
                                       finish.cause, std::move(finish.result), std::move(finish.result_file)},
                                now.ns);
  return verdict;
}

wire::Verdict Reactor::Impl::ApplyRelease(Worker* worker, wire::Release release, Now now) {
  wire::Verdict verdict{release.task, release.epoch, 0, {}};
  verdict.status = queue_.Apply(
      Release{release.task, worker->id, release.epoch, release.cause, std::move(release.detail)}, now.ns);
  return verdict;
}

// False: not something that a worker sends.
bool Reactor::Impl::OnReport(const Request& request, Worker* worker, wire::Body body) {
  if (auto* pull = std::get_if<wire::Pull>(&body)) {
    OnPull(worker, *pull);
    return true;
  }
  if (auto* heartbeat = std::get_if<wire::Heartbeat>(&body)) {
    OnHeartbeat(worker, *heartbeat, request.now);
    return true;
  }
  if (auto* progress = std::get_if<wire::Progress>(&body)) {
    OnProgress(worker, *progress);
    return true;
  }
  if (auto* announce = std::get_if<wire::Announce>(&body)) {
    SetCapacity(worker, announce->capacity);
    if (request.id != 0) Reply(request, wire::CountReply{1});
    return true;
  }
  if (auto* task_log = std::get_if<wire::TaskLog>(&body)) {
    for (const std::string& line : task_log->lines) {
      log::Info("task log", {{"task", task_log->task.ToString()}, {"epoch", task_log->epoch}, {"line", line}});
    }
    return true;
  }
  bool report = std::holds_alternative<wire::NestedSubmit>(body) || std::holds_alternative<wire::Commit>(body) || std::holds_alternative<wire::Finish>(body) || std::holds_alternative<wire::FinishBatch>(body) ||
                std::holds_alternative<wire::Release>(body);
  if (!report) return false;
  if (!store_error_.ok()) return true;  // unanswered, so it comes again
  if (auto* commit = std::get_if<wire::Commit>(&body)) {
    Reply(request, ApplyCommit(worker, std::move(*commit)));
  } else if (auto* finish = std::get_if<wire::Finish>(&body)) {
    Reply(request, ApplyFinish(worker, std::move(*finish), request.now));
  } else if (auto* batch = std::get_if<wire::FinishBatch>(&body)) {
    wire::VerdictBatch verdicts;
    verdicts.verdicts.reserve(batch->finishes.size());
    for (wire::Finish& each : batch->finishes) {
      verdicts.verdicts.push_back(ApplyFinish(worker, std::move(each), request.now));
    }
    Reply(request, std::move(verdicts));
  } else if (auto* release = std::get_if<wire::Release>(&body)) {
    Reply(request, ApplyRelease(worker, std::move(*release), request.now));
  } else if (auto* nested = std::get_if<wire::NestedSubmit>(&body)) {
    Result<uint32_t> first = queue_.Apply(
        Nested{nested->parent, worker->id, nested->epoch, nested->batch, std::move(nested->tasks)}, request.now.ns);
    if (!first.ok()) {
      ReplyError(request, first.status());
    } else {
      Reply(request, wire::NestedReply{*first});
    }
  }
  return true;
}

void Reactor::Impl::SetDraining(Worker* worker, bool drain, Now now) {
  worker->draining = drain;
  SetRoom(worker, worker->room, worker->call_room);
  if (!worker->connected()) return;
  effects_->SendAfterCommit(worker->peer, {0, wire::Drain{drain}});
  if (!drain) return;
  std::vector<uint64_t> leases(worker->leases.begin(), worker->leases.end());
  for (uint64_t packed : leases) {
    TaskRef ref = Unpack(packed);
    const Job& job = *queue_.job(ref.job);
    const Template& t = job.templates[job.tasks[ref.index].template_id];
    if (t.kind == wire::TaskKind::kCall || job.tasks[ref.index].run->lease->revoking) continue;
    double rate = 0;
    Move(ref, BestTarget(ref, *worker, &rate), now);
  }
}

}  // namespace pillion::head
