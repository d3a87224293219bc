#include "worker/turns/ledger.h"

#include <algorithm>
#include <utility>

namespace pillion::turns {
namespace {

double Percentile(std::vector<float> values, double share) {
  if (values.empty()) return 0;
  auto rank = static_cast<long>(share * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), values.begin() + rank, values.end());
  return values[static_cast<size_t>(rank)];
}

}  // namespace

void Ledger::AddBubble(const BubbleResult& result, uint32_t steps) {
  ++sums_.bubbles;
  sums_.bubble_ns += result.length_ns;
  sums_.harvest_ns += result.harvest_ns;
  sums_.useful_ns += result.useful_ns;
  sums_.intrusion_ns += result.intrusion_ns;
  sums_.overruns += result.overruns;
  sums_.steps += steps;
  if (result.eligible) {
    sums_.eligible_bubble_ns += result.length_ns;
    sums_.eligible_harvest_ns += result.harvest_ns;
  }
  Add(result.losses, &sums_.losses);
  if (result.edge_to_step_ns < 0) return;
  auto latency_us = static_cast<float>(result.edge_to_step_ns / 1000);
  if (edge_to_step_us_.size() < kLatencies) {
    edge_to_step_us_.push_back(latency_us);
  } else {
    edge_to_step_us_[next_latency_++ % kLatencies] = latency_us;
  }
}

void Ledger::AddIteration(bool quiet, int64_t duration_ns) {
  auto duration = static_cast<double>(duration_ns);
  if (quiet) {
    ++sums_.quiet_iterations;
    quiet_sum_ns_ += duration;
  } else {
    ++sums_.iterations;
    sums_.iteration_time_ns += duration;
  }
  slowdown_.Observe(quiet, duration);
}

void Ledger::AddFreeTurn(const TurnFacts& turn) {
  sums_.free_ns += static_cast<double>(turn.step_time_ns);
  sums_.steps += turn.steps;
}

void Ledger::AddTrainerRestart() {
  ++sums_.trainer_restarts;
  slowdown_.Forget();
}

void Ledger::AddEvent(TimelineEvent event) {
  if (timeline_events_ == 0) return;
  if (timeline_.size() == timeline_events_) timeline_.pop_front();
  timeline_.push_back(std::move(event));
}

void Ledger::Reset() {
  sums_ = DeviceFigures();
  quiet_sum_ns_ = 0;
  slowdown_.Forget();
  edge_to_step_us_.clear();
  next_latency_ = 0;
}

DeviceFigures Ledger::Figures() const {
  DeviceFigures figures = sums_;
  if (figures.quiet_iterations > 0) {
    figures.quiet_iteration_ns = quiet_sum_ns_ / static_cast<double>(figures.quiet_iterations);
  }
  if (figures.iterations > 0) {
    figures.harvesting_iteration_ns = figures.iteration_time_ns / static_cast<double>(figures.iterations);
  }
  figures.unexplained_ns = figures.bubble_ns - figures.harvest_ns - Total(figures.losses);
  figures.slowdown = slowdown_.Estimate();
  figures.edge_to_step_p50_us = Percentile(edge_to_step_us_, 0.5);
  figures.edge_to_step_p99_us = Percentile(edge_to_step_us_, 0.99);
  return figures;
}

}  // namespace pillion::turns
