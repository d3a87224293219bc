// The tasks that are resident on one device, and the choice among them. Not thread-safe.
#ifndef PILLION_WORKER_TURNS_RESIDENTS_H_
#define PILLION_WORKER_TURNS_RESIDENTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "worker/host/control_page.h"
#include "worker/turns/books.h"
#include "worker/turns/turn_engine.h"

namespace pillion::turns {

// Solo time of one unit of a task's work: the mean over its turns without a trainer when there were any, else a low
// quantile of what its turns in bubbles took, which flatters no one: slowed units do not raise it.
class SoloTime {
 public:
  void Observe(bool free, double unit_ns);
  double unit_ns() const { return unit_ns_; }

 private:
  static constexpr size_t kWindow = 64;
  std::vector<double> window_;
  size_t next_ = 0;
  bool any_free_ = false;
  double unit_ns_ = 0;
};

// What a turn is given.
struct TurnOrder {
  host::TurnKind kind = host::TurnKind::kBubble;
  uint32_t edge = 0;
  uint32_t slot = 0;
  uint64_t iteration = 0;
  uint32_t trainer_generation = 0;
  int64_t budget_ns = 0;
  int64_t deadline_ns = 0;
  int64_t expected_open_ns = 0;
  bool afresh = false;
};

// A resident whose step seems longer than every bubble is tried again after so long, and then after twice as long
// each time: a stall may have made it seem so, and nothing else would ever show that it was one.
inline constexpr int64_t kFirstRetryNs = 2'000'000'000;
inline constexpr int64_t kLastRetryNs = 300'000'000'000;

class Resident {
 public:
  Resident(ResidentId id, std::shared_ptr<host::ControlPage> page, ResidentOptions options);

  ResidentId id() const { return id_; }
  const ResidentOptions& options() const { return options_; }
  void set_value(double value) { options_.value = value; }

  bool ready() const;
  bool elastic() const;
  bool in_turn() const;              // the host has taken a turn and not ended it
  int64_t step_start_ns() const;     // 0: between steps
  int64_t step_need_ns() const;      // 0: not known

  // Gives the turn to the host; false when the host still is in one.
  bool Arm(const TurnOrder& order);
  // Takes it back; false when the host has taken it.
  bool Disarm();
  // The facts of the turn that was armed last when the host has ended it. A record that cannot be true counts as a
  // turn without steps.
  std::optional<TurnFacts> Collect() const;

  void SetPaused(bool paused);
  void SetStop(bool stop);
  void PostCommand();

  ResidentFigures Figures() const;

  // Kept by the engine.
  bool paused = false;
  bool barred = false;           // ignored the stop flag
  uint32_t missed_in_row = 0;
  uint64_t last_served = 0;
  int64_t last_turn_ns = 0;      // when a turn was armed last
  int64_t retry_after_ns = kFirstRetryNs;
  uint32_t no_tail_edge = 0;     // its turn in this bubble ended without a step
  double harvest_ns = 0, useful_ns = 0, free_ns = 0;
  uint64_t overruns = 0;
  SoloTime solo;

 private:
  host::ControlLayout& layout() const { return **page_; }
  void Wake();

  const ResidentId id_;
  const std::shared_ptr<host::ControlPage> page_;
  ResidentOptions options_;
  uint32_t turn_id_ = 0;
  host::TurnKind kind_ = host::TurnKind::kBubble;
};

// What can be done with `usable_ns` of the device.
struct Choice {
  Resident* resident = nullptr;   // null: see `cause`
  bool afresh = false;            // its step did not seem to fit: a retry
  Cause cause = Cause::kNone;
  bool any_eligible = false;      // some resident is ready and has memory
  int64_t shortest_step_ns = 0;   // of those
};

// The best resident whose next step fits: who came to its last turns, then the highest value, then who waited
// longest. One whose step time is not known, or due for a retry, fits only when `may_try`, and then goes first: its
// first steps are its profile, without which it could never be given a tail.
// `not_in_edge`: leave out whoever ended a turn without a step in this bubble.
Choice Choose(const std::vector<std::unique_ptr<Resident>>& residents, int64_t usable_ns, uint64_t free_memory_bytes,
              bool may_try, uint32_t not_in_edge, int64_t now_ns);

}  // namespace pillion::turns

#endif  // PILLION_WORKER_TURNS_RESIDENTS_H_
