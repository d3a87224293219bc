// What the tuner's inner loops look at: the costs as prefix sums over layers, and a partition with
// its placement resolved into one row of numbers per stage. Plain values, no thread safety of their
// own.
#ifndef PILLION_PIPELINE_TUNER_PROBLEM_H_
#define PILLION_PIPELINE_TUNER_PROBLEM_H_

#include <cstdint>
#include <vector>

#include "pipeline/costs.h"

namespace pillion::pipeline::tuner {

// The kinds of work as indices. Without a split backward kInput stands for the whole backward and
// kWeight is unused.
enum Kind : int32_t { kForward = 0, kInput = 1, kWeight = 2 };
inline constexpr int32_t kKinds = 3;

// Two memories are watched in the same way: live layers and bytes.
inline constexpr int32_t kMemories = 2;

// Everything that stays the same during one search.
struct Problem {
  int32_t layers = 0;
  int32_t devices = 0;
  int32_t microbatches = 0;
  bool split_backward = true;
  bool allow_recompute = false;
  bool has_caps = false;
  int32_t first_memory = 0, end_memory = kMemories;  // those that have a cap on some device
  bool has_links = false;
  bool has_speeds = false;
  int32_t max_stages = 0;  // in all
  int32_t max_stages_per_device = 0;

  // [layer] .. one more entry than layers.
  std::vector<Ticks> work_until[kKinds];
  std::vector<int64_t> parameters_until, held_until_input_until, held_until_weight_until,
      body_until;
  std::vector<int64_t> output_bytes;    // [layer]
  std::vector<double> speed;            // [device]
  std::vector<int64_t> cap[kMemories];  // [device]
  std::vector<Link> links;              // [from * devices + to]; empty: free

  Ticks total() const;  // F + I + W of one micro-batch on a device of speed 1
  Ticks WorkOf(int32_t kind, int32_t first, int32_t end) const {
    return work_until[kind][end] - work_until[kind][first];
  }
  Ticks LoadOf(int32_t first, int32_t end) const {
    return WorkOf(kForward, first, end) + WorkOf(kInput, first, end) + WorkOf(kWeight, first, end);
  }
};

struct ProblemOptions {
  int32_t microbatches = 1;
  int32_t max_stages_per_device = 0;  // 0: as many as there are layers
  bool split_backward = true;
  bool allow_recompute = false;
};
Problem MakeProblem(const Costs& costs, const ProblemOptions& options);

// A partition and a placement. Stage s has layers [bound[s], bound[s + 1]) and lives on device[s].
struct Shape {
  std::vector<int32_t> bound;
  std::vector<int32_t> device;
  std::vector<uint8_t> recompute;

  int32_t stages() const { return static_cast<int32_t>(device.size()); }
};

// One stage of a shape, resolved. Memory: acquired when F starts, when I starts, released when I
// ends, when W ends (with I when there is no W).
struct StageRow {
  Ticks time[kKinds] = {0, 0, 0};
  int32_t device = 0;
  int64_t acquire_forward[kMemories] = {0, 0};
  int64_t acquire_input[kMemories] = {0, 0};
  int64_t release_input[kMemories] = {0, 0};
  int64_t release_weight[kMemories] = {0, 0};
  // Transfer to the next stage and back to the one before; 0 on the same device.
  Ticks forward_occupancy = 0, forward_latency = 0;
  Ticks input_occupancy = 0, input_latency = 0;
  int32_t forward_link = -1, input_link = -1;  // from * devices + to, or -1
};

// The rows of a shape, and what every device has in all. Buffers are kept, so that refilling does
// not allocate.
struct Table {
  int32_t stages = 0;
  std::vector<StageRow> row;
  std::vector<Ticks> load;               // [device] all micro-batches
  std::vector<Ticks> head;               // [device] the forwards before its first stage
  std::vector<int64_t> room[kMemories];  // [device] cap - parameters - room for one recomputation
  std::vector<int64_t> room_all[kMemories];  // [device] cap - parameters
  std::vector<int64_t> one[kMemories];  // [device] what one micro-batch holds after its forwards
  Ticks floor = 0;                      // no order is faster: the largest head + load
  bool fits = true;                     // every device can hold its parameters and one micro-batch

  void Fill(const Problem& problem, const Shape& shape);
};

}  // namespace pillion::pipeline::tuner

#endif  // PILLION_PIPELINE_TUNER_PROBLEM_H_
