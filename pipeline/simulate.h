// Replays a plan against costs: exact, deterministic, event-driven. The semantics, which every
// other evaluator in this room has to reproduce to the tick:
//
//  * A device does the actions of its order one after the other; each starts as soon as the device
//  is free and its
//    inputs are there. Nothing is reordered. Devices start at 0.
//  * Inputs. F(s, m): F(s-1, m) unless s is the first of its copy. I(s, m) and B(s, m): F(s, m),
//  and I or B(s+1, m)
//    unless s is the last. W(s, m): I(s, m). An output is there at the end of its action on the
//    same device, and on another one when its transfer arrives.
//  * Transfers. Each boundary between stages on different devices moves output_bytes of the earlier
//  stage forwards and
//    the same back, per micro-batch. A transfer becomes ready when its producer ends, starts when
//    the directed link (from, to) is free, occupies it for Link::Occupancy, and arrives
//    Link::latency later. A link serves in the order of becoming ready; ties: forward before
//    gradient, then lower producing stage, then lower micro-batch. Compute goes on meanwhile
//    (overlap_communication); without it the producer's device stays busy until its transfer has
//    left the link (start + occupancy), which counts as bubble, not as work.
//  * Plans with SEND and RECV actions. A SEND makes its transfer ready when its turn comes and
//  takes no time itself; a
//    RECV blocks its device until the transfer arrives. Inputs from another device count as there
//    after the RECV.
//  * Overlap blocks. kAtomic: a block starts when the inputs of all its actions are there, except
//  those made inside
//    the block; it takes the sum of its actions' times, and all of them have the block's start and
//    end. kSequence: as if there were no block.
//  * Live (stage, micro-batch) pairs, live layers and bytes. A pair lives on its device from the
//  start of F to the
//    end of the later of I and W (of B when not split). Live layers = sum of the body layers of the
//    live pairs' stages. Bytes = parameters of the device's stages + per live pair: both activation
//    parts from the start of F, the first part until the end of I, the second until the pair dies.
//    At one instant ends count before starts. A stage that recomputes holds input_bytes from the
//    start of F and nothing else until I (or B) starts, which then holds both parts as above; it
//    counts as live layers and as a live pair only from there. input_bytes go at the end of I.
//  * Split stages (Stage::shard_devices). Every shard does every action; F of a shard needs the
//  whole output of the
//    stage before (one transfer to each shard's device); I of each shard needs F of all shards, the
//    latency of their links later; the stage before needs the input gradient of all shards (one
//    transfer from each).
#ifndef PILLION_PIPELINE_SIMULATE_H_
#define PILLION_PIPELINE_SIMULATE_H_

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "pipeline/costs.h"
#include "pipeline/plan.h"

namespace pillion::pipeline {

enum class OverlapMode : uint8_t { kAtomic, kSequence };

struct SimulateOptions {
  OverlapMode overlap = OverlapMode::kAtomic;
  bool overlap_communication = true;
  bool keep_memory_samples = false;  // fills SimulationResult::memory
};

struct Interval {
  Ticks start = 0;
  Ticks end = 0;
  Ticks length() const { return end - start; }
  friend bool operator==(const Interval& a, const Interval& b) {
    return a.start == b.start && a.end == b.end;
  }
};

struct Transfer {
  int32_t from_stage = 0, to_stage = 0;  // to_stage < from_stage: a gradient
  int32_t microbatch = 0;
  int32_t from_device = 0, to_device = 0;
  int64_t bytes = 0;
  Ticks ready = 0, start = 0, arrival = 0;
};

struct MemorySample {  // the state from `time` on, until the next sample
  Ticks time = 0;
  int64_t bytes = 0;
  int64_t live_layers = 0;
  int32_t live_pairs = 0;
};

struct SimulationResult {
  Ticks makespan = 0;     // from 0 to the end of the last compute action
  Ticks device_span = 0;  // the longest, over devices, from its first start to its last end
  std::vector<std::vector<Interval>> times;  // [device][index in order]
  std::vector<Ticks> busy;                   // [device] compute
  std::vector<std::vector<Interval>>
      bubbles;  // [device] gaps without compute in [0, makespan), none of length 0
  std::vector<int64_t> peak_bytes;                // [device]
  std::vector<int64_t> peak_live_layers;          // [device]
  std::vector<int32_t> peak_live_pairs;           // [device] (stage, micro-batch) pairs
  std::vector<std::vector<MemorySample>> memory;  // [device], when asked for
  std::vector<Transfer> transfers;                // in order of start
};

// kInvalidArgument when the plan's shape does not fit itself or the costs; kFailedPrecondition when
// it cannot complete, with the actions that wait for each other (Check in check.h says more). Caps
// are reported by Check, not enforced here.
Result<SimulationResult> Simulate(const Plan& plan, const Costs& costs,
                                  const SimulateOptions& options = {});

}  // namespace pillion::pipeline

#endif  // PILLION_PIPELINE_SIMULATE_H_
