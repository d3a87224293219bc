// The two partitions that classical schedules use: even by layers, and balanced by time.
#include <algorithm>
#include <numeric>

#include "pipeline/costs.h"

namespace pillion::pipeline {
namespace {

// Bounds that fill every stage up to `most` ticks, first stages first, leaving at least one layer
// for each stage that follows (while there are enough). Empty when it takes more than `stages`.
std::vector<int32_t> FillUpTo(const std::vector<Ticks>& work, int32_t stages, Ticks most) {
  const int32_t layers = static_cast<int32_t>(work.size());
  std::vector<int32_t> bounds = {0};
  int32_t next = 0;
  for (int32_t s = 0; s < stages; ++s) {
    const int32_t reserve = std::min(stages - s - 1, layers);
    Ticks sum = 0;
    const int32_t first = next;
    while (next < layers && sum + work[next] <= most && (next == first || layers - next > reserve))
      sum += work[next++];
    bounds.push_back(next);
  }
  return next == layers ? bounds : std::vector<int32_t>();
}

}  // namespace

std::vector<int32_t> BalancedPartition(const Costs& costs, int32_t stages) {
  std::vector<Ticks> work;
  for (const Layer& layer : costs.layers) {
    work.push_back(layer.forward + layer.input_gradient + layer.weight_gradient);
  }
  Ticks low = work.empty() ? 0 : *std::max_element(work.begin(), work.end());
  Ticks high = std::accumulate(work.begin(), work.end(), Ticks{0});
  while (low < high) {
    const Ticks middle = low + (high - low) / 2;
    if (FillUpTo(work, stages, middle).empty()) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return FillUpTo(work, stages, low);
}

std::vector<int32_t> EvenPartition(const Costs& costs, int32_t stages) {
  const int32_t layers = static_cast<int32_t>(costs.layers.size());
  int32_t first = 0, end = layers;
  while (first < layers && !costs.layers[first].is_body) ++first;
  while (end > first && !costs.layers[end - 1].is_body) --end;
  const int32_t body = end - first;
  std::vector<int32_t> bounds(static_cast<size_t>(stages) + 1, 0);
  for (int32_t s = 1; s < stages; ++s) {
    bounds[s] = first + s * (body / stages) + std::min(s, body % stages);
  }
  bounds[stages] = layers;
  return bounds;
}

}  // namespace pillion::pipeline
