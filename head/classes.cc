#include "head/classes.h"

#include <algorithm>

namespace pillion::head {

scheduler::Demand ClassTable::DemandOf(const Template& t) {
  scheduler::Demand demand;
  demand.program = t.program;
  demand.program_on_worker_needed = t.library.empty() && t.kind != wire::TaskKind::kCommand;
  demand.device_kind = t.options.device_kind;
  demand.memory_bytes = t.options.memory_bytes;
  demand.minimum_bubble_us = t.options.minimum_bubble_us;
  return demand;
}

scheduler::ClassId ClassTable::Acquire(const Template& t) {
  scheduler::Demand demand = DemandOf(t);
  bool is_call = t.kind == wire::TaskKind::kCall;
  ByteWriter key_bytes;
  key_bytes.Text(demand.program);
  key_bytes.Number(demand.program_on_worker_needed ? 1 : 0);
  key_bytes.Number(demand.device_kind);
  key_bytes.Number(demand.memory_bytes);
  key_bytes.Number(demand.minimum_bubble_us);
  key_bytes.Number(is_call ? 1 : 0);
  std::string key = key_bytes.Take();
  auto [position, is_new] = by_key_.try_emplace(key, 0);
  if (is_new) {
    if (free_.empty()) {
      position->second = static_cast<scheduler::ClassId>(classes_.size());
      classes_.emplace_back();
    } else {
      position->second = free_.back();
      free_.pop_back();
    }
    TaskClass& made = classes_[position->second];
    made = TaskClass();
    made.demand = std::move(demand);
    made.is_call = is_call;
    made.key = std::move(key);
    for (size_t kind = 0; kind < kDeviceKinds; ++kind) {
      made.profiles[kind] = &ProfileOf(t.program, static_cast<DeviceKind>(kind));
    }
  }
  ++classes_[position->second].templates;
  return position->second;
}

void ClassTable::Release(scheduler::ClassId id) {
  if (--classes_[id].templates > 0) return;
  by_key_.erase(classes_[id].key);
  classes_[id] = TaskClass();
  free_.push_back(id);
}

const Profile& ClassTable::ProfileOf(const std::string& program, DeviceKind kind) {
  return profiles_[ProfileKey(static_cast<uint8_t>(kind), program)];
}

uint32_t ClassTable::StepUs(const std::string& program, DeviceKind kind) {
  auto found = profiles_.find(ProfileKey(static_cast<uint8_t>(kind), program));
  return found == profiles_.end() ? 0 : found->second.step_us;
}

bool ClassTable::Learn(const std::string& program, DeviceKind kind, uint64_t step_us, uint64_t peak_memory_bytes) {
  if (step_us == 0 && peak_memory_bytes == 0) return false;
  std::string key = ProfileKey(static_cast<uint8_t>(kind), program);
  Profile& profile = profiles_[key];
  step_us = std::min<uint64_t>(step_us, UINT32_MAX);
  if (step_us != 0) {
    profile.step_us = profile.step_us == 0 ? static_cast<uint32_t>(step_us)
                                           : static_cast<uint32_t>((uint64_t{profile.step_us} * 3 + step_us) / 4);
  }
  profile.peak_memory_bytes = std::max(profile.peak_memory_bytes, peak_memory_bytes);
  Profile& stored = stored_[key];
  auto moved = [](uint64_t from, uint64_t to) { return from == 0 ? to != 0 : to * 5 > from * 6 || to * 6 < from * 5; };
  if (!moved(stored.step_us, profile.step_us) && !moved(stored.peak_memory_bytes, profile.peak_memory_bytes)) {
    return false;
  }
  stored = profile;
  return true;
}

}  // namespace pillion::head
