// ZB-V, V-Half and V-Min: two stages per device, placed down and up again (stage r and stage 2p-1-r on device r).
#include <algorithm>
#include <climits>

#include "pipeline/schedules/builder.h"

namespace pillion::pipeline {
namespace {

PlanBuilder VShaped(const ScheduleOptions& options) {
  const int32_t p = options.devices;
  return PlanBuilder(options, 2 * p, 1, [p](int32_t stage) { return stage < p ? stage : 2 * p - 1 - stage; });
}

// The repeating pattern of V-Half and V-Min on one device: when micro-batch 0 does each operation; micro-batch k does
// it kPeriod slots per micro-batch later.
constexpr int32_t kPeriod = 6;
struct Pattern {
  int32_t f0, f1, i1, i0;
};

// A table of unit slots: the pattern, weight gradients first in first out into the free slots, then every operation
// pulled into the earliest slot that its inputs and the peak allow.
class SlotTable {
 public:
  SlotTable(const ScheduleOptions& options, const std::vector<Pattern>& patterns)
      : p_(options.devices), m_(options.microbatches), slots_(static_cast<size_t>(p_)) {
    slot_of_.assign(static_cast<size_t>(3) * 2 * p_ * m_, -1);
    for (int32_t d = 0; d < p_; ++d) {
      for (int32_t k = 0; k < m_; ++k) {
        Put(d, patterns[d].f0 + kPeriod * k, {ActionType::kForward, false, d, k});
        Put(d, patterns[d].f1 + kPeriod * k, {ActionType::kForward, false, 2 * p_ - 1 - d, k});
        Put(d, patterns[d].i1 + kPeriod * k, {ActionType::kInputGradient, false, 2 * p_ - 1 - d, k});
        Put(d, patterns[d].i0 + kPeriod * k, {ActionType::kInputGradient, false, d, k});
      }
      PutWeightGradients(d);
    }
  }

  void PullEarlier() {
    for (bool moved = true; moved;) {
      moved = false;
      size_t longest = 0;
      for (const auto& slots : slots_) longest = std::max(longest, slots.size());
      for (size_t slot = 1; slot < longest; ++slot) {
        for (int32_t d = 0; d < p_; ++d) moved |= Pull(d, static_cast<int32_t>(slot));
      }
    }
  }

  void Emit(PlanBuilder* builder) const {
    for (const auto& slots : slots_) {
      for (const Action& action : slots) {
        if (action.type != ActionType::kIdle) builder->Add(action.type, action.stage, action.microbatch);
      }
    }
  }

 private:
  int32_t& SlotOf(ActionType type, int32_t stage, int32_t microbatch) {
    const size_t kind = type == ActionType::kForward ? 0 : type == ActionType::kInputGradient ? 1 : 2;
    return slot_of_[(kind * 2 * p_ + stage) * static_cast<size_t>(m_) + microbatch];
  }

  void Put(int32_t device, int32_t slot, const Action& action) {
    auto& slots = slots_[device];
    if (slots.size() <= static_cast<size_t>(slot)) slots.resize(static_cast<size_t>(slot) + 1);
    PILLION_CHECK(slots[slot].type == ActionType::kIdle, "two operations of a pattern in one slot");
    slots[slot] = action;
    SlotOf(action.type, action.stage, action.microbatch) = slot;
  }

  void PutWeightGradients(int32_t device) {
    std::vector<Action> waiting;
    size_t next = 0;
    for (size_t slot = 0; slot < slots_[device].size() || next < waiting.size(); ++slot) {
      if (slot < slots_[device].size() && slots_[device][slot].type != ActionType::kIdle) {
        const Action action = slots_[device][slot];
        if (action.type == ActionType::kInputGradient) {
          waiting.push_back({ActionType::kWeightGradient, false, action.stage, action.microbatch});
        }
      } else if (next < waiting.size()) {
        Put(device, static_cast<int32_t>(slot), waiting[next++]);
      }
    }
  }

  // The first slot in which the inputs of the action are there.
  int32_t Earliest(const Action& action) {
    const int32_t s = action.stage, k = action.microbatch;
    switch (action.type) {
      case ActionType::kForward:
        return s == 0 ? 0 : SlotOf(ActionType::kForward, s - 1, k) + 1;
      case ActionType::kInputGradient:
        return std::max(SlotOf(ActionType::kForward, s, k),
                        s == 2 * p_ - 1 ? -1 : SlotOf(ActionType::kInputGradient, s + 1, k)) +
               1;
      default:
        return SlotOf(ActionType::kInputGradient, s, k) + 1;
    }
  }

  bool Pull(int32_t device, int32_t slot) {
    auto& slots = slots_[device];
    if (static_cast<size_t>(slot) >= slots.size() || slots[slot].type == ActionType::kIdle) return false;
    const Action action = slots[slot];
    int32_t first = Earliest(action);
    if (action.type == ActionType::kForward) first = std::max(first, FirstSlotWithinPeak(device, slot));
    for (int32_t target = first; target < slot; ++target) {
      if (slots[target].type != ActionType::kIdle) continue;
      slots[slot] = Action();
      Put(device, target, action);
      return true;
    }
    return false;
  }

  // A forward pulled from `slot` to t adds one to the live count of the slots [t, slot).
  int32_t FirstSlotWithinPeak(int32_t device, int32_t slot) {
    std::vector<int32_t> live;
    int32_t count = 0;
    for (const Action& action : slots_[device]) {
      if (action.type == ActionType::kForward) ++count;
      live.push_back(count);
      if (action.type == ActionType::kWeightGradient) --count;
    }
    if (peak_.empty()) peak_.assign(static_cast<size_t>(p_), 0);
    if (peak_[device] == 0) peak_[device] = *std::max_element(live.begin(), live.end());
    int32_t first = slot;
    while (first > 0 && live[first - 1] < peak_[device]) --first;
    return first;
  }

  const int32_t p_, m_;
  std::vector<std::vector<Action>> slots_;
  std::vector<int32_t> slot_of_;  // [F, I, W][stage][micro-batch]
  std::vector<int32_t> peak_;     // [device], before anything was pulled
};

Plan FromPatterns(const ScheduleOptions& options, const std::vector<Pattern>& patterns) {
  PlanBuilder builder = VShaped(options);
  SlotTable table(options, patterns);
  table.PullEarlier();
  table.Emit(&builder);
  return builder.Take();
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
  return FromPatterns(options, patterns);
}

Plan MakeVMin(const ScheduleOptions& options) {
  const int32_t p = options.devices, d = p % 3 == 0 ? 2 : 0;
  std::vector<Pattern> patterns;
  for (int32_t i = 0; i < p; ++i) {
    patterns.push_back({i, 2 * p - i - 1, 2 * p + d + i, 4 * p + d - i - 1});
  }
  return FromPatterns(options, patterns);
}

}  // namespace pillion::pipeline
