#include "pipeline/tuner/walker.h"

#include <algorithm>
#include <cmath>

namespace pillion::pipeline::tuner {
namespace {
constexpr int64_t kRefusalsPerEvaluation = 16;
constexpr int32_t kAcceptsPerRekey = 1000;
}  // namespace

void SetSteadyKeys(const Problem& problem, Ticks period, Ticks input_lead, Ticks weight_delay,
                   Candidate* candidate) {
  const Shape& shape = candidate->shape;
  const int32_t stages = shape.stages(), m = problem.microbatches;
  candidate->keys.assign(static_cast<size_t>(stages) * kKinds * m, 0);
  const Ticks forwards = problem.WorkOf(kForward, 0, problem.layers);
  for (int32_t s = 0; s < stages; ++s) {
    const Ticks forward = problem.work_until[kForward][shape.bound[s]];
    const Ticks input = forwards + problem.WorkOf(kInput, shape.bound[s + 1], problem.layers);
    for (int32_t b = 0; b < m; ++b) {
      candidate->keys[(s * kKinds + kForward) * m + b] = forward + b * period;
      candidate->keys[(s * kKinds + kInput) * m + b] = input + b * period - input_lead;
      candidate->keys[(s * kKinds + kWeight) * m + b] = input + b * period + weight_delay;
    }
  }
}

Walker::Walker(const Problem& problem, uint64_t seed)
    : problem_(problem), random_(seed), decoder_(problem) {}

bool Walker::Stand(const Candidate& candidate) {
  current_ = candidate;
  table_.Fill(problem_, current_.shape);
  if (!table_.fits) return false;
  ++evaluations_;
  current_.makespan = decoder_.Run(table_, current_.keys, current_.wait_penalty, INT64_MAX / 2);
  if (current_.makespan < best_.makespan) best_ = current_;
  before_ = decoder_.before();
  decoder_.TraceCritical(table_, &random_, &chain_);
  return true;
}

void Walker::ExtractBest(Schedule* schedule) {
  table_.Fill(problem_, best_.shape);
  decoder_.Run(table_, best_.keys, best_.wait_penalty, INT64_MAX / 2);
  decoder_.Extract(table_, schedule);
}

void Walker::Walk(const Budget& budget, double hot, double cold) {
  // A proposal that the table alone refuses is cheap but not free: it counts as a small part of an
  // evaluation, so that a walk ends even when nothing fits.
  const int64_t evaluations_before = evaluations_;
  int64_t refused = 0;
  const int64_t operations = static_cast<int64_t>(current_.keys.size());
  const int64_t check_every =
      std::clamp<int64_t>(200'000 / std::max<int64_t>(operations, 1), 1, 128);
  double temperature = hot;
  for (int64_t i = 0;; ++i) {
    if (i % check_every == 0) {
      const double spent =
          budget.Spent(evaluations_ - evaluations_before + refused / kRefusalsPerEvaluation);
      if (spent >= 1.0) return;
      temperature = hot * std::pow(cold / hot, spent);
    }
    trial_ = current_;
    Propose();
    const Ticks limit =
        current_.makespan + static_cast<Ticks>(-temperature * std::log(1.0 - random_.Unit()));
    table_.Fill(problem_, trial_.shape);
    if (!table_.fits || table_.floor > limit) {
      ++refused;
      continue;
    }
    ++evaluations_;
    const Ticks makespan = decoder_.Run(table_, trial_.keys, trial_.wait_penalty, limit);
    if (makespan < 0 || makespan > limit) continue;
    trial_.makespan = makespan;
    Accept();
  }
}

void Walker::Accept() {
  std::swap(current_, trial_);
  before_ = decoder_.before();
  decoder_.TraceCritical(table_, &random_, &chain_);
  if (current_.makespan < best_.makespan) best_ = current_;
  // From time to time the keys become the times at which the operations really start, so that small
  // changes of keys stay small changes of the schedule.
  if (random_.Below(kAcceptsPerRekey) == 0) {
    std::copy_n(decoder_.start().begin(), current_.keys.size(), current_.keys.begin());
  }
}

void Walker::Propose() {
  for (;;) {
    const int32_t pick = random_.Below(100);
    bool changed = false;
    if (pick < 12) {
      changed = ShiftBoundary();
    } else if (pick < 20) {
      changed = Split();
    } else if (pick < 27) {
      changed = Merge();
    } else if (pick < 34) {
      changed = Place();
    } else if (pick < 42) {
      changed = SwapPlaces();
    } else if (pick < 55) {
      changed = AdvanceCritical();
    } else if (pick < 68) {
      changed = DelayCritical();
    } else if (pick < 88) {
      changed = ShiftKeys();
    } else if (pick < 96) {
      changed = SwapKeys();
    } else if (pick < 98) {
      changed = ChangePenalty();
    } else {
      changed = problem_.allow_recompute && ToggleRecompute();
    }
    if (changed) return;
  }
}

int32_t Walker::RandomStage() {
  if (random_.Below(2) == 0) {
    const int32_t stage = chain_[random_.Below(static_cast<int32_t>(chain_.size()))] /
                          (kKinds * problem_.microbatches);
    if (stage < trial_.shape.stages()) return stage;
  }
  return random_.Below(trial_.shape.stages());
}

bool Walker::AdvanceCritical() {
  // Put a critical operation before one that its device does right before it.
  const int32_t i = random_.Below(static_cast<int32_t>(chain_.size()));
  const Operation op = chain_[i];
  Operation previous = before_[op];
  if (previous < 0) return false;
  for (int32_t back = random_.Below(4); back > 0 && before_[previous] >= 0; --back)
    previous = before_[previous];
  const Ticks key = trial_.keys[previous] - 1;
  if (key >= trial_.keys[op]) return false;
  trial_.keys[op] = key;
  return true;
}

bool Walker::DelayCritical() {
  // Do an operation later that a critical one waits for on its device.
  const int32_t i = random_.Below(static_cast<int32_t>(chain_.size()));
  const Operation op = chain_[i];
  Operation previous = before_[op];
  if (previous < 0) return false;
  for (int32_t back = random_.Below(3); back > 0 && before_[previous] >= 0; --back)
    previous = before_[previous];
  const Ticks least = trial_.keys[op] + 1;
  if (trial_.keys[previous] >= least) return false;
  trial_.keys[previous] = random_.Below(3) != 0 ? least : least + std::abs(RandomDistance());
  return true;
}

int32_t Walker::StagesOn(int32_t device) const {
  return static_cast<int32_t>(
      std::count(trial_.shape.device.begin(), trial_.shape.device.end(), device));
}

bool Walker::ShiftBoundary() {
  Shape& shape = trial_.shape;
  if (shape.stages() < 2) return false;
  const int32_t i = 1 + random_.Below(shape.stages() - 1);
  const int32_t room_down = shape.bound[i] - shape.bound[i - 1] - 1,
                room_up = shape.bound[i + 1] - shape.bound[i] - 1;
  const bool up = random_.Below(2) == 0;
  const int32_t room = up ? room_up : room_down;
  if (room < 1) return false;
  const int32_t step = random_.Below(4) != 0 ? 1 : 1 + random_.Below(room);
  shape.bound[i] += up ? step : -step;
  return true;
}

bool Walker::Split() {
  Shape& shape = trial_.shape;
  if (shape.stages() >= problem_.max_stages) return false;
  const int32_t s = RandomStage(), first = shape.bound[s], end = shape.bound[s + 1];
  if (end - first < 2) return false;
  const int32_t at = first + 1 + random_.Below(end - first - 1);
  const int32_t old_device = shape.device[s];
  const int32_t new_device = random_.Below(4) == 0 ? old_device : RandomDevice();
  if (StagesOn(new_device) >= problem_.max_stages_per_device) return false;
  const bool first_moves = random_.Below(2) == 0;
  shape.bound.insert(shape.bound.begin() + s + 1, at);
  shape.device.insert(shape.device.begin() + s, first_moves ? new_device : old_device);
  shape.device[s + 1] = first_moves ? old_device : new_device;
  shape.recompute.insert(shape.recompute.begin() + s, shape.recompute[s]);
  const int32_t m = problem_.microbatches;
  const auto from = trial_.keys.begin() + static_cast<size_t>(s) * kKinds * m;
  trial_.keys.insert(from, kKinds * m, 0);
  const Ticks forward = problem_.WorkOf(kForward, first, at),
              input = problem_.WorkOf(kInput, at, end);
  const Ticks weight = problem_.WorkOf(kWeight, at, end);
  for (int32_t b = 0; b < m; ++b) {
    KeysOf(s, kForward)[b] = KeysOf(s + 1, kForward)[b];
    KeysOf(s + 1, kForward)[b] += forward;
    KeysOf(s, kInput)[b] = KeysOf(s + 1, kInput)[b] + input;
    KeysOf(s, kWeight)[b] = KeysOf(s + 1, kWeight)[b] + weight;
  }
  return true;
}

bool Walker::Merge() {
  Shape& shape = trial_.shape;
  if (shape.stages() < 2) return false;
  const int32_t s = random_.Below(shape.stages() - 1), m = problem_.microbatches;
  const int32_t device = random_.Below(2) == 0 ? shape.device[s] : shape.device[s + 1];
  for (int32_t b = 0; b < m; ++b) {
    KeysOf(s, kInput)[b] = KeysOf(s + 1, kInput)[b];
    KeysOf(s, kWeight)[b] = std::min(KeysOf(s, kWeight)[b], KeysOf(s + 1, kWeight)[b]);
  }
  const auto from = trial_.keys.begin() + static_cast<size_t>(s + 1) * kKinds * m;
  trial_.keys.erase(from, from + kKinds * m);
  shape.device[s] = device;
  shape.bound.erase(shape.bound.begin() + s + 1);
  shape.device.erase(shape.device.begin() + s + 1);
  shape.recompute.erase(shape.recompute.begin() + s + 1);
  return true;
}

bool Walker::Place() {
  const int32_t s = RandomStage(), device = RandomDevice();
  if (trial_.shape.device[s] == device || StagesOn(device) >= problem_.max_stages_per_device)
    return false;
  trial_.shape.device[s] = device;
  return true;
}

bool Walker::SwapPlaces() {
  const int32_t a = RandomStage(), b = RandomStage();
  if (trial_.shape.device[a] == trial_.shape.device[b]) return false;
  std::swap(trial_.shape.device[a], trial_.shape.device[b]);
  return true;
}

Ticks Walker::RandomDistance() {
  // Log-uniform between a small operation and a few micro-batches' worth of one device.
  const double most = static_cast<double>(problem_.total()) * 2.0 / problem_.devices;
  const double least = std::max(1.0, most / 400);
  const double distance = least * std::pow(most / least, random_.Unit());
  return static_cast<Ticks>(random_.Below(2) == 0 ? distance : -distance);
}

bool Walker::ShiftKeys() {
  const int32_t m = problem_.microbatches;
  const Ticks distance = RandomDistance();
  const int32_t kind = random_.Below(problem_.split_backward ? 3 : 2);
  const int32_t first = random_.Below(m);
  const int32_t how = random_.Below(8);
  int32_t begin = 0, end = m;
  if (how < 3) begin = first, end = first + 1;
  if (how == 3 || how == 4) begin = first;
  if (how == 5) end = first + 1;
  const int32_t s = RandomStage();
  int32_t last = s;
  if (random_.Below(8) == 0) last = std::min(trial_.shape.stages() - 1, s + random_.Below(6));
  for (int32_t i = s; i <= last; ++i) {
    for (int32_t b = begin; b < end; ++b) KeysOf(i, kind)[b] += distance;
  }
  return true;
}

bool Walker::SwapKeys() {
  const int32_t m = problem_.microbatches, kinds = problem_.split_backward ? 3 : 2;
  const int32_t a = RandomStage(), b = RandomStage();
  if (trial_.shape.device[a] != trial_.shape.device[b]) return false;
  Ticks& x = KeysOf(a, random_.Below(kinds))[random_.Below(m)];
  Ticks& y = KeysOf(b, random_.Below(kinds))[random_.Below(m)];
  if (x == y) return false;
  std::swap(x, y);
  return true;
}

bool Walker::ChangePenalty() {
  const int32_t old = trial_.wait_penalty;
  static constexpr int32_t kPenalties[] = {4, 8, 16, 24, 32, 48, 64, 128, 1024};
  trial_.wait_penalty = kPenalties[random_.Below(9)];
  return trial_.wait_penalty != old;
}

bool Walker::ToggleRecompute() {
  trial_.shape.recompute[RandomStage()] ^= 1;
  return true;
}

}  // namespace pillion::pipeline::tuner
