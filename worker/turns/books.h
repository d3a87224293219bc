// The books of one device: what became of each bubble's time. Pure: facts in, sums out. Each loss is computed from
// its own definition, never as what the others leave.
//
// One bubble with two turns, drawn to time:
//   open   first step                last step ends        usable end      foreseen end   close
//   |switching|step step|switching|step step|tail ..............|guard .........|miss ....|
#ifndef PILLION_WORKER_TURNS_BOOKS_H_
#define PILLION_WORKER_TURNS_BOOKS_H_

#include <cstdint>
#include <vector>

#include "worker/host/control_page.h"
#include "worker/turns/figures.h"

namespace pillion::turns {

// Why a bubble got no turn.
enum class Cause : uint8_t { kNone, kNoTask, kMemory, kShorterThanStep, kNotForeseen };

// What was known and decided before a bubble.
struct Plan {
  int64_t predicted_ns = 0;      // 0: nothing foreseen
  int64_t guard_ns = 0;
  int64_t median_ns = 0;         // of clean lengths; 0: unknown
  int64_t shortest_step_ns = 0;  // of the ready residents with memory; 0: none, or no step measured
  bool any_eligible = false;     // some resident was ready and had memory
  Cause cause = Cause::kNone;
};

struct TurnFacts {
  uint32_t resident = 0;
  host::TurnKind kind = host::TurnKind::kBubble;
  host::TurnEnd end = host::TurnEnd::kFull;
  uint32_t steps = 0;
  uint64_t units = 0;  // steps, or items of elastic tasks
  int64_t first_start_ns = 0, last_start_ns = 0, last_end_ns = 0, step_time_ns = 0;
  double solo_unit_ns = 0;
};

struct BubbleFacts {
  int64_t open_ns = 0, close_ns = 0;
  bool quiet = false;
  Plan plan;
  std::vector<TurnFacts> turns;  // in order of time
};

struct BubbleResult {
  double length_ns = 0, harvest_ns = 0, useful_ns = 0, intrusion_ns = 0;
  std::vector<double> harvest_by_turn_ns, useful_by_turn_ns;
  Losses losses;
  bool eligible = false;
  bool touched = false;     // a step ended so late that it may have delayed the closing edge
  uint32_t overruns = 0;
  double edge_to_step_ns = -1;  // of a turn armed beforehand; < 0: there was none

  double unexplained_ns() const;
};

// A step that ends later than this before the closing edge may have delayed it.
inline constexpr int64_t kTouchNs = 100'000;

BubbleResult Account(const BubbleFacts& bubble);

// The sum of losses.
double Total(const Losses& losses);
void Add(const Losses& more, Losses* to);

}  // namespace pillion::turns

#endif  // PILLION_WORKER_TURNS_BOOKS_H_
