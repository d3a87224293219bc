#include "pipeline/work.h"

#include <algorithm>

namespace pillion::pipeline {
namespace {

// How often each action type occurs for one stage (on one device) and micro-batch.
struct Counts {
  uint8_t forward = 0, input_gradient = 0, weight_gradient = 0, backward = 0;
  uint8_t send_forward = 0, recv_forward = 0, send_backward = 0, recv_backward = 0;

  bool IsWhole() const {
    const bool split = input_gradient == 1 && weight_gradient == 1 && backward == 0;
    const bool full = input_gradient == 0 && weight_gradient == 0 && backward == 1;
    return forward == 1 && (split || full);
  }
  uint8_t* Of(ActionType type) {
    switch (type) {
      case ActionType::kForward:
        return &forward;
      case ActionType::kInputGradient:
        return &input_gradient;
      case ActionType::kWeightGradient:
        return &weight_gradient;
      case ActionType::kBackward:
        return &backward;
      case ActionType::kSendForward:
        return &send_forward;
      case ActionType::kRecvForward:
        return &recv_forward;
      case ActionType::kSendBackward:
        return &send_backward;
      case ActionType::kRecvBackward:
        return &recv_backward;
      default:
        return nullptr;
    }
  }
};

class WorkFinder {
 public:
  WorkFinder(const Plan& plan, size_t most)
      : plan_(plan), most_(most), copies_(CopyOfMicrobatches(plan)) {}

  std::vector<std::string> Run() {
    Count();
    has_transfers_ = plan_.HasTransfers();
    for (int32_t s = 0; s < static_cast<int32_t>(plan_.stages.size()) && !Full(); ++s) {
      for (int32_t m = 0; m < plan_.microbatches && !Full(); ++m) CheckPair(s, m);
    }
    return std::move(problems_);
  }

 private:
  bool Full() const { return problems_.size() >= most_; }
  void Add(std::string problem) {
    if (!Full()) problems_.push_back(std::move(problem));
  }

  static size_t ShardCount(const Stage& stage) {
    return std::max<size_t>(1, stage.shard_devices.size());
  }
  Counts& At(int32_t stage, size_t shard, int32_t microbatch) {
    return counts_[(first_[stage] + shard) * static_cast<size_t>(plan_.microbatches) + microbatch];
  }

  void Count() {
    size_t units = 0;
    for (const Stage& stage : plan_.stages) {
      first_.push_back(units);
      units += ShardCount(stage);
    }
    counts_.resize(units * static_cast<size_t>(plan_.microbatches));
    for (int32_t d = 0; d < plan_.devices; ++d) {
      for (const Action& action : plan_.order[d]) {
        if (!IsCompute(action.type) && !IsTransfer(action.type)) continue;
        const auto& shards = plan_.stages[action.stage].shard_devices;
        const size_t shard =
            shards.empty()
                ? 0
                : static_cast<size_t>(std::find(shards.begin(), shards.end(), d) - shards.begin());
        uint8_t* count = At(action.stage, shard, action.microbatch).Of(action.type);
        if (*count < 2) ++*count;
        if (*count == 2)
          Add(ActionName(action) + " is done twice, the second time on device " +
              std::to_string(d));
      }
    }
  }

  void CheckPair(int32_t stage, int32_t microbatch) {
    const bool mine = copies_[microbatch] == stage / plan_.StagesPerCopy();
    for (size_t shard = 0; shard < ShardCount(plan_.stages[stage]); ++shard) {
      const Counts& counts = At(stage, shard, microbatch);
      if (mine && counts.IsWhole() && !has_transfers_) continue;
      const std::string who =
          "stage " + std::to_string(stage) + ", micro-batch " + std::to_string(microbatch);
      if (!mine) {
        if (counts.forward + counts.input_gradient + counts.weight_gradient + counts.backward > 0) {
          Add(who + ": work of a micro-batch that copy " + std::to_string(copies_[microbatch]) +
              " does");
        }
        continue;
      }
      if (counts.forward == 0) Add(who + ": no forward");
      if (counts.backward > 0 && counts.input_gradient + counts.weight_gradient > 0) {
        Add(who + ": a full backward B beside I or W");
      } else if (counts.backward == 0) {
        if (counts.input_gradient == 0 && counts.weight_gradient == 0) Add(who + ": no backward");
        if (counts.input_gradient == 0 && counts.weight_gradient > 0) Add(who + ": W without I");
        if (counts.input_gradient > 0 && counts.weight_gradient == 0) Add(who + ": I without W");
      }
      if (has_transfers_) CheckTransfers(stage, microbatch, counts);
    }
  }

  void CheckTransfers(int32_t stage, int32_t microbatch, const Counts& counts) {
    const bool cross_before =
        !plan_.IsFirst(stage) && plan_.stages[stage - 1].device != plan_.stages[stage].device;
    const bool cross_after =
        !plan_.IsLast(stage) && plan_.stages[stage + 1].device != plan_.stages[stage].device;
    const struct {
      uint8_t count;
      bool needed;
      ActionType type;
    } transfers[] = {{counts.send_forward, cross_after, ActionType::kSendForward},
                     {counts.recv_forward, cross_before, ActionType::kRecvForward},
                     {counts.send_backward, cross_before, ActionType::kSendBackward},
                     {counts.recv_backward, cross_after, ActionType::kRecvBackward}};
    for (const auto& transfer : transfers) {
      const std::string name = ActionName({transfer.type, false, stage, microbatch});
      if (transfer.needed && transfer.count == 0) Add(name + " is missing");
      if (!transfer.needed && transfer.count > 0) Add(name + " has no other device to talk to");
    }
  }

  const Plan& plan_;
  const size_t most_;
  const std::vector<int32_t> copies_;
  bool has_transfers_ = false;
  std::vector<size_t> first_;  // [stage] → its first row in counts_
  std::vector<Counts> counts_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<int32_t> CopyOfMicrobatches(const Plan& plan) {
  std::vector<int32_t> copies(static_cast<size_t>(plan.microbatches), 0);
  if (plan.copies == 1) return copies;
  for (const auto& order : plan.order) {
    for (const Action& action : order) {
      if (action.type == ActionType::kForward && plan.IsFirst(action.stage)) {
        copies[action.microbatch] = action.stage / plan.StagesPerCopy();
      }
    }
  }
  return copies;
}

std::vector<std::string> FindWorkProblems(const Plan& plan, size_t most) {
  return WorkFinder(plan, most).Run();
}

}  // namespace pillion::pipeline
