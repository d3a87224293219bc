// The host's side of taking turns: sleeps on control word and edge word together, runs the armed turn step by step,
// ends it when the next step no longer fits, and hands everything else to its client.
#ifndef PILLION_WORKER_HOST_TURN_LOOP_H_
#define PILLION_WORKER_HOST_TURN_LOOP_H_

#include <atomic>
#include <cstdint>

#include "api/board/board.h"
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
  bool HandleCommands();
  // Runs the armed turn when it is time for it; otherwise sleeps until something changes.
  void TakeTurnOrSleep(uint32_t control_seen);
  void Sleep(uint32_t control_seen, const std::atomic<uint32_t>* edge, uint32_t edge_seen);
  void RunTurn(uint32_t word, uint32_t edge);
  TurnEnd RunSteps(ActiveTurn& turn);
  bool IsForeseen(const ActiveTurn& turn) const;
  bool IsOver(const ActiveTurn& turn) const;
  bool RunOneStep(ActiveTurn& turn, int64_t now_ns, int64_t give_ns);
  void LearnStep(const ActiveTurn& turn, int64_t given_ns);
  void EndTurn(const ActiveTurn& turn, TurnEnd end);
  void RingDoorbell();

  ControlLayout* const control_;
  DoorbellLayout* const doorbell_;
  const board::Layout* const board_;
  TurnClient* const client_;
  StepEstimate estimate_;
  uint32_t commands_seen_ = 0;
  int64_t quiet_since_ns_ = 0;
  bool elastic_ = false;
  // What the present turn depends on, for stop_requested(): the board's edge word (0: outside of a bubble's turn;
  // a bubble's word is never 0) and the trainer's generation (turns without a trainer).
  std::atomic<uint32_t> turn_edge_{0};
  std::atomic<uint32_t> free_generation_{kNotFree};
  static constexpr uint32_t kNotFree = UINT32_MAX;
};

}  // namespace pillion::host

#endif  // PILLION_WORKER_HOST_TURN_LOOP_H_
