#include "tests/sim/sim_worker.h"

#include <algorithm>

namespace pillion::sim {

SimWorker::SimWorker(World* world, Network* network, Files* files, Checker* checker, int number)
    : world_(world),
      network_(network),
      files_(files),
      checker_(checker),
      number_(number),
      name_("host/cpu" + std::to_string(number)),
      residents_(1 + static_cast<uint32_t>(world->random.Below(3))),
      call_slots_(1 + static_cast<uint32_t>(world->random.Below(3))) {}

void SimWorker::Start() {
  ++life_;
  id_ = {0x3000u + static_cast<uint64_t>(number_), ++lives_};
  checker_->KnowCapacity(id_, residents_ + call_slots_);
  Connect();
  Tick();
}

void SimWorker::Crash() {
  ++life_;
  if (connection_ != 0) network_->CloseByNode(connection_);
  connection_ = 0;
  welcome_ = draining_ = false;
  held_.clear();
  reports_.clear();
  frozen_inbox_.clear();
  frozen_until_ns_ = 0;
  uint64_t life = life_;
  world_->After(world_->random.Between(500, 20'000) * kMs, [this, life] {
    if (life == life_) Start();
  });
}

void SimWorker::Freeze(int64_t until_ns) {
  frozen_until_ns_ = until_ns;
  uint64_t life = life_;
  world_->At(until_ns, [this, life] {
    if (life != life_ || world_->now_ns < frozen_until_ns_) return;
    std::deque<wire::Message> inbox;
    inbox.swap(frozen_inbox_);
    for (wire::Message& message : inbox) OnMessage(std::move(message));
    for (auto& [id, held] : held_) ScheduleStep(id);
  });
}

void SimWorker::Connect() {
  connection_ = network_->Connect(this, wire::Role::kWorker);
  welcome_ = false;
  if (connection_ != 0) return SayHello();
  uint64_t life = life_;
  world_->After(world_->random.Between(500, 2'000) * kMs, [this, life] {
    if (life == life_ && connection_ == 0) Connect();
  });
}

void SimWorker::SayHello() {
  wire::WorkerHello hello;
  hello.worker = id_;
  hello.name = name_;
  hello.device.name = "cpu" + std::to_string(number_);
  hello.programs = {"hash", "walk"};
  for (const auto& [id, held] : held_) hello.held.push_back({id, held.epoch, held.step, wire::HostState::kRunning});
  network_->ToHead(connection_, {next_request_++, std::move(hello)});
}

void SimWorker::OnDisconnected() {
  connection_ = 0;
  Connect();
}

// The worker's timer: heartbeats, pulls and everything that has not been answered yet.
void SimWorker::Tick() {
  uint64_t life = life_;
  world_->After(2 * kSecond + world_->random.Between(0, 100) * kMs, [this, life] {
    if (life == life_) Tick();
  });
  if (world_->now_ns < frozen_until_ns_ || connection_ == 0) return;
  if (!welcome_) return SayHello();  // the answer got lost
  wire::Heartbeat heartbeat;
  for (const auto& [id, held] : held_) heartbeat.info.leases.push_back(id);
  Send(std::move(heartbeat));
  for (const auto& [id, body] : reports_) network_->ToHead(connection_, {id, body});
  Pull();
}

void SimWorker::Send(wire::Body body) {
  if (connection_ != 0 && welcome_) network_->ToHead(connection_, {0, std::move(body)});
}

void SimWorker::Report(wire::Body body) {
  uint64_t id = next_request_++;
  reports_[id] = body;
  if (connection_ != 0 && welcome_) network_->ToHead(connection_, {id, std::move(body)});
}

uint32_t SimWorker::Running(bool calls) const {
  uint32_t count = 0;
  for (const auto& [id, held] : held_) count += (held.spec.kind == wire::TaskKind::kCall) == calls;
  return count;
}

void SimWorker::Pull() {
  if (draining_) return;
  wire::Pull pull;
  pull.held = static_cast<uint32_t>(held_.size());
  uint32_t calls = call_slots_ - std::min(call_slots_, Running(true));
  uint32_t others = residents_ - std::min(residents_, Running(false));
  // A planned move may have put a task where a call was meant: never ask beyond the whole.
  uint32_t whole = residents_ + call_slots_ - std::min(residents_ + call_slots_, pull.held);
  pull.want = std::min(calls + others, whole);
  pull.call_slots = std::min(calls, pull.want);
  Send(pull);
}

void SimWorker::OnMessage(wire::Message message) {
  if (world_->now_ns < frozen_until_ns_) {
    frozen_inbox_.push_back(std::move(message));
    return;
  }
  wire::Body& body = message.body;
  if (auto* welcome = std::get_if<wire::Welcome>(&body)) {
    for (const TaskId& id : welcome->drop) held_.erase(id);
    welcome_ = true;
    draining_ = false;
    for (const auto& [id, report] : reports_) network_->ToHead(connection_, {id, report});
    Pull();
  } else if (auto* grants = std::get_if<wire::Grants>(&body)) {
    for (const wire::Grant& grant : grants->grants) OnGrant(grant);
  } else if (auto* revoke = std::get_if<wire::Revoke>(&body)) {
    OnRevoke(*revoke);
  } else if (auto* drain = std::get_if<wire::Drain>(&body)) {
    draining_ = drain->drain;
    Pull();
  } else if (auto* verdict = std::get_if<wire::Verdict>(&body)) {
    OnVerdict(message.request_id, *verdict);
  } else if (reports_.count(message.request_id) > 0 &&
             std::holds_alternative<wire::NestedSubmit>(reports_[message.request_id])) {
    OnNestedReply(message);
  } else if (std::holds_alternative<wire::ErrorReply>(body)) {
    welcome_ = false;  // the head does not know this connection (any more)
    SayHello();
  }
}

void SimWorker::OnGrant(const wire::Grant& grant) {
  auto known = held_.find(grant.task);
  if (known != held_.end() && known->second.epoch >= grant.epoch) return;
  for (const auto& [id, body] : reports_) {  // its end is on the way to the head: this grant is an old one
    auto* finish = std::get_if<wire::Finish>(&body);
    if (finish != nullptr && finish->task == grant.task && finish->epoch >= grant.epoch) return;
  }
  Held held;
  held.epoch = grant.epoch;
  held.spec = grant.spec;
  held.inputs = grant.inputs;
  held.committed_step = grant.checkpoint.step;
  held.run = next_run_++;
  if (!LoadState(grant, &held)) {
    held_[grant.task] = held;
    return FinishTask(grant.task, &held_[grant.task], TaskFailed("no usable checkpoint"), wire::ReleaseCause::kAppFailure);
  }
  held_[grant.task] = std::move(held);
  ScheduleStep(grant.task);
}

// From the newest checkpoint that is not damaged; false when there is none although there should be.
bool SimWorker::LoadState(const wire::Grant& grant, Held* held) {
  held->step = 0;
  held->state = StateAt(grant.task, 0);
  if (!grant.checkpoint.exists()) return true;
  for (const wire::CheckpointRef* ref : {&grant.checkpoint, &grant.previous_checkpoint}) {
    if (!ref->exists()) {
      held->step = 0;  // the first one ever was damaged: from the start
      held->state = StateAt(grant.task, 0);
      return true;
    }
    bool damaged = world_->Fault(world_->scenario.damaged_checkpoints);
    if (!ref->path.empty() && (damaged || files_->count(ref->path) == 0)) continue;
    held->step = ref->step;
    held->state = ref->path.empty() ? std::stoull(ref->bytes) : files_->at(ref->path).content;
    return true;
  }
  return false;
}

void SimWorker::ScheduleStep(const TaskId& id) {
  uint64_t run = held_[id].run = next_run_++;
  uint64_t life = life_;
  bool is_call = held_[id].spec.kind == wire::TaskKind::kCall;
  world_->After(world_->random.Between(is_call ? 1 : 20, is_call ? 50 : 400) * kMs, [this, id, run, life] {
    auto held = held_.find(id);
    if (life != life_ || held == held_.end() || held->second.run != run) return;
    if (world_->now_ns < frozen_until_ns_) return;
    DoStep(id);
  });
}

void SimWorker::DoStep(const TaskId& id) {
  Held& held = held_[id];
  if (held.phase != Phase::kRunning) return;
  const Scenario& s = world_->scenario;
  double per_step = held.spec.kind == wire::TaskKind::kCall ? 1.0 : 0.1;
  if (world_->Fault(s.app_failures * per_step)) {
    return FinishTask(id, &held, TaskFailed("simulated"), wire::ReleaseCause::kAppFailure);
  }
  if (world_->Fault(s.out_of_memory * per_step)) {
    return FinishTask(id, &held, ResourceExhausted("simulated"), wire::ReleaseCause::kOutOfMemory);
  }
  if (world_->Fault(s.host_losses * per_step)) {
    return FinishTask(id, &held, Unavailable("simulated"), wire::ReleaseCause::kHostLost);
  }
  if (held.spec.kind == wire::TaskKind::kCall) return FinishTask(id, &held, {}, wire::ReleaseCause::kAppFailure);
  if (held.nested) return;
  if (held.step == 4 && id.index % 3 == 0) {  // the answer starts the next step
    held.nested = true;
    wire::NestedSubmit nested;
    nested.parent = id;
    nested.epoch = held.epoch;
    nested.tasks = NestedTasks();
    Report(std::move(nested));
    return;
  }
  TakeStep(id, &held);
}

void SimWorker::OnNestedReply(const wire::Message& message) {
  auto nested = std::get<wire::NestedSubmit>(reports_[message.request_id]);
  auto* error = std::get_if<wire::ErrorReply>(&message.body);
  if (error != nullptr && error->status.code() == StatusCode::kFailedPrecondition) {  // say hello first
    welcome_ = false;
    return SayHello();
  }
  reports_.erase(message.request_id);
  auto held = held_.find(nested.parent);
  if (held == held_.end() || held->second.epoch != nested.epoch || !held->second.nested) return;
  if (error != nullptr) {
    held_.erase(held);
    return Pull();
  }
  held->second.nested = false;
  TakeStep(nested.parent, &held->second);
}

void SimWorker::TakeStep(const TaskId& id, Held* step_of) {
  Held& held = *step_of;
  held.state = Mix(held.state, held.step);
  ++held.step;
  if (held.step >= held.spec.max_steps) return FinishTask(id, &held, {}, wire::ReleaseCause::kAppFailure);
  if (held.stop) {
    Save(id, &held);
    held.phase = Phase::kReleasing;
    wire::Release release;
    release.task = id;
    release.epoch = held.epoch;
    Report(release);
    return;
  }
  if (held.step % 7 == 0) {
    Save(id, &held);
  } else if (held.step % 3 == 0) {
    wire::Progress progress;
    progress.task = id;
    progress.epoch = held.epoch;
    progress.step = held.step;
    progress.state = wire::HostState::kRunning;
    progress.step_time_p50_us = 1000 + static_cast<uint64_t>(number_) * 500;
    Send(progress);
  }
  ScheduleStep(id);
}

// Nothing is committed at or below what is committed already: a task that fell back to the checkpoint before the
// newest one has to get past the newest first.
void SimWorker::Save(const TaskId& id, Held* held) {
  if (held->step <= held->committed_step) return;
  wire::Commit commit;
  commit.task = id;
  commit.checkpoint.epoch = held->epoch;
  commit.checkpoint.step = held->step;
  commit.checkpoint.checksum = held->state;
  if (id.index % 2 == 0) {
    commit.checkpoint.path = FilePath(id, held->epoch, held->step);
    (*files_)[commit.checkpoint.path] = {id, held->epoch, held->step, held->state};
    commit.checkpoint.length_bytes = 100'000;
  } else {
    commit.checkpoint.bytes = std::to_string(held->state);
    commit.checkpoint.length_bytes = commit.checkpoint.bytes.size();
  }
  Report(std::move(commit));
}

void SimWorker::FinishTask(const TaskId& id, Held* held, Status outcome, wire::ReleaseCause cause) {
  held->phase = Phase::kFinishing;
  wire::Finish finish;
  finish.task = id;
  finish.epoch = held->epoch;
  finish.step = std::max(held->step, held->committed_step);
  finish.cause = cause;
  if (outcome.ok()) {
    std::vector<std::string> inputs;
    for (size_t i = 0; i < held->spec.dependencies.size(); ++i) {
      if (held->spec.dependencies[i].argument >= 0 && i < held->inputs.size()) inputs.push_back(held->inputs[i]);
    }
    bool is_call = held->spec.kind == wire::TaskKind::kCall;
    finish.result = is_call ? ResultOf(id, held->spec, inputs) : std::to_string(held->state);
  }
  finish.outcome = std::move(outcome);
  Report(std::move(finish));
}

void SimWorker::OnRevoke(const wire::Revoke& revoke) {
  auto held = held_.find(revoke.task);
  if (held == held_.end() || held->second.epoch != revoke.epoch) return;
  if (!revoke.discard) {
    held->second.stop = true;
    return;
  }
  held_.erase(held);
  Pull();
}

void SimWorker::OnVerdict(uint64_t request_id, const wire::Verdict& verdict) {
  auto report = reports_.find(request_id);
  if (report == reports_.end()) return;
  bool ends = !std::holds_alternative<wire::Commit>(report->second);
  auto* commit = std::get_if<wire::Commit>(&report->second);
  auto held = held_.find(verdict.task);
  bool ours = held != held_.end() && held->second.epoch == verdict.epoch;
  if (ours && commit != nullptr && verdict.status.ok()) {
    held->second.committed_step = std::max(held->second.committed_step, commit->checkpoint.step);
  }
  // A commit that was overtaken by a later one of the same lease is stale without the lease being over.
  bool overtaken = ours && commit != nullptr && commit->checkpoint.step <= held->second.committed_step;
  bool over = ends || (!verdict.status.ok() && !overtaken);
  reports_.erase(report);
  if (!ours || !over) return;
  held_.erase(held);
  Pull();
}

}  // namespace pillion::sim
