// Who gets which task: grants, moves and rebalancing. Everything asks scheduler::Evaluate.
#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "head/reactor_impl.h"

namespace pillion::head {
namespace {

using wire::TaskState;

constexpr size_t kGrantsMessageBytes = 512 << 10;
constexpr size_t kGrantsPerMessage = 2048;
constexpr int64_t kRebalanceNs = 5 * kNanosPerSecond;
constexpr uint32_t kMovesPerRebalance = 16;

size_t SizeOf(const wire::CheckpointRef& checkpoint) { return 96 + checkpoint.bytes.size() + checkpoint.path.size(); }

size_t SizeOf(const wire::Grant& grant) {
  const wire::TaskSpec& spec = grant.spec;
  size_t bytes = 256 + spec.name.size() + spec.program.size() + spec.library.size() + spec.arguments.size() +
                 spec.dependencies.size() * 8 + SizeOf(grant.checkpoint) + SizeOf(grant.previous_checkpoint);
  for (const std::string& input : grant.inputs) bytes += 16 + input.size();
  for (const std::string& file : grant.input_files) bytes += 16 + file.size();
  return bytes;
}

}  // namespace

// ---- the ready queue -------------------------------------------------------------------------------

int32_t Reactor::Impl::PriorityOf(const Job& job, const Template& t) const {
  int64_t sum = int64_t{job.options.priority} + t.options.priority;
  return static_cast<int32_t>(std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX));
}

void Reactor::Impl::PushReady(const ReadyRange& range) {
  const Job& job = *queue_.job(range.first.job);
  const Task& task = job.tasks[range.first.index];
  const Template& t = job.templates[task.template_id];
  scheduler::ReadyTask ready;
  ready.owner = job.owner;
  ready.task_class = t.task_class;
  ready.priority = PriorityOf(job, t);
  ready.ticket = task.ticket;
  ready.order = job.order + range.first.index;
  ready.job = range.first.job;
  ready.index = range.first.index;
  ready.count = range.count;
  if (t.options.deadline_ms > 0) ready.deadline_ns = job.submitted_ns + t.options.deadline_ms * kNanosPerMilli;
  uint64_t done = task.run ? task.run->committed_step : 0;
  if (t.max_steps > done) {
    const TaskClass& task_class = classes_.at(t.task_class);
    uint32_t step_us = 0;
    for (const Profile* profile : task_class.profiles) step_us = std::max(step_us, profile->step_us);
    ready.remaining_us = (t.max_steps - done) * (step_us == 0 ? scheduler::kAssumedStepUs : step_us);
  }
  ready_.Push(ready);
}

void Reactor::Impl::PushDelayed(int64_t now_ns) {
  while (!delayed_.empty() && delayed_.begin()->first <= now_ns) {
    auto [range, ticket] = delayed_.begin()->second;
    delayed_.erase(delayed_.begin());
    const Job* job = queue_.job(range.first.job);
    if (job == nullptr || range.first.index >= job->tasks.size()) continue;
    const Task& task = job->tasks[range.first.index];
    if (task.state == TaskState::kQueued && task.ticket == ticket) PushReady(range);
  }
}

bool Reactor::Impl::IsReady(const scheduler::ReadyTask& entry) const {
  const Job* job = queue_.job(entry.job);
  if (job == nullptr || entry.index >= job->tasks.size() || job->order + entry.index != entry.order) return false;
  const Task& task = job->tasks[entry.index];
  return task.state == TaskState::kQueued && task.ticket == entry.ticket;
}

// ---- grants ----------------------------------------------------------------------------------------

double Reactor::Impl::RateOn(const TaskClass& task_class, const Worker& worker) const {
  uint32_t step_us = task_class.StepUs(worker.offer.device_kind);
  scheduler::Fit fit = scheduler::Evaluate(task_class.demand, worker.offer, step_us);
  return fit.ok() ? fit.steps_per_s * scheduler::ShareOf(static_cast<uint32_t>(worker.leases.size())) : 0;
}

// Brings the best worker that has room to the front of the heap; false when nobody is left. Rates only fall within
// a turn (room shrinks, residents grow), so an entry whose rate is still right is the best.
bool Reactor::Impl::BestFirst(const TaskClass& task_class, Candidates* candidates) {
  auto& heap = candidates->heap;
  if (!candidates->built) {
    candidates->built = true;
    for (const WorkerId& id : with_room_) {
      const Worker& worker = *workers_.at(id);
      double rate = HasRoom(worker, task_class.is_call) ? RateOn(task_class, worker) : 0;
      if (rate > 0) heap.emplace_back(rate, id);
    }
    std::make_heap(heap.begin(), heap.end());
  }
  while (!heap.empty()) {
    auto [rate, id] = heap.front();
    const Worker& worker = *workers_.at(id);
    double now_rate = HasRoom(worker, task_class.is_call) ? RateOn(task_class, worker) : 0;
    if (now_rate > 0 && now_rate >= rate) return true;
    std::pop_heap(heap.begin(), heap.end());
    heap.pop_back();
    if (now_rate <= 0) continue;
    heap.emplace_back(now_rate, id);
    std::push_heap(heap.begin(), heap.end());
  }
  return false;
}

void Reactor::Impl::Schedule(Now now) {
  std::unordered_map<scheduler::ClassId, Candidates> by_class;
  auto accept = [&](scheduler::ClassId id) { return BestFirst(classes_.at(id), &by_class[id]); };
  auto valid = [this](const scheduler::ReadyTask& task) { return IsReady(task); };
  more_to_grant_ = false;
  for (uint32_t granted = 0; !with_room_.empty(); ++granted) {
    if (granted == limits::kGrantsPerTurn) {
      more_to_grant_ = true;  // requests are looked at in between
      return;
    }
    std::optional<scheduler::ReadyTask> next = ready_.Pop(accept, valid);
    if (!next) return;
    Worker* worker = workers_.at(by_class[next->task_class].heap.front().second).get();
    GrantTo(worker, {next->job, next->index}, now);
  }
}

void Reactor::Impl::GrantTo(Worker* worker, TaskRef ref, Now now) {
  const Job& job = *queue_.job(ref.job);
  const Template& t = job.templates[job.tasks[ref.index].template_id];
  const TaskClass& task_class = classes_.at(t.task_class);
  Result<wire::Grant> grant = MakeGrant(ref);
  if (!grant.ok()) return queue_.Apply(Refuse{ref, grant.status().ToString()}, now.ns);
  grant->epoch = queue_.Apply(Grant{ref, worker->id, worker->info.name}, now.ns);
  worker->leases.insert(Pack(ref));
  ready_.AddLease(job.owner, 1);
  worker->offer.memory_free_bytes -= std::min(worker->offer.memory_free_bytes, task_class.demand.memory_bytes);
  if (task_class.is_call) {
    ++worker->call_leases;
    SetRoom(worker, worker->room, worker->call_room - std::min<uint32_t>(worker->call_room, 1));
  } else {
    SetRoom(worker, worker->room - std::min<uint32_t>(worker->room, 1), worker->call_room);
  }
  grants_[worker->id].push_back(std::move(*grant));
}

Result<wire::Grant> Reactor::Impl::MakeGrant(TaskRef ref) const {
  const Job& job = *queue_.job(ref.job);
  const Task& task = job.tasks[ref.index];
  wire::Grant grant;
  grant.task = {job.id, ref.index};
  grant.spec = SpecOf(job, ref.index);
  if (task.run && task.run->checkpoints) {
    grant.checkpoint = task.run->checkpoints->last;
    grant.previous_checkpoint = task.run->checkpoints->previous;
  }
  bool any_input = false, any_file = false;
  for (const wire::Dependency& dependency : grant.spec.dependencies) {
    const Run* run = job.tasks[dependency.index].run.get();
    bool is_input = dependency.argument >= 0 && run != nullptr;
    grant.inputs.push_back(is_input ? run->result : "");
    grant.input_files.push_back(is_input ? run->result_file : "");
    any_input = any_input || is_input;
    any_file = any_file || !grant.input_files.back().empty();
  }
  if (!any_input) grant.inputs.clear();
  if (!any_file) grant.input_files.clear();
  size_t bytes = SizeOf(grant);
  if (bytes > limits::kMessageBytes - limits::kTextBytes) {
    return ResourceExhausted("its arguments and inputs take " + std::to_string(bytes) + " bytes; the limit is " +
                             std::to_string(limits::kMessageBytes) + ": return large results as files");
  }
  return grant;
}

void Reactor::Impl::FlushGrants() {
  for (auto& [id, grants] : grants_) {
    auto worker = workers_.find(id);
    if (worker == workers_.end() || !worker->second->connected()) continue;  // noticed at its next hello
    wire::Grants message;
    size_t bytes = 0;
    for (wire::Grant& grant : grants) {
      TaskRef ref;
      if (!FindLease(worker->second.get(), grant.task, grant.epoch, &ref)) continue;  // ended in the same turn
      size_t size = SizeOf(grant);
      if (!message.grants.empty() &&
          (bytes + size > kGrantsMessageBytes || message.grants.size() >= kGrantsPerMessage)) {
        effects_->SendAfterCommit(worker->second->peer, {0, std::move(message)});
        message = wire::Grants();
        bytes = 0;
      }
      bytes += size;
      message.grants.push_back(std::move(grant));
    }
    if (!message.grants.empty()) effects_->SendAfterCommit(worker->second->peer, {0, std::move(message)});
  }
  grants_.clear();
}

// ---- ends of leases and moves ----------------------------------------------------------------------

void Reactor::Impl::OnLeaseEnded(const EndedLease& ended, Now now) {
  const Job& job = *queue_.job(ended.task.job);
  const Task& task = job.tasks[ended.task.index];
  const Template& t = job.templates[task.template_id];
  ready_.AddLease(job.owner, -1);
  auto holder = workers_.find(ended.lease->worker);
  if (holder != workers_.end()) {
    Worker* worker = holder->second.get();
    worker->leases.erase(Pack(ended.task));
    if (t.kind == wire::TaskKind::kCall) --worker->call_leases;
    if (ended.revoke && worker->connected()) {
      effects_->SendNow(worker->peer, {0, wire::Revoke{ended.id, ended.epoch, wire::ReleaseCause::kPlannedMove, true}});
    }
  }
  if (ended.lease->reserved_target.IsZero()) return;
  auto reserved = workers_.find(ended.lease->reserved_target);
  if (reserved == workers_.end()) return;
  Worker* target = reserved->second.get();
  --target->reserved;
  if (!target->Grantable()) return;
  SetRoom(target, target->room + 1, target->call_room);  // what Reserve took
  target->offer.memory_free_bytes += classes_.at(t.task_class).demand.memory_bytes;
  if (task.state == TaskState::kQueued && store_error_.ok()) GrantTo(target, ended.task, now);
}

Worker* Reactor::Impl::BestTarget(TaskRef ref, const Worker& from, double* rate) {
  const Job& job = *queue_.job(ref.job);
  const TaskClass& task_class = classes_.at(job.templates[job.tasks[ref.index].template_id].task_class);
  Worker* best = nullptr;
  for (const WorkerId& id : with_room_) {
    Worker* worker = workers_.at(id).get();
    if (worker == &from || !HasRoom(*worker, task_class.is_call)) continue;
    double there = RateOn(task_class, *worker);
    if (there > 0 && (best == nullptr || there > *rate)) {
      best = worker;
      *rate = there;
    }
  }
  return best;
}

void Reactor::Impl::Reserve(Worker* target, TaskRef ref) {
  const Job& job = *queue_.job(ref.job);
  const TaskClass& task_class = classes_.at(job.templates[job.tasks[ref.index].template_id].task_class);
  SetRoom(target, target->room - std::min<uint32_t>(target->room, 1), target->call_room);
  target->offer.memory_free_bytes -= std::min(target->offer.memory_free_bytes, task_class.demand.memory_bytes);
  ++target->reserved;
  queue_.task(ref).run->lease->reserved_target = target->id;
}

// Asks for the lease back. With a target, room is kept there until the task comes (or ends).
void Reactor::Impl::Move(TaskRef ref, Worker* target, Now now) {
  Run& run = *queue_.task(ref).run;
  run.lease->revoking = true;
  run.lease->revoked_ns = now.ns;
  if (target != nullptr) Reserve(target, ref);
  Worker* holder = workers_.at(run.lease->worker).get();
  if (!holder->connected()) return;  // it is told at its next hello
  TaskId id{queue_.job(ref.job)->id, ref.index};
  effects_->SendNow(holder->peer, {0, wire::Revoke{id, run.epoch, wire::ReleaseCause::kPlannedMove, false}});
}

void Reactor::Impl::Rebalance(Now now) {
  next_rebalance_ns_ = now.ns + kRebalanceNs;
  if (with_room_.empty() || queue_.total(TaskState::kQueued) > 0) return;  // room goes to queued tasks first
  scheduler::MovePolicy policy{options_.rebalance_ratio, options_.minimum_residence_ms, 2.0};
  uint32_t moves = 0;
  for (const auto& [name, id] : worker_names_) {
    Worker* worker = workers_.at(id).get();
    if (!worker->Grantable()) continue;
    for (uint64_t packed : worker->leases) {
      TaskRef ref = Unpack(packed);
      const Job& job = *queue_.job(ref.job);
      const Task& task = job.tasks[ref.index];
      const Template& t = job.templates[task.template_id];
      const TaskClass& task_class = classes_.at(t.task_class);
      if (task_class.is_call || task.run->lease->revoking || !task.run->lease->attached) continue;
      uint32_t step_us = task_class.StepUs(worker->offer.device_kind);
      if (step_us == 0) continue;  // nothing is known yet that would justify a move
      scheduler::Demand here = task_class.demand;
      here.memory_bytes = 0;  // it has its memory there already
      scheduler::Fit fit = scheduler::Evaluate(here, worker->offer, step_us);
      scheduler::MoveQuestion question;
      question.rate_here = fit.steps_per_s * scheduler::ShareOf(static_cast<uint32_t>(worker->leases.size()) - 1);
      Worker* target = BestTarget(ref, *worker, &question.rate_there);
      if (target == nullptr) continue;
      question.residence_ms = (now.ns - task.run->lease->granted_ns) / kNanosPerMilli;
      if (t.max_steps > task.run->step) question.remaining_steps = t.max_steps - task.run->step;
      if (!scheduler::WorthMoving(question, policy)) continue;
      log::Info("moving a task to a better worker", {{"task", TaskId{job.id, ref.index}.ToString()},
                                                     {"epoch", task.run->epoch},
                                                     {"from", worker->info.name},
                                                     {"to", target->info.name}});
      Move(ref, target, now);
      if (++moves >= kMovesPerRebalance) return;
      break;  // one per worker and round: the next is judged by what this one changed
    }
  }
}

}  // namespace pillion::head
