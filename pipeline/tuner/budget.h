// How long a walk may go on: schedules made, time, or a caller who has seen enough.
#ifndef PILLION_PIPELINE_TUNER_BUDGET_H_
#define PILLION_PIPELINE_TUNER_BUDGET_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace pillion::pipeline::tuner {

using SteadyTime = std::chrono::steady_clock::time_point;

struct Budget {
  int64_t evaluations = 0;  // 0: not limited
  bool timed = false;
  SteadyTime begin, end;
  const std::atomic<bool>* stop = nullptr;

  // How much is spent, 1 and above: all of it.
  double Spent(int64_t evaluations_made) const {
    if (stop != nullptr && stop->load(std::memory_order_relaxed)) return 1.0;
    double spent = 0;
    if (evaluations > 0)
      spent = static_cast<double>(evaluations_made) / static_cast<double>(evaluations);
    if (timed) {
      const std::chrono::duration<double> whole = end - begin,
                                          gone = std::chrono::steady_clock::now() - begin;
      spent = std::max(spent, whole.count() <= 0 ? 1.0 : gone.count() / whole.count());
    }
    return spent;
  }
};

}  // namespace pillion::pipeline::tuner

#endif  // PILLION_PIPELINE_TUNER_BUDGET_H_
