#include "scheduler/placement.h"

#include <algorithm>
#include <cstdio>

namespace pillion::scheduler {
namespace {

uint32_t LongestSlotUs(const Offer& offer) {
  uint32_t longest = 0;
  for (uint32_t length : offer.slot_lengths_us) longest = std::max(longest, length);
  return longest;
}

// Steps of one iteration. Without a known step time a slot longer than the guard is worth at least one try.
uint64_t StepsPerIteration(const Offer& offer, uint32_t minimum_bubble_us, uint32_t step_us, bool step_known) {
  uint64_t steps = 0;
  for (uint32_t length : offer.slot_lengths_us) {
    if (length < minimum_bubble_us || length <= offer.guard_us) continue;
    uint64_t in_slot = (length - offer.guard_us) / step_us;
    steps += step_known ? in_slot : std::max<uint64_t>(in_slot, 1);
  }
  return steps;
}

}  // namespace

Fit Evaluate(const Demand& demand, const Offer& offer, uint32_t step_us) {
  if (demand.program_on_worker_needed &&
      !std::binary_search(offer.programs.begin(), offer.programs.end(), demand.program)) {
    return {Refusal::kProgram, 0};
  }
  if (demand.device_kind != kAnyDeviceKind && demand.device_kind != static_cast<uint8_t>(offer.device_kind)) {
    return {Refusal::kDeviceKind, 0};
  }
  if (offer.memory_total_bytes != 0 && demand.memory_bytes > offer.memory_total_bytes) {
    return {Refusal::kMemoryTotal, 0};
  }
  const bool step_known = step_us != 0;
  if (!step_known) step_us = kAssumedStepUs;
  Fit fit;
  if (offer.trainer_attached && offer.iteration_period_us != 0) {
    uint32_t longest = LongestSlotUs(offer);
    if (demand.minimum_bubble_us > longest) return {Refusal::kMinimumBubble, 0};
    uint64_t steps = StepsPerIteration(offer, demand.minimum_bubble_us, step_us, step_known);
    if (steps == 0) return {Refusal::kStepTooLong, 0};
    fit.steps_per_s = static_cast<double>(steps) * 1e6 / offer.iteration_period_us;
  } else {
    fit.steps_per_s = 1e6 / step_us;
  }
  if (offer.memory_total_bytes != 0 && demand.memory_bytes > offer.memory_free_bytes) {
    return {Refusal::kMemoryFree, 0};
  }
  return fit;
}

std::string Explain(const Fit& fit, const Demand& demand, const Offer& offer, uint32_t step_us) {
  switch (fit.refusal) {
    case Refusal::kNone:
      return "";
    case Refusal::kProgram: {
      std::string near = NearestName(demand.program, offer.programs);
      return "does not have program '" + demand.program + "'" +
             (near.empty() ? "" : " (nearest there: '" + near + "')");
    }
    case Refusal::kDeviceKind:
      return "needs a " + std::string(DeviceKindName(static_cast<DeviceKind>(demand.device_kind))) +
             " device, this is a " + std::string(DeviceKindName(offer.device_kind)) + " device";
    case Refusal::kMemoryTotal:
      return "needs " + FormatBytes(demand.memory_bytes) + ", the device has " +
             FormatBytes(offer.memory_total_bytes);
    case Refusal::kMinimumBubble:
      return "asks for bubbles of " + std::to_string(demand.minimum_bubble_us) + " us, the longest here is " +
             std::to_string(LongestSlotUs(offer)) + " us";
    case Refusal::kStepTooLong:
      return "a step takes " + std::to_string(step_us == 0 ? kAssumedStepUs : step_us) +
             " us, no bubble minus its guard (" + std::to_string(offer.guard_us) + " us) holds one: the longest is " +
             std::to_string(LongestSlotUs(offer)) + " us";
    case Refusal::kMemoryFree:
      return "needs " + FormatBytes(demand.memory_bytes) + ", " + FormatBytes(offer.memory_free_bytes) +
             " are free now";
  }
  return "unknown";
}

bool WorthMoving(const MoveQuestion& question, const MovePolicy& policy) {
  if (question.residence_ms < policy.minimum_residence_ms) return false;
  if (question.rate_there <= 0 || question.rate_there < policy.ratio * question.rate_here) return false;
  if (question.remaining_steps == 0 || question.rate_here <= 0) return true;
  double saved_s = static_cast<double>(question.remaining_steps) * (1 / question.rate_here - 1 / question.rate_there);
  return saved_s > policy.move_cost_s;
}

std::string NearestName(const std::string& text, const std::vector<std::string>& known) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, text.size() / 3) + 1;
  for (const std::string& name : known) {
    if (name.size() > text.size() + best_distance || text.size() > name.size() + best_distance) continue;
    std::vector<size_t> row(name.size() + 1);
    for (size_t j = 0; j <= name.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= text.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i;
      for (size_t j = 1; j <= name.size(); ++j) {
        size_t substitute = diagonal + (text[i - 1] == name[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
      }
    }
    if (row[name.size()] < best_distance) {
      best_distance = row[name.size()];
      best = name;
    }
  }
  return best;
}

std::string FormatBytes(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  char text[48];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text;
}

}  // namespace pillion::scheduler
