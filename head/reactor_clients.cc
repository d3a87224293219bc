// What clients and operators ask.
#include <algorithm>

#include "base/clock.h"
#include "head/graph.h"
#include "head/reactor_impl.h"

namespace pillion::head {
namespace {

using wire::TaskState;

constexpr size_t kReplyBytes = 700 << 10;  // about what a list may fill; the rest is asked for again
constexpr uint32_t kListLimit = 10'000;

uint64_t Count(const Job& job, TaskState state) { return job.counts[static_cast<size_t>(state)]; }

std::string Seconds(int64_t ns) {
  return std::to_string(ns / kNanosPerSecond) + "." + std::to_string(ns / (kNanosPerSecond / 10) % 10) + " s";
}

}  // namespace

void Reactor::Impl::OnHello(const Request& request, const wire::Hello& hello) {
  bool allowed = hello.role == request.sender.role ||
                 (hello.role == wire::Role::kClient && request.sender.role == wire::Role::kOperator);
  if (!allowed || hello.role == wire::Role::kWorker) {
    return ReplyError(request, PermissionDenied("the key of '" + std::string(request.sender.user) +
                                                "' does not allow this role"));
  }
  request.session->said_hello = true;
  request.session->role = hello.role;
  request.session->user = request.sender.user;
  wire::Welcome welcome;
  welcome.incarnation = incarnation_;
  welcome.software_version = options_.software_version;
  welcome.heartbeat_ms = options_.heartbeat_ms;
  ReplyNow(request, std::move(welcome));
}

Status Reactor::Impl::Admission(const Template& t) {
  if (classes_.size() >= limits::kTaskClasses) {
    return ResourceExhausted("the head holds tasks with " + std::to_string(classes_.size()) +
                             " different demands, which is the limit: give alike tasks the same options");
  }
  if (workers_.empty() || t.options.wait_for_device) return Status();
  scheduler::Demand demand = ClassTable::DemandOf(t);
  std::vector<std::string> programs;
  std::string reasons;
  bool only_program = true;
  bool any = false;
  for (const auto& [name, id] : worker_names_) {
    const Worker& worker = *workers_.at(id);
    if (!worker.said_hello) return Status();  // known from before the restart only: what it can do is not known
    any = true;
    uint32_t step_us = classes_.StepUs(t.program, worker.offer.device_kind);
    scheduler::Fit fit = scheduler::Evaluate(demand, worker.offer, step_us);
    // Step times and bubbles change, and a forecast that has learned nothing yet says 0: only what cannot change, or
    // known bubbles that are too short, is a reason to refuse.
    bool learning = std::all_of(worker.offer.slot_lengths_us.begin(), worker.offer.slot_lengths_us.end(),
                                [](uint32_t length) { return length == 0; });
    bool may_change = fit.refusal == scheduler::Refusal::kStepTooLong ||
                      (fit.refusal == scheduler::Refusal::kMinimumBubble && learning);
    if (!IsLasting(fit.refusal) || may_change) return Status();
    only_program = only_program && fit.refusal == scheduler::Refusal::kProgram;
    programs.insert(programs.end(), worker.offer.programs.begin(), worker.offer.programs.end());
    if (reasons.size() < 1000) reasons += "; " + name + " " + Explain(fit, demand, worker.offer, step_us);
  }
  if (!any) return Status();
  if (only_program) {
    std::string near = scheduler::NearestName(t.program, programs);
    return InvalidArgument("unknown program '" + t.program + "'" +
                           (near.empty() ? ": no worker has it; name the library that registers it"
                                         : ": did you mean '" + near + "'?"));
  }
  return InvalidArgument("no known device could ever run it" + reasons +
                         "; to queue it anyway, ask to wait for such a device");
}

void Reactor::Impl::OnSubmit(const Request& request, const wire::SubmitChunk& chunk) {
  Status status = queue_.Apply(chunk, request.session->user, request.now.ns, request.now.wall_ns);
  ReplyStatus(request, status, wire::SubmitReply{chunk.job});
}

wire::JobInfo Reactor::Impl::InfoOf(const Job& job) const {
  wire::JobInfo info;
  info.job = job.id;
  info.name = job.options.name;
  info.owner = job.options.owner;
  info.tasks = job.tasks.size();
  info.waiting = Count(job, TaskState::kWaiting);
  info.queued = Count(job, TaskState::kQueued);
  info.leased = Count(job, TaskState::kLeased);
  info.succeeded = Count(job, TaskState::kSucceeded);
  info.failed = Count(job, TaskState::kFailed);
  info.cancelled = Count(job, TaskState::kCancelled);
  info.skipped = Count(job, TaskState::kSkipped);
  info.version = job.version;
  info.submitted_wall_ns = job.submitted_wall_ns;
  return info;
}

std::string Reactor::Impl::WhyWaiting(const Job& job, uint32_t index) const {
  // The first dependency that explains the state, and how many more there are.
  bool skipped = job.tasks[index].state == TaskState::kSkipped;
  uint32_t first = kNone32, count = 0;
  for (const wire::Dependency& dependency : DependenciesOf(job, index)) {
    TaskState state = job.tasks[dependency.index].state;
    bool explains = skipped ? (IsFinal(state) && state != TaskState::kSucceeded) : state != TaskState::kSucceeded;
    if (!explains) continue;
    if (count++ == 0) first = dependency.index;
  }
  if (first == kNone32) return "";
  std::string text = TaskLabel(first, NameOf(job, first)) + ", which is " +
                     std::string(TaskStateName(job.tasks[first].state));
  if (skipped) return "skipped: it depends on " + text;
  if (count > 1) text += ", and for " + std::to_string(count - 1) + " more";
  return "waits for " + text;
}

wire::TaskInfo Reactor::Impl::InfoOf(const Job& job, uint32_t index, bool with_result) const {
  const Task& task = job.tasks[index];
  const Template& t = job.templates[task.template_id];
  wire::TaskInfo info;
  info.task = {job.id, index};
  info.name = NameOf(job, index);
  info.program = t.program;
  info.kind = t.kind;
  info.state = task.state;
  if (task.state == TaskState::kSkipped) info.error = WhyWaiting(job, index);
  if (!task.run) return info;
  const Run& run = *task.run;
  info.epoch = run.epoch;
  info.step = run.step;
  info.committed_step = run.committed_step;
  info.items_done = run.items_done;
  info.items_total = run.items_total;
  if (!run.error.empty()) info.error = run.error;
  info.app_failures = run.app_failures;
  info.worker_losses = run.worker_losses;
  info.out_of_memory = run.out_of_memory;
  info.preemptions = run.preemptions;
  info.planned_moves = run.planned_moves;
  if (run.lease) {
    info.worker = run.lease->worker_name;
    info.host_state = run.lease->host_state;
  }
  if (with_result) {
    info.result = run.result;
    info.result_file = run.result_file;
  }
  return info;
}

void Reactor::Impl::OnWaitJob(const Request& request, const wire::WaitJob& wait) {
  const Job* job = queue_.FindJob(wait.job);
  if (job == nullptr) return ReplyError(request, NotFound("there is no job " + wait.job.ToString()));
  if (request.session->watches >= limits::kWatchersPerClient) {
    return ReplyError(request, ResourceExhausted("this client already waits " +
                                                 std::to_string(limits::kWatchersPerClient) +
                                                 " times, which is the limit"));
  }
  uint64_t id = next_watch_++;
  ++request.session->watches;
  watches_[id] = {request.sender.peer, request.id, wait.job, wait.known_version};
  watches_by_job_[wait.job].push_back(id);
  watch_deadlines_.emplace(request.now.ns + int64_t{wait.timeout_ms} * kNanosPerMilli, id);
  // Answered at the end of the turn at the earliest, so that the version covers everything in the turn.
  check_watches_.push_back(job->slot);
}

void Reactor::Impl::AnswerWatches(uint32_t slot) {
  const Job* job = queue_.job(slot);
  if (job == nullptr) return;
  auto found = watches_by_job_.find(job->id);
  if (found == watches_by_job_.end()) return;
  std::erase_if(found->second, [&](uint64_t id) {
    auto watch = watches_.find(id);
    if (job->version <= watch->second.known_version && !job->finished()) return false;
    effects_->SendAfterCommit(watch->second.peer, {watch->second.request_id, wire::JobReply{InfoOf(*job)}});
    --sessions_[watch->second.peer].watches;
    watches_.erase(watch);
    return true;
  });
  if (found->second.empty()) watches_by_job_.erase(found);
}

void Reactor::Impl::ExpireWatches(int64_t now_ns) {
  while (!watch_deadlines_.empty() && watch_deadlines_.begin()->first <= now_ns) {
    uint64_t id = watch_deadlines_.begin()->second;
    watch_deadlines_.erase(watch_deadlines_.begin());
    auto watch = watches_.find(id);
    if (watch == watches_.end()) continue;
    const Job* job = queue_.FindJob(watch->second.job);
    wire::Message reply{watch->second.request_id, {}};
    if (job != nullptr) {
      reply.body = wire::JobReply{InfoOf(*job)};
    } else {
      reply.body = wire::ErrorReply{NotFound("job " + watch->second.job.ToString() + " has been forgotten")};
    }
    effects_->SendAfterCommit(watch->second.peer, std::move(reply));
    --sessions_[watch->second.peer].watches;
    auto& of_job = watches_by_job_[watch->second.job];
    std::erase(of_job, id);
    if (of_job.empty()) watches_by_job_.erase(watch->second.job);
    watches_.erase(watch);
  }
}

void Reactor::Impl::OnGetTask(const Request& request, const wire::GetTask& get) {
  TaskRef ref;
  if (queue_.FindTask(get.task, &ref) == nullptr) {
    return ReplyError(request, NotFound("there is no task " + get.task.ToString()));
  }
  Reply(request, wire::TaskReply{InfoOf(*queue_.job(ref.job), ref.index, true)});
}

void Reactor::Impl::OnCancel(const Request& request, const wire::CancelTasks& cancel) {
  Result<uint64_t> count = queue_.Cancel(cancel.job, cancel.indices, request.now.ns);
  if (!count.ok()) return ReplyError(request, count.status());
  Reply(request, wire::CountReply{*count});
}

void Reactor::Impl::OnListJobs(const Request& request, const wire::ListJobs& list) {
  wire::JobsReply reply;
  uint32_t limit = std::min(list.limit == 0 ? kListLimit : list.limit, kListLimit);
  size_t bytes = 0;
  for (auto job = queue_.by_order().rbegin(); job != queue_.by_order().rend(); ++job) {
    if (reply.jobs.size() >= limit || bytes > kReplyBytes) break;
    const Job& at = *queue_.job(job->second);
    if (!list.owner.empty() && list.owner != at.options.owner) continue;
    reply.jobs.push_back(InfoOf(at));
    bytes += 160 + at.options.name.size() + at.options.owner.size();
  }
  Reply(request, std::move(reply));
}

void Reactor::Impl::OnListTasks(const Request& request, const wire::ListTasks& list) {
  wire::TasksReply reply;
  uint32_t limit = std::min(list.limit == 0 ? kListLimit : list.limit, kListLimit);
  size_t bytes = 0;
  auto add = [&](const Job& job, uint32_t index) {
    reply.tasks.push_back(InfoOf(job, index, false));
    const wire::TaskInfo& info = reply.tasks.back();
    bytes += 250 + info.name.size() + info.program.size() + info.error.size() + info.worker.size();
    return reply.tasks.size() < limit && bytes < kReplyBytes;
  };
  if (!list.job.IsZero()) {
    const Job* job = queue_.FindJob(list.job);
    if (job == nullptr) return ReplyError(request, NotFound("there is no job " + list.job.ToString()));
    for (uint32_t i = list.first_index; i < job->tasks.size(); ++i) {
      if (!add(*job, i)) break;
    }
    return Reply(request, std::move(reply));
  }
  for (const auto& [order, slot] : queue_.by_order()) {
    const Job& job = *queue_.job(slot);
    if (job.finished()) continue;
    for (uint32_t i = job.first_open; i < job.tasks.size(); ++i) {
      if (IsFinal(job.tasks[i].state)) continue;
      if (!add(job, i)) return Reply(request, std::move(reply));
    }
  }
  Reply(request, std::move(reply));
}

void Reactor::Impl::OnListWorkers(const Request& request) {
  wire::WorkersReply reply;
  for (const auto& [name, id] : worker_names_) {
    const Worker& worker = *workers_.at(id);
    wire::WorkerInfo info = worker.info;
    info.worker = worker.id;
    info.connected = worker.connected();
    info.draining = worker.draining;
    info.leases.clear();
    for (uint64_t packed : worker.leases) {
      if (info.leases.size() >= 1000) break;
      TaskRef ref = Unpack(packed);
      info.leases.push_back({queue_.job(ref.job)->id, ref.index});
    }
    reply.workers.push_back(std::move(info));
    if (reply.workers.size() >= 2000) break;
  }
  ReplyNow(request, std::move(reply));
}

void Reactor::Impl::OnGetStatus(const Request& request) {
  wire::StatusReply reply;
  reply.incarnation = incarnation_;
  reply.software_version = options_.software_version;
  reply.uptime_s = static_cast<double>(request.now.ns - started_ns_) / kNanosPerSecond;
  reply.jobs = queue_.by_order().size();
  reply.waiting = queue_.total(TaskState::kWaiting);
  reply.queued = queue_.total(TaskState::kQueued);
  reply.leased = queue_.total(TaskState::kLeased);
  reply.succeeded = queue_.total(TaskState::kSucceeded);
  reply.failed = queue_.total(TaskState::kFailed);
  reply.cancelled = queue_.total(TaskState::kCancelled);
  reply.skipped = queue_.total(TaskState::kSkipped);
  reply.workers_known = static_cast<uint32_t>(workers_.size());
  for (const auto& [id, worker] : workers_) reply.workers_connected += worker->connected() ? 1 : 0;
  if (!store_error_.ok()) reply.store_error = store_error_.ToString();
  reply.store_write_ms_p50 = figures.store_write_ms_p50;
  reply.store_write_ms_p99 = figures.store_write_ms_p99;
  reply.store_bytes = figures.store_bytes;
  reply.hostile_messages = figures.hostile_messages;
  ReplyNow(request, std::move(reply));
}

void Reactor::Impl::OnExplain(const Request& request, const wire::ExplainTask& explain) {
  TaskRef ref;
  const Task* task = queue_.FindTask(explain.task, &ref);
  if (task == nullptr) return ReplyError(request, NotFound("there is no task " + explain.task.ToString()));
  const Job& job = *queue_.job(ref.job);
  const Template& t = job.templates[task->template_id];
  wire::ExplainReply reply;
  reply.state = task->state;
  if (task->state == TaskState::kWaiting) {
    reply.summary = WhyWaiting(job, ref.index);
    return Reply(request, std::move(reply));
  }
  if (IsFinal(task->state)) {
    wire::TaskInfo info = InfoOf(job, ref.index, false);
    reply.summary = std::string(TaskStateName(task->state)) + (info.error.empty() ? "" : ": " + info.error);
    return Reply(request, std::move(reply));
  }
  const TaskClass& task_class = classes_.at(t.task_class);
  uint32_t could = 0, with_room = 0;
  for (const auto& [name, id] : worker_names_) {
    const Worker& worker = *workers_.at(id);
    uint32_t step_us = task_class.StepUs(worker.offer.device_kind);
    scheduler::Fit fit = scheduler::Evaluate(task_class.demand, worker.offer, step_us);
    wire::ExplainLine line;
    line.worker = name;
    line.reason = !worker.connected() ? "is not connected"
                  : worker.draining   ? "is being drained"
                                      : Explain(fit, task_class.demand, worker.offer, step_us);
    if (line.reason.empty()) {
      ++could;
      line.steps_per_s = fit.steps_per_s * scheduler::ShareOf(static_cast<uint32_t>(worker.leases.size()));
      line.eligible = HasRoom(worker, task_class.is_call);
      with_room += line.eligible;
      if (worker.leases.count(Pack(ref)) > 0) {
        line.reason = "runs it now";
      } else if (!line.eligible) {
        line.reason = "could run it, but has no room: it holds " + std::to_string(worker.leases.size()) +
                      " tasks and asks for no more";
      }
    }
    reply.workers.push_back(std::move(line));
    if (reply.workers.size() >= 2000) break;
  }
  if (task->state == TaskState::kLeased) {
    const Lease& lease = *task->run->lease;
    reply.summary = "is leased to " + lease.worker_name + " since " + Seconds(request.now.ns - lease.granted_ns) +
                    " (" + std::string(HostStateName(lease.host_state)) + ", step " + std::to_string(task->run->step) +
                    ")" + (lease.revoking ? ", and asked to come back" : "");
    return Reply(request, std::move(reply));
  }
  int64_t pause_until_ns = 0;
  for (const auto& [until, entry] : delayed_) {
    if (Pack(entry.first.first) == Pack(ref) && entry.second == task->ticket) pause_until_ns = until;
  }
  if (pause_until_ns > request.now.ns) {
    reply.summary = "pauses for another " + Seconds(pause_until_ns - request.now.ns) + " after: " + task->run->error;
  } else if (reply.workers.empty()) {
    reply.summary = "no worker has ever connected";
  } else if (could == 0) {
    reply.summary = "none of the " + std::to_string(reply.workers.size()) + " known workers can run it now";
  } else if (with_room == 0) {
    reply.summary = std::to_string(could) + " workers could run it, none has room; " +
                    std::to_string(queue_.total(TaskState::kQueued)) + " tasks are queued";
  } else {
    reply.summary = "will be granted next";
  }
  Reply(request, std::move(reply));
}

void Reactor::Impl::OnMigrate(const Request& request, const wire::MigrateTask& migrate) {
  TaskRef ref;
  const Task* task = queue_.FindTask(migrate.task, &ref);
  if (task == nullptr) return ReplyError(request, NotFound("there is no task " + migrate.task.ToString()));
  std::string label = "task " + migrate.task.ToString();
  if (task->state != TaskState::kLeased) {
    return ReplyError(request, FailedPrecondition(label + " is " + std::string(TaskStateName(task->state)) +
                                                  ": only a leased task can be moved"));
  }
  Lease& lease = *queue_.task(ref).run->lease;
  auto holder = workers_.find(lease.worker);
  if (!lease.attached || holder == workers_.end() || !holder->second->connected()) {
    return ReplyError(request, Unavailable(lease.worker_name + ", which holds " + label + ", is not connected now"));
  }
  if (lease.revoking) return ReplyError(request, FailedPrecondition(label + " is being moved already"));
  const Job& job = *queue_.job(ref.job);
  const TaskClass& task_class = classes_.at(job.templates[task->template_id].task_class);
  if (task_class.is_call) {
    return ReplyError(request, Unsupported(label + " is a call: calls are too short to be moved"));
  }
  Worker* target = nullptr;
  if (migrate.to_worker.empty()) {
    double rate = 0;
    target = BestTarget(ref, *holder->second, &rate);
    if (target == nullptr) {
      return ReplyError(request, Unavailable("no other worker has room for " + label + " (explain says why)"));
    }
  } else {
    target = FindWorker(migrate.to_worker);
    if (target == nullptr) return ReplyError(request, NotFound("there is no worker '" + migrate.to_worker + "'"));
    const std::string& name = target->info.name;
    if (target == holder->second.get()) {
      return ReplyError(request, FailedPrecondition(label + " is on " + name + " already"));
    }
    uint32_t step_us = task_class.StepUs(target->offer.device_kind);
    scheduler::Fit fit = scheduler::Evaluate(task_class.demand, target->offer, step_us);
    if (!target->connected()) return ReplyError(request, Unavailable(name + " is not connected now"));
    if (target->draining) return ReplyError(request, FailedPrecondition(name + " is being drained"));
    if (!fit.ok()) {
      return ReplyError(request, FailedPrecondition(name + ": " + Explain(fit, task_class.demand, target->offer, step_us)));
    }
    if (!HasRoom(*target, false)) {
      return ReplyError(request, Unavailable(name + " has no room now: it holds " +
                                             std::to_string(target->leases.size()) + " tasks and asks for no more"));
    }
  }
  Move(ref, target, request.now);
  Reply(request, wire::CountReply{1});
}

void Reactor::Impl::OnDrain(const Request& request, const wire::DrainWorker& drain) {
  Worker* worker = FindWorker(drain.worker);
  if (worker == nullptr) return ReplyError(request, NotFound("there is no worker '" + drain.worker + "'"));
  std::string key = "drain/" + worker->info.name;
  if (drain.drain && drained_.insert(worker->info.name).second) {
    effects_->Put(RecordKind::kHead, key, std::string(1, static_cast<char>(kRecordVersion)));
  } else if (!drain.drain && drained_.erase(worker->info.name) > 0) {
    effects_->Delete(RecordKind::kHead, key);
  }
  uint64_t leases = drain.drain ? worker->leases.size() : 0;
  SetDraining(worker, drain.drain, request.now);
  Reply(request, wire::CountReply{leases});
}

void Reactor::Impl::OnAnnounce(const Request& request, const wire::Announce& announce) {
  Worker* worker = FindWorker(announce.device);
  if (worker == nullptr) {
    return ReplyError(request, NotFound("no worker serves device '" + announce.device + "'"));
  }
  SetCapacity(worker, announce.capacity);
  Reply(request, wire::CountReply{1});
}

}  // namespace pillion::head
