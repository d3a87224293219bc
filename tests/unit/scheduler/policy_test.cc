#include "scheduler/policy.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace pillion::scheduler {
namespace {

bool Any(ClassId) { return true; }
bool Always(const ReadyTask&) { return true; }

ReadyTask Make(OwnerId owner, uint64_t order, int32_t priority = 0, ClassId task_class = 0) {
  ReadyTask task;
  task.owner = owner;
  task.task_class = task_class;
  task.order = order;
  task.priority = priority;
  task.index = static_cast<uint32_t>(order);
  return task;
}

std::vector<uint64_t> Drain(ReadyQueue* queue) {
  std::vector<uint64_t> orders;
  while (auto task = queue->Pop(Any, Always)) orders.push_back(task->order);
  return orders;
}

TEST(ReadyQueue, FairShareAlternatesBetweenOwners) {
  ReadyQueue queue(Policy::kFairShare);
  for (uint64_t i = 0; i < 6; ++i) queue.Push(Make(i < 4 ? 1 : 2, i));
  std::vector<OwnerId> owners;
  while (auto task = queue.Pop(Any, Always)) {
    owners.push_back(task->owner);
    queue.AddLease(task->owner, 1);
  }
  EXPECT_EQ(owners, (std::vector<OwnerId>{1, 2, 1, 2, 1, 1}));
}

TEST(ReadyQueue, ReturningOwnerDoesNotCollectWhatItMissed) {
  ReadyQueue queue(Policy::kFairShare);
  for (uint64_t i = 0; i < 100; ++i) queue.Push(Make(1, i));
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(queue.Pop(Any, Always));
    queue.AddLease(1, 1);
    queue.AddLease(1, -1);
  }
  for (uint64_t i = 100; i < 150; ++i) queue.Push(Make(2, i));
  int second = 0;
  for (int i = 0; i < 20; ++i) {
    auto task = queue.Pop(Any, Always);
    second += task->owner == 2;
    queue.AddLease(task->owner, 1);
    queue.AddLease(task->owner, -1);
  }
  EXPECT_NEAR(second, 10, 1);
}

TEST(ReadyQueue, PriorityThenSubmission) {
  for (Policy policy : {Policy::kFairShare, Policy::kFifo}) {
    ReadyQueue queue(policy);
    queue.Push(Make(1, 1));
    queue.Push(Make(1, 2, 5));
    queue.Push(Make(1, 3, 5, 7));
    queue.Push(Make(1, 0));
    EXPECT_EQ(Drain(&queue), (std::vector<uint64_t>{2, 3, 0, 1}));
  }
}

TEST(ReadyQueue, EarliestDeadlineAndShortestRemaining) {
  ReadyQueue deadline(Policy::kEarliestDeadline), shortest(Policy::kShortestRemaining);
  for (uint64_t i = 0; i < 3; ++i) {
    ReadyTask task = Make(static_cast<OwnerId>(i), i);
    task.deadline_ns = 100 - static_cast<int64_t>(i);
    task.remaining_us = i == 1 ? 5 : 10 + i;
    deadline.Push(task);
    shortest.Push(task);
  }
  EXPECT_EQ(Drain(&deadline), (std::vector<uint64_t>{2, 1, 0}));
  EXPECT_EQ(Drain(&shortest), (std::vector<uint64_t>{1, 0, 2}));
}

TEST(ReadyQueue, SkipsClassesThatNobodyTakes) {
  ReadyQueue queue(Policy::kFairShare);
  queue.Push(Make(1, 0, 9, 1));
  queue.Push(Make(1, 1, 0, 2));
  auto only_two = [](ClassId id) { return id == 2; };
  EXPECT_EQ(queue.Pop(only_two, Always)->order, 1u);
  EXPECT_FALSE(queue.Pop(only_two, Always));
  EXPECT_EQ(queue.size(), 1u);
}

TEST(ReadyQueue, RangesGiveEachTaskOnceAndInOrder) {
  ReadyQueue queue(Policy::kFifo);
  ReadyTask range = Make(1, 10);
  range.index = 0;
  range.count = 5;
  queue.Push(range);
  EXPECT_EQ(queue.Pop(Any, Always)->index, 0u);
  queue.Push(Make(1, 3));  // comes back: earlier than the rest
  auto not_twelve = [](const ReadyTask& task) { return task.order != 12; };
  std::vector<uint64_t> orders;
  while (auto task = queue.Pop(Any, not_twelve)) orders.push_back(task->order);
  EXPECT_EQ(orders, (std::vector<uint64_t>{3, 11, 13, 14}));
  EXPECT_EQ(queue.size(), 0u);
}

TEST(ReadyQueue, CompactKeepsExactlyTheValid) {
  ReadyQueue queue(Policy::kFairShare);
  for (uint64_t i = 0; i < 1000; ++i) queue.Push(Make(static_cast<OwnerId>(i % 7), i, 0, static_cast<ClassId>(i % 3)));
  auto even = [](const ReadyTask& task) { return task.order % 2 == 0; };
  queue.Compact(even);
  EXPECT_EQ(queue.size(), 500u);
  std::set<uint64_t> seen;
  while (auto task = queue.Pop(Any, even)) seen.insert(task->order);
  EXPECT_EQ(seen.size(), 500u);
}

TEST(ReadyQueue, AgainstASortedReference) {
  std::mt19937 random(20260101);
  ReadyQueue queue(Policy::kFifo);
  std::set<std::pair<int32_t, uint64_t>> reference;  // (−priority, order)
  for (uint64_t order = 0; order < 20'000; ++order) {
    if (random() % 3 != 0 || reference.empty()) {
      int32_t priority = static_cast<int32_t>(random() % 5);
      queue.Push(Make(static_cast<OwnerId>(random() % 4), order, priority, static_cast<ClassId>(random() % 6)));
      reference.emplace(-priority, order);
    } else {
      ASSERT_EQ(queue.Pop(Any, Always)->order, reference.begin()->second);
      reference.erase(reference.begin());
    }
  }
}

}  // namespace
}  // namespace pillion::scheduler
