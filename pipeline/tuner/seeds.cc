#include "pipeline/tuner/seeds.h"

#include <algorithm>

namespace pillion::pipeline::tuner {
namespace {

constexpr Ticks kUnreached = INT64_MAX / 2;

int32_t DeviceAt(const Problem& problem, Pattern pattern, int32_t position) {
  const int32_t p = problem.devices, turn = position / p, rank = position % p;
  return pattern == Pattern::kWave && turn % 2 == 1 ? p - 1 - rank : rank;
}

// The best of a grid of priorities for one shape; not decoded when it does not fit.
Candidate BestPriorities(const Problem& problem, Shape shape, const Budget& budget, Decoder* decoder, bool at_least_one,
                         int64_t* evaluations) {
  static constexpr double kPeriods[] = {0.1, 0.6, 1.0, 1.5};  // in shares of one device's work
  static constexpr double kWeightDelays[] = {0, 1, 3, 100};
  static constexpr double kInputLeads[] = {0, 1, 3};
  static constexpr int32_t kPenalties[] = {32, 1024};
  const double share = static_cast<double>(problem.total()) / problem.devices;
  Candidate best, trial;
  trial.shape = std::move(shape);
  Table table;
  table.Fill(problem, trial.shape);
  if (!table.fits) return best;
  for (const double period : kPeriods) {
    for (const double lead : kInputLeads) {
      for (const double delay : kWeightDelays) {
        if (budget.Spent(*evaluations) >= 1 && !(at_least_one && best.makespan == INT64_MAX)) return best;
        SetSteadyKeys(problem, static_cast<Ticks>(period * share), static_cast<Ticks>(lead * share),
                      static_cast<Ticks>(delay * share), &trial);
        for (const int32_t penalty : kPenalties) {
          trial.wait_penalty = penalty;
          ++*evaluations;
          const Ticks makespan =
              decoder->Run(table, trial.keys, penalty, std::min(best.makespan, kUnreached) - 1);
          if (makespan < 0) continue;
          trial.makespan = makespan;
          best = trial;
        }
      }
    }
  }
  return best;
}

}  // namespace

Shape RegularShape(const Problem& problem, Pattern pattern, int32_t chunks, bool own_head) {
  const int32_t p = problem.devices;
  const int32_t body = own_head ? problem.layers - 1 : problem.layers;
  const int32_t stages = std::min(body, chunks * p);
  Shape shape;
  for (int32_t s = 0; s < stages; ++s) shape.device.push_back(DeviceAt(problem, pattern, s));
  std::vector<double> target(stages, 1.0 / chunks);  // of a device's share
  if (own_head) {
    const int32_t device = DeviceAt(problem, pattern, stages);
    const double share = static_cast<double>(problem.total()) / p;
    const double head = static_cast<double>(problem.LoadOf(body, problem.layers));
    shape.device.push_back(device);
    for (int32_t s = 0; s < stages; ++s) {
      if (shape.device[s] == device) target[s] *= std::max(0.0, 1.0 - head / share);
    }
  }
  double sum = 0;
  for (double t : target) sum += t;
  const double work = static_cast<double>(problem.LoadOf(0, body));
  shape.bound.push_back(0);
  double reached = 0;
  for (int32_t s = 0, layer = 0; s < stages; ++s) {
    reached += target[s] / sum * work;
    ++layer;
    while (layer < body - (stages - 1 - s) &&
           static_cast<double>(problem.LoadOf(0, layer)) + 0.5 * problem.LoadOf(layer, layer + 1) < reached) {
      ++layer;
    }
    if (s == stages - 1) layer = body;
    shape.bound.push_back(layer);
  }
  if (own_head) shape.bound.push_back(problem.layers);
  shape.recompute.assign(shape.device.size(), 0);
  return shape;
}

std::vector<Candidate> MakeSeeds(const Problem& problem, int32_t most, const Budget& budget,
                                 int64_t* evaluations) {
  std::vector<Candidate> seeds;
  Decoder decoder(problem);
  const int32_t chunks = std::min(problem.max_stages_per_device,
                                  (problem.layers + problem.devices - 1) / problem.devices);
  for (int32_t i = 1; i <= chunks; ++i) {
    for (const Pattern pattern : {Pattern::kLoop, Pattern::kWave}) {
      for (const bool own_head : {false, true}) {
        if (own_head && (problem.layers < 2 || i >= problem.max_stages_per_device)) continue;
        Candidate best = BestPriorities(problem, RegularShape(problem, pattern, i, own_head), budget, &decoder,
                                        seeds.empty(), evaluations);
        if (best.makespan < INT64_MAX) seeds.push_back(std::move(best));
      }
    }
  }
  std::stable_sort(seeds.begin(), seeds.end(),
                   [](const Candidate& a, const Candidate& b) { return a.makespan < b.makespan; });
  if (static_cast<int32_t>(seeds.size()) > most) seeds.resize(most);
  return seeds;
}

}  // namespace pillion::pipeline::tuner
