// TurnEngine: decides whose turn each bubble of one device is. It owns the device's bubble thread (pinned to the
// core on cpu devices), which arms the next bubble in the tail of the present one, hands tails to tasks with shorter
// steps, watches for overruns, and keeps the books.
//
// Thread safety: all public methods may be called from any thread. They take one lock that the bubble thread holds for
// microseconds of its own time; beside a trainer it may hold it for one of the trainer's compute phases, because it
// keeps its books in the idle class. Do not call them from OverrunCallback.
#ifndef PILLION_WORKER_TURNS_TURN_ENGINE_H_
#define PILLION_WORKER_TURNS_TURN_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/board/board.h"
#include "base/status.h"
#include "worker/host/control_page.h"
#include "worker/turns/figures.h"

namespace pillion::turns {

using ResidentId = uint32_t;

struct EngineOptions {
  int core = -1;                        // the bubble thread is pinned to it; < 0: not pinned
  double overhead_budget = 0.005;       // intrusion per iteration time that the operator allows
  uint32_t quiet_one_in = 50;           // one iteration of so many runs without side work; 0: none
  bool run_without_trainer = true;      // --without-trainer=run | wait
  int64_t free_slice_ns = 20'000'000;   // length of a turn without a trainer
  int64_t stop_grace_ns = 2'000'000;    // overrun after which a step is asked to stop; see OverrunCallback
  int64_t enforce_after_ns = 20'000'000;  // a host that only waits for a busy core must not be taken for a rogue
  uint32_t timeline_events = 1 << 16;   // newest events kept; 0: no timeline
};

struct ResidentOptions {
  std::string name;                // lane in the timeline
  double value = 1.0;              // best first, when several fit; equal values take turns
  int64_t step_hint_ns = 0;        // step time known from other runs of the program; 0: unknown
  double solo_unit_ns = 0;         // solo time of one step (elastic: one item) when known; 0: measured here
  uint64_t memory_bytes = 0;
};

// A step outlasted its bubble by two graces and enforce_after_ns (or twice its usual length, if that is longer),
// although the stop flag was raised after the first grace. Called once per such step from the bubble thread, which
// waits for it: SIGSTOP the process and hand the rest to another thread, RemoveResident included. The resident gets no
// more turns.
using OverrunCallback = std::function<void(ResidentId, int64_t overrun_ns)>;

class TurnEngine {
 public:
  // Takes the board's worker lock: kUnavailable when another worker serves the device.
  static Result<std::unique_ptr<TurnEngine>> Start(const EngineOptions& options, std::unique_ptr<board::Board> board,
                                                   OverrunCallback overran);
  virtual ~TurnEngine() = default;  // ends the bubble thread; hosts simply get no more turns

  // The page that hosts of this device ring; pass its descriptor to each.
  virtual std::shared_ptr<host::DoorbellPage> doorbell() = 0;

  // The host gets turns from when it says that it is ready. kResourceExhausted over limits::kResidentsPerDevice.
  virtual Result<ResidentId> AddResident(std::shared_ptr<host::ControlPage> page, ResidentOptions options) = 0;
  // Also for hosts that died. Its figures stay in the totals.
  virtual void RemoveResident(ResidentId id) = 0;

  // Paused: no turn begins any more. A turn that runs ends after its present step. Returns whether the host is out
  // of its turn before `wait_ns` have passed.
  virtual bool Pause(ResidentId id, int64_t wait_ns) = 0;
  virtual void Resume(ResidentId id) = 0;
  // Asks the running step to return at its next item boundary (stop_requested()); cleared by Resume.
  virtual void RequestStop(ResidentId id) = 0;
  virtual void SetValue(ResidentId id, double value) = 0;
  // Memory that the trainer will still claim, or that is missing: tasks that need more than `bytes` get no turns
  // and their bubbles are counted as lost to memory.
  virtual void SetFreeMemory(uint64_t bytes) = 0;
  // A message waits on the host's socket: ends its turn after the present step and wakes it.
  virtual void PostCommand(ResidentId id) = 0;

  virtual Capacity GetCapacity() const = 0;
  virtual DeviceFigures GetFigures() const = 0;
  virtual Result<ResidentFigures> GetResidentFigures(ResidentId id) const = 0;
  // The newest events, oldest first.
  virtual std::vector<TimelineEvent> GetTimeline() const = 0;
  // Restarts all figures (not the forecast): benches call it after warm-up.
  virtual void ResetFigures() = 0;
};

}  // namespace pillion::turns

#endif  // PILLION_WORKER_TURNS_TURN_ENGINE_H_
