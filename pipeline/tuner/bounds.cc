#include "pipeline/tuner/bounds.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace pillion::pipeline::tuner {
namespace {

constexpr size_t kMostPackingStates = 3000;

// Times of layers on the fastest device. Rounding to whole ticks may save half a tick per operation
// when devices have speeds; `slack` is what that can save in one chain of operations of every
// layer.
class Bounds {
 public:
  explicit Bounds(const Problem& problem) : problem_(problem), m_(problem.microbatches) {
    fastest_ = *std::max_element(problem.speed.begin(), problem.speed.end());
    speeds_ = std::accumulate(problem.speed.begin(), problem.speed.end(), 0.0);
    rounding_ = problem.has_speeds ? 0.5 : 0.0;
    hop_ = CheapestHop();
  }

  LowerBound Best() const {
    LowerBound best;
    auto offer = [&best](double ticks, const char* name) {
      const Ticks whole = static_cast<Ticks>(std::ceil(ticks - 1e-6));
      if (whole > best.ticks) best = {whole, name};
    };
    offer(Work(), "work");
    offer(Chain(), "chain");
    offer(LargestLayer(), "layer");
    offer(MemoryArea(), "memory");
    if (!problem_.has_speeds) offer(static_cast<double>(Packing(best.ticks)), "packing");
    return best;
  }

 private:
  double Time(int32_t kind, int32_t first, int32_t end) const {
    const double ticks = static_cast<double>(problem_.WorkOf(kind, first, end)) / fastest_;
    return std::max(0.0, ticks - rounding_ * (end - first));
  }
  double Back(int32_t first, int32_t end) const {  // what the stage before waits for
    return Time(kInput, first, end) + (problem_.split_backward ? 0.0 : Time(kWeight, first, end));
  }

  double CheapestHop() const {
    if (!problem_.has_links || problem_.devices < 2) return 0;
    const int64_t bytes =
        *std::min_element(problem_.output_bytes.begin(), problem_.output_bytes.end());
    Ticks hop = INT64_MAX;
    for (int32_t a = 0; a < problem_.devices; ++a) {
      for (int32_t b = 0; b < problem_.devices; ++b) {
        if (a == b) continue;
        const Link& link = problem_.links[a * problem_.devices + b];
        hop = std::min(hop, link.latency + link.Occupancy(bytes));
      }
    }
    return static_cast<double>(hop);
  }

  // Idle time of the device that is reached k-th.
  double Head(int32_t k) const {
    const int32_t layers = std::min(k, problem_.layers);
    double head = Time(kForward, 0, layers) + k * hop_;
    if (!problem_.split_backward) head += Back(0, layers) + k * hop_;
    return head;
  }

  double Work() const {
    double work = static_cast<double>(problem_.total()) * m_;
    work -= rounding_ * fastest_ * 3.0 * m_ * std::max(problem_.layers, problem_.devices);
    std::vector<double> slow_first = problem_.speed;
    std::sort(slow_first.begin(), slow_first.end());
    // The fastest devices are reached first: that loses least.
    for (int32_t k = 0; k < problem_.devices; ++k)
      work += Head(k) * slow_first[problem_.devices - 1 - k];
    return work / speeds_;
  }

  double LastWeight() const { return problem_.split_backward ? Time(kWeight, 0, 1) : 0.0; }

  double Chain() const {
    double longest = 0;
    for (int32_t j = 0; j < problem_.layers; ++j) {
      longest = std::max({longest, Time(kForward, j, j + 1), Back(j, j + 1)});
    }
    return Time(kForward, 0, problem_.layers) + Back(0, problem_.layers) + (m_ - 1) * longest +
           LastWeight();
  }

  double LargestLayer() const {
    double best = 0;
    for (int32_t j = 0; j < problem_.layers; ++j) {
      best =
          std::max(best, Time(kForward, 0, j) + m_ * (Time(kForward, j, j + 1) + Back(j, j + 1)) +
                             Back(0, j) + LastWeight());
    }
    return best;
  }

  double MemoryArea() const {
    if (!problem_.has_caps || problem_.allow_recompute) return 0;
    double best = 0;
    for (int32_t k = 0; k < kMemories; ++k) {
      double room = 0;
      for (int64_t cap : problem_.cap[k])
        room = cap == kNoCap ? INFINITY : room + static_cast<double>(cap);
      if (k == 1) room -= static_cast<double>(problem_.parameters_until[problem_.layers]);
      if (!std::isfinite(room) || room <= 0) continue;
      double area = 0;
      for (int32_t j = 0; j < problem_.layers; ++j) {
        const double until_input = Time(kForward, j, problem_.layers) + Back(j, problem_.layers);
        const double until_weight =
            until_input + (problem_.split_backward ? Time(kWeight, j, j + 1) : 0.0);
        if (k == 0) {
          area += until_weight *
                  static_cast<double>(problem_.body_until[j + 1] - problem_.body_until[j]);
        } else {
          area += until_input * static_cast<double>(problem_.held_until_input_until[j + 1] -
                                                    problem_.held_until_input_until[j]) +
                  until_weight * static_cast<double>(problem_.held_until_weight_until[j + 1] -
                                                     problem_.held_until_weight_until[j]);
        }
      }
      best = std::max(best, area * m_ / room);
    }
    return best;
  }

  // The smallest makespan at which the layers pack into devices of capacity (makespan - head) / m.
  // Layers of equal work are alike, so that few kinds of layers make few states.
  Ticks Packing(Ticks at_least) const {
    std::map<Ticks, int32_t> kinds;
    for (int32_t j = 0; j < problem_.layers; ++j) ++kinds[problem_.LoadOf(j, j + 1)];
    size_t states = 1;
    for (const auto& [load, count] : kinds) {
      states *= static_cast<size_t>(count) + 1;
      if (states > kMostPackingStates) return 0;
    }
    Ticks low = at_least,
          high = problem_.total() * m_ + static_cast<Ticks>(Head(problem_.devices - 1)) + 1;
    if (Packs(kinds, low)) return low;
    while (high - low > 1) {  // low does not pack, high does
      const Ticks middle = low + (high - low) / 2;
      (Packs(kinds, middle) ? high : low) = middle;
    }
    return high;
  }

  bool Packs(const std::map<Ticks, int32_t>& kinds, Ticks makespan) const {
    // reached[state]: the layers of `state` (mixed radix counts) fit into the devices so far.
    std::vector<Ticks> load{0};
    std::vector<std::vector<int32_t>> counts{{}};
    for (const auto& [work, count] : kinds) {
      const size_t size = load.size();
      for (int32_t c = 1; c <= count; ++c) {
        for (size_t i = 0; i < size; ++i) load.push_back(load[i] + c * work);
      }
      std::vector<std::vector<int32_t>> next;
      for (int32_t c = 0; c <= count; ++c) {
        for (size_t i = 0; i < size; ++i) {
          next.push_back(counts[i]);
          next.back().push_back(c);
        }
      }
      counts = std::move(next);
    }
    const std::vector<int32_t>& all = counts.back();
    std::vector<char> reached(load.size(), 0);
    reached[0] = 1;
    for (int32_t k = 0; k < problem_.devices; ++k) {
      const Ticks capacity = (makespan - static_cast<Ticks>(std::floor(Head(k)))) / m_;
      if (makespan < static_cast<Ticks>(std::floor(Head(k)))) break;
      std::vector<char> after = reached;
      for (size_t i = 0; i < load.size(); ++i) {
        if (!reached[i]) continue;
        for (size_t j = 1; j < load.size(); ++j) {
          if (load[j] > capacity || i + j >= load.size() || after[i + j]) continue;
          bool fits = true;
          for (size_t t = 0; t < all.size() && fits; ++t)
            fits = counts[i][t] + counts[j][t] <= all[t];
          if (fits) after[i + j] = 1;  // mixed radix without carries
        }
      }
      reached = std::move(after);
      if (reached.back()) return true;
    }
    return reached.back();
  }

  const Problem& problem_;
  const int32_t m_;
  double fastest_ = 1, speeds_ = 1, rounding_ = 0, hop_ = 0;
};

}  // namespace

LowerBound ProveBound(const Problem& problem) { return Bounds(problem).Best(); }

}  // namespace pillion::pipeline::tuner
