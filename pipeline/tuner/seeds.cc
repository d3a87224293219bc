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
Candidate BestPriorities(const Problem& problem, Shape shape, const Budget& budget,
                         Decoder* decoder, bool at_least_one, int64_t* evaluations) {
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
        if (budget.Spent(*evaluations) >= 1 && !(at_least_one && best.makespan == INT64_MAX))
          return best;
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

// What one more layer needs of a memory, and what a device has left of it.
int64_t NeedOf(const Problem& problem, int32_t layer, int32_t memory) {
  auto one = [layer](const std::vector<int64_t>& until) { return until[layer + 1] - until[layer]; };
  if (memory == 0) return one(problem.body_until);
  const int64_t input = layer > 0 ? problem.output_bytes[layer - 1] : 0;
  return one(problem.parameters_until) +
         (problem.allow_recompute
              ? input
              : one(problem.held_until_input_until) + one(problem.held_until_weight_until));
}

// For caps that leave little choice: every device in turn takes layers until it is full. Empty when
// that fails.
Shape FilledShape(const Problem& problem) {
  Shape shape;
  shape.bound.push_back(0);
  int32_t layer = 0;
  for (int32_t d = 0; d < problem.devices && layer < problem.layers; ++d) {
    int64_t left[kMemories] = {problem.cap[0][d], problem.cap[1][d]};
    const int32_t first = layer;
    for (; layer < problem.layers; ++layer) {
      if (NeedOf(problem, layer, 0) > left[0] || NeedOf(problem, layer, 1) > left[1]) break;
      for (int32_t k = 0; k < kMemories; ++k) left[k] -= NeedOf(problem, layer, k);
    }
    if (layer == first) continue;
    shape.bound.push_back(layer);
    shape.device.push_back(d);
  }
  return layer == problem.layers ? shape : Shape();
}

// For the same: every layer a stage of its own, on the device that has the largest share of its
// memory left.
Shape SpreadShape(const Problem& problem) {
  Shape shape;
  shape.bound.push_back(0);
  std::vector<int64_t> left[kMemories] = {problem.cap[0], problem.cap[1]};
  std::vector<int32_t> stages(problem.devices, 0);
  for (int32_t layer = 0; layer < problem.layers; ++layer) {
    int32_t best = -1;
    double best_share = -1;
    for (int32_t d = 0; d < problem.devices; ++d) {
      if (stages[d] >= problem.max_stages_per_device) continue;
      double share = 1;
      for (int32_t k = 0; k < kMemories; ++k) {
        const int64_t after = left[k][d] - NeedOf(problem, layer, k);
        share = std::min(share, static_cast<double>(after) /
                                    std::max<double>(1.0, static_cast<double>(problem.cap[k][d])));
      }
      if (share > best_share) best_share = share, best = d;
    }
    if (best < 0) return Shape();
    for (int32_t k = 0; k < kMemories; ++k) left[k][best] -= NeedOf(problem, layer, k);
    ++stages[best];
    shape.bound.push_back(layer + 1);
    shape.device.push_back(best);
  }
  return shape;
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
           static_cast<double>(problem.LoadOf(0, layer)) + 0.5 * problem.LoadOf(layer, layer + 1) <
               reached) {
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
  auto add = [&](Shape shape) {
    if (shape.stages() == 0) return;
    for (const uint8_t recompute : {0, 1}) {
      if (recompute && !problem.allow_recompute) continue;
      shape.recompute.assign(shape.device.size(), recompute);
      Candidate best = BestPriorities(problem, shape, budget, &decoder, seeds.empty(), evaluations);
      if (best.makespan < INT64_MAX) seeds.push_back(std::move(best));
    }
  };
  const int32_t chunks = std::min(problem.max_stages_per_device,
                                  (problem.layers + problem.devices - 1) / problem.devices);
  for (int32_t i = 1; i <= chunks; ++i) {
    for (const Pattern pattern : {Pattern::kLoop, Pattern::kWave}) {
      for (const bool own_head : {false, true}) {
        if (own_head && (problem.layers < 2 || i >= problem.max_stages_per_device)) continue;
        add(RegularShape(problem, pattern, i, own_head));
      }
    }
  }
  if (problem.has_caps) {
    add(FilledShape(problem));
    add(SpreadShape(problem));
  }
  std::stable_sort(seeds.begin(), seeds.end(),
                   [](const Candidate& a, const Candidate& b) { return a.makespan < b.makespan; });
  if (static_cast<int32_t>(seeds.size()) > most) seeds.resize(most);
  return seeds;
}

}  // namespace pillion::pipeline::tuner
