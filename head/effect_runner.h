// Carries out what a turn wants (head/effects.h), in the order that effects.h promises, over a
// store that may fail.
#ifndef PILLION_HEAD_EFFECT_RUNNER_H_
#define PILLION_HEAD_EFFECT_RUNNER_H_

#include <functional>

#include "head/crash_points.h"
#include "head/effects.h"
#include "store/checkpoint_store.h"
#include "store/store.h"

namespace pillion::head {

// The loop thread's. The stores outlive it.
class EffectRunner {
 public:
  struct Outlets {
    std::function<void(Peer, const wire::Message&)> send;
    std::function<void(Peer)> disconnect;
  };
  EffectRunner(store::RecordStore* records, store::CheckpointStore* checkpoints, Outlets outlets,
               CrashPoints crash_points);

  // Clears *effects. Ok: everything is done, durable and sent. Otherwise the store's error: what
  // takes away has been sent, the rest waits behind earlier turns for a Retry that succeeds.
  Status CarryOut(Effects* effects);

  // Reopens the store and does what waits. Ok when nothing waits any more.
  Status Retry();

  bool waiting() const { return waiting_; }

 private:
  Status Write(const std::vector<Record>& records);
  void Give(const Effects& effects);
  void CleanUp(const Cleanup& cleanup);

  store::RecordStore* const records_;
  store::CheckpointStore* const checkpoints_;
  const Outlets outlets_;
  CrashPoints crash_points_;
  store::Batch batch_;
  bool waiting_ = false;
  Effects
      held_;  // while waiting_: records, after_commit and cleanups of all turns since the failure
};

}  // namespace pillion::head

#endif  // PILLION_HEAD_EFFECT_RUNNER_H_
