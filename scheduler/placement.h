// Placement: how many steps per second a task would get on a device, or the exact reason why it cannot go there.
// Grants, rebalancing, submit-time checks and `explain` all ask this one function, so their answers agree. Pure.
#ifndef PILLION_SCHEDULER_PLACEMENT_H_
#define PILLION_SCHEDULER_PLACEMENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/device/device.h"

namespace pillion::scheduler {

inline constexpr uint8_t kAnyDeviceKind = 255;
// Step time taken for a program that nobody has run on that kind of device yet.
inline constexpr uint32_t kAssumedStepUs = 1000;

// What a task asks for.
struct Demand {
  std::string program;
  bool program_on_worker_needed = true;  // false: it brings a library, or is a command
  uint8_t device_kind = kAnyDeviceKind;
  uint64_t memory_bytes = 0;             // declared or measured; 0: unknown
  uint32_t minimum_bubble_us = 0;
};

// What a device offers.
struct Offer {
  DeviceKind device_kind = DeviceKind::kCpu;
  uint64_t memory_total_bytes = 0;       // 0: not limited
  uint64_t memory_free_bytes = 0;        // now, after what residents hold; read only when total is not 0
  bool trainer_attached = false;         // false: the whole device is free
  uint32_t iteration_period_us = 0;
  uint32_t guard_us = 0;
  std::vector<uint32_t> slot_lengths_us;  // what can be relied on: a low quantile
  std::vector<std::string> programs;      // sorted
};

enum class Refusal : uint8_t {
  kNone,
  kProgram,          // not registered there and no library given
  kDeviceKind,
  kMemoryTotal,      // more than the device has: never
  kMinimumBubble,    // no bubble is long enough
  kStepTooLong,      // no bubble holds even one step
  kMemoryFree,       // not now
};
// True for refusals that waiting for residents to leave does not change.
constexpr bool IsLasting(Refusal refusal) { return refusal != Refusal::kNone && refusal != Refusal::kMemoryFree; }

struct Fit {
  Refusal refusal = Refusal::kNone;
  double steps_per_s = 0;  // with the device to itself; divide by ShareOf for what residents leave
  bool ok() const { return refusal == Refusal::kNone; }
};

// Σ over slots of floor((length − guard) / step time) ÷ period; 1 / step time on a device without a trainer.
// `step_us` 0: not known, kAssumedStepUs is taken and a bubble shorter than that still counts as one step.
Fit Evaluate(const Demand& demand, const Offer& offer, uint32_t step_us);

// The share of a device's bubbles that one more task gets beside `residents` others: they take turns.
constexpr double ShareOf(uint32_t residents) { return 1.0 / (residents + 1.0); }

// "needs 8.0 GiB, the device has 4.0 GiB" and so on, for people. Empty when it fits.
std::string Explain(const Fit& fit, const Demand& demand, const Offer& offer, uint32_t step_us);

// Should a task move? Rates in steps per second; `remaining_steps` 0: not known, taken as many.
struct MoveQuestion {
  double rate_here = 0;
  double rate_there = 0;
  uint64_t remaining_steps = 0;
  int64_t residence_ms = 0;
};
struct MovePolicy {
  double ratio = 1.5;
  int64_t minimum_residence_ms = 30'000;
  double move_cost_s = 2.0;  // what a move takes away from the task
};
bool WorthMoving(const MoveQuestion& question, const MovePolicy& policy);

// The nearest of `known` to `text` by edit distance, or "" when none is near.
std::string NearestName(const std::string& text, const std::vector<std::string>& known);

std::string FormatBytes(uint64_t bytes);  // "512 B", "1.5 GiB"

}  // namespace pillion::scheduler

#endif  // PILLION_SCHEDULER_PLACEMENT_H_
