#include "pipeline/tuner/problem.h"

#include <algorithm>
#include <cmath>

namespace pillion::pipeline::tuner {
namespace {

template <typename Get>
std::vector<int64_t> Until(const Costs& costs, Get get) {
  std::vector<int64_t> sums(costs.layers.size() + 1, 0);
  for (size_t i = 0; i < costs.layers.size(); ++i) sums[i + 1] = sums[i] + get(costs.layers[i]);
  return sums;
}

Ticks OnDevice(Ticks work, double speed) {
  work = std::max<Ticks>(work, 1);
  if (speed == 1.0) return work;
  return std::max<Ticks>(1, static_cast<Ticks>(std::llround(static_cast<double>(work) / speed)));
}

}  // namespace

Problem MakeProblem(const Costs& costs, const ProblemOptions& options) {
  Problem problem;
  problem.layers = static_cast<int32_t>(costs.layers.size());
  problem.devices = costs.device_count();
  problem.microbatches = options.microbatches;
  problem.split_backward = options.split_backward;
  problem.allow_recompute = options.allow_recompute;
  problem.work_until[kForward] = Until(costs, [](const Layer& l) { return l.forward; });
  problem.work_until[kInput] = Until(costs, [](const Layer& l) { return l.input_gradient; });
  problem.work_until[kWeight] = Until(costs, [](const Layer& l) { return l.weight_gradient; });
  problem.parameters_until = Until(costs, [](const Layer& l) { return l.parameter_bytes; });
  problem.held_until_input_until =
      Until(costs, [](const Layer& l) { return l.activation_bytes_until_input_gradient; });
  problem.held_until_weight_until =
      Until(costs, [](const Layer& l) { return l.activation_bytes_until_weight_gradient; });
  problem.body_until = Until(costs, [](const Layer& l) { return l.is_body ? 1 : 0; });
  for (const Layer& layer : costs.layers) problem.output_bytes.push_back(layer.output_bytes);
  for (const DeviceSpec& device : costs.devices) {
    problem.speed.push_back(device.speed);
    problem.cap[0].push_back(device.live_layer_cap);
    problem.cap[1].push_back(device.memory_cap_bytes);
    problem.has_speeds |= device.speed != 1.0;
    problem.has_caps |= device.live_layer_cap != kNoCap || device.memory_cap_bytes != kNoCap;
  }
  auto capped = [](const std::vector<int64_t>& caps) {
    return std::any_of(caps.begin(), caps.end(), [](int64_t cap) { return cap != kNoCap; });
  };
  problem.first_memory = capped(problem.cap[0]) ? 0 : 1;
  problem.end_memory = capped(problem.cap[1]) ? 2 : 1;
  problem.links = costs.links;
  for (const Link& link : costs.links) problem.has_links |= !link.IsFree();
  problem.max_stages = std::max(problem.layers, problem.devices);
  problem.max_stages_per_device =
      options.max_stages_per_device > 0 ? options.max_stages_per_device : problem.max_stages;
  return problem;
}

Ticks Problem::total() const { return LoadOf(0, layers); }

void Table::Fill(const Problem& problem, const Shape& shape) {
  const int32_t devices = problem.devices;
  stages = shape.stages();
  if (static_cast<int32_t>(row.size()) < stages) row.resize(std::max(stages, problem.max_stages));
  load.assign(devices, 0);
  head.assign(devices, 0);
  Ticks chain = 0;
  for (int32_t s = 0; s < stages; ++s) {
    const int32_t first = shape.bound[s], end = shape.bound[s + 1], device = shape.device[s];
    StageRow& r = row[s];
    r.device = device;
    const double speed = problem.speed[device];
    const bool recompute = problem.allow_recompute && shape.recompute[s];
    const Ticks forward = std::max<Ticks>(problem.WorkOf(kForward, first, end), 1);
    const Ticks input = std::max<Ticks>(problem.WorkOf(kInput, first, end), 1);
    const Ticks weight = std::max<Ticks>(problem.WorkOf(kWeight, first, end), 1);
    r.time[kForward] = OnDevice(forward, speed);
    r.time[kInput] = OnDevice(input, speed);
    r.time[kWeight] = OnDevice(weight, speed);
    if (recompute) r.time[kInput] += r.time[kForward];
    if (!problem.split_backward) {
      r.time[kInput] += r.time[kWeight];
      r.time[kWeight] = 0;
    }
    if (load[device] == 0) head[device] = chain;
    chain += r.time[kForward];
    load[device] += (r.time[kForward] + r.time[kInput] + r.time[kWeight]) * problem.microbatches;
    r.forward_link = r.input_link = -1;
    if (!problem.has_links) continue;
    if (s + 1 < stages && shape.device[s + 1] != device) {
      r.forward_link = device * devices + shape.device[s + 1];
      const Link& link = problem.links[r.forward_link];
      r.forward_latency = link.latency;
      r.forward_occupancy = link.Occupancy(end > 0 ? problem.output_bytes[end - 1] : 0);
    }
    if (s > 0 && shape.device[s - 1] != device) {
      r.input_link = device * devices + shape.device[s - 1];
      const Link& link = problem.links[r.input_link];
      r.input_latency = link.latency;
      r.input_occupancy = link.Occupancy(first > 0 ? problem.output_bytes[first - 1] : 0);
    }
  }
  floor = 0;
  for (int32_t d = 0; d < devices; ++d) floor = std::max(floor, head[d] + load[d]);
  fits = true;
  if (!problem.has_caps) return;

  for (int32_t k = 0; k < kMemories; ++k) {
    room_all[k] = problem.cap[k];
    one[k].assign(devices, 0);
  }
  room[0].assign(devices, 0);  // largest recomputation, for now
  room[1].assign(devices, 0);
  for (int32_t s = 0; s < stages; ++s) {
    const int32_t first = shape.bound[s], end = shape.bound[s + 1], device = shape.device[s];
    StageRow& r = row[s];
    const int64_t body = problem.body_until[end] - problem.body_until[first];
    const int64_t early =
        problem.held_until_input_until[end] - problem.held_until_input_until[first];
    const int64_t late =
        problem.held_until_weight_until[end] - problem.held_until_weight_until[first];
    const int64_t whole[kMemories] = {body, early + late};
    const bool recompute = problem.allow_recompute && shape.recompute[s];
    const int64_t input[kMemories] = {0, first > 0 ? problem.output_bytes[first - 1] : 0};
    for (int32_t k = 0; k < kMemories; ++k) {
      r.acquire_forward[k] = recompute ? input[k] : whole[k];
      r.acquire_input[k] = recompute ? whole[k] : 0;
      r.release_input[k] = (recompute ? input[k] : 0) + (k == 1 ? early : 0);
      r.release_weight[k] = k == 1 ? late : body;
      if (!problem.split_backward) {
        r.release_input[k] += r.release_weight[k];
        r.release_weight[k] = 0;
      }
      one[k][device] += r.acquire_forward[k];
      room[k][device] = std::max(room[k][device], r.acquire_input[k]);
    }
    if (room_all[1][device] != kNoCap) {
      room_all[1][device] -= problem.parameters_until[end] - problem.parameters_until[first];
    }
  }
  for (int32_t d = 0; d < devices; ++d) {
    for (int32_t k = 0; k < kMemories; ++k) {
      room[k][d] = room_all[k][d] == kNoCap ? kNoCap : room_all[k][d] - room[k][d];
      fits &= one[k][d] <= room[k][d];
    }
  }
}

}  // namespace pillion::pipeline::tuner
