// DualPipeV, DualPipe and Chimera: two streams of work meet on every device.
#include <deque>

#include "pipeline/schedules/builder.h"

namespace pillion::pipeline {
namespace {

// One device's order of DualPipeV, in terms of its two chunks. DualPipe is the same with one chunk
// of each copy.
class DualPipeRank {
 public:
  // Chunk c is `stages[c]`; its k-th micro-batch is first_microbatch[c] + k.
  DualPipeRank(const int32_t (&stages)[2], const int32_t (&first_microbatch)[2],
               PlanBuilder* builder)
      : stages_{stages[0], stages[1]},
        first_{first_microbatch[0], first_microbatch[1]},
        builder_(*builder) {}

  // Rank r of q (counted from the end where chunk 0 enters), m micro-batches per chunk.
  void Run(int32_t r, int32_t q, int32_t m) {
    for (int32_t i = 0; i < 2 * (q - r - 1); ++i) Forward(0);
    for (int32_t i = 0; i < r + 1; ++i) {
      Forward(0);
      Forward(1);
    }
    for (int32_t i = 0; i < q - r - 1; ++i) {
      SplitBackward(1);
      WeightGradient();
      Forward(1);
    }
    for (int32_t i = 0; i < m - 2 * q + r + 1; ++i) {
      if (i == 0 && r == q - 1) {
        Forward(0);
        Backward(1);
      } else {
        ForwardBackward(0, 1);
      }
      ForwardBackward(1, 0);
    }
    for (int32_t i = 0; i < q - r - 1; ++i) {
      Backward(1);
      ForwardBackward(1, 0);
    }
    // The second half of this step splits its backward, so that the weight gradients fill what
    // follows.
    for (int32_t i = 0; i < 2 * (r + 1); ++i) {
      const int32_t chunk = 1 - i % 2;
      if (i < r + 1) {
        Backward(chunk);
      } else {
        SplitBackward(chunk);
      }
    }
    for (int32_t i = 0; i < q - r - 1; ++i) {
      WeightGradient();
      SplitBackward(0);
    }
    while (!weight_queue_.empty()) WeightGradient();
  }

 private:
  int32_t NextForward(int32_t chunk) { return first_[chunk] + forwards_[chunk]++; }
  int32_t NextBackward(int32_t chunk) { return first_[chunk] + backwards_[chunk]++; }
  void Forward(int32_t chunk) { builder_.Forward(stages_[chunk], NextForward(chunk)); }
  void Backward(int32_t chunk) { builder_.Backward(stages_[chunk], NextBackward(chunk)); }
  void ForwardBackward(int32_t forward_chunk, int32_t backward_chunk) {
    Forward(forward_chunk);
    builder_.Add(ActionType::kBackward, stages_[backward_chunk], NextBackward(backward_chunk),
                 true);
  }
  void SplitBackward(int32_t chunk) {
    const int32_t microbatch = NextBackward(chunk);
    builder_.InputGradient(stages_[chunk], microbatch);
    weight_queue_.push_back({stages_[chunk], microbatch});
  }
  void WeightGradient() {
    builder_.WeightGradient(weight_queue_.front().first, weight_queue_.front().second);
    weight_queue_.pop_front();
  }

  const int32_t stages_[2];
  const int32_t first_[2];
  int32_t forwards_[2] = {0, 0};
  int32_t backwards_[2] = {0, 0};
  std::deque<std::pair<int32_t, int32_t>> weight_queue_;
  PlanBuilder& builder_;
};

}  // namespace

Plan MakeDualPipeV(const ScheduleOptions& options) {
  const int32_t q = options.devices;
  PlanBuilder builder(options, 2 * q, 1,
                      [q](int32_t stage) { return stage < q ? stage : 2 * q - 1 - stage; });
  for (int32_t r = 0; r < q; ++r) {
    const int32_t stages[2] = {r, 2 * q - 1 - r};
    const int32_t first[2] = {0, 0};
    DualPipeRank(stages, first, &builder).Run(r, q, options.microbatches);
  }
  return builder.Take();
}

// Copy 0 runs from device 0 upwards with the first half of the micro-batches, copy 1 from the last
// device downwards.
Plan MakeDualPipe(const ScheduleOptions& options) {
  const int32_t p = options.devices, half = options.microbatches / 2;
  PlanBuilder builder(options, p, 2,
                      [p](int32_t stage) { return stage < p ? stage : 2 * p - 1 - stage; });
  for (int32_t r = 0; r < p; ++r) {
    const int32_t up = r, down = 2 * p - 1 - r;  // this device's stage of copy 0 and of copy 1
    const bool first_half = r < p / 2;
    const int32_t stages[2] = {first_half ? up : down, first_half ? down : up};
    const int32_t first[2] = {first_half ? 0 : half, first_half ? half : 0};
    DualPipeRank(stages, first, &builder).Run(first_half ? r : p - 1 - r, p / 2, half);
  }
  return builder.Take();
}

// Two mirrored 1F1B pipelines whose unit slots interlock: in each unit of p micro-batches, half go
// up and half go down. With F and B one slot long, stage s does F of its i-th micro-batch in slot s
// + 2i and B in slot 2p - 1 - s + 2i; p is even, so the mirrored pipeline uses exactly the other
// slots. The next unit follows 2p slots later.
Plan MakeChimera(const ScheduleOptions& options) {
  const int32_t p = options.devices;
  PlanBuilder builder(options, p, 2,
                      [p](int32_t stage) { return stage < p ? stage : 2 * p - 1 - stage; });
  const int32_t units = (options.microbatches + p - 1) / p;
  for (int32_t device = 0; device < p; ++device) {
    std::vector<Action> slots(static_cast<size_t>(2 * p * units + p));
    for (int32_t unit = 0; unit < units; ++unit) {
      for (int32_t copy = 0; copy < 2; ++copy) {
        const int32_t s = copy == 0 ? device : p - 1 - device;
        for (int32_t i = 0; i < p / 2; ++i) {
          const int32_t microbatch = unit * p + 2 * i + copy;
          const int32_t begin = 2 * p * unit + 2 * i;
          slots[begin + s] = {ActionType::kForward, false, copy * p + s, microbatch};
          slots[begin + 2 * p - 1 - s] = {ActionType::kBackward, false, copy * p + s, microbatch};
        }
      }
    }
    for (const Action& action : slots) {
      if (action.type != ActionType::kIdle)
        builder.Add(action.type, action.stage, action.microbatch);
    }
  }
  return builder.Take();
}

}  // namespace pillion::pipeline
