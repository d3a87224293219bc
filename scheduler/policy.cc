#include "scheduler/policy.h"

#include <algorithm>

namespace pillion::scheduler {

std::string_view PolicyName(Policy policy) {
  switch (policy) {
    case Policy::kFairShare: return "fair";
    case Policy::kFifo: return "fifo";
    case Policy::kShortestRemaining: return "shortest";
    case Policy::kEarliestDeadline: return "deadline";
  }
  return "unknown";
}

Result<Policy> ParsePolicy(std::string_view text) {
  for (Policy policy :
       {Policy::kFairShare, Policy::kFifo, Policy::kShortestRemaining, Policy::kEarliestDeadline}) {
    if (text == PolicyName(policy)) return policy;
  }
  return InvalidArgument("'" + std::string(text) + "' is no policy: fair, fifo, shortest or deadline is expected");
}

int64_t ReadyQueue::KeyOf(const ReadyTask& task) const {
  switch (policy_) {
    case Policy::kShortestRemaining:
      return static_cast<int64_t>(std::min<uint64_t>(task.remaining_us, INT64_MAX));
    case Policy::kEarliestDeadline:
      return task.deadline_ns;
    default:
      return 0;
  }
}

void ReadyQueue::SetActive(OwnerId id, Owner* owner, bool active) {
  if (owner->active == active) return;
  owner->active = active;
  if (active) {
    // Who was away does not come back with a claim on everything that others got meanwhile.
    if (!turns_.empty()) {
      const Owner& first = owners_.at(std::get<2>(*turns_.begin()));
      owner->served = std::max(owner->served, first.served);
    }
    turns_.insert(TurnOf(id, *owner));
  } else {
    turns_.erase(TurnOf(id, *owner));
  }
}

void ReadyQueue::Push(const ReadyTask& task) {
  OwnerId id = GroupOf(task.owner);
  Owner& owner = owners_[id];
  Lane& lane = owner.lanes[task.task_class];
  lane.task_class = task.task_class;
  Entry entry{KeyOf(task), task.order, task.priority, task.ticket, task.job, task.index, task.count};
  if (!lane.heap.empty()) {
    Rank before = RankOf(lane.heap.front());
    if (RankOf(entry) < before) {
      owner.order.erase({before, task.task_class});
      owner.order.emplace(RankOf(entry), task.task_class);
    }
  } else {
    owner.order.emplace(RankOf(entry), task.task_class);
  }
  lane.heap.push_back(entry);
  std::push_heap(lane.heap.begin(), lane.heap.end(), Later);
  size_ += task.count;
  SetActive(id, &owner, true);
}

void ReadyQueue::DropFirst(Lane* lane) {
  --size_;
  std::pop_heap(lane->heap.begin(), lane->heap.end(), Later);
  Entry& first = lane->heap.back();
  if (first.count == 1) return lane->heap.pop_back();
  --first.count;
  ++first.index;
  ++first.order;
  std::push_heap(lane->heap.begin(), lane->heap.end(), Later);
}

ReadyTask ReadyQueue::ToTask(OwnerId owner, ClassId task_class, const Entry& entry) {
  ReadyTask task;
  task.owner = owner;
  task.task_class = task_class;
  task.priority = entry.priority;
  task.ticket = entry.ticket;
  task.order = entry.order;
  task.job = entry.job;
  task.index = entry.index;
  return task;
}

std::optional<ReadyTask> ReadyQueue::PopFrom(OwnerId id, Owner* owner, const Accept& accept, const Valid& valid) {
  for (auto position = owner->order.begin(); position != owner->order.end();) {
    ClassId task_class = position->second;
    if (!accept(task_class)) {
      ++position;
      continue;
    }
    Lane& lane = owner->lanes[task_class];
    owner->order.erase(position);
    std::optional<ReadyTask> found;
    while (!lane.heap.empty()) {
      ReadyTask task = ToTask(id, task_class, lane.heap.front());
      DropFirst(&lane);
      if (valid(task)) {
        found = task;
        break;
      }
    }
    if (lane.heap.empty()) {
      owner->lanes.erase(task_class);
    } else {
      owner->order.emplace(RankOf(lane.heap.front()), task_class);
    }
    if (found) return found;
    position = owner->order.begin();  // this lane had nothing left
  }
  return std::nullopt;
}

std::optional<ReadyTask> ReadyQueue::Pop(const Accept& accept, const Valid& valid) {
  for (auto turn = turns_.begin(); turn != turns_.end();) {
    OwnerId id = std::get<2>(*turn);
    ++turn;  // the owner may leave turns_ below
    Owner& owner = owners_.at(id);
    std::optional<ReadyTask> found = PopFrom(id, &owner, accept, valid);
    if (owner.order.empty()) SetActive(id, &owner, false);
    if (found) return found;
  }
  return std::nullopt;
}

void ReadyQueue::AddLease(OwnerId owner_id, int change) {
  OwnerId id = GroupOf(owner_id);
  Owner& owner = owners_[id];
  if (owner.active) turns_.erase(TurnOf(id, owner));
  if (change > 0) {
    owner.leases += change;
    owner.served += change;
  } else {
    owner.leases -= std::min<uint64_t>(owner.leases, -change);
  }
  if (owner.active) turns_.insert(TurnOf(id, owner));
}

void ReadyQueue::Compact(const Valid& valid) {
  std::vector<ReadyTask> kept;
  for (auto& [id, owner] : owners_) {
    for (auto& [task_class, lane] : owner.lanes) {
      std::vector<Entry> heap;
      for (const Entry& entry : lane.heap) {
        ReadyTask task = ToTask(id, task_class, entry);
        bool any = false;
        for (uint32_t i = 0; i < entry.count && !any; ++i, ++task.index, ++task.order) any = valid(task);
        if (any) {
          heap.push_back(entry);
        } else {
          size_ -= entry.count;
        }
      }
      lane.heap = std::move(heap);
      std::make_heap(lane.heap.begin(), lane.heap.end(), Later);
    }
    std::erase_if(owner.lanes, [](const auto& item) { return item.second.heap.empty(); });
    owner.order.clear();
    for (auto& [task_class, lane] : owner.lanes) owner.order.emplace(RankOf(lane.heap.front()), task_class);
    if (owner.order.empty()) SetActive(id, &owner, false);
  }
}

}  // namespace pillion::scheduler
