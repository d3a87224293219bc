// Tasks with the same demand form a class: placement is computed once per class and worker, not per task. Also the
// profiles of programs, learned from what workers report.
#ifndef PILLION_HEAD_CLASSES_H_
#define PILLION_HEAD_CLASSES_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "head/records.h"
#include "head/task.h"
#include "scheduler/placement.h"
#include "scheduler/policy.h"

namespace pillion::head {

inline constexpr size_t kDeviceKinds = 3;

struct TaskClass {
  scheduler::Demand demand;
  bool is_call = false;
  std::array<const Profile*, kDeviceKinds> profiles = {};
  uint32_t templates = 0;  // of living jobs
  std::string key;

  uint32_t StepUs(DeviceKind kind) const { return profiles[static_cast<size_t>(kind)]->step_us; }
};

class ClassTable {
 public:
  // The class of tasks with this template, made if need be. Balanced by Release.
  scheduler::ClassId Acquire(const Template& t);
  void Release(scheduler::ClassId id);
  const TaskClass& at(scheduler::ClassId id) const { return classes_[id]; }
  size_t size() const { return by_key_.size(); }

  static scheduler::Demand DemandOf(const Template& t);
  // Step time of a program, 0 when it is not known.
  uint32_t StepUs(const std::string& program, DeviceKind kind);

  void Restore(const std::string& key, const Profile& profile) { profiles_[key] = profile; }
  // Learns from one report; true when the stored profile should be rewritten (it moved by a fifth or is new).
  bool Learn(const std::string& program, DeviceKind kind, uint64_t step_us, uint64_t peak_memory_bytes);
  const Profile& ProfileOf(const std::string& program, DeviceKind kind);

 private:
  std::vector<TaskClass> classes_;
  std::vector<scheduler::ClassId> free_;
  std::unordered_map<std::string, scheduler::ClassId> by_key_;
  std::map<std::string, Profile> profiles_;  // by ProfileKey; nodes stay where they are
  std::map<std::string, Profile> stored_;    // as last written
};

}  // namespace pillion::head

#endif  // PILLION_HEAD_CLASSES_H_
