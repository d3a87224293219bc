// What a pipeline is to run: which layers form a stage, on which device a stage lives, and in which
// order every device does its work. A Plan holds no times; Costs (costs.h) and Simulate
// (simulate.h) add them. Plain values: no thread safety of their own.
#ifndef PILLION_PIPELINE_PLAN_H_
#define PILLION_PIPELINE_PLAN_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace pillion::pipeline {

// Stored in JSON by name; the list only grows.
enum class ActionType : uint8_t {
  kForward,         // F
  kInputGradient,   // I: the gradient that the stage before waits for
  kWeightGradient,  // W: may be done any time after I
  kBackward,        // B: I and W in one; the stage before waits for its end
  kSendForward,     // SEND_F: sends this stage's output (to stage + 1)
  kRecvForward,     // RECV_F: receives this stage's input (from stage - 1)
  kSendBackward,    // SEND_B: sends this stage's input gradient (to stage - 1)
  kRecvBackward,    // RECV_B: receives this stage's output gradient (from stage + 1)
  kUnshard,         // UNSHARD, RESHARD, REDUCE_GRAD: kept for the formats; no micro-batch, no time
  kReshard,
  kReduceGrad,
  kIdle,  // an empty cell of a schedule table; no stage, no micro-batch, no time
};
std::string_view ActionTypeName(ActionType type);  // "F", "I", …, "SEND_F", "UNSHARD", "" for kIdle
inline bool IsCompute(ActionType type) { return type <= ActionType::kBackward; }
inline bool IsTransfer(ActionType type) {
  return type >= ActionType::kSendForward && type <= ActionType::kRecvBackward;
}

struct Action {
  ActionType type = ActionType::kIdle;
  // Part of the same overlap block as the action before it in the order. A block is a run of
  // compute actions of which all but the first have this set.
  bool joins_previous = false;
  int32_t stage = -1;
  int32_t microbatch = -1;

  friend bool operator==(const Action& a, const Action& b) {
    return a.type == b.type && a.joins_previous == b.joins_previous && a.stage == b.stage &&
           a.microbatch == b.microbatch;
  }
};
std::string ActionName(const Action& action);  // "2F7", "3SEND_B1", "4UNSHARD"

// Layers [first_layer, end_layer) of the model; empty ranges are legal. Consecutive stages of a
// copy touch.
struct Stage {
  int32_t first_layer = 0;
  int32_t end_layer = 0;
  int32_t device = 0;      // where it lives; any stage may live anywhere
  bool recompute = false;  // keep only the stage's input after F; I (or B) runs F again first
  // Empty, or (simulator and checker only) the devices over which the stage's work is split evenly;
  // the first is `device`. Every one of them carries the stage's actions in its order.
  std::vector<int32_t> shard_devices;

  friend bool operator==(const Stage& a, const Stage& b) {
    return a.first_layer == b.first_layer && a.end_layer == b.end_layer && a.device == b.device &&
           a.recompute == b.recompute && a.shard_devices == b.shard_devices;
  }
};

struct Plan {
  int32_t devices = 0;
  int32_t microbatches = 0;
  // Copies of the model's weights (1; DualPipe and Chimera: 2). Stages [c·n, (c+1)·n), n =
  // StagesPerCopy(), are copy c's, in the order of the model. A micro-batch goes through all stages
  // of exactly one copy.
  int32_t copies = 1;
  std::vector<Stage> stages;
  std::vector<std::vector<Action>> order;  // [device] → what it does, one after the other
  std::string name;                        // "1f1b", "tuned", or empty

  int32_t StagesPerCopy() const {
    return copies > 0 ? static_cast<int32_t>(stages.size()) / copies : 0;
  }
  bool IsFirst(int32_t stage) const { return stage % StagesPerCopy() == 0; }
  bool IsLast(int32_t stage) const { return (stage + 1) % StagesPerCopy() == 0; }
  // Whether the plan says itself which transfers happen when (SEND and RECV actions); otherwise
  // they are implied.
  bool HasTransfers() const;

  friend bool operator==(const Plan& a, const Plan& b) {
    return a.devices == b.devices && a.microbatches == b.microbatches && a.copies == b.copies &&
           a.stages == b.stages && a.order == b.order;
  }
};

// The shape of a plan, without looking at dependencies: counts positive and within the limits of
// base/limits.h, one order per device, every action on a device of its stage, ids in range, blocks
// well formed, layer ranges that touch and, when layers >= 0, cover exactly [0, layers).
// kInvalidArgument names the stage, device and action that is wrong. Whether a plan of good shape
// completes is Check's answer (check.h).
Status ValidateShape(const Plan& plan, int32_t layers = -1);

// Gives the stages of every copy the layers between consecutive bounds: bounds has StagesPerCopy()
// + 1 non-decreasing entries from 0 to the number of layers.
Status AssignLayers(const std::vector<int32_t>& bounds, Plan* plan);

}  // namespace pillion::pipeline

#endif  // PILLION_PIPELINE_PLAN_H_
