// GPipe, 1F1B, interleaved 1F1B, breadth-first, ZB-H1 and ZB-H2.
#include <algorithm>

#include "pipeline/schedules/builder.h"

namespace pillion::pipeline {
namespace {

PlanBuilder Straight(const ScheduleOptions& options) {
  return PlanBuilder(options, options.devices, 1, [](int32_t stage) { return stage; });
}

PlanBuilder Looped(const ScheduleOptions& options) {
  return PlanBuilder(options, options.devices * options.chunks, 1,
                     [&options](int32_t stage) { return stage % options.devices; });
}

// 1F1B with split backward. Rank r has `warm_up` forwards before its first F, I pair and does its
// first W after `delay` + 1 input gradients.
void AddZeroBubbleRank(int32_t rank, int32_t warm_up, int32_t delay, int32_t microbatches,
                       PlanBuilder* builder) {
  int32_t forwards = 0, weights = 0;
  for (; forwards < std::min(warm_up, microbatches); ++forwards) builder->Forward(rank, forwards);
  for (int32_t i = 0; i < microbatches; ++i) {
    if (forwards < microbatches) builder->Forward(rank, forwards++);
    builder->InputGradient(rank, i);
    if (i >= delay) builder->WeightGradient(rank, weights++);
  }
  while (weights < microbatches) builder->WeightGradient(rank, weights++);
}

}  // namespace

Plan MakeGPipe(const ScheduleOptions& options) {
  PlanBuilder builder = Straight(options);
  for (int32_t r = 0; r < options.devices; ++r) {
    for (int32_t m = 0; m < options.microbatches; ++m) builder.Forward(r, m);
    for (int32_t m = 0; m < options.microbatches; ++m) builder.Backward(r, m);
  }
  return builder.Take();
}

Plan MakeOneFOneB(const ScheduleOptions& options) {
  PlanBuilder builder = Straight(options);
  for (int32_t r = 0; r < options.devices; ++r) {
    int32_t forwards = 0;
    const int32_t warm_up = std::min(options.microbatches, options.devices - 1 - r);
    while (forwards < warm_up) builder.Forward(r, forwards++);
    for (int32_t m = 0; m < options.microbatches; ++m) {
      if (forwards < options.microbatches) builder.Forward(r, forwards++);
      builder.Backward(r, m);
    }
  }
  return builder.Take();
}

Plan MakeInterleaved(const ScheduleOptions& options) {
  PlanBuilder builder = Looped(options);
  const int32_t p = options.devices, v = options.chunks, m = options.microbatches;
  const int32_t group = options.group > 0 ? options.group : p;
  struct Entry {
    int32_t chunk, microbatch;
  };
  std::vector<Entry> table;
  for (int32_t first = 0; first < m; first += group) {
    for (int32_t chunk = 0; chunk < v; ++chunk) {
      for (int32_t i = first; i < std::min(m, first + group); ++i) table.push_back({chunk, i});
    }
  }
  const size_t total = table.size();
  for (int32_t r = 0; r < p; ++r) {
    size_t forwards = 0;
    auto forward = [&] {
      builder.Forward(table[forwards].chunk * p + r, table[forwards].microbatch);
      ++forwards;
    };
    const size_t warm_up =
        std::min(total, static_cast<size_t>(2 * (p - 1 - r)) + static_cast<size_t>(v - 1) * group);
    while (forwards < warm_up) forward();
    for (const Entry& entry : table) {
      if (forwards < total) forward();
      builder.Backward((v - 1 - entry.chunk) * p + r, entry.microbatch);
    }
  }
  return builder.Take();
}

Plan MakeBreadthFirst(const ScheduleOptions& options) {
  PlanBuilder builder = Looped(options);
  const int32_t p = options.devices;
  for (int32_t r = 0; r < p; ++r) {
    for (int32_t chunk = 0; chunk < options.chunks; ++chunk) {
      for (int32_t m = 0; m < options.microbatches; ++m) builder.Forward(chunk * p + r, m);
    }
    for (int32_t chunk = options.chunks - 1; chunk >= 0; --chunk) {
      for (int32_t m = 0; m < options.microbatches; ++m) builder.Backward(chunk * p + r, m);
    }
  }
  return builder.Take();
}

Plan MakeZbH1(const ScheduleOptions& options) {
  PlanBuilder builder = Straight(options);
  for (int32_t r = 0; r < options.devices; ++r) {
    AddZeroBubbleRank(r, options.devices - 1 - r, r, options.microbatches, &builder);
  }
  return builder.Take();
}

// Twice ZB-H1's forwards in flight, and weight gradients held back twice as long: 2p - 1
// micro-batches everywhere.
Plan MakeZbH2(const ScheduleOptions& options) {
  PlanBuilder builder = Straight(options);
  for (int32_t r = 0; r < options.devices; ++r) {
    AddZeroBubbleRank(r, 2 * (options.devices - 1 - r), 2 * r, options.microbatches, &builder);
  }
  return builder.Take();
}

}  // namespace pillion::pipeline
