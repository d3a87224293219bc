// What the demo computes itself: the slowdown of the trainer, and which run id makes that a fair comparison. Pure.
#ifndef PILLION_CLI_DEMO_FIGURES_H_
#define PILLION_CLI_DEMO_FIGURES_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace pillion::demo {

struct Iteration {
  int64_t start_ns = 0, end_ns = 0;
  bool quiet = false;
};

// Iterations come in blocks of eight that are quiet or not as a whole. One block is left out as warm-up; the rest is
// cut into groups of four blocks, and each group has exactly one quiet one, never next to another.
inline constexpr uint32_t kQuietOneIn = 4;
inline constexpr uint64_t kBlockIterations = 8;
inline constexpr uint64_t kWarmUpIterations = kBlockIterations;
inline constexpr uint64_t kGroupIterations = kQuietOneIn * kBlockIterations;
inline constexpr uint64_t kMostGroups = 16;

// Iterations of a run with so many groups.
constexpr uint64_t IterationsOf(uint64_t groups) { return kWarmUpIterations + groups * kGroupIterations; }
// The first run id from `from` on whose quiet blocks lie so, for at most kMostGroups groups.
uint64_t ChooseRunId(uint64_t from, uint64_t groups);

struct Slowdown {
  double mean = 0, low = 0, high = 0;  // shares; low and high: 95 % interval
  uint64_t groups = 0;
};

// In each group that lies within [from_ns, to_ns]: mean iteration with side work ÷ mean quiet iteration − 1. Then the
// mean over groups and its interval by Student's t: neighbours in time are compared, so that a machine whose speed
// drifts does not show as slowdown. A quiet block's first iteration is left out, because its predecessor's side work
// may be felt in it, and so are iterations beyond thrice the median, quiet or not. `ranks`: each is one more sample
// of every group. Nothing when fewer than two samples are left.
std::optional<Slowdown> MeasureSlowdown(const std::vector<std::vector<Iteration>>& ranks, int64_t from_ns,
                                        int64_t to_ns);

}  // namespace pillion::demo

#endif  // PILLION_CLI_DEMO_FIGURES_H_
