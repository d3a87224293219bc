// One annealing walk over partition, placement and list-scheduling keys together: every trial is a
// full reschedule.
#ifndef PILLION_PIPELINE_TUNER_WALKER_H_
#define PILLION_PIPELINE_TUNER_WALKER_H_

#include <cstdint>
#include <vector>

#include "pipeline/tuner/budget.h"
#include "pipeline/tuner/decoder.h"
#include "pipeline/tuner/problem.h"
#include "pipeline/tuner/random.h"

namespace pillion::pipeline::tuner {

// A point of the search.
struct Candidate {
  Shape shape;
  std::vector<Ticks> keys;     // [Operation], around the times at which the operations should start
  int32_t wait_penalty = 32;   // see Decoder::Run
  Ticks makespan = INT64_MAX;  // INT64_MAX: never decoded
};

// Keys that spread the micro-batches evenly: micro-batch b enters `period` ticks after the one
// before; I comes `input_lead` before its time, W `weight_delay` after it.
void SetSteadyKeys(const Problem& problem, Ticks period, Ticks input_lead, Ticks weight_delay,
                   Candidate* candidate);

// Not thread-safe.
class Walker {
 public:
  Walker(const Problem& problem, uint64_t seed);

  // Decodes the candidate and stands there. False when it does not fit.
  bool Stand(const Candidate& candidate);
  // Proposes changes until the budget is spent, while the temperature (in ticks) falls
  // geometrically from hot to cold with it. Stand first.
  void Walk(const Budget& budget, double hot, double cold);

  const Candidate& current() const { return current_; }
  const Candidate& best() const { return best_; }
  int64_t evaluations() const { return evaluations_; }  // schedules made, whole or broken off
  void ExtractBest(Schedule* schedule);

 private:
  void Propose();
  void Accept();
  // Changes of trial_; false when there is nothing to change.
  bool ShiftBoundary();
  bool Split();
  bool Merge();
  bool Place();
  bool SwapPlaces();
  bool AdvanceCritical();
  bool DelayCritical();
  bool ShiftKeys();
  bool SwapKeys();
  bool ChangePenalty();
  bool ToggleRecompute();

  int32_t RandomDevice() { return random_.Below(problem_.devices); }
  int32_t RandomStage();  // half of the time one of the critical chain
  Ticks RandomDistance();
  Ticks* KeysOf(int32_t stage, int32_t kind) {
    return &trial_.keys[static_cast<size_t>(stage * kKinds + kind) * problem_.microbatches];
  }
  int32_t StagesOn(int32_t device) const;

  const Problem& problem_;
  Random random_;
  Decoder decoder_;
  Table table_;
  Candidate current_, trial_, best_;
  int64_t evaluations_ = 0;
  // Of current_: what TraceCritical and the moves need.
  std::vector<Operation> before_, chain_;
};

}  // namespace pillion::pipeline::tuner

#endif  // PILLION_PIPELINE_TUNER_WALKER_H_
