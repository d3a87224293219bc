// How an elastic task fills a step: small items one after the other until the step's time is used
// up. What an item is and in which order items come never depends on the time, so results do not
// depend on where steps are cut.
#ifndef PILLION_SIDETASKS_STEP_PACER_H_
#define PILLION_SIDETASKS_STEP_PACER_H_

#include <algorithm>
#include <cstdint>

#include "base/clock.h"
#include "pillion/arguments.h"
#include "pillion/side_task.h"

namespace pillion::sidetasks {

class StepPacer {
 public:
  // Arguments "step_us" (longest step, default 2000) and "items_per_step" (exactly so many instead;
  // default 0: by time).
  Status Init(InitContext& context) {
    PILLION_ASSIGN_OR_RETURN(int64_t step_us,
                             context.arguments().Integer("step_us", 2000, 1, 60'000'000));
    PILLION_ASSIGN_OR_RETURN(items_per_step_,
                             context.arguments().Integer("items_per_step", 0, 0, 1'000'000'000));
    step_ns_ = step_us * kNanosPerMicro;
    if (items_per_step_ == 0) context.DeclareElastic();
    return Status::Ok();
  }

  void BeginStep(const StepContext& context) {
    context_ = &context;
    items_ = 0;
    last_ns_ = begin_ns_ = MonotonicNowNs();
    budget_ns_ = std::min(step_ns_, context.time_left_ns());
  }

  // Call after each item. True when another one fits, as long as the longer ones of late, unless
  // somebody wants us to stop.
  bool AnotherFits() {
    ++items_;
    if (context_->stop_requested()) return false;
    if (items_per_step_ > 0) return items_ < items_per_step_;
    const int64_t now_ns = MonotonicNowNs();
    const int64_t item_ns = now_ns - last_ns_;
    last_ns_ = now_ns;
    if (item_ns > item_reserve_ns_) {
      // Longer items are believed step by step: most that seem so were interrupted.
      item_reserve_ns_ = std::min(item_ns, 4 * item_reserve_ns_ + kNanosPerMicro);
    } else {
      item_reserve_ns_ -= (item_reserve_ns_ - item_ns) / 8;
    }
    return now_ns - begin_ns_ + item_reserve_ns_ <= budget_ns_;
  }

 private:
  int64_t step_ns_ = 0;
  int64_t items_per_step_ = 0;
  int64_t item_reserve_ns_ = 0;
  const StepContext* context_ = nullptr;  // during a step
  int64_t begin_ns_ = 0, last_ns_ = 0, budget_ns_ = 0;
  int64_t items_ = 0;
};

}  // namespace pillion::sidetasks

#endif  // PILLION_SIDETASKS_STEP_PACER_H_
