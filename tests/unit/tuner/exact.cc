#include "exact.h"

#include <algorithm>
#include <map>
#include <vector>

#include "pipeline/tuner/random.h"

namespace pillion::pipeline {
namespace {

// Depth first over prefixes of the schedule: the next operation of some (layer, kind),
// micro-batches in order. A state is dominated when one with the same operations done had every
// still relevant time no later.
class Exhaustion {
 public:
  Exhaustion(const Costs& costs, std::vector<int32_t> device, int32_t microbatches, Ticks best,
             int64_t most, int64_t* nodes)
      : costs_(costs),
        device_(std::move(device)),
        m_(microbatches),
        best_(best),
        most_(most),
        nodes_(*nodes) {
    const size_t symbols = costs.layers.size() * 3;
    count_.assign(symbols, 0);
    end_.assign(symbols * m_, -1);
    free_.assign(costs.devices.size(), 0);
    left_.assign(costs.devices.size(), 0);
    live_.assign(costs.devices.size(), 0);
    for (size_t s = 0; s < symbols; ++s) left_[device_[s / 3]] += TimeOf(s) * m_;
  }
  Ticks Run() {
    Visit();
    return best_;
  }

 private:
  Ticks TimeOf(size_t symbol) const {
    const Layer& layer = costs_.layers[symbol / 3];
    return symbol % 3 == 0   ? layer.forward
           : symbol % 3 == 1 ? layer.input_gradient
                             : layer.weight_gradient;
  }
  // When the inputs of the next operation of `symbol` are there, -1 when not yet known.
  Ticks ReadyOf(size_t symbol) const {
    const size_t layer = symbol / 3, b = static_cast<size_t>(count_[symbol]);
    switch (symbol % 3) {
      case 0:
        return layer == 0 ? 0 : end_[(symbol - 3) * m_ + b];
      case 1:
        return layer + 1 == costs_.layers.size() ? end_[(symbol - 1) * m_ + b]
                                                 : end_[(symbol + 3) * m_ + b];
      default:
        return end_[(symbol - 1) * m_ + b];
    }
  }
  bool Dominated() {
    std::vector<Ticks> times = free_;
    for (size_t s = 0; s < count_.size(); ++s) {
      // Ends that a later operation still looks at, no earlier than that operation's device is
      // free.
      for (int32_t b = 0; b < m_; ++b) times.push_back(Pending(s, b) ? end_[s * m_ + b] : 0);
    }
    auto& seen = seen_[count_];
    for (const auto& other : seen) {
      if (std::equal(other.begin(), other.end(), times.begin(),
                     [](Ticks a, Ticks b) { return a <= b; }))
        return true;
    }
    seen.push_back(std::move(times));
    return false;
  }
  bool Pending(size_t symbol, int32_t b) const {
    if (end_[symbol * m_ + b] < 0) return false;
    const size_t layers = costs_.layers.size(), layer = symbol / 3;
    if (symbol % 3 == 0)
      return layer + 1 < layers ? count_[symbol + 3] <= b : count_[symbol + 1] <= b;
    if (symbol % 3 == 1) return count_[symbol + 1] <= b || (layer > 0 && count_[symbol - 3] <= b);
    return false;
  }
  void Visit() {
    if (++nodes_ > most_) return;
    bool done = true;
    for (size_t d = 0; d < free_.size(); ++d) {
      if (free_[d] + left_[d] >= best_) return;
      done &= left_[d] == 0;
    }
    if (done) {
      best_ = *std::max_element(free_.begin(), free_.end());
      return;
    }
    if (Dominated()) return;
    for (size_t s = 0; s < count_.size(); ++s) {
      if (count_[s] == m_) continue;
      const Ticks ready = ReadyOf(s);
      if (ready < 0) continue;
      const int32_t d = device_[s / 3], b = count_[s];
      const int64_t body = costs_.layers[s / 3].is_body ? 1 : 0;
      const int64_t change = s % 3 == 0 ? body : s % 3 == 2 ? -body : 0;
      if (live_[d] + change > costs_.devices[d].live_layer_cap) continue;
      const Ticks free = free_[d];
      free_[d] = end_[s * m_ + b] = std::max(free, ready) + TimeOf(s);
      left_[d] -= TimeOf(s);
      live_[d] += change;
      ++count_[s];
      Visit();
      --count_[s];
      live_[d] -= change;
      left_[d] += TimeOf(s);
      end_[s * m_ + b] = -1;
      free_[d] = free;
      if (nodes_ > most_) return;
    }
  }

  const Costs& costs_;
  const std::vector<int32_t> device_;  // [layer]
  const int32_t m_;
  Ticks best_;
  const int64_t most_;
  int64_t& nodes_;
  std::vector<int32_t> count_;
  std::vector<Ticks> end_, free_, left_;
  std::vector<int64_t> live_;
  std::map<std::vector<int32_t>, std::vector<std::vector<Ticks>>> seen_;
};

}  // namespace

std::optional<Ticks> ExactOptimum(const Costs& costs, int32_t microbatches, int64_t most_nodes) {
  const auto layers = static_cast<int32_t>(costs.layers.size());
  const int32_t devices = costs.device_count();
  int64_t placements = 1;
  for (int32_t j = 0; j < layers; ++j) placements *= devices;
  Ticks best = INT64_MAX / 4;
  int64_t nodes = 0;
  for (int64_t code = 0; code < placements; ++code) {
    std::vector<int32_t> device;
    for (int64_t rest = code, j = 0; j < layers; ++j, rest /= devices)
      device.push_back(static_cast<int32_t>(rest % devices));
    best = Exhaustion(costs, device, microbatches, best, most_nodes, &nodes).Run();
    if (nodes > most_nodes) return std::nullopt;
  }
  return best == INT64_MAX / 4 ? -1 : best;
}

Costs RandomTinyCosts(uint64_t seed, int32_t devices, int32_t layers) {
  tuner::Random random(seed);
  Costs costs;
  for (int32_t j = 0; j < layers; ++j) {
    Layer layer;
    layer.forward = 1 + random.Below(9);
    layer.input_gradient = 1 + random.Below(9);
    layer.weight_gradient = 1 + random.Below(9);
    costs.layers.push_back(layer);
  }
  UseUniformDevices(devices, &costs);
  return costs;
}

}  // namespace pillion::pipeline
