// Tune: baselines and regular seeds, then rounds of annealing walks. A round gives every walk its
// own random stream and share of the budget; the walks of the next, shorter list start from the
// best of the last. Which thread runs a walk changes nothing, and results are reduced in the walks'
// order.
#include "pipeline/tune.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "base/limits.h"
#include "pipeline/simulate.h"
#include "pipeline/tuner/baselines.h"
#include "pipeline/tuner/bounds.h"
#include "pipeline/tuner/convert.h"
#include "pipeline/tuner/seeds.h"
#include "pipeline/tuner/walker.h"

namespace pillion::pipeline {
namespace {

using tuner::Budget;
using tuner::Candidate;
using tuner::SteadyTime;
using tuner::Walker;

// One round: how many walks, their share of the whole budget, temperatures as shares of the lower
// bound.
struct Round {
  int32_t walks;
  double share;
  double hot, cold;
};
constexpr Round kRounds[] = {{8, 0.30, 4e-3, 3e-4}, {4, 0.30, 2e-3, 1.5e-4}, {2, 0.40, 1e-3, 2e-5}};
constexpr int32_t kSeeds = 8;

Status ValidateOptions(const Costs& costs, const TuneOptions& options) {
  PILLION_RETURN_IF_ERROR(ValidateCosts(costs));
  auto bad = [](std::string text) { return InvalidArgument(std::move(text)); };
  if (options.microbatches < 1 || options.microbatches > limits::kPlanMicrobatches) {
    return bad(std::to_string(options.microbatches) + " micro-batches; 1 to " +
               std::to_string(limits::kPlanMicrobatches) + " are possible");
  }
  if (costs.devices.size() > costs.layers.size()) {
    return bad(std::to_string(costs.devices.size()) + " devices but only " +
               std::to_string(costs.layers.size()) +
               " layers: a device would have nothing to do; use fewer devices");
  }
  if (!(options.max_seconds >= 0) || options.max_evaluations < 0 || options.max_stages < 0 ||
      options.threads < 0) {
    return bad("limits of the search (seconds, evaluations, stages, threads) cannot be negative");
  }
  if (options.max_seconds == 0 && options.max_evaluations == 0) {
    return bad("the search needs an end: seconds or evaluations");
  }
  return Status();
}

class Search {
 public:
  Search(const Costs& costs, const TuneOptions& options) : costs_(costs), options_(options) {
    tuner::ProblemOptions shape;
    shape.microbatches = options.microbatches;
    shape.max_stages_per_device = options.max_stages;
    shape.split_backward = options.split_backward;
    shape.allow_recompute = options.allow_recompute;
    problem_ = tuner::MakeProblem(costs, shape);
    begin_ = std::chrono::steady_clock::now();
    threads_ = options.threads > 0
                   ? options.threads
                   : std::max(1, static_cast<int32_t>(std::thread::hardware_concurrency()));
  }

  Result<TuneResult> Run() {
    bound_ = tuner::ProveBound(problem_);
    Report("baselines");
    baselines_ = tuner::RunBaselines(costs_, options_.microbatches, options_.split_backward);
    Report("seeds");
    MakeStarts();
    if (starts_.empty() && baselines_.fitting.empty()) return NothingFits();
    if (!baselines_.fitting.empty()) Improve(baselines_.fitting.front().makespan);
    if (!starts_.empty()) {
      Improve(starts_.front().makespan);
      double spent = 0;
      for (const Round& round : kRounds) {
        spent += round.share;
        if (Done()) break;
        RunRound(round, spent);
      }
    }
    return Finish();
  }

 private:
  Budget WholeBudget(double share) const {
    Budget budget;
    if (options_.max_evaluations > 0) {
      budget.evaluations =
          std::max<int64_t>(1, static_cast<int64_t>(share * options_.max_evaluations));
    }
    if (options_.max_seconds > 0) {
      budget.timed = true;
      budget.begin = begin_;
      budget.end = begin_ + std::chrono::duration_cast<SteadyTime::duration>(
                                std::chrono::duration<double>(share * options_.max_seconds));
    }
    budget.stop = &stop_;
    return budget;
  }

  void MakeStarts() {
    starts_ = tuner::MakeSeeds(problem_, kSeeds, WholeBudget(0.2), &evaluations_);
    // The best classical plans, once per number of stages.
    tuner::Decoder decoder(problem_);
    tuner::Table table;
    size_t taken = 0;
    for (const auto& classical : baselines_.fitting) {
      if (taken == 2) break;
      Candidate candidate = tuner::ToCandidate(problem_, classical);
      table.Fill(problem_, candidate.shape);
      if (!table.fits || candidate.shape.stages() > problem_.max_stages) continue;
      if (TooManyStages(candidate)) continue;
      ++evaluations_;
      candidate.makespan =
          decoder.Run(table, candidate.keys, candidate.wait_penalty, INT64_MAX / 2);
      starts_.push_back(std::move(candidate));
      ++taken;
    }
    SortByMakespan(&starts_);
  }

  bool TooManyStages(const Candidate& candidate) const {
    std::vector<int32_t> count(problem_.devices, 0);
    for (const int32_t device : candidate.shape.device) {
      if (++count[device] > problem_.max_stages_per_device) return true;
    }
    return false;
  }

  static void SortByMakespan(std::vector<Candidate>* candidates) {
    std::stable_sort(
        candidates->begin(), candidates->end(),
        [](const Candidate& a, const Candidate& b) { return a.makespan < b.makespan; });
  }

  void RunRound(const Round& round, double spent_after) {
    // With time only, every thread has at least one walk; with evaluations the number of walks is
    // fixed, so that the result does not depend on the threads.
    int32_t walks = round.walks;
    if (options_.max_evaluations == 0)
      walks = std::max((walks + threads_ - 1) / threads_ * threads_, threads_);
    const int32_t workers = std::min(threads_, walks);
    std::vector<Candidate> results(walks);
    std::vector<int64_t> made(walks, 0);
    const SteadyTime round_begin = std::chrono::steady_clock::now();
    const SteadyTime round_end = WholeBudget(spent_after).end;
    std::atomic<int32_t> next{0};
    auto work = [&] {
      for (int32_t i; (i = next.fetch_add(1)) < walks;) {
        Budget budget = WholeBudget(1);
        if (options_.max_evaluations > 0) {
          budget.evaluations = std::max<int64_t>(
              1, static_cast<int64_t>(round.share * options_.max_evaluations / walks));
        }
        if (budget.timed) {
          const auto slice = (round_end - round_begin) / ((walks + workers - 1) / workers);
          budget.begin = round_begin + slice * (i / workers);
          budget.end = budget.begin + slice;
        }
        Walker walker(problem_, options_.seed * 1000003 + static_cast<uint64_t>(round_) * 1009 + i);
        walker.Stand(starts_[i % starts_.size()]);
        walker.Walk(budget, round.hot * bound_.ticks, round.cold * bound_.ticks);
        results[i] = walker.best();
        made[i] = walker.evaluations();
        std::lock_guard<std::mutex> lock(mutex_);
        evaluations_ += made[i];
        Improve(results[i].makespan);
        ReportLocked("annealing");
      }
    };
    std::vector<std::thread> threads;
    for (int32_t t = 1; t < workers; ++t) threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
    ++round_;
    SortByMakespan(&results);
    results.resize(std::min<size_t>(results.size(), std::max<size_t>(1, results.size() / 2)));
    starts_ = std::move(results);
  }

  bool Done() { return stop_ || best_ <= bound_.ticks || WholeBudget(1).Spent(evaluations_) >= 1; }

  void Improve(Ticks makespan) { best_ = best_ == 0 ? makespan : std::min(best_, makespan); }

  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  void Report(const char* phase) {
    std::lock_guard<std::mutex> lock(mutex_);
    ReportLocked(phase);
  }
  void ReportLocked(const char* phase) {
    if (!options_.progress || stop_) return;
    TuneProgress progress{Seconds(), evaluations_, best_, bound_.ticks, phase};
    if (!options_.progress(progress)) stop_ = true;
  }

  Status NothingFits() const;
  Result<TuneResult> Finish();

  const Costs& costs_;
  const TuneOptions& options_;
  tuner::Problem problem_;
  tuner::LowerBound bound_;
  tuner::Baselines baselines_;
  std::vector<Candidate> starts_;  // best first
  SteadyTime begin_;
  int32_t threads_ = 1;
  int32_t round_ = 0;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;  // evaluations_, best_ and the caller's progress during a round
  int64_t evaluations_ = 0;
  Ticks best_ = 0;
};

Status Search::NothingFits() const {
  // Which device, and what would do: the least that one device needs when everything else goes
  // elsewhere.
  int32_t tightest = 0;
  for (int32_t d = 1; d < problem_.devices; ++d) {
    if (problem_.cap[1][d] < problem_.cap[1][tightest] ||
        problem_.cap[0][d] < problem_.cap[0][tightest])
      tightest = d;
  }
  std::string text = "no plan keeps the caps; the tightest is device " + std::to_string(tightest);
  if (problem_.cap[0][tightest] != kNoCap) {
    const int64_t body = problem_.body_until[problem_.layers];
    const int64_t need = (body + problem_.devices - 1) / problem_.devices;
    text += ": at most " + std::to_string(problem_.cap[0][tightest]) +
            " live layers, one micro-batch holds " + std::to_string(body) + " on " +
            std::to_string(problem_.devices) + " devices; " + std::to_string(need) +
            " live layers on every device would do";
  }
  if (problem_.cap[1][tightest] != kNoCap) {
    int64_t largest = 0;
    for (int32_t j = 0; j < problem_.layers; ++j) {
      largest = std::max(largest, problem_.parameters_until[j + 1] - problem_.parameters_until[j] +
                                      problem_.held_until_input_until[j + 1] -
                                      problem_.held_until_input_until[j] +
                                      problem_.held_until_weight_until[j + 1] -
                                      problem_.held_until_weight_until[j]);
    }
    const int64_t all = problem_.parameters_until[problem_.layers] +
                        problem_.held_until_input_until[problem_.layers] +
                        problem_.held_until_weight_until[problem_.layers];
    text += ": at most " + std::to_string(problem_.cap[1][tightest]) +
            " bytes, parameters and one micro-batch need " + std::to_string(all) + " in all; " +
            std::to_string(all / problem_.devices + largest) + " bytes on every device would do";
  }
  return ResourceExhausted(text);
}

Result<TuneResult> Search::Finish() {
  TuneResult result;
  result.lower_bound_ticks = bound_.ticks;
  result.lower_bound_name = bound_.name;
  result.baselines = baselines_.ticks;
  result.evaluations = evaluations_;
  if (!starts_.empty()) {
    const Candidate& best = starts_.front();
    tuner::Table table;
    table.Fill(problem_, best.shape);
    tuner::Decoder decoder(problem_);
    result.makespan_ticks = decoder.Run(table, best.keys, best.wait_penalty, INT64_MAX / 2);
    tuner::Schedule schedule;
    decoder.Extract(table, &schedule);
    result.plan = ToPlan(problem_, best.shape, schedule);
  }
  if (!baselines_.fitting.empty() &&
      (starts_.empty() || baselines_.fitting.front().makespan < result.makespan_ticks)) {
    result.plan = baselines_.fitting.front().plan;
    result.makespan_ticks = baselines_.fitting.front().makespan;
  }
  // The simulator has the last word.
  const auto checked = tuner::FitsAndTakes(result.plan, costs_);
  if (!checked || checked->makespan != result.makespan_ticks) {
    return Internal("the tuner's own schedule and the simulator disagree: " +
                    std::to_string(result.makespan_ticks) + " ticks against " +
                    (checked ? std::to_string(checked->makespan) : "a plan over its caps"));
  }
  result.gap = static_cast<double>(result.makespan_ticks) / static_cast<double>(bound_.ticks) - 1;
  result.seconds = Seconds();
  return result;
}

}  // namespace

Result<TuneResult> Tune(const Costs& costs, const TuneOptions& options) {
  PILLION_RETURN_IF_ERROR(ValidateOptions(costs, options));
  return Search(costs, options).Run();
}

}  // namespace pillion::pipeline
