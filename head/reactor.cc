// Turns, records and recovery.
#include "head/reactor.h"

#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "head/reactor_impl.h"

namespace pillion::head {
namespace {

constexpr int64_t kTickNs = 500 * kNanosPerMilli;
constexpr std::string_view kStateKey = "state";
constexpr std::string_view kDrainPrefix = "drain/";
constexpr uint32_t kDeletionsPerTurn = 5000;

}  // namespace

Reactor::Reactor(ReactorOptions options, Effects* effects)
    : impl_(std::make_unique<Impl>(std::move(options), effects)) {}
Reactor::~Reactor() = default;
Status Reactor::Load(RecordKind kind, std::string_view key, std::string_view value) {
  return impl_->Load(kind, key, value);
}
Status Reactor::FinishLoad(Now now) { return impl_->FinishLoad(now); }
void Reactor::OnMessage(const Sender& sender, wire::Message message, Now now) {
  impl_->OnMessage(sender, std::move(message), now);
}
void Reactor::OnPeerLost(Peer peer, Now now) { impl_->OnPeerLost(peer, now); }
void Reactor::OnTick(Now now) { impl_->OnTick(now); }
int64_t Reactor::NextTimerNs() const { return impl_->NextTimerNs(); }
void Reactor::EndTurn(Now now) { impl_->EndTurn(now); }
void Reactor::OnCommitted(Now now) { impl_->OnCommitted(now); }
void Reactor::OnStoreError(const Status& status, Now now) { impl_->OnStoreError(status, now); }
void Reactor::SetServerFigures(const ServerFigures& figures) { impl_->figures = figures; }
uint64_t Reactor::incarnation() const { return impl_->incarnation(); }

Reactor::Impl::Impl(ReactorOptions options, Effects* effects)
    : options_(std::move(options)),
      effects_(effects),
      queue_([this](const Template& t) { return Admission(t); }),
      ready_(options_.policy) {}

// ---- recovery --------------------------------------------------------------------------------------

Status Reactor::Impl::Load(RecordKind kind, std::string_view key, std::string_view value) {
  auto leftover = [&] { leftovers_.push_back({kind, true, std::string(key), {}}); };
  switch (kind) {
    case RecordKind::kHead: {
      if (key.substr(0, kDrainPrefix.size()) == kDrainPrefix) {
        drained_.insert(std::string(key.substr(kDrainPrefix.size())));
        return Status();
      }
      Result<HeadRecord> record = DecodeHead(value);
      if (!record.ok()) return record.status().WithContext("the head's record");
      incarnation_ = record->incarnation;
      queue_.SetNextOrder(record->next_order);
      return Status();
    }
    case RecordKind::kJob: {
      PILLION_ASSIGN_OR_RETURN(JobId id, ParseJobKey(key));
      return queue_.RestoreJob(id, value, 0).WithContext("job " + id.ToString());
    }
    case RecordKind::kNested: {
      Result<bool> known = queue_.RestoreNested(key, value);
      if (!known.ok()) return known.status().WithContext("a nested batch");
      if (!*known) leftover();
      return Status();
    }
    case RecordKind::kSpecs: {
      PILLION_ASSIGN_OR_RETURN(TaskId id, ParseTaskKey(key));
      Result<bool> known = queue_.RestorePage(id, value);
      if (!known.ok()) return known.status().WithContext("specs from " + id.ToString());
      if (!*known) leftover();
      return Status();
    }
    case RecordKind::kTask: {
      PILLION_ASSIGN_OR_RETURN(TaskId id, ParseTaskKey(key));
      Result<bool> known = queue_.RestoreTask(id, value);
      if (!known.ok()) return known.status().WithContext("task " + id.ToString());
      if (!*known) leftover();
      return Status();
    }
    case RecordKind::kProfile: {
      Result<Profile> profile = DecodeProfile(value);
      if (!profile.ok()) return profile.status().WithContext("a program's profile");
      classes_.Restore(std::string(key), *profile);
      return Status();
    }
  }
  return Unsupported("a record of kind " + std::to_string(static_cast<int>(kind)) +
                     ", which this build does not know: use the newer pillion-head");
}

Status Reactor::Impl::FinishLoad(Now now) {
  ++incarnation_;
  started_ns_ = now.ns;
  next_tick_ns_ = now.ns + kTickNs;
  next_rebalance_ns_ = now.ns + options_.minimum_residence_ms * kNanosPerMilli;
  // Versions of jobs stay above all that clients have seen from earlier incarnations.
  PILLION_RETURN_IF_ERROR(queue_.FinishRestore(now.ns, incarnation_ << 40));
  for (const auto& [order, slot] : queue_.by_order()) {
    Job* job = queue_.job(slot);
    AdoptJob(job);
    if (job->finished()) {
      job->listed_as_finished = true;
      finished_jobs_.push_back(job->id);
      finished_tasks_ += job->tasks.size();
    }
    if (job->counts[static_cast<size_t>(wire::TaskState::kLeased)] == 0) continue;
    for (uint32_t i = job->first_open; i < job->tasks.size(); ++i) {
      const Task& task = job->tasks[i];
      if (task.state != wire::TaskState::kLeased) continue;
      auto& held = workers_[task.run->lease->worker];
      if (!held) {
        AddWorker(task.run->lease->worker);
        held->info.name = task.run->lease->worker_name;
        worker_names_.emplace(held->info.name, held->id);
        held->lost_at_ns = now.ns + options_.reattach_grace_ms * kNanosPerMilli;
      }
      held->leases.insert(Pack({slot, i}));
      if (job->templates[task.template_id].kind == wire::TaskKind::kCall) ++held->call_leases;
      ready_.AddLease(job->owner, 1);
    }
  }
  effects_->Put(RecordKind::kHead, std::string(kStateKey), EncodeHead({incarnation_, queue_.next_order()}));
  for (Record& record : leftovers_) effects_->records.push_back(std::move(record));
  leftovers_.clear();
  Settle(now);
  queue_.transitions().Clear();
  return Status();
}

scheduler::OwnerId Reactor::Impl::OwnerOf(const std::string& name) {
  return owners_.try_emplace(name, static_cast<scheduler::OwnerId>(owners_.size())).first->second;
}

void Reactor::Impl::AdoptJob(Job* job) {
  job->owner = OwnerOf(job->options.owner);
  for (Template& t : job->templates) {
    if (t.task_class == kNone32) t.task_class = classes_.Acquire(t);
  }
}

// ---- messages --------------------------------------------------------------------------------------

void Reactor::Impl::Reply(const Request& request, wire::Body body) {
  effects_->SendAfterCommit(request.sender.peer, {request.id, std::move(body)});
}

void Reactor::Impl::ReplyNow(const Request& request, wire::Body body) {
  effects_->SendNow(request.sender.peer, {request.id, std::move(body)});
}

void Reactor::Impl::ReplyError(const Request& request, Status status) {
  ReplyNow(request, wire::ErrorReply{std::move(status)});
}

void Reactor::Impl::ReplyStatus(const Request& request, const Status& status, wire::Body body) {
  if (status.ok()) {
    Reply(request, std::move(body));
  } else {
    ReplyError(request, status);
  }
}

void Reactor::Impl::OnMessage(const Sender& sender, wire::Message message, Now now) {
  Dispatch(sender, std::move(message), now);
  // The next message must find workers without leases that have just ended.
  if (!queue_.transitions().ended.empty()) Settle(now);
}

void Reactor::Impl::Dispatch(const Sender& sender, wire::Message message, Now now) {
  Session& session = sessions_[sender.peer];
  Request request{sender, &session, message.request_id, now};
  wire::Body& body = message.body;
  if (auto* hello = std::get_if<wire::Hello>(&body)) return OnHello(request, *hello);
  if (auto* hello = std::get_if<wire::WorkerHello>(&body)) return OnWorkerHello(request, std::move(*hello));
  if (!session.said_hello) {
    return ReplyError(request, FailedPrecondition("the first message of a connection must be a hello"));
  }
  if (session.role == wire::Role::kWorker) {
    Worker* worker = WorkerOf(session);
    if (worker == nullptr || worker->peer != sender.peer) {
      return ReplyError(request, Stale("another connection speaks for this worker now: say hello again"));
    }
    worker->silent_since_ns = now.ns;
    worker->lost_at_ns = now.ns + options_.worker_lost_ms * kNanosPerMilli;
    if (OnReport(request, worker, std::move(body))) return;
    return ReplyError(request, PermissionDenied("a worker's connection may not ask for this"));
  }
  bool changes = std::holds_alternative<wire::SubmitChunk>(body) || std::holds_alternative<wire::CancelTasks>(body) ||
                 std::holds_alternative<wire::MigrateTask>(body) || std::holds_alternative<wire::DrainWorker>(body);
  if (changes && !store_error_.ok()) {
    return ReplyError(request, Unavailable("the head's store refuses writes: " + store_error_.message()));
  }
  bool for_operators =
      std::holds_alternative<wire::MigrateTask>(body) || std::holds_alternative<wire::DrainWorker>(body);
  if (for_operators && session.role != wire::Role::kOperator) {
    return ReplyError(request, PermissionDenied("moving tasks and draining workers needs an operator's key"));
  }
  if (auto* m = std::get_if<wire::SubmitChunk>(&body)) return OnSubmit(request, *m);
  if (auto* m = std::get_if<wire::WaitJob>(&body)) return OnWaitJob(request, *m);
  if (auto* m = std::get_if<wire::GetTask>(&body)) return OnGetTask(request, *m);
  if (auto* m = std::get_if<wire::CancelTasks>(&body)) return OnCancel(request, *m);
  if (auto* m = std::get_if<wire::ListJobs>(&body)) return OnListJobs(request, *m);
  if (auto* m = std::get_if<wire::ListTasks>(&body)) return OnListTasks(request, *m);
  if (std::holds_alternative<wire::ListWorkers>(body)) return OnListWorkers(request);
  if (std::holds_alternative<wire::GetStatus>(body)) return OnGetStatus(request);
  if (auto* m = std::get_if<wire::ExplainTask>(&body)) return OnExplain(request, *m);
  if (auto* m = std::get_if<wire::MigrateTask>(&body)) return OnMigrate(request, *m);
  if (auto* m = std::get_if<wire::DrainWorker>(&body)) return OnDrain(request, *m);
  if (auto* m = std::get_if<wire::Announce>(&body)) return OnAnnounce(request, *m);
  ReplyError(request, InvalidArgument("a client cannot send this message to the head"));
}

void Reactor::Impl::OnPeerLost(Peer peer, Now now) {
  auto session = sessions_.find(peer);
  if (session == sessions_.end()) return;
  if (session->second.role == wire::Role::kWorker) {
    Worker* worker = WorkerOf(session->second);
    if (worker != nullptr && worker->peer == peer) Disconnected(worker);
  }
  if (session->second.watches > 0) {
    for (auto watch = watches_.begin(); watch != watches_.end();) {
      if (watch->second.peer != peer) {
        ++watch;
        continue;
      }
      auto& of_job = watches_by_job_[watch->second.job];
      std::erase(of_job, watch->first);
      if (of_job.empty()) watches_by_job_.erase(watch->second.job);
      watch = watches_.erase(watch);  // its deadline finds nothing later
    }
  }
  sessions_.erase(session);
}

// ---- turns -----------------------------------------------------------------------------------------

int64_t Reactor::Impl::NextTimerNs() const {
  if (more_to_grant_ && store_error_.ok()) return 0;
  int64_t next = next_tick_ns_;
  if (!watch_deadlines_.empty()) next = std::min(next, watch_deadlines_.begin()->first);
  if (!delayed_.empty()) next = std::min(next, delayed_.begin()->first);
  return next;
}

void Reactor::Impl::OnTick(Now now) {
  ExpireWatches(now.ns);
  if (now.ns < next_tick_ns_) return;
  next_tick_ns_ = now.ns + kTickNs;
  if (!store_error_.ok()) return;
  CheckSilence(now);
  queue_.DropAbandoned(now.ns - limits::kAbandonedSubmissionMs * kNanosPerMilli);
  if (options_.rebalance && now.ns >= next_rebalance_ns_) Rebalance(now);
}

void Reactor::Impl::EndTurn(Now now) {
  Settle(now);
  PushDelayed(now.ns);
  if (store_error_.ok()) Schedule(now);
  Settle(now);
  WriteRecords();
  FlushGrants();
  AnswerChanged();
  queue_.transitions().Clear();
  if (store_error_.ok()) Retire(now);
  uint64_t queued = queue_.total(wire::TaskState::kQueued);
  if (ready_.size() > 2 * queued + 4096) {
    ready_.Compact([this](const scheduler::ReadyTask& task) { return IsReady(task); });
  }
}

void Reactor::Impl::Settle(Now now) {
  Transitions& changed = queue_.transitions();
  for (uint32_t slot : changed.committed) AdoptJob(queue_.job(slot));
  for (const auto& [slot, parent, batch] : changed.nested) AdoptJob(queue_.job(slot));
  std::vector<ReadyRange> ready = std::move(changed.ready);
  changed.ready.clear();
  for (const ReadyRange& range : ready) {
    if (range.not_before_ns > now.ns) {
      delayed_.emplace(range.not_before_ns, std::make_pair(range, queue_.task(range.first).ticket));
    } else {
      PushReady(range);
    }
  }
  std::vector<EndedLease> ended = std::move(changed.ended);
  changed.ended.clear();
  for (const EndedLease& lease : ended) OnLeaseEnded(lease, now);
}

void Reactor::Impl::WriteRecords() {
  Transitions& changed = queue_.transitions();
  for (const auto& [job, first] : changed.dropped_pages) effects_->Delete(RecordKind::kSpecs, TaskKey(job, first));
  for (const auto& [slot, page] : changed.pages) {
    const Job& job = *queue_.job(slot);
    effects_->Put(RecordKind::kSpecs, TaskKey(job.id, job.pages[page].first_index), job.pages[page].bytes);
  }
  for (uint32_t slot : changed.committed) {
    const Job& job = *queue_.job(slot);
    effects_->Put(RecordKind::kJob, JobKey(job.id), EncodeJob(job));
  }
  for (const auto& [slot, parent, batch] : changed.nested) {
    const Job& job = *queue_.job(slot);
    auto [first, count] = job.nested.at({parent, batch});
    effects_->Put(RecordKind::kNested, NestedKey(job.id, parent, batch), EncodeNested({first, count}));
  }
  for (TaskRef ref : changed.tasks) {
    Task& task = queue_.task(ref);
    task.changed = false;
    effects_->Put(RecordKind::kTask, TaskKey(queue_.job(ref.job)->id, ref.index), EncodeTask(task));
  }
  for (TaskRef ref : changed.recommitted) {
    const Task& task = queue_.task(ref);
    if (!task.run->checkpoints) continue;  // finished in the same turn
    Cleanup cleanup;
    cleanup.task = {queue_.job(ref.job)->id, ref.index};
    cleanup.keep.push_back(task.run->checkpoints->last);
    if (task.run->checkpoints->previous.exists()) cleanup.keep.push_back(task.run->checkpoints->previous);
    for (wire::CheckpointRef& kept : cleanup.keep) kept.bytes.clear();
    effects_->CleanUp(std::move(cleanup));
  }
  for (TaskRef ref : changed.finished) effects_->CleanUp({{queue_.job(ref.job)->id, ref.index}, false, {}});
}

void Reactor::Impl::AnswerChanged() {
  for (uint32_t slot : queue_.transitions().jobs) {
    Job* job = queue_.job(slot);
    job->changed = false;
    AnswerWatches(slot);
    if (!job->finished() || job->listed_as_finished) continue;
    job->listed_as_finished = true;
    finished_jobs_.push_back(job->id);
    finished_tasks_ += job->tasks.size();
  }
  for (uint32_t slot : check_watches_) AnswerWatches(slot);
  check_watches_.clear();
}

// Forgets finished jobs: first their checkpoint files, a turn later their records, so that a crash in between leaves
// records (which are cleaned again) and never files that nobody knows.
void Reactor::Impl::Retire(Now now) {
  while (!cleaned_jobs_.empty()) {
    Job* job = queue_.FindJob(cleaned_jobs_.front());
    cleaned_jobs_.pop_front();
    Deletion deletion{job->id, static_cast<uint32_t>(job->tasks.size()), 0, {}, {}};
    for (const Page& page : job->pages) deletion.pages.push_back(page.first_index);
    for (const auto& [batch, range] : job->nested) deletion.nested.push_back(batch);
    for (const Template& t : job->templates) classes_.Release(t.task_class);
    effects_->Delete(RecordKind::kJob, JobKey(job->id));
    deletions_.push_back(std::move(deletion));
    queue_.Remove(job->slot);
  }
  DeleteSlice();
  while (!finished_jobs_.empty()) {
    const Job* job = queue_.FindJob(finished_jobs_.front());
    bool old = now.ns - job->finished_ns > options_.finished_job_retention_ms * kNanosPerMilli;
    if (!old && finished_tasks_ <= options_.finished_tasks_retained) break;
    finished_tasks_ -= job->tasks.size();
    effects_->CleanUp({{job->id, 0}, true, {}});
    cleaned_jobs_.push_back(job->id);
    finished_jobs_.pop_front();
  }
}

// A job of a million tasks is not deleted in one turn: without its kJob record the rest is a leftover anyway.
void Reactor::Impl::DeleteSlice() {
  for (uint32_t left = kDeletionsPerTurn; left > 0 && !deletions_.empty(); --left) {
    Deletion& deletion = deletions_.front();
    if (!deletion.pages.empty()) {
      effects_->Delete(RecordKind::kSpecs, TaskKey(deletion.job, deletion.pages.back()));
      deletion.pages.pop_back();
    } else if (!deletion.nested.empty()) {
      effects_->Delete(RecordKind::kNested,
                       NestedKey(deletion.job, deletion.nested.back().first, deletion.nested.back().second));
      deletion.nested.pop_back();
    } else if (deletion.next < deletion.tasks) {
      effects_->Delete(RecordKind::kTask, TaskKey(deletion.job, deletion.next++));
    } else {
      deletions_.pop_front();
    }
  }
}

void Reactor::Impl::OnCommitted(Now now) {
  if (store_error_.ok()) return;
  log::Info("the store takes writes again", {{"was", store_error_.ToString()}});
  store_error_ = Status();
}

void Reactor::Impl::OnStoreError(const Status& status, Now now) {
  if (store_error_.ok()) log::Warning("the store refuses writes; acknowledging stops", {{"error", status.ToString()}});
  store_error_ = status;
}

}  // namespace pillion::head
