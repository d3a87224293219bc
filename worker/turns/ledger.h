// Running totals of one device, and the newest events for its timeline. Not thread-safe; pure.
#ifndef PILLION_WORKER_TURNS_LEDGER_H_
#define PILLION_WORKER_TURNS_LEDGER_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "worker/turns/books.h"
#include "worker/turns/figures.h"
#include "worker/turns/slowdown.h"

namespace pillion::turns {

class Ledger {
 public:
  explicit Ledger(uint32_t timeline_events) : timeline_events_(timeline_events) {}

  // A bubble of a harvesting iteration.
  void AddBubble(const BubbleResult& result, uint32_t steps);
  void AddIteration(bool quiet, int64_t duration_ns);
  void AddFreeTurn(const TurnFacts& turn);
  void AddMissed(uint64_t bubbles) { sums_.bubbles_missed += bubbles; }
  void AddTrainerRestart();
  void AddEvent(TimelineEvent event);
  void Reset();

  // All of DeviceFigures but the controller's state.
  DeviceFigures Figures() const;
  std::vector<TimelineEvent> Timeline() const { return {timeline_.begin(), timeline_.end()}; }

 private:
  static constexpr size_t kLatencies = 4096;  // newest kept for the percentiles

  const uint32_t timeline_events_;
  DeviceFigures sums_;
  double quiet_sum_ns_ = 0;
  SlowdownMeter slowdown_;
  std::vector<float> edge_to_step_us_;
  size_t next_latency_ = 0;
  std::deque<TimelineEvent> timeline_;
};

}  // namespace pillion::turns

#endif  // PILLION_WORKER_TURNS_LEDGER_H_
