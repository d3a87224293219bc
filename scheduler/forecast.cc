#include "scheduler/forecast.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

namespace pillion::scheduler {
namespace {

// So many successive lengths far on one side of the window's median are a change, not jitter.
constexpr int kChangeRun = 4;
// What counts as far: this share of the median, and this many times the window's usual deviation.
constexpr double kFarShare = 0.02;
constexpr double kFarDeviations = 4;
constexpr int64_t kFarLeastNs = 100'000;
// A plan is no measurement: its lengths are believed with this reserve.
constexpr double kSeedTrust = 0.8;

template <size_t kSize>
struct Sorted {
  std::array<int64_t, kSize> values;
  size_t count;

  // Linear between order statistics.
  int64_t At(double quantile) const {
    double position = quantile * static_cast<double>(count - 1);
    auto below = static_cast<size_t>(position);
    size_t above = std::min(below + 1, count - 1);
    double part = position - static_cast<double>(below);
    return values[below] + static_cast<int64_t>(part * static_cast<double>(values[above] - values[below]));
  }
};

template <size_t kSize>
Sorted<kSize> Sort(const int64_t (&window)[kSize], uint32_t count) {
  Sorted<kSize> sorted;
  sorted.count = std::min<size_t>(count, kSize);
  std::copy_n(window, sorted.count, sorted.values.begin());
  std::sort(sorted.values.begin(), sorted.values.begin() + static_cast<long>(sorted.count));
  return sorted;
}

}  // namespace

Forecaster::Forecaster(const ForecastOptions& options)
    : options_(options), guard_ns_(options.first_guard_ns), quantile_(options.first_quantile) {}

void Forecaster::SetSlots(uint32_t slots) {
  if (slots == slots_.size()) return;
  slots_.assign(slots, Slot{});
}

void Forecaster::Forget() { slots_.assign(slots_.size(), Slot{}); }

void Forecaster::Seed(const std::vector<uint32_t>& lengths_us) {
  SetSlots(static_cast<uint32_t>(lengths_us.size()));
  for (size_t i = 0; i < lengths_us.size(); ++i) {
    slots_[i].seed_ns = int64_t{lengths_us[i]} * 1000;
    Refresh(slots_[i]);
  }
}

void Forecaster::Observe(uint32_t slot_index, int64_t length_ns, bool touched) {
  if (slot_index >= slots_.size() || length_ns < 0) return;
  Slot& slot = slots_[slot_index];
  if (touched && (slot.predicted_ns == 0 || length_ns >= slot.predicted_ns)) return;
  if (IsChange(slot, length_ns)) {
    // Keep only the lengths of the run: they are the newest ones.
    int64_t recent[kChangeRun];
    for (int i = 0; i < kChangeRun - 1; ++i) {
      recent[i] = slot.window[(slot.count - static_cast<uint32_t>(kChangeRun - 1 - i)) % kWindow];
    }
    recent[kChangeRun - 1] = length_ns;
    std::copy_n(recent, kChangeRun, slot.window);
    slot.count = kChangeRun;
    slot.run = 0;
    ++changes_detected_;
    Refresh(slot);
    return;
  }
  Learn(slot, length_ns);
}

// Whether `length_ns` completes a run of kChangeRun lengths far on one side.
bool Forecaster::IsChange(Slot& slot, int64_t length_ns) {
  if (slot.count < 2 * kChangeRun) return false;
  auto sorted = Sort(slot.window, slot.count);
  int64_t median = sorted.At(0.5);
  // Half the distance between the quartiles: outliers do not widen it.
  auto deviation = static_cast<double>(sorted.At(0.75) - sorted.At(0.25)) / 2;
  double far = std::max({kFarShare * static_cast<double>(median), kFarDeviations * deviation,
                         static_cast<double>(kFarLeastNs)});
  double difference = static_cast<double>(length_ns - median);
  if (std::abs(difference) < far) {
    slot.run = 0;
    return false;
  }
  int side = difference > 0 ? 1 : -1;
  slot.run = slot.run * side > 0 ? slot.run + side : side;
  return std::abs(slot.run) >= kChangeRun;
}

void Forecaster::Learn(Slot& slot, int64_t length_ns) {
  slot.window[slot.count % kWindow] = length_ns;
  // Counts on for ever in effect: only its value modulo kWindow and "full" matter.
  slot.count = slot.count + 1 == 1u << 31 ? slot.count + 1 - (1u << 30) : slot.count + 1;
  Refresh(slot);
}

void Forecaster::Refresh(Slot& slot) {
  if (slot.count == 0) {
    slot.predicted_ns = static_cast<int64_t>(kSeedTrust * static_cast<double>(slot.seed_ns));
    return;
  }
  auto sorted = Sort(slot.window, slot.count);
  // The first few lengths: the least of them, and nothing at all from one alone.
  if (slot.count < 2) {
    slot.predicted_ns = slot.seed_ns == 0 ? 0 : std::min(slot.seed_ns, sorted.At(0));
  } else if (slot.count < kChangeRun) {
    slot.predicted_ns = sorted.At(0);
  } else {
    slot.predicted_ns = sorted.At(quantile_);
  }
}

void Forecaster::ObserveIteration(int64_t period_ns, int64_t intrusion_ns) {
  control_period_ns_ += std::max<int64_t>(period_ns, 0);
  control_intrusion_ns_ += std::max<int64_t>(intrusion_ns, 0);
  if (++control_count_ < options_.control_iterations || control_period_ns_ == 0) return;
  double share = static_cast<double>(control_intrusion_ns_) / static_cast<double>(control_period_ns_);
  control_count_ = 0;
  control_period_ns_ = control_intrusion_ns_ = 0;
  if (share > options_.overhead_budget) {
    BackOff();
  } else if (share < options_.overhead_budget / 2) {
    // Slowly forward: an intrusion costs the trainer, a lost tail only us.
    guard_ns_ = std::max(options_.least_guard_ns, guard_ns_ - guard_ns_ / 16);
    quantile_ = std::min(options_.most_quantile, quantile_ * 1.05);
  }
}

void Forecaster::BackOff() {
  guard_ns_ = std::min(options_.most_guard_ns, guard_ns_ + guard_ns_ / 2);
  quantile_ = std::max(options_.least_quantile, quantile_ / 1.5);
}

SlotPrediction Forecaster::Predict(uint32_t slot) const {
  if (slot >= slots_.size()) return {};
  return {slots_[slot].predicted_ns, guard_ns_};
}

SlotQuantiles Forecaster::Quantiles(uint32_t slot_index) const {
  if (slot_index >= slots_.size()) return {};
  const Slot& slot = slots_[slot_index];
  if (slot.count == 0) return {slot.predicted_ns, slot.seed_ns, slot.seed_ns};
  auto sorted = Sort(slot.window, slot.count);
  return {sorted.At(0.1), sorted.At(0.5), sorted.At(0.9)};
}

}  // namespace pillion::scheduler
