#include "cli/demo/figures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "api/board/board.h"

namespace pillion::demo {
namespace {

static_assert(kBlockIterations == board::kQuietBlock);

// Two-sided 95 % quantiles of Student's t for 1, 2, … degrees of freedom.
double StudentT95(size_t degrees) {
  static constexpr std::array<double, 20> kTable = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365,
                                                    2.306,  2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
                                                    2.131,  2.120, 2.110, 2.101, 2.093, 2.086};
  return degrees <= kTable.size() ? kTable[degrees - 1] : 1.96 + 2.6 / static_cast<double>(degrees);
}

double Mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// From start to start, so that nothing between iterations escapes.
double PeriodNs(const std::vector<Iteration>& iterations, size_t i) {
  const int64_t end_ns = i + 1 < iterations.size() ? iterations[i + 1].start_ns : iterations[i].end_ns;
  return static_cast<double>(end_ns - iterations[i].start_ns);
}

double MedianPeriodNs(const std::vector<Iteration>& iterations) {
  std::vector<double> periods;
  for (size_t i = 0; i < iterations.size(); ++i) periods.push_back(PeriodNs(iterations, i));
  std::nth_element(periods.begin(), periods.begin() + static_cast<ptrdiff_t>(periods.size() / 2), periods.end());
  return periods[periods.size() / 2];
}

// The ratio of the group that begins at `first`, if both sides have enough.
std::optional<double> GroupRatio(const std::vector<Iteration>& iterations, size_t first, double usual_ns) {
  std::vector<double> quiet, harvesting;
  for (size_t i = first; i < first + kGroupIterations; ++i) {
    const double period_ns = PeriodNs(iterations, i);
    if (period_ns > 3 * usual_ns) continue;
    if (!iterations[i].quiet) {
      harvesting.push_back(period_ns);
    } else if (iterations[i - 1].quiet) {
      quiet.push_back(period_ns);
    }
  }
  if (quiet.size() < kBlockIterations / 2 || harvesting.size() < kBlockIterations) return std::nullopt;
  return Mean(harvesting) / Mean(quiet) - 1;
}

}  // namespace

uint64_t ChooseRunId(uint64_t from, uint64_t groups) {
  // About two in five groups are as wanted by chance: sixteen take some million tries, a fraction of a second.
  groups = std::min(groups, kMostGroups);
  for (uint64_t run_id = std::max<uint64_t>(from, 1);; ++run_id) {
    auto quiet = [&](uint64_t block) { return board::IsQuiet(run_id, block * kBlockIterations, kQuietOneIn); };
    bool good = !quiet(0);
    for (uint64_t group = 0; good && group < groups; ++group) {
      uint32_t count = 0;
      for (uint64_t block = 1 + group * kQuietOneIn; block <= (group + 1) * kQuietOneIn; ++block) {
        if (!quiet(block)) continue;
        good = good && !quiet(block - 1);
        ++count;
      }
      good = good && count == 1;
    }
    if (good) return run_id;
  }
}

std::optional<Slowdown> MeasureSlowdown(const std::vector<std::vector<Iteration>>& ranks, int64_t from_ns,
                                        int64_t to_ns) {
  std::vector<double> ratios;
  for (const std::vector<Iteration>& iterations : ranks) {
    if (iterations.empty()) continue;
    const double usual_ns = MedianPeriodNs(iterations);
    for (size_t first = kWarmUpIterations; first + kGroupIterations <= iterations.size(); first += kGroupIterations) {
      if (iterations[first].start_ns < from_ns || iterations[first + kGroupIterations - 1].end_ns > to_ns) continue;
      if (auto ratio = GroupRatio(iterations, first, usual_ns)) ratios.push_back(*ratio);
    }
  }
  if (ratios.size() < 2) return std::nullopt;
  Slowdown slowdown;
  slowdown.groups = ratios.size();
  slowdown.mean = Mean(ratios);
  double squares = 0;
  for (double ratio : ratios) squares += (ratio - slowdown.mean) * (ratio - slowdown.mean);
  const auto count = static_cast<double>(ratios.size());
  const double half = StudentT95(ratios.size() - 1) * std::sqrt(squares / (count - 1) / count);
  slowdown.low = slowdown.mean - half;
  slowdown.high = slowdown.mean + half;
  return slowdown;
}

}  // namespace pillion::demo
