// Quantiles of the last few thousand durations. One thread at a time.
#ifndef PILLION_STORE_LATENCY_WINDOW_H_
#define PILLION_STORE_LATENCY_WINDOW_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace pillion::store {

class LatencyWindow {
 public:
  void Add(int64_t duration_ns) {
    if (samples_.size() < kSamples) {
      samples_.push_back(duration_ns);
    } else {
      samples_[next_] = duration_ns;
      next_ = (next_ + 1) % kSamples;
    }
  }

  // In milliseconds; 0 before the first sample.
  double QuantileMs(double quantile) const {
    if (samples_.empty()) return 0;
    std::vector<int64_t> sorted = samples_;
    auto rank = static_cast<size_t>(quantile * static_cast<double>(sorted.size() - 1) + 0.5);
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<ptrdiff_t>(rank), sorted.end());
    return static_cast<double>(sorted[rank]) * 1e-6;
  }

 private:
  static constexpr size_t kSamples = 4096;
  std::vector<int64_t> samples_;
  size_t next_ = 0;
};

}  // namespace pillion::store

#endif  // PILLION_STORE_LATENCY_WINDOW_H_
