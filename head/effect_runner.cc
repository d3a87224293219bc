#include "head/effect_runner.h"

#include <iterator>

#include "base/log.h"

namespace pillion::head {
namespace {

template <typename T>
void MoveTo(std::vector<T>* to, std::vector<T>* from) {
  to->insert(to->end(), std::make_move_iterator(from->begin()),
             std::make_move_iterator(from->end()));
  from->clear();
}

}  // namespace

EffectRunner::EffectRunner(store::RecordStore* records, store::CheckpointStore* checkpoints,
                           Outlets outlets, CrashPoints crash_points)
    : records_(records),
      checkpoints_(checkpoints),
      outlets_(std::move(outlets)),
      crash_points_(crash_points) {}

Status EffectRunner::CarryOut(Effects* effects) {
  for (const Outgoing& outgoing : effects->now) {
    crash_points_.Before(DurableEffect::kSendNow);
    outlets_.send(outgoing.peer, outgoing.message);
    crash_points_.After(DurableEffect::kSendNow);
  }
  for (Peer peer : effects->disconnects) {
    crash_points_.Before(DurableEffect::kDisconnect);
    outlets_.disconnect(peer);
    crash_points_.After(DurableEffect::kDisconnect);
  }
  if (!waiting_) {
    Status status = Write(effects->records);
    if (status.ok()) {
      Give(*effects);
      effects->Clear();
      return status;
    }
    waiting_ = true;
  }
  MoveTo(&held_.records, &effects->records);
  MoveTo(&held_.after_commit, &effects->after_commit);
  MoveTo(&held_.cleanups, &effects->cleanups);
  effects->Clear();
  return records_->error();
}

Status EffectRunner::Retry() {
  if (!waiting_) return Status::Ok();
  PILLION_RETURN_IF_ERROR(records_->Reopen());
  PILLION_RETURN_IF_ERROR(Write(held_.records));
  waiting_ = false;
  Give(held_);
  held_.Clear();
  return Status::Ok();
}

Status EffectRunner::Write(const std::vector<Record>& records) {
  if (records.empty()) return records_->error();
  batch_.Clear();
  for (const Record& record : records) {
    if (record.is_delete) {
      batch_.Delete(static_cast<uint8_t>(record.kind), record.key);
    } else {
      batch_.Put(static_cast<uint8_t>(record.kind), record.key, record.value);
    }
  }
  crash_points_.BeforeWrite(records);
  PILLION_RETURN_IF_ERROR(records_->Write(batch_));
  crash_points_.AfterWrite(records);
  return Status::Ok();
}

void EffectRunner::Give(const Effects& effects) {
  for (const Outgoing& outgoing : effects.after_commit) {
    crash_points_.Before(DurableEffect::kSendAfterCommit);
    outlets_.send(outgoing.peer, outgoing.message);
    crash_points_.After(DurableEffect::kSendAfterCommit);
  }
  for (const Cleanup& cleanup : effects.cleanups) {
    crash_points_.Before(EffectOf(cleanup));
    CleanUp(cleanup);
    crash_points_.After(EffectOf(cleanup));
  }
}

// A file that cannot be deleted costs space, nothing else: the next cleanup of its task or job
// finds it again.
void EffectRunner::CleanUp(const Cleanup& cleanup) {
  Status status;
  if (cleanup.whole_job) {
    status = checkpoints_->RemoveJob(cleanup.task.job);
  } else {
    std::vector<store::StoredCheckpoint> keep;
    for (const wire::CheckpointRef& ref : cleanup.keep) {
      store::StoredCheckpoint stored;
      stored.epoch = ref.epoch;
      stored.step = ref.step;
      keep.push_back(std::move(stored));
    }
    status = checkpoints_->Retain(cleanup.task, keep);
  }
  if (!status.ok()) {
    log::Warning("deleting old checkpoints",
                 {{"task", cleanup.task.ToString()}, {"error", status.ToString()}});
  }
}

}  // namespace pillion::head
