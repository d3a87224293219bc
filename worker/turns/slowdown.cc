#include "worker/turns/slowdown.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace pillion::turns {
namespace {

// Two-sided 95 % quantiles of Student's t for 1, 2, … degrees of freedom.
double StudentT95(size_t degrees) {
  static constexpr std::array<double, 30> kTable = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306,
                                                    2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
                                                    2.110,  2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064,
                                                    2.060,  2.056, 2.052, 2.048, 2.045, 2.042};
  if (degrees == 0) return kTable[0];
  return degrees <= kTable.size() ? kTable[degrees - 1] : 1.96 + 2.4 / static_cast<double>(degrees);
}


double Mean(const std::deque<double>& samples) {
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

}  // namespace

Interval MeanInterval(const std::deque<double>& samples) {
  Interval interval;
  if (samples.empty()) return interval;
  interval.mean = interval.low = interval.high = Mean(samples);
  if (samples.size() < 2) return interval;
  double squares = 0;
  for (double sample : samples) squares += (sample - interval.mean) * (sample - interval.mean);
  auto count = static_cast<double>(samples.size());
  double half = StudentT95(samples.size() - 1) * std::sqrt(squares / (count - 1) / count);
  interval.low -= half;
  interval.high += half;
  interval.known = true;
  return interval;
}

SlowdownMeter::SlowdownMeter(size_t blocks_kept) : blocks_kept_(std::min(blocks_kept, kMostBlocks)) {}

void SlowdownMeter::Forget() {
  before_.clear();
  quiet_.clear();
  after_.clear();
  ratios_.clear();
  in_quiet_ = waiting_ = false;
  usual_ns_ = quiet_sum_ns_ = 0;
  quiet_count_ = 0;
}

bool SlowdownMeter::IsUsual(double duration_ns) {
  if (usual_ns_ == 0) usual_ns_ = duration_ns;
  bool usual = duration_ns < 3 * usual_ns_;
  // Follows a lasting change within a few dozen iterations.
  usual_ns_ += (std::min(duration_ns, 4 * usual_ns_) - usual_ns_) / 16;
  return usual;
}

void SlowdownMeter::Observe(bool quiet, double duration_ns) {
  if (!IsUsual(duration_ns)) return;
  if (quiet) {
    if (!in_quiet_ && waiting_) Complete();  // the next block comes before sixteen iterations were in between
    bool first = !in_quiet_;
    in_quiet_ = true;
    if (first) return;
    quiet_.push_back(duration_ns);
    quiet_sum_ns_ += duration_ns;
    ++quiet_count_;
    return;
  }
  if (in_quiet_) {
    in_quiet_ = false;
    waiting_ = true;
    after_.clear();
  }
  if (waiting_) {
    after_.push_back(duration_ns);
    if (after_.size() == kNeighbours) Complete();
    return;
  }
  before_.push_back(duration_ns);
  if (before_.size() > kNeighbours) before_.pop_front();
}

void SlowdownMeter::Complete() {
  waiting_ = false;
  std::deque<double> harvesting = before_;
  harvesting.insert(harvesting.end(), after_.begin(), after_.end());
  if (quiet_.size() >= 3 && harvesting.size() >= 3) {
    ratios_.push_back(Mean(harvesting) / Mean(quiet_) - 1);
    if (ratios_.size() > blocks_kept_) ratios_.pop_front();
  }
  before_ = std::move(after_);
  after_.clear();
  quiet_.clear();
}

Interval SlowdownMeter::Estimate() const { return MeanInterval(ratios_); }

}  // namespace pillion::turns
