#include "tests/sim/sim_head.h"

#include <algorithm>

#include "head/records.h"

namespace pillion::sim {

using head::Effects;
using head::Record;
using head::RecordKind;

std::unique_ptr<head::Reactor> SimHead::Load(Effects* effects, bool planted) {
  head::ReactorOptions options;
  options.software_version = "sim";
  auto reactor = std::make_unique<head::Reactor>(options, effects);
  uint64_t number = 0;
  for (const auto& [key, value] : *disk_) {
    bool skip = planted && key.first == static_cast<uint8_t>(RecordKind::kTask) && ++number % 3 == 0;
    if (skip) continue;
    Status status = reactor->Load(static_cast<RecordKind>(key.first), key.second, value);
    PILLION_CHECK(status.ok(), status.ToString().c_str());
  }
  Status status = reactor->FinishLoad(Now());
  PILLION_CHECK(status.ok(), status.ToString().c_str());
  return reactor;
}

void SimHead::Start() {
  effects_.Clear();
  pending_.Clear();
  Effects again;
  std::unique_ptr<head::Reactor> second = Load(&again, bug_ == PlantedBug::kRecoveryDependsOnRun);
  reactor_ = Load(&effects_, false);
  writing_ = broken_ = woken_ = false;
  checker_->OnHeadStarted(reactor_->impl(), second->impl());
  pending_ = std::move(effects_);
  effects_.Clear();
  Apply(pending_.records);
  Finish();
}

void SimHead::Crash() {
  if (!alive()) return;
  if (writing_ && world_->random.Chance(0.5)) Apply(pending_.records);
  ++life_;
  reactor_.reset();
  inbox_.clear();
  requests_.clear();
  pending_.Clear();
  network_->CloseAllByHead();
}

void SimHead::OnMessage(uint64_t peer, wire::Role role, wire::Message message) {
  inbox_.push_back({peer, role, std::move(message), false});
  WakeUp();
}

void SimHead::OnPeerGone(uint64_t peer) {
  inbox_.push_back({peer, wire::Role::kClient, {}, true});
  WakeUp();
}

// Arranges for a turn: now when something is there, else at the next timer.
void SimHead::WakeUp() {
  if (writing_ || !alive()) return;
  int64_t when = inbox_.empty() ? reactor_->NextTimerNs() : world_->now_ns + 20'000;
  if (woken_ && woken_for_ns_ <= when) return;
  woken_ = true;
  woken_for_ns_ = when;
  uint64_t life = life_;
  world_->At(when, [this, life, when] {
    if (life != life_ || !alive() || writing_ || woken_for_ns_ != when) return;
    woken_ = false;
    Turn();
  });
}

void SimHead::Turn() {
  PlantBeforeTurn();
  std::deque<Input> inputs;
  inputs.swap(inbox_);
  for (Input& input : inputs) {
    if (input.gone) {
      reactor_->OnPeerLost(input.peer, Now());
      continue;
    }
    if (input.message.request_id != 0) requests_[{input.peer, input.message.request_id}] = input.message;
    PlantIn(&input);
    reactor_->OnMessage({input.peer, input.role, "user"}, std::move(input.message), Now());
    checker_->OnHeadTurn(reactor_->impl());
  }
  if (world_->now_ns >= reactor_->NextTimerNs()) reactor_->OnTick(Now());
  reactor_->EndTurn(Now());
  checker_->OnHeadTurn(reactor_->impl());
  Effects turn = std::move(effects_);
  effects_.Clear();
  SendAll(std::move(turn.now));
  for (head::Peer peer : turn.disconnects) network_->CloseByHead(peer);
  if (bug_ == PlantedBug::kAcknowledgeBeforeCommit) {
    auto is_grant = [](const head::Outgoing& out) { return std::holds_alternative<wire::Grants>(out.message.body); };
    auto replies = std::stable_partition(turn.after_commit.begin(), turn.after_commit.end(), is_grant);
    SendAll({replies, turn.after_commit.end()});
    turn.after_commit.erase(replies, turn.after_commit.end());
  }
  auto append = [](auto* to, auto* from) { std::move(from->begin(), from->end(), std::back_inserter(*to)); };
  append(&pending_.records, &turn.records);
  append(&pending_.after_commit, &turn.after_commit);
  append(&pending_.cleanups, &turn.cleanups);
  if (broken_) return WakeUp();  // the disk is being reopened
  Write();
}

void SimHead::Write() {
  if (pending_.records.empty()) return Finish();
  writing_ = true;
  uint64_t life = life_;
  world_->After(world_->random.Between(100'000, 2 * kMs), [this, life] {
    if (life != life_ || !alive()) return;
    writing_ = false;
    if (!world_->Fault(world_->scenario.write_errors)) {
      broken_ = false;
      Apply(pending_.records);
      return Finish();
    }
    if (world_->random.Chance(0.5)) Apply(pending_.records);  // applied, but reported as failed
    broken_ = true;
    reactor_->OnStoreError(ResourceExhausted("simulated: disk full"), Now());
    world_->After(world_->random.Between(200, 3'000) * kMs, [this, life] {
      if (life == life_ && alive() && broken_) Write();
    });
    WakeUp();
  });
}

void SimHead::Finish() {
  reactor_->OnCommitted(Now());
  Effects done = std::move(pending_);
  pending_.Clear();
  SendAll(std::move(done.after_commit));
  for (const head::Cleanup& cleanup : done.cleanups) CleanUp(cleanup);
  WakeUp();
}

void SimHead::Apply(const std::vector<Record>& records) {
  for (const Record& record : records) {
    auto key = std::make_pair(static_cast<uint8_t>(record.kind), record.key);
    bool is_task = record.kind == RecordKind::kTask && !record.is_delete;
    if (is_task && bug_ == PlantedBug::kLoseRecordSilently && world_->random.Chance(0.2)) continue;
    head::Task task;
    if (is_task && bug_ != PlantedBug::kNone) {
      (void)head::DecodeTask(record.value, &task);
      if (bug_ == PlantedBug::kGrantBeforeEpochIsDurable && task.state == wire::TaskState::kLeased) continue;
      if (bug_ == PlantedBug::kCheckpointGoesBack && task.run && task.run->committed_step > 0 && older_.count(key) > 0) {
        head::Task older;
        (void)head::DecodeTask(older_[key], &older);
        if (older.run && !IsFinal(task.state)) {  // everything is stored as it should be, but for the checkpoint
          task.run->committed_step = older.run->committed_step;
          task.run->checkpoints = std::move(older.run->checkpoints);
          (*disk_)[key] = head::EncodeTask(task);
          continue;
        }
      }
      older_.try_emplace(key, record.value);
    }
    if (record.is_delete) {
      disk_->erase(key);
    } else {
      (*disk_)[key] = record.value;
    }
  }
}

void SimHead::SendAll(std::vector<head::Outgoing> messages) {
  for (head::Outgoing& out : messages) {
    const wire::Message* request = nullptr;
    auto found = requests_.find({out.peer, out.message.request_id});
    if (out.message.request_id != 0 && found != requests_.end()) request = &found->second;
    if (PlantInReply(&out.message, request)) continue;
    checker_->OnSent(out.message, request);
    network_->ToNode(out.peer, std::move(out.message));
  }
}

void SimHead::CleanUp(const head::Cleanup& cleanup) {
  using Version = std::pair<Epoch, Step>;
  Version newest;
  for (const wire::CheckpointRef& kept : cleanup.keep) newest = std::max(newest, Version(kept.epoch, kept.step));
  for (auto file = files_->begin(); file != files_->end();) {
    const CheckpointFile& at = file->second;
    Version version(at.epoch, at.step);
    bool remove = cleanup.whole_job ? at.task.job == cleanup.task.job : at.task == cleanup.task;
    if (!cleanup.whole_job && !cleanup.keep.empty()) {
      bool kept = version > newest;
      for (const wire::CheckpointRef& keep : cleanup.keep) kept = kept || version == Version(keep.epoch, keep.step);
      if (bug_ == PlantedBug::kDeletesNeededFile && version == newest) kept = false;
      remove = remove && !kept;
    }
    file = remove ? files_->erase(file) : std::next(file);
  }
}

// ---- planted bugs ----------------------------------------------------------------------------------

void SimHead::PlantBeforeTurn() {
  if (bug_ != PlantedBug::kIllegalTransition) return;
  const head::Queue& queue = reactor_->impl().queue();
  for (const auto& [order, slot] : queue.by_order()) {
    auto* job = const_cast<head::Job*>(queue.job(slot));
    for (head::Task& task : job->tasks) {
      if (task.state != wire::TaskState::kSucceeded || task.first_edge != head::kNone32 || ++planted_ % 50 != 0) continue;
      task.state = wire::TaskState::kQueued;
      --job->counts[static_cast<size_t>(wire::TaskState::kSucceeded)];
      ++job->counts[static_cast<size_t>(wire::TaskState::kQueued)];
    }
  }
}

void SimHead::PlantIn(Input* input) {
  if (bug_ == PlantedBug::kOverCapacity) {
    if (auto* pull = std::get_if<wire::Pull>(&input->message.body)) pull->want += 2;
  }
  if (bug_ != PlantedBug::kNoFencing) return;
  auto* finish = std::get_if<wire::Finish>(&input->message.body);
  if (finish == nullptr) return;
  const head::Job* job = reactor_->impl().queue().FindJob(finish->task.job);
  if (job == nullptr || !job->tasks[finish->task.index].run || !job->tasks[finish->task.index].run->lease) return;
  head::Run* run = job->tasks[finish->task.index].run.get();
  for (const auto& [id, worker] : reactor_->impl().workers()) {  // as if neither epoch nor holder mattered
    if (worker->peer == input->peer) run->lease->worker = id;
  }
  finish->epoch = run->epoch;
}

// True when the message is swallowed.
bool SimHead::PlantInReply(wire::Message* message, const wire::Message* request) {
  if (bug_ == PlantedBug::kNeverEnds) {
    auto* grants = std::get_if<wire::Grants>(&message->body);
    if (grants == nullptr) return false;
    std::erase_if(grants->grants, [](const wire::Grant& grant) { return grant.task.index % 4 == 1; });
    return grants->grants.empty();
  }
  if (bug_ == PlantedBug::kRepeatGetsOtherAnswer && request != nullptr) {
    auto* verdict = std::get_if<wire::Verdict>(&message->body);
    auto* finish = std::get_if<wire::Finish>(&request->body);
    if (verdict != nullptr && finish != nullptr && verdict->status.ok() && finishes_[{finish->task, finish->epoch}]++ > 0) {
      verdict->status = Stale("planted");
    }
  }
  return false;
}

}  // namespace pillion::sim
