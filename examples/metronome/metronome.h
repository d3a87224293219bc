// A stand-in for a pipeline-parallel trainer: computes, waits in bubbles, and marks them through the C ABI. Tests and
// benches share it.
#ifndef PILLION_EXAMPLES_METRONOME_METRONOME_H_
#define PILLION_EXAMPLES_METRONOME_METRONOME_H_

#include <cstdint>
#include <functional>
#include <random>

#include "pillion/trainer.h"

namespace pillion::metronome {

// Busy work counted in loops, so that whoever shares the core makes it take longer, as with a real trainer.
void Busy(uint64_t loops);
// Loops per millisecond on this thread's core: the median of many short pieces after `warm_up_ms` of work, because
// a core that was idle is slow at first.
double LoopsPerMs(int64_t warm_up_ms);

struct Options {
  double busy_ms = 20;      // before each bubble
  uint32_t bubbles = 1;     // per iteration
  double bubble_ms = 20;
  double jitter = 0;        // standard deviation of a bubble's length, as a share of it
  double drift = 0;         // growth of bubbles per iteration, as a share
  uint64_t seed = 1;
};

struct Iteration {
  uint64_t index = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t open_ns = 0, close_ns = 0;  // of its last bubble
  bool quiet = false;
};

class Metronome {
 public:
  // `board` may be null. The calling thread is pinned and calibrated by the caller.
  Metronome(const Options& options, double loops_per_ms, pillion_board* board);

  // One iteration. `in_bubble`, when given, is called right after each opening edge.
  Iteration Next(const std::function<void(int64_t open_ns, int64_t length_ns)>& in_bubble = nullptr);

 private:
  const Options options_;
  const uint64_t loops_;
  pillion_board* const board_;
  std::mt19937_64 random_;
  double scale_ = 1;
  uint64_t next_ = 0;
};

}  // namespace pillion::metronome

#endif  // PILLION_EXAMPLES_METRONOME_METRONOME_H_
