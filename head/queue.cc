// What happens to tasks once they are in the queue.
#include "head/queue.h"

#include <algorithm>

#include "base/clock.h"
#include "base/limits.h"

namespace pillion::head {

using wire::ReleaseCause;
using wire::TaskState;

void Transitions::Clear() {
  jobs.clear();
  committed.clear();
  pages.clear();
  nested.clear();
  tasks.clear();
  ready.clear();
  ended.clear();
  finished.clear();
  recommitted.clear();
  dropped_pages.clear();
}

Job* Queue::FindJob(const JobId& id) {
  auto found = by_id_.find(id);
  if (found == by_id_.end() || !slots_[found->second]->committed) return nullptr;
  return slots_[found->second].get();
}

Task* Queue::FindTask(const TaskId& id, TaskRef* ref) {
  Job* job = FindJob(id.job);
  if (job == nullptr || id.index >= job->tasks.size()) return nullptr;
  if (ref != nullptr) *ref = {job->slot, id.index};
  return &job->tasks[id.index];
}

Run& Queue::RunOf(Task* task) {
  if (!task->run) task->run = std::make_unique<Run>();
  return *task->run;
}

void Queue::MarkJob(Job* job) {
  if (job->changed) return;
  job->changed = true;
  job->version = std::max(job->version + 1, version_base_);
  transitions_.jobs.push_back(job->slot);
}

void Queue::MarkTask(Job* job, uint32_t index) {
  MarkJob(job);
  Task& task = job->tasks[index];
  if (task.changed) return;
  task.changed = true;
  transitions_.tasks.push_back({job->slot, index});
}

void Queue::SetState(Job* job, uint32_t index, TaskState state, int64_t now_ns) {
  Task& task = job->tasks[index];
  PILLION_CHECK(!IsFinal(task.state), "a final state must not change");
  --job->counts[static_cast<size_t>(task.state)];
  --totals_[static_cast<size_t>(task.state)];
  if (task.state == TaskState::kQueued) ++task.ticket;
  task.state = state;
  ++job->counts[static_cast<size_t>(state)];
  ++totals_[static_cast<size_t>(state)];
  MarkJob(job);
  if (!IsFinal(state)) return;
  while (job->first_open < job->tasks.size() && IsFinal(job->tasks[job->first_open].state)) ++job->first_open;
  const Template& t = job->templates[task.template_id];
  if (task.run && task.run->epoch != 0 && t.kind != wire::TaskKind::kCall) {
    task.run->checkpoints.reset();
    transitions_.finished.push_back({job->slot, index});
  }
  if (job->finished()) {
    job->finished_ns = now_ns;
    --open_jobs_;
  }
}

void Queue::EndLease(Job* job, uint32_t index, bool revoke) {
  Run& run = *job->tasks[index].run;
  EndedLease ended;
  ended.task = {job->slot, index};
  ended.id = {job->id, index};
  ended.epoch = run.epoch;
  ended.lease = std::move(run.lease);
  ended.revoke = revoke;
  transitions_.ended.push_back(std::move(ended));
}

Epoch Queue::Apply(Grant event, int64_t now_ns) {
  Job* job = slots_[event.task.job].get();
  Task& task = job->tasks[event.task.index];
  PILLION_CHECK(task.state == TaskState::kQueued, "only queued tasks are granted");
  Run& run = RunOf(&task);
  ++run.epoch;
  run.step = run.committed_step;
  run.lease = std::make_unique<Lease>();
  run.lease->worker = event.worker;
  run.lease->worker_name = std::move(event.worker_name);
  run.lease->granted_ns = now_ns;
  SetState(job, event.task.index, TaskState::kLeased, now_ns);
  MarkTask(job, event.task.index);
  return run.epoch;
}

Status Queue::CheckLease(const TaskId& id, const WorkerId& worker, Epoch epoch, Step step, TaskRef* ref, Task** task,
                         bool* repeat) {
  *repeat = false;
  *task = FindTask(id, ref);
  if (*task == nullptr) return Stale("there is no task " + id.ToString());
  const Run* run = (*task)->run.get();
  if (run != nullptr && epoch != 0 && epoch == run->closed_epoch) {
    *repeat = true;
    return Status();
  }
  if ((*task)->state != TaskState::kLeased) {
    return Stale("task " + id.ToString() + " is " + std::string(TaskStateName((*task)->state)) + ", not leased");
  }
  if (epoch != run->epoch) {
    return Stale("epoch " + std::to_string(epoch) + " of task " + id.ToString() + " is over; the lease has epoch " +
                 std::to_string(run->epoch));
  }
  if (worker != run->lease->worker) {
    return Stale("task " + id.ToString() + " is leased to " + run->lease->worker_name);
  }
  if (step < run->committed_step) {
    return Stale("step " + std::to_string(step) + " of task " + id.ToString() + " is before its checkpoint at step " +
                 std::to_string(run->committed_step));
  }
  return Status();
}

Status Queue::Apply(Commit event) {
  const wire::CheckpointRef& checkpoint = event.checkpoint;
  TaskRef ref;
  Task* task = nullptr;
  bool repeat = false;
  PILLION_RETURN_IF_ERROR(
      CheckLease(event.task, event.worker, checkpoint.epoch, checkpoint.step, &ref, &task, &repeat));
  Run& run = *task->run;
  const Checkpoints* have = run.checkpoints.get();
  bool same_name = have != nullptr && have->last.epoch == checkpoint.epoch && have->last.step == checkpoint.step;
  if (same_name && have->last.checksum == checkpoint.checksum && have->last.length_bytes == checkpoint.length_bytes) {
    return Status();
  }
  if (repeat) return Stale("epoch " + std::to_string(checkpoint.epoch) + " of task " + event.task.ToString() + " is over");
  if (checkpoint.bytes.size() > limits::kInlineCheckpointBytes) {
    return InvalidArgument("an inline checkpoint of " + std::to_string(checkpoint.bytes.size()) +
                           " bytes; the limit is " + std::to_string(limits::kInlineCheckpointBytes) +
                           ": larger ones are files");
  }
  bool files = have != nullptr && (!have->previous.path.empty() || !have->last.path.empty());
  if (!run.checkpoints) run.checkpoints = std::make_unique<Checkpoints>();
  if (!same_name) run.checkpoints->previous = std::move(run.checkpoints->last);
  run.checkpoints->last = std::move(event.checkpoint);
  run.committed_step = run.checkpoints->last.step;
  run.step = std::max(run.step, run.committed_step);
  run.items_done = event.items_done;
  run.items_total = event.items_total;
  if (files) transitions_.recommitted.push_back(ref);
  MarkTask(slots_[ref.job].get(), ref.index);
  return Status();
}

Status Queue::Apply(const Progress& event) {
  TaskRef ref;
  Task* task = nullptr;
  bool repeat = false;
  PILLION_RETURN_IF_ERROR(CheckLease(event.task, event.worker, event.epoch, event.step, &ref, &task, &repeat));
  if (repeat) return Stale("the lease has ended");
  Run& run = *task->run;
  if (event.step < run.step) return Stale("a later step has been reported");
  run.step = event.step;
  run.items_done = event.items_done;
  run.items_total = event.items_total;
  run.lease->host_state = event.host_state;
  MarkJob(slots_[ref.job].get());
  return Status();
}

Status Queue::Apply(Finish event, int64_t now_ns) {
  TaskRef ref;
  Task* task = nullptr;
  bool repeat = false;
  PILLION_RETURN_IF_ERROR(CheckLease(event.task, event.worker, event.epoch, event.step, &ref, &task, &repeat));
  if (repeat) {
    if (event.outcome.ok() && task->state != TaskState::kSucceeded) {
      return Stale("epoch " + std::to_string(event.epoch) + " of task " + event.task.ToString() + " was given back");
    }
    return Status();
  }
  Job* job = slots_[ref.job].get();
  Run& run = *task->run;
  run.closed_epoch = event.epoch;
  if (event.result.size() > limits::kInlineResultBytes) {
    event.outcome = InvalidArgument("the result has " + std::to_string(event.result.size()) +
                                    " bytes; the limit inside a message is " +
                                    std::to_string(limits::kInlineResultBytes) + ": larger ones are files");
    event.cause = ReleaseCause::kAppFailure;
  }
  if (!event.outcome.ok()) {
    // An argument that is wrong stays wrong: no retry helps.
    bool permanent = event.cause == ReleaseCause::kAppFailure &&
                     (event.outcome.code() == StatusCode::kInvalidArgument ||
                      event.outcome.code() == StatusCode::kUnsupported);
    if (permanent) {
      ++run.app_failures;
      EndLease(job, ref.index, false);
      Fail(job, ref.index, event.outcome.ToString(), now_ns);
    } else {
      EndUnfinished(job, ref.index, event.cause, event.outcome.ToString(), now_ns);
    }
    return Status();
  }
  run.step = event.step;
  run.result = std::move(event.result);
  run.result_file = std::move(event.result_file);
  run.error.clear();
  payload_bytes_ += run.result.size();
  EndLease(job, ref.index, false);
  Succeed(job, ref.index, now_ns);
  return Status();
}

Status Queue::Apply(Release event, int64_t now_ns) {
  TaskRef ref;
  Task* task = nullptr;
  bool repeat = false;
  PILLION_RETURN_IF_ERROR(CheckLease(event.task, event.worker, event.epoch, UINT64_MAX, &ref, &task, &repeat));
  if (repeat) return Status();
  task->run->closed_epoch = event.epoch;
  EndUnfinished(slots_[ref.job].get(), ref.index, event.cause, event.detail, now_ns);
  return Status();
}

void Queue::Apply(const LoseLease& event, int64_t now_ns) {
  Job* job = slots_[event.task.job].get();
  Task& task = job->tasks[event.task.index];
  PILLION_CHECK(task.state == TaskState::kLeased, "only a lease can be lost");
  Run& run = *task.run;
  if (!event.counts) {
    EndLease(job, event.task.index, false);
    Requeue(job, event.task.index, 0, now_ns);
    return;
  }
  ++run.worker_losses;
  if (!run.lost_workers) run.lost_workers = std::make_unique<std::vector<WorkerId>>();
  std::vector<WorkerId>& lost = *run.lost_workers;
  if (std::find(lost.begin(), lost.end(), run.lease->worker) == lost.end()) lost.push_back(run.lease->worker);
  std::string worker = run.lease->worker_name;
  EndLease(job, event.task.index, false);
  if (lost.size() >= limits::kQuarantineWorkerLosses) {
    Fail(job, event.task.index,
         "quarantined: " + std::to_string(lost.size()) + " different workers were lost while they ran it, the last was " +
             worker,
         now_ns);
    return;
  }
  Requeue(job, event.task.index, 0, now_ns);
}

void Queue::Apply(Refuse event, int64_t now_ns) {
  Fail(slots_[event.task.job].get(), event.task.index, std::move(event.error), now_ns);
}

void Queue::EndUnfinished(Job* job, uint32_t index, ReleaseCause cause, const std::string& detail, int64_t now_ns) {
  Task& task = job->tasks[index];
  Run& run = *task.run;
  const wire::TaskOptions& options = job->templates[task.template_id].options;
  std::string ended_on = run.lease->worker_name;
  EndLease(job, index, false);
  int64_t pause_ns = 0;
  auto involuntary = [&](uint32_t count) {
    pause_ns = kNanosPerSecond << std::min<uint32_t>(count, 5);
    return count >= limits::kInvoluntaryEnds;
  };
  bool fail = false;
  switch (cause) {
    case ReleaseCause::kAppFailure:
      fail = ++run.app_failures > options.app_retries;
      break;
    case ReleaseCause::kOutOfMemory:
      fail = involuntary(++run.out_of_memory);
      break;
    case ReleaseCause::kHostLost:
    case ReleaseCause::kWorkerLost:
      fail = involuntary(++run.worker_losses);
      break;
    case ReleaseCause::kPreempted:
      ++run.preemptions;
      break;
    case ReleaseCause::kPlannedMove:
      ++run.planned_moves;
      break;
  }
  if (cause != ReleaseCause::kPlannedMove && cause != ReleaseCause::kPreempted) {
    run.error = std::string(ReleaseCauseName(cause)) + " on " + ended_on + (detail.empty() ? "" : ": " + detail);
    if (run.error.size() > limits::kTextBytes) run.error.resize(limits::kTextBytes);
  }
  if (fail) {
    Fail(job, index, run.error, now_ns);
  } else {
    Requeue(job, index, pause_ns == 0 ? 0 : now_ns + pause_ns, now_ns);
  }
}

void Queue::Requeue(Job* job, uint32_t index, int64_t not_before_ns, int64_t now_ns) {
  SetState(job, index, TaskState::kQueued, now_ns);
  MarkTask(job, index);
  transitions_.ready.push_back({{job->slot, index}, 1, not_before_ns});
}

void Queue::Succeed(Job* job, uint32_t index, int64_t now_ns) {
  SetState(job, index, TaskState::kSucceeded, now_ns);
  MarkTask(job, index);
  for (uint32_t e = job->tasks[index].first_edge; e != kNone32; e = job->edges[e].next) {
    uint32_t dependent = job->edges[e].dependent;
    Task& task = job->tasks[dependent];
    --task.unmet;
    if (task.unmet != 0 || task.state != TaskState::kWaiting) continue;
    SetState(job, dependent, TaskState::kQueued, now_ns);
    transitions_.ready.push_back({{job->slot, dependent}, 1, 0});
  }
}

void Queue::Fail(Job* job, uint32_t index, std::string error, int64_t now_ns) {
  if (error.size() > limits::kTextBytes) error.resize(limits::kTextBytes);
  RunOf(&job->tasks[index]).error = std::move(error);
  SetState(job, index, TaskState::kFailed, now_ns);
  MarkTask(job, index);
  SkipDependents(job, index, now_ns);
}

void Queue::SkipDependents(Job* job, uint32_t index, int64_t now_ns) {
  std::vector<uint32_t> reached = {index};
  while (!reached.empty()) {
    uint32_t from = reached.back();
    reached.pop_back();
    for (uint32_t e = job->tasks[from].first_edge; e != kNone32; e = job->edges[e].next) {
      uint32_t dependent = job->edges[e].dependent;
      if (IsFinal(job->tasks[dependent].state)) continue;
      SetState(job, dependent, TaskState::kSkipped, now_ns);
      MarkTask(job, dependent);
      reached.push_back(dependent);
    }
  }
}

Result<uint64_t> Queue::Cancel(const JobId& id, const std::vector<uint32_t>& indices, int64_t now_ns) {
  Job* job = FindJob(id);
  if (job == nullptr) return NotFound("there is no job " + id.ToString());
  std::vector<uint32_t> reached;
  std::vector<bool> seen(job->tasks.size());
  for (uint32_t index : indices) {
    if (index >= job->tasks.size()) {
      return NotFound("job " + id.ToString() + " has no task " + std::to_string(index) + ": its tasks are 0 to " +
                      std::to_string(job->tasks.size() - 1));
    }
    if (!seen[index]) reached.push_back(index);
    seen[index] = true;
  }
  uint64_t cancelled = 0;
  auto cancel = [&](uint32_t index) {
    Task& task = job->tasks[index];
    if (IsFinal(task.state)) return;
    ++cancelled;
    if (task.state == TaskState::kLeased) EndLease(job, index, true);
    SetState(job, index, TaskState::kCancelled, now_ns);
    MarkTask(job, index);
  };
  if (indices.empty()) {
    for (uint32_t i = job->first_open; i < job->tasks.size(); ++i) cancel(i);
    return cancelled;
  }
  while (!reached.empty()) {
    uint32_t index = reached.back();
    reached.pop_back();
    cancel(index);
    for (uint32_t e = job->tasks[index].first_edge; e != kNone32; e = job->edges[e].next) {
      uint32_t dependent = job->edges[e].dependent;
      if (!seen[dependent]) reached.push_back(dependent);
      seen[dependent] = true;
    }
  }
  return cancelled;
}

void Queue::Remove(uint32_t slot) {
  Job* job = slots_[slot].get();
  PILLION_CHECK(job->finished() && !job->changed, "only finished jobs are forgotten, between turns");
  for (size_t state = 0; state < 7; ++state) totals_[state] -= job->counts[state];
  for (const Page& page : job->pages) payload_bytes_ -= page.bytes.size();
  for (const Task& task : job->tasks) payload_bytes_ -= task.run ? task.run->result.size() : 0;
  by_order_.erase(job->order);
  by_id_.erase(job->id);
  slots_[slot].reset();
  free_slots_.push_back(slot);
}

}  // namespace pillion::head
