#include "tests/sim/checker.h"

#include "head/records.h"

namespace pillion::sim {

using wire::TaskState;

const char* InvariantName(Invariant invariant) {
  switch (invariant) {
    case Invariant::kNothingAcknowledgedIsLost: return "nothing_acknowledged_is_lost";
    case Invariant::kLegalStates: return "legal_states";
    case Invariant::kOneResult: return "one_result";
    case Invariant::kEpochsGrow: return "epochs_grow";
    case Invariant::kCheckpointsNeverGoBack: return "checkpoints_never_go_back";
    case Invariant::kWithinCapacity: return "within_capacity";
    case Invariant::kRepliesAreIdempotent: return "replies_are_idempotent";
    case Invariant::kRecoveryIsIdempotent: return "recovery_is_idempotent";
    case Invariant::kEverythingEnds: return "everything_ends";
  }
  return "unknown";
}

void Checker::Fail(Invariant invariant, std::string text) {
  violations_.push_back({invariant, std::move(text)});
  world_->stopped = true;
}

void Checker::OnSent(const wire::Message& message, const wire::Message* request) {
  const wire::Body& body = message.body;
  if (auto* grants = std::get_if<wire::Grants>(&body)) {
    for (const wire::Grant& grant : grants->grants) OnGrant(grant);
    return;
  }
  if (request == nullptr) return;
  if (std::holds_alternative<wire::SubmitReply>(body)) {
    const auto& chunk = std::get<wire::SubmitChunk>(request->body);
    if (chunk.last) acknowledged_.insert(chunk.job);
  } else if (auto* verdict = std::get_if<wire::Verdict>(&body)) {
    OnVerdict(*verdict, std::get_if<wire::Finish>(&request->body), std::get_if<wire::Commit>(&request->body));
  } else if (auto* batch = std::get_if<wire::VerdictBatch>(&body)) {
    const auto& finishes = std::get<wire::FinishBatch>(request->body).finishes;
    if (batch->verdicts.size() != finishes.size()) {
      return Fail(Invariant::kRepliesAreIdempotent, "a batch got another number of verdicts");
    }
    for (size_t i = 0; i < finishes.size(); ++i) OnVerdict(batch->verdicts[i], &finishes[i], nullptr);
  } else if (auto* nested = std::get_if<wire::NestedReply>(&body)) {
    const auto& asked = std::get<wire::NestedSubmit>(request->body);
    auto [known, is_new] = nested_.try_emplace({asked.parent, asked.batch}, nested->first_index);
    if (!is_new && known->second != nested->first_index) {
      Fail(Invariant::kRepliesAreIdempotent, "a batch of " + asked.parent.ToString() + " was added twice");
    }
  } else if (auto* reply = std::get_if<wire::TaskReply>(&body)) {
    OnInfo(reply->task);
  } else if (std::holds_alternative<wire::CountReply>(body)) {
    if (auto* cancel = std::get_if<wire::CancelTasks>(&request->body)) {
      std::set<uint32_t>& indices = cancelled_[cancel->job];
      if (!cancel->indices.empty()) {
        indices.insert(cancel->indices.begin(), cancel->indices.end());
      } else {
        for (uint32_t i = 0; i < jobs_.at(cancel->job)->specs.size(); ++i) indices.insert(i);
      }
    }
  }
}

void Checker::OnGrant(const wire::Grant& grant) {
  Told& told = told_[grant.task];
  std::string name = grant.task.ToString();
  if (grant.epoch <= told.granted) {
    return Fail(Invariant::kEpochsGrow, name + " is granted with epoch " + std::to_string(grant.epoch) + " after " +
                                            std::to_string(told.granted));
  }
  told.granted = grant.epoch;
  auto record = disk_->find({static_cast<uint8_t>(head::RecordKind::kTask), head::TaskKey(grant.task.job, grant.task.index)});
  head::Task stored;
  if (record == disk_->end() || !head::DecodeTask(record->second, &stored).ok() || !stored.run ||
      stored.run->epoch < grant.epoch) {
    return Fail(Invariant::kEpochsGrow, name + ": epoch " + std::to_string(grant.epoch) + " left before it was on disk");
  }
  if (told.is_final) return Fail(Invariant::kLegalStates, name + " is granted after it has ended");
  if (grant.checkpoint.step < told.committed) {
    return Fail(Invariant::kCheckpointsNeverGoBack,
                name + " is granted from step " + std::to_string(grant.checkpoint.step) + " although step " +
                    std::to_string(told.committed) + " was acknowledged");
  }
  if (grant.checkpoint.exists()) CheckFile(grant.task, grant.checkpoint);
}

void Checker::CheckFile(const TaskId& task, const wire::CheckpointRef& checkpoint) {
  if (!checkpoint.path.empty() && files_->count(checkpoint.path) == 0) {
    Fail(Invariant::kNothingAcknowledgedIsLost, "the checkpoint file " + checkpoint.path + " is gone");
  }
}

void Checker::OnVerdict(const wire::Verdict& verdict, const wire::Finish* finish, const wire::Commit* commit) {
  std::string name = verdict.task.ToString();
  Told& told = told_[verdict.task];
  if (commit != nullptr && verdict.status.ok()) {
    told.committed = std::max(told.committed, commit->checkpoint.step);
  }
  if (finish == nullptr) return;
  // A failure may be stale once another lease has come after it; a success stays ok for ever.
  auto key = std::make_tuple(finish->task, finish->epoch, finish->outcome.ok());
  bool still_newest = told.granted == finish->epoch;
  if (!verdict.status.ok()) {
    if (accepted_.count(key) > 0 && (finish->outcome.ok() || still_newest)) {
      Fail(Invariant::kRepliesAreIdempotent, "the finish of " + name + " was ok once and is now " + verdict.status.ToString());
    }
    return;
  }
  accepted_.insert(key);
  if (!finish->outcome.ok()) return;
  if (told.finished != 0 && told.finished != finish->epoch) {
    return Fail(Invariant::kOneResult, name + " has been finished by epochs " + std::to_string(told.finished) + " and " +
                                           std::to_string(finish->epoch));
  }
  told.finished = finish->epoch;
  if (told.granted > finish->epoch) {
    return Fail(Invariant::kOneResult, "the finish of " + name + " by epoch " + std::to_string(finish->epoch) +
                                           " was taken although epoch " + std::to_string(told.granted) + " has been granted");
  }
  told.is_final = true;
  told.state = TaskState::kSucceeded;
  told.result = finish->result;
}

void Checker::OnInfo(const wire::TaskInfo& info) {
  if (!IsFinal(info.state)) return;
  std::string name = info.task.ToString();
  Told& told = told_[info.task];
  if (told.is_final && (told.state != info.state || (info.state == TaskState::kSucceeded && told.result != info.result))) {
    return Fail(Invariant::kOneResult, name + " was " + std::string(TaskStateName(told.state)) + " and is now " +
                                           std::string(TaskStateName(info.state)));
  }
  told.is_final = true;
  told.state = info.state;
  told.result = info.result;
  if (info.state == TaskState::kSucceeded && info.result != jobs_.at(info.task.job)->Expected(info.task.index)) {
    Fail(Invariant::kOneResult, name + " has a wrong result");
  }
}

void Checker::OnHeadTurn(const head::Reactor::Impl& head) {
  for (const JobId& id : acknowledged_) {
    const head::Job* job = head.queue().FindJob(id);
    if (job == nullptr) return Fail(Invariant::kNothingAcknowledgedIsLost, "job " + id.ToString() + " is gone");
    size_t submitted = jobs_.at(id)->specs.size(), nested = 2 * job->nested.size();
    if (job->tasks.size() != submitted + nested) {
      return Fail(Invariant::kNothingAcknowledgedIsLost, "job " + id.ToString() + " has lost tasks or has too many");
    }
  }
  for (const auto& [batch, first] : nested_) {
    const head::Job* job = head.queue().FindJob(batch.first.job);
    auto known = job->nested.find({batch.first.index, batch.second});
    if (known == job->nested.end() || known->second.first != first) {
      return Fail(Invariant::kNothingAcknowledgedIsLost, "a batch of " + batch.first.ToString() + " is gone");
    }
  }
  for (const auto& [order, slot] : head.queue().by_order()) CheckJob(*head.queue().job(slot));
  for (const auto& [id, worker] : head.workers()) {
    auto known = capacity_.find(id);
    if (known != capacity_.end() && worker->leases.size() > known->second) {
      Fail(Invariant::kWithinCapacity, worker->info.name + " holds " + std::to_string(worker->leases.size()) + " leases of " +
                                           std::to_string(known->second));
    }
  }
}

void Checker::CheckJob(const head::Job& job) {
  uint64_t counts[7] = {};
  for (uint32_t i = 0; i < job.tasks.size(); ++i) {
    ++counts[static_cast<size_t>(job.tasks[i].state)];
    CheckTask(job, i);
  }
  for (size_t state = 0; state < 7; ++state) {
    if (counts[state] != job.counts[state]) Fail(Invariant::kLegalStates, "the counts of job " + job.id.ToString() + " are wrong");
  }
}

void Checker::CheckTask(const head::Job& job, uint32_t index) {
  const head::Task& task = job.tasks[index];
  TaskId id{job.id, index};
  std::string name = id.ToString();
  Epoch epoch = task.run ? task.run->epoch : 0;
  Step committed = task.run ? task.run->committed_step : 0;

  bool has_lease = task.run && task.run->lease;
  if (has_lease != (task.state == TaskState::kLeased)) Fail(Invariant::kLegalStates, name + ": lease and state differ");
  bool unmet = false, failed = false;
  const std::vector<wire::TaskSpec>& specs = jobs_.at(job.id)->specs;
  for (const wire::Dependency& d :
       index < specs.size() ? specs[index].dependencies : head::DependenciesOf(job, index)) {
    TaskState state = job.tasks[d.index].state;
    unmet = unmet || state != TaskState::kSucceeded;
    failed = failed || (IsFinal(state) && state != TaskState::kSucceeded);
  }
  bool runs = task.state == TaskState::kQueued || task.state == TaskState::kLeased || task.state == TaskState::kSucceeded;
  if (runs && unmet) Fail(Invariant::kLegalStates, name + " goes before its dependencies");
  if (task.state == TaskState::kWaiting && (!unmet || failed)) Fail(Invariant::kLegalStates, name + " waits for nothing");
  if (task.state == TaskState::kSkipped && !failed) Fail(Invariant::kLegalStates, name + " is skipped without reason");

  auto [position, is_new] = seen_.try_emplace(id);
  Seen& seen = position->second;
  if (!is_new) {
    if (IsFinal(seen.state) && seen.state != task.state) {
      Fail(Invariant::kLegalStates, name + " went from " + std::string(TaskStateName(seen.state)) + " to " +
                                        std::string(TaskStateName(task.state)));
    }
    if (task.state == TaskState::kWaiting && seen.state != TaskState::kWaiting) {
      Fail(Invariant::kLegalStates, name + " went back to waiting");
    }
    if (epoch < seen.epoch) Fail(Invariant::kEpochsGrow, name + ": the epoch fell");
    if (committed < seen.committed) Fail(Invariant::kCheckpointsNeverGoBack, name + ": the checkpoint went back");
  }
  seen = {task.state, epoch, committed};

  auto known = told_.find(id);
  if (known == told_.end()) {
    auto cancelled = cancelled_.find(job.id);
    if (cancelled != cancelled_.end() && cancelled->second.count(index) > 0 && !IsFinal(task.state)) {
      Fail(Invariant::kNothingAcknowledgedIsLost, name + " was cancelled and runs again");
    }
    return;
  }
  const Told& told = known->second;
  if (epoch < told.granted) Fail(Invariant::kEpochsGrow, name + ": the epoch fell below what was granted");
  if (told.is_final && task.state != told.state) {
    Fail(Invariant::kNothingAcknowledgedIsLost, name + " was said to be " + std::string(TaskStateName(told.state)) + " and is " +
                                                    std::string(TaskStateName(task.state)));
  }
  if (told.is_final && told.state == TaskState::kSucceeded && task.run && task.run->result != told.result) {
    Fail(Invariant::kOneResult, name + " has another result than was told");
  }
  if (committed < told.committed) {
    Fail(Invariant::kCheckpointsNeverGoBack, name + ": step " + std::to_string(told.committed) + " was acknowledged, the newest is " +
                                                 std::to_string(committed));
  }
  auto cancelled = cancelled_.find(job.id);
  if (cancelled != cancelled_.end() && cancelled->second.count(index) > 0 && !IsFinal(task.state)) {
    Fail(Invariant::kNothingAcknowledgedIsLost, name + " was cancelled and runs again");
  }
}

namespace {

std::string Describe(const head::Queue& queue) {
  std::string text;
  for (const auto& [order, slot] : queue.by_order()) {
    const head::Job& job = *queue.job(slot);
    text += job.id.ToString() + " " + std::to_string(order) + ":";
    for (const head::Task& task : job.tasks) text += head::EncodeTask(task) + std::to_string(task.unmet) + ",";
  }
  return text;
}

}  // namespace

void Checker::OnHeadStarted(const head::Reactor::Impl& head, const head::Reactor::Impl& again) {
  seen_.clear();
  if (Describe(head.queue()) != Describe(again.queue())) {
    Fail(Invariant::kRecoveryIsIdempotent, "loading the same records twice gave different states");
  }
  OnHeadTurn(head);
}

}  // namespace pillion::sim
