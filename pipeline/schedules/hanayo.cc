// Hanayo: w waves, each down all devices and up again, so 2w stages per device with one copy of the weights.
#include <algorithm>

#include "pipeline/schedules/builder.h"

namespace pillion::pipeline {
namespace {

// Fills unit time by list scheduling: F takes one slot, B two. A device prefers backwards (they free activations), then
// the forward that is furthest down the model, so that waves roll on before new micro-batches enter; it
// admits at most p micro-batches at a time, as 1F1B does on its first rank.
class WaveScheduler {
 public:
  WaveScheduler(const ScheduleOptions& options, const std::vector<int32_t>& device_of, PlanBuilder* builder)
      : p_(options.devices),
        m_(options.microbatches),
        stages_(static_cast<int32_t>(device_of.size())),
        device_of_(device_of),
        forward_end_(static_cast<size_t>(stages_) * m_, -1),
        backward_end_(static_cast<size_t>(stages_) * m_, -1),
        next_forward_(static_cast<size_t>(stages_), 0),
        next_backward_(static_cast<size_t>(stages_), 0),
        free_at_(static_cast<size_t>(p_), 0),
        builder_(*builder) {}

  void Run() {
    int64_t left = int64_t{2} * stages_ * m_;
    for (int64_t now = 0; left > 0; ++now) {
      for (int32_t d = 0; d < p_; ++d) {
        if (free_at_[d] <= now && StartOne(d, now)) --left;
      }
    }
  }

 private:
  int64_t& At(std::vector<int64_t>& ends, int32_t stage, int32_t microbatch) {
    return ends[static_cast<size_t>(stage) * m_ + microbatch];
  }
  bool Done(std::vector<int64_t>& ends, int32_t stage, int32_t microbatch, int64_t now) {
    const int64_t end = At(ends, stage, microbatch);
    return end >= 0 && end <= now;
  }

  bool StartOne(int32_t device, int64_t now) {
    for (int32_t s = 0; s < stages_; ++s) {
      const int32_t k = next_backward_[s];
      if (device_of_[s] != device || k >= m_ || !Done(forward_end_, s, k, now)) continue;
      if (s + 1 < stages_ && !Done(backward_end_, s + 1, k, now)) continue;
      builder_.Backward(s, k);
      ++next_backward_[s];
      At(backward_end_, s, k) = free_at_[device] = now + 2;
      return true;
    }
    for (int32_t s = stages_ - 1; s >= 0; --s) {
      const int32_t k = next_forward_[s];
      if (device_of_[s] != device || k >= m_) continue;
      if (s == 0 ? k - next_backward_[0] >= p_ : !Done(forward_end_, s - 1, k, now)) continue;
      builder_.Forward(s, k);
      ++next_forward_[s];
      At(forward_end_, s, k) = free_at_[device] = now + 1;
      return true;
    }
    return false;
  }

  const int32_t p_, m_, stages_;
  const std::vector<int32_t>& device_of_;
  std::vector<int64_t> forward_end_, backward_end_;     // [stage, micro-batch], -1: not started
  std::vector<int32_t> next_forward_, next_backward_;   // [stage]
  std::vector<int64_t> free_at_;                        // [device]
  PlanBuilder& builder_;
};

}  // namespace

Plan MakeHanayo(const ScheduleOptions& options) {
  const int32_t p = options.devices, stages = 2 * p * options.waves;
  std::vector<int32_t> device_of;
  for (int32_t s = 0; s < stages; ++s) device_of.push_back(s / p % 2 == 0 ? s % p : p - 1 - s % p);
  PlanBuilder builder(options, stages, 1, [&](int32_t stage) { return device_of[stage]; });
  WaveScheduler(options, device_of, &builder).Run();
  return builder.Take();
}

}  // namespace pillion::pipeline
