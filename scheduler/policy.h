// The order in which queued tasks are granted. Nothing is ever searched for: tasks lie in lanes, one per owner and
// class of alike tasks, each a heap; the policy picks an owner and then the lane whose first task comes first among
// the lanes that somebody has room for. Pure and deterministic.
//
//   fair share         the owner with the fewest leases (then the fewest grants so far); within it by priority, then
//                      submission
//   fifo               by priority, then submission
//   shortest remaining by priority, then estimated work left, then submission
//   earliest deadline  by priority, then deadline, then submission
#ifndef PILLION_SCHEDULER_POLICY_H_
#define PILLION_SCHEDULER_POLICY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/status.h"

namespace pillion::scheduler {

enum class Policy : uint8_t { kFairShare = 0, kFifo = 1, kShortestRemaining = 2, kEarliestDeadline = 3 };
// "fair", "fifo", "shortest", "deadline".
std::string_view PolicyName(Policy policy);
Result<Policy> ParsePolicy(std::string_view text);

using OwnerId = uint32_t;
using ClassId = uint32_t;  // tasks that the same workers can run equally well

// One queued task, or `count` alike ones of consecutive indices and orders: popped one by one. The caller says which
// entries still count (a cancelled task is not looked for here); `ticket` helps it.
struct ReadyTask {
  OwnerId owner = 0;
  ClassId task_class = 0;
  int32_t priority = 0;
  uint32_t ticket = 0;
  int64_t deadline_ns = INT64_MAX;       // read by earliest deadline
  uint64_t remaining_us = UINT64_MAX;    // read by shortest remaining
  uint64_t order = 0;                    // of submission
  uint32_t job = 0;
  uint32_t index = 0;
  uint32_t count = 1;
};

class ReadyQueue {
 public:
  // True when a task of the class could be placed now.
  using Accept = std::function<bool(ClassId)>;
  // True when the entry still stands for a queued task.
  using Valid = std::function<bool(const ReadyTask&)>;

  explicit ReadyQueue(Policy policy) : policy_(policy) {}

  void Push(const ReadyTask& task);
  // The next task by the policy among accepted classes; nothing when there is none. Drops invalid entries it meets.
  std::optional<ReadyTask> Pop(const Accept& accept, const Valid& valid);
  // Tells fair share what an owner holds: +1 at a grant (also counts as service), −1 when a lease ends.
  void AddLease(OwnerId owner, int change);
  // Tasks in entries, invalid ones included.
  uint64_t size() const { return size_; }
  // Drops all invalid entries: called when far more entries than queued tasks exist.
  void Compact(const Valid& valid);

 private:
  struct Entry {  // 48 bytes; a heap of these per lane
    int64_t key;
    uint64_t order;
    int32_t priority;
    uint32_t ticket, job, index, count;
  };
  struct Rank {  // of a lane: that of its first entry
    int32_t priority;
    int64_t key;
    uint64_t order;
    bool operator<(const Rank& other) const {
      if (priority != other.priority) return priority > other.priority;
      if (key != other.key) return key < other.key;
      return order < other.order;
    }
  };
  struct Lane {
    ClassId task_class = 0;
    std::vector<Entry> heap;
  };
  struct Owner {
    std::unordered_map<ClassId, Lane> lanes;
    std::set<std::pair<Rank, ClassId>> order;  // non-empty lanes by their first entry
    uint64_t leases = 0;
    uint64_t served = 0;
    bool active = false;  // has entries, so it is in turns_
  };
  using Turn = std::tuple<uint64_t, uint64_t, OwnerId>;  // leases, served, owner

  static Rank RankOf(const Entry& entry) { return {entry.priority, entry.key, entry.order}; }
  static bool Later(const Entry& a, const Entry& b) { return RankOf(b) < RankOf(a); }
  OwnerId GroupOf(OwnerId owner) const { return policy_ == Policy::kFairShare ? owner : 0; }
  int64_t KeyOf(const ReadyTask& task) const;
  Turn TurnOf(OwnerId id, const Owner& owner) const { return {owner.leases, owner.served, id}; }
  std::optional<ReadyTask> PopFrom(OwnerId id, Owner* owner, const Accept& accept, const Valid& valid);
  void DropFirst(Lane* lane);
  void SetActive(OwnerId id, Owner* owner, bool active);
  static ReadyTask ToTask(OwnerId owner, ClassId task_class, const Entry& entry);

  const Policy policy_;
  std::map<OwnerId, Owner> owners_;
  std::set<Turn> turns_;
  uint64_t size_ = 0;
};

}  // namespace pillion::scheduler

#endif  // PILLION_SCHEDULER_POLICY_H_
