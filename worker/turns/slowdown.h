// The always-on A/B: iteration times of harvesting iterations against quiet ones of the same run. Pure.
#ifndef PILLION_WORKER_TURNS_SLOWDOWN_H_
#define PILLION_WORKER_TURNS_SLOWDOWN_H_

#include <cstdint>
#include <deque>

#include "worker/turns/figures.h"

namespace pillion::turns {

// Each block of quiet iterations is compared with the harvesting iterations before and after it, so that a machine
// whose speed drifts does not show as slowdown. A block's first iteration is left out: its predecessor's side work
// may still be felt in it. Iterations that lasted more than thrice the usual are left out on both sides alike.
class SlowdownMeter {
 public:
  // Keeps the ratios of the newest blocks.
  explicit SlowdownMeter(size_t blocks_kept = kMostBlocks);

  void Observe(bool quiet, double duration_ns);
  void Forget();  // another trainer, or figures restarted

  // Mean slowdown with its 95 % interval (Student's t over the blocks); known from two blocks on.
  Interval Estimate() const;
  size_t blocks() const { return ratios_.size(); }
  double quiet_mean_ns() const { return quiet_count_ == 0 ? 0 : quiet_sum_ns_ / static_cast<double>(quiet_count_); }

  static constexpr size_t kMostBlocks = 4096;
  static constexpr size_t kNeighbours = 16;  // harvesting iterations on each side of a block

 private:
  bool IsUsual(double duration_ns);
  void Complete();

  const size_t blocks_kept_;
  std::deque<double> before_, quiet_, after_;
  bool in_quiet_ = false, waiting_ = false;
  double usual_ns_ = 0;
  std::deque<double> ratios_;
  double quiet_sum_ns_ = 0;
  uint64_t quiet_count_ = 0;
};

// Mean of samples with a 95 % interval by Student's t; known from two samples on.
Interval MeanInterval(const std::deque<double>& samples);

}  // namespace pillion::turns

#endif  // PILLION_WORKER_TURNS_SLOWDOWN_H_
