// Forecasts how long each bubble (slot) of an iteration will be, without an offline profile. Pure: observations in,
// predictions out.
//
// Per slot it keeps a window of observed lengths and predicts a low quantile of it; a controller moves quantile and
// guard so that measured intrusion stays under the overhead budget. It learns upward only from bubbles that no step
// touched at their end: a step that still runs delays the trainer's closing edge, so that an intruded bubble looks
// longer than it was, and a forecast that believed it would drift upward by itself.
#ifndef PILLION_SCHEDULER_FORECAST_H_
#define PILLION_SCHEDULER_FORECAST_H_

#include <cstdint>
#include <vector>

namespace pillion::scheduler {

struct ForecastOptions {
  double overhead_budget = 0.005;       // intrusion / iteration time
  int64_t least_guard_ns = 30'000;
  int64_t first_guard_ns = 150'000;
  int64_t most_guard_ns = 20'000'000;
  double least_quantile = 0.02, first_quantile = 0.1, most_quantile = 0.25;
  uint32_t control_iterations = 16;     // the controller moves once per so many harvesting iterations
};

struct SlotPrediction {
  int64_t length_ns = 0;  // low quantile; 0: nothing is known, give no turn
  int64_t guard_ns = 0;
  int64_t usable_ns() const { return length_ns > guard_ns ? length_ns - guard_ns : 0; }
};

struct SlotQuantiles {
  int64_t p10_ns = 0, p50_ns = 0, p90_ns = 0;
};

class Forecaster {
 public:
  explicit Forecaster(const ForecastOptions& options = {});

  // A bubble of `slot` lasted `length_ns`. `touched`: a step ended so shortly before the closing edge, or after it,
  // that the edge may have been delayed; then only a length below the forecast is learnt.
  void Observe(uint32_t slot, int64_t length_ns, bool touched);
  // A harvesting iteration of `period_ns` is over, in which side work outlasted bubbles by `intrusion_ns` in all.
  void ObserveIteration(int64_t period_ns, int64_t intrusion_ns);
  // Iterations now have so many slots. Another number than before: everything is forgotten and relearnt.
  void SetSlots(uint32_t slots);
  // Expected lengths from a plan, in µs. They stand in for observations until there are some.
  void Seed(const std::vector<uint32_t>& lengths_us);
  // Another trainer: forget all but guard and quantile.
  void Forget();
  // The measured slowdown left the budget although intrusion did not: hold back more.
  void BackOff();

  SlotPrediction Predict(uint32_t slot) const;
  SlotQuantiles Quantiles(uint32_t slot) const;  // zeros: unknown
  uint32_t slots() const { return static_cast<uint32_t>(slots_.size()); }
  int64_t guard_ns() const { return guard_ns_; }
  double quantile() const { return quantile_; }
  uint64_t changes_detected() const { return changes_detected_; }

 private:
  static constexpr int kWindow = 32;
  struct Slot {
    int64_t window[kWindow];       // newest at [(count - 1) mod kWindow]
    uint32_t count = 0;
    int64_t seed_ns = 0;
    int64_t predicted_ns = 0;      // cached low quantile
    int32_t run = 0;               // length of the present run of outliers; sign: side
  };
  void Learn(Slot& slot, int64_t length_ns);
  void Refresh(Slot& slot);
  bool IsChange(Slot& slot, int64_t length_ns);

  const ForecastOptions options_;
  std::vector<Slot> slots_;
  int64_t guard_ns_;
  double quantile_;
  int64_t control_period_ns_ = 0;
  int64_t control_intrusion_ns_ = 0;
  uint32_t control_count_ = 0;
  uint64_t changes_detected_ = 0;
};

}  // namespace pillion::scheduler

#endif  // PILLION_SCHEDULER_FORECAST_H_
