#include "worker/host/step_estimate.h"

#include <algorithm>
#include <array>

namespace pillion::host {

void StepEstimate::Observe(int64_t duration_ns) {
  window_[count_ % kWindow] = duration_ns;
  ++count_;
  auto held = static_cast<int>(std::min<uint64_t>(count_, kWindow));
  std::array<int64_t, kWindow> sorted;
  std::copy_n(window_, held, sorted.begin());
  // Of few steps the longest; of sixteen the fourth longest.
  int rank = held < 4 ? held - 1 : (held - 1) * 4 / 5;
  std::nth_element(sorted.begin(), sorted.begin() + rank, sorted.begin() + held);
  high_ns_ = sorted[static_cast<size_t>(rank)];
}

}  // namespace pillion::host
