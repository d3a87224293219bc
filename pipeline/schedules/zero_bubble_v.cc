// ZB-V, V-Half and V-Min: two stages per device, placed down and up again (stage r and stage 2p-1-r
// on device r).
#include <algorithm>
#include <utility>

#include "pipeline/schedules/builder.h"
#include "pipeline/schedules/list_scheduler.h"

namespace pillion::pipeline {
namespace {

PlanBuilder VShaped(const ScheduleOptions& options) {
  const int32_t p = options.devices;
  return PlanBuilder(options, 2 * p, 1,
                     [p](int32_t stage) { return stage < p ? stage : 2 * p - 1 - stage; });
}

// The repeating pattern of V-Half and V-Min on one device: when micro-batch 0 does each operation;
// micro-batch k does it kPeriod slots per micro-batch later.
constexpr int32_t kPeriod = 6;
struct Pattern {
  int32_t f0, f1, i1, i0;
};

// The most (stage, micro-batch) pairs that a device holds when W follows I as soon as a slot is
// free.
int32_t PeakOfPatterns(const std::vector<Pattern>& patterns) {
  int32_t peak = 0;
  for (const Pattern& pattern : patterns) {
    // Each pair is held from its F to the W after its I; every slot of a period that is no F or I
    // is a W.
    bool taken[kPeriod] = {};
    for (int32_t slot : {pattern.f0, pattern.f1, pattern.i1, pattern.i0})
      taken[slot % kPeriod] = true;
    auto weight_slot = [&](int32_t slot) {
      do ++slot;
      while (taken[slot % kPeriod]);
      taken[slot % kPeriod] = true;
      return slot;
    };
    const int32_t w1 = weight_slot(pattern.i1), w0 = weight_slot(pattern.i0);
    const int32_t first[2] = {pattern.f0, pattern.f1}, last[2] = {w0, w1};
    for (int32_t phase = 0; phase < kPeriod; ++phase) {
      int32_t live = 0;
      for (int32_t c = 0; c < 2; ++c) {
        // How many k put `t` into [first + k·period, last + k·period], for a late t with t mod
        // period = phase.
        for (int32_t t = first[c]; t <= last[c]; ++t) live += t % kPeriod == phase ? 1 : 0;
      }
      peak = std::max(peak, live);
    }
  }
  return peak;
}

// Runs the forwards and input gradients of a pattern in its order, with weight gradients, first in
// first out, wherever a device would idle. At the edges operations are pulled earlier than the
// pattern has them, without raising its peak: forwards before a device's first input gradient,
// input gradients after its last forward.
class PatternScheduler {
 public:
  // A forward pulled ahead leaves room for `reserve` more.
  PatternScheduler(const ScheduleOptions& options, const std::vector<Pattern>& patterns,
                   int32_t peak, int32_t reserve, PlanBuilder* builder)
      : p_(options.devices),
        peak_(peak),
        reserve_(reserve),
        list_(options, 2 * p_, builder),
        pending_(static_cast<size_t>(p_)) {
    for (int32_t d = 0; d < p_; ++d) {
      std::vector<std::pair<int64_t, Action>> slots;
      for (int32_t k = 0; k < options.microbatches; ++k) {
        const int64_t shift = int64_t{kPeriod} * k;
        slots.push_back({patterns[d].f0 + shift, {ActionType::kForward, false, d, k}});
        slots.push_back({patterns[d].f1 + shift, {ActionType::kForward, false, 2 * p_ - 1 - d, k}});
        slots.push_back(
            {patterns[d].i1 + shift, {ActionType::kInputGradient, false, 2 * p_ - 1 - d, k}});
        slots.push_back({patterns[d].i0 + shift, {ActionType::kInputGradient, false, d, k}});
      }
      std::sort(slots.begin(), slots.end(),
                [](const auto& a, const auto& b) { return a.first < b.first; });
      for (const auto& slot : slots) pending_[d].push_back(slot.second);
    }
  }

  // False when what was pulled ahead left no room for what the pattern does before it.
  bool Run() {
    list_.Run([this](int32_t device, Ticks now) { return Choose(device, now); });
    return std::all_of(pending_.begin(), pending_.end(),
                       [](const auto& pending) { return pending.empty(); });
  }

 private:
  Action Choose(int32_t device, Ticks now) {
    auto& pending = pending_[device];
    bool seen[2][2] = {};
    for (size_t i = 0; i < pending.size(); ++i) {
      const Action action = pending[i];
      const bool forward = action.type == ActionType::kForward, first_chunk = action.stage < p_;
      if (std::exchange(seen[forward][first_chunk], true)) continue;
      if (list_.IsReady(action, now) && MayRun(device, action, i == 0)) {
        pending.erase(pending.begin() + static_cast<int64_t>(i));
        return action;
      }
      if (seen[0][0] && seen[0][1] && seen[1][0] && seen[1][1]) break;
    }
    return list_.OldestWeightGradient(device);
  }

  bool MayRun(int32_t device, const Action& action, bool is_next) const {
    const bool forward = action.type == ActionType::kForward;
    const int32_t live = list_.live(device);
    if (forward && live >= peak_) return false;
    if (is_next) return true;
    if (!forward) return list_.forwards_left(device) == 0;
    if (list_.has_done_gradient(device)) return false;
    return action.stage >= p_ || live + 1 + reserve_ <= peak_;
  }

  const int32_t p_;
  const int32_t peak_, reserve_;
  ListScheduler list_;
  std::vector<std::vector<Action>> pending_;  // [device], F and I in the pattern's order
};

Plan FromPatterns(const ScheduleOptions& options, const std::vector<Pattern>& patterns,
                  int32_t peak) {
  // 3 is enough up to 9 devices; with a reserve of the whole peak nothing is pulled ahead and the
  // pattern fits.
  for (int32_t reserve = 3;; ++reserve) {
    PlanBuilder builder = VShaped(options);
    if (PatternScheduler(options, patterns, peak, reserve, &builder).Run() || reserve > peak)
      return builder.Take();
  }
}

}  // namespace

Plan MakeZbV(const ScheduleOptions& options) {
  PlanBuilder builder = VShaped(options);
  const int32_t p = options.devices;
  const int32_t m = std::max(2 * p - 1, options.microbatches);
  for (int32_t r = 0; r < p; ++r) {
    const int32_t a = r, z = 2 * p - 1 - r;
    int32_t fa = 0, fz = 0, ia = 0, iz = 0, wa = 0, wz = 0;
    for (int32_t i = 0; i < 2 * (p - r) - 1; ++i) builder.Forward(a, fa++);
    for (int32_t i = 0; i < r; ++i) {
      builder.Forward(z, fz++);
      builder.Forward(a, fa++);
    }
    for (int32_t i = 0; i < p - r; ++i) {
      builder.Forward(z, fz++);
      builder.InputGradient(z, iz++);
      builder.WeightGradient(z, wz++);
    }
    while (fa < m || fz < m) {
      if (fa < m) builder.Forward(a, fa++);
      builder.InputGradient(a, ia++);
      builder.WeightGradient(a, wa++);
      builder.Forward(z, fz++);
      builder.InputGradient(z, iz++);
      builder.WeightGradient(z, wz++);
    }
    for (int32_t i = 0; i < r; ++i) {
      builder.InputGradient(a, ia++);
      builder.InputGradient(z, iz++);
    }
    for (int32_t i = 0; i < p - r; ++i) {
      builder.InputGradient(a, ia++);
      builder.WeightGradient(a, wa++);
    }
    while (wz < m) builder.WeightGradient(z, wz++);
    while (wa < m) builder.WeightGradient(a, wa++);
  }
  return builder.Take();
}

Plan MakeVHalf(const ScheduleOptions& options) {
  const int32_t p = options.devices, d = p % 2 == 0 ? 3 : 0;
  std::vector<Pattern> patterns;
  for (int32_t i = 0; i < p; ++i) {
    patterns.push_back({2 * i, 3 * p - i - 2, 3 * p + d + 2 * i - 1, 6 * p + d - i - 2});
  }
  return FromPatterns(options, patterns, p + 2);
}

Plan MakeVMin(const ScheduleOptions& options) {
  const int32_t p = options.devices, d = p % 3 == 0 ? 2 : 0;
  std::vector<Pattern> patterns;
  for (int32_t i = 0; i < p; ++i) {
    patterns.push_back({i, 2 * p - i - 1, 2 * p + d + i, 4 * p + d - i - 1});
  }
  return FromPatterns(options, patterns, PeakOfPatterns(patterns));
}

}  // namespace pillion::pipeline
