// What the turn engine reports: plain values, defined in DESIGN "What is reported". All sums cover harvesting
// iterations only; quiet iterations are in no numerator and no denominator but the slowdown's.
#ifndef PILLION_WORKER_TURNS_FIGURES_H_
#define PILLION_WORKER_TURNS_FIGURES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace pillion::turns {

struct SlotCapacity {
  uint32_t p10_us = 0, p50_us = 0, p90_us = 0;
};

// What a capacity announcement says of the bubbles.
struct Capacity {
  bool trainer_attached = false;
  uint32_t iteration_period_us = 0;  // 0: no trainer, or not known yet
  uint32_t guard_us = 0;
  std::vector<SlotCapacity> slots;
};

struct Interval {
  double mean = 0, low = 0, high = 0;
  bool known = false;  // false: too few samples
};

// Bubble time lost, by cause, in ns; each is measured on its own, so that what they leave unexplained says whether
// the books are right.
struct Losses {
  double no_task_ns = 0;          // no resident, or none ready
  double memory_ns = 0;           // the ready ones need more memory than there is
  double shorter_than_step_ns = 0;  // the whole bubble, as foreseen, is shorter than any step
  double guard_ns = 0;            // held back before the foreseen end
  double tail_ns = 0;             // what is left before the guard is shorter than any step
  double switching_ns = 0;        // edge to first step, between steps, between turns
  double forecast_miss_ns = 0;    // beyond the foreseen end, not foreseen at all, or a step that outlasted it
};

struct DeviceFigures {
  uint64_t iterations = 0;        // harvesting
  uint64_t quiet_iterations = 0;
  uint64_t bubbles = 0;
  double quiet_iteration_ns = 0;  // means
  double harvesting_iteration_ns = 0;
  double iteration_time_ns = 0;   // sums
  double bubble_ns = 0;
  double harvest_ns = 0;          // inside steps that ended within their bubble
  double eligible_bubble_ns = 0;  // of bubbles long enough for one step of some ready resident with memory
  double eligible_harvest_ns = 0;
  double useful_ns = 0;           // units of work done in bubbles × solo time of the unit
  double intrusion_ns = 0;
  double free_ns = 0;             // inside steps while no trainer was attached
  uint64_t steps = 0;
  uint64_t overruns = 0;          // steps that outlasted their bubble
  Losses losses;
  double unexplained_ns = 0;      // bubble_ns − harvest_ns − all losses
  Interval slowdown;              // against quiet iterations of the same run
  double edge_to_step_p50_us = 0, edge_to_step_p99_us = 0;
  double guard_us = 0, quantile = 0;  // where the forecast's controller stands
  uint64_t bubbles_missed = 0;    // left the board's ring before they were counted
  uint64_t trainer_restarts = 0;
};

struct ResidentFigures {
  bool ready = false, in_turn = false;
  uint64_t steps = 0, items = 0;
  double step_estimate_ns = 0;
  double solo_unit_ns = 0;        // 0: not measured yet
  double harvest_ns = 0, useful_ns = 0, free_ns = 0;
  uint64_t overruns = 0;
};

struct TimelineEvent {
  enum class Kind : uint8_t { kIteration, kQuietIteration, kBubble, kTurn };
  Kind kind = Kind::kBubble;
  int64_t start_ns = 0, end_ns = 0;
  uint64_t iteration = 0;
  uint32_t slot = 0;
  uint32_t steps = 0;
  uint32_t resident = 0;          // kTurn: ResidentId
  std::string name;               // kTurn: the resident's
};

}  // namespace pillion::turns

#endif  // PILLION_WORKER_TURNS_FIGURES_H_
