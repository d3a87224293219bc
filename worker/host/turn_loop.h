// The host's side of taking turns: sleeps on control word and edge word together, runs the armed turn step by step,
// ends it when the next step no longer fits, and hands everything else to its client.
#ifndef PILLION_WORKER_HOST_TURN_LOOP_H_
#define PILLION_WORKER_HOST_TURN_LOOP_H_

#include <cstdint>
#include <memory>

#include "api/board/board.h"
#include "base/clock.h"
#include "worker/host/control_page.h"
#include "worker/host/step_estimate.h"

namespace pillion::host {

struct StepReport {
  uint64_t items = 0;
  bool more = true;  // false: done or failed; the loop takes no turn until SetReady(true)
};

// What a host plugs in. All calls come from the thread in TurnLoop::Run.
class TurnClient {
 public:
  virtual ~TurnClient() = default;
  // One step, at normal priority, inside a turn that ends in `time_left_ns`.
  virtual StepReport RunStep(int64_t time_left_ns) = 0;
  // Commands were posted (TurnEngine::PostCommand); called between turns, at idle priority, and also after every
  // two seconds without any event. Returns false to leave Run.
  virtual bool HandleCommands() = 0;
  // A turn has ended and the worker knows; at idle priority. For progress reports, Finish and the like.
  virtual void AfterTurn() {}
};

// Thread safety: one thread, except stop_requested(), which any thread of the host may call.
class TurnLoop {
 public:
  // `board` may be null (no trainer will ever come; tests). All three outlive the loop.
  TurnLoop(ControlLayout* control, DoorbellLayout* doorbell, const board::Layout* board, TurnClient* client);

  // Tells the worker whether the task is loaded and has a next step. Call it from HandleCommands or before Run.
  void SetReady(bool ready);
  // The task sizes its steps to the time left.
  void SetElastic(bool elastic);

  // Until HandleCommands returns false. The caller has attached the device (pinned the thread).
  void Run();

  // For StepContext::stop_requested: the stop flag is set, or the bubble of the present turn has closed.
  bool stop_requested() const;

 private:
  struct ActiveTurn;
  void TakeTurn(uint32_t word);
  bool WaitForTurnOrCommand();
  void RunTurn(ActiveTurn& turn);
  void EndTurn(const ActiveTurn& turn, TurnEnd end);
  void RingDoorbell();
  bool MayGoOn(const ActiveTurn& turn) const;

  ControlLayout* const control_;
  DoorbellLayout* const doorbell_;
  const board::Layout* const board_;
  TurnClient* const client_;
  StepEstimate estimate_;
  uint32_t commands_seen_ = 0;
  // The edge word of the present turn; 0 outside turns (a bubble's word is never 0).
  std::atomic<uint32_t> turn_edge_{0};
};

}  // namespace pillion::host

#endif  // PILLION_WORKER_HOST_TURN_LOOP_H_
