// How long the next step of one task will take, from the steps before it. Pure.
#ifndef PILLION_WORKER_HOST_STEP_ESTIMATE_H_
#define PILLION_WORKER_HOST_STEP_ESTIMATE_H_

#include <cstdint>

namespace pillion::host {

class StepEstimate {
 public:
  // Steps of fixed size: their length. Elastic ones: by how much they outlast the time that they were given.
  void Observe(int64_t duration_ns);
  // A high quantile of the last steps, so that one disturbed step does not count and a longer kind soon does;
  // 0 before the first.
  int64_t high_ns() const { return high_ns_; }

 private:
  static constexpr int kWindow = 16;
  int64_t window_[kWindow] = {};
  uint64_t count_ = 0;
  int64_t high_ns_ = 0;
};

}  // namespace pillion::host

#endif  // PILLION_WORKER_HOST_STEP_ESTIMATE_H_
