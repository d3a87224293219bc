#include "pipeline/tuner/decoder.h"

#include <algorithm>

#include "base/check.h"

namespace pillion::pipeline::tuner {
namespace {
constexpr Ticks kUnknown = -1;
constexpr Ticks kNever = INT64_MAX / 4;
}  // namespace

Decoder::Decoder(const Problem& problem) : problem_(problem) {
  const int32_t symbols = problem.max_stages * kKinds;
  capacity_ = symbols;
  devices_.resize(problem.devices);
  entries_.resize(static_cast<size_t>(problem.devices) * capacity_);
  next_.resize(symbols);
  ready_.resize(static_cast<size_t>(symbols) * problem.microbatches);
  start_.resize(ready_.size());
  before_.resize(ready_.size());
  last_.resize(problem.devices);
  if (problem.has_links) link_free_.resize(static_cast<size_t>(problem.devices) * problem.devices);
}

void Decoder::Reset(const Table& table) {
  const int32_t symbols = table.stages * kKinds;
  std::fill_n(next_.begin(), symbols, 0);
  std::fill_n(ready_.begin(), static_cast<size_t>(symbols) * problem_.microbatches, kUnknown);
  std::fill(last_.begin(), last_.end(), -1);
  std::fill(link_free_.begin(), link_free_.end(), 0);
  for (int32_t d = 0; d < problem_.devices; ++d) {
    Device& device = devices_[d];
    device = Device();
    device.left = table.load[d];
    device.choice_start = kNever;
    for (int32_t k = 0; k < kMemories; ++k) device.used[k] = device.young[k] = 0;
  }
  oldest_ = 0;
}

Ticks Decoder::Run(const Table& table, const std::vector<Ticks>& keys, int32_t wait_penalty,
                   Ticks limit) {
  PILLION_CHECK(table.fits, "the decoder needs a shape that fits");
  keys_ = keys.data();
  wait_penalty_ = wait_penalty;
  if (problem_.has_links) {
    return problem_.has_caps ? RunAs<true, true>(table, limit) : RunAs<false, true>(table, limit);
  }
  return problem_.has_caps ? RunAs<true, false>(table, limit) : RunAs<false, false>(table, limit);
}

template <bool kCaps>
inline bool Decoder::Admissible(const Table& table, int32_t d, const Entry& entry) const {
  if (!kCaps) return true;
  const int32_t kind = entry.symbol % kKinds;
  if (kind == kWeight || (kind == kInput && !problem_.allow_recompute)) return true;
  const int32_t stage = entry.symbol / kKinds;
  const StageRow& row = table.row[stage];
  const Device& device = devices_[d];
  for (int32_t k = problem_.first_memory; k < problem_.end_memory; ++k) {
    if (kind == kInput) {
      if (row.acquire_input[k] > table.room_all[k][d] - device.used[k]) return false;
      continue;
    }
    const int64_t amount = row.acquire_forward[k];
    if (amount > table.room[k][d] - device.used[k]) return false;
    if (next_[entry.symbol] > oldest_ &&
        device.young[k] + amount > table.room[k][d] - table.one[k][d]) {
      return false;
    }
  }
  return true;
}

template <bool kCaps>
void Decoder::Choose(const Table& table, int32_t d) {
  Device& device = devices_[d];
  const Entry* entries = &entries_[static_cast<size_t>(d) * capacity_];
  const Ticks now = device.free;
  Ticks best_score = INT64_MAX;
  int32_t best = -1;
  for (int32_t i = 0; i < device.entries; ++i) {
    const Entry& entry = entries[i];
    const Ticks wait = entry.ready > now ? entry.ready - now : 0;
    const Ticks score = entry.key + ((wait * wait_penalty_) >> 4);
    if (score < best_score && Admissible<kCaps>(table, d, entry)) {
      best_score = score;
      best = i;
    }
  }
  device.choice = best;
  if (best < 0) {
    device.choice_start = kNever;
    return;
  }
  const Ticks until = entries[best].ready;
  if (until > now) {
    // Fill the gap with the best of what ends in time.
    Ticks best_key = INT64_MAX;
    for (int32_t i = 0; i < device.entries; ++i) {
      const Entry& entry = entries[i];
      if (std::max(entry.ready, now) + entry.time > until || entry.key >= best_key) continue;
      if (!Admissible<kCaps>(table, d, entry)) continue;
      if (kCaps && entry.symbol % kKinds == kForward)
        continue;  // may take the memory that is waited with
      best_key = entry.key;
      best = i;
    }
    device.choice = best;
  }
  device.choice_start = std::max(now, entries[best].ready);
}

inline void Decoder::Offer(const Table& table, int32_t symbol, int32_t microbatch, Ticks ready) {
  const int32_t operation = symbol * problem_.microbatches + microbatch;
  ready_[operation] = ready;
  if (next_[symbol] != microbatch) return;
  const StageRow& row = table.row[symbol / kKinds];
  Device& device = devices_[row.device];
  entries_[static_cast<size_t>(row.device) * capacity_ + device.entries++] = {
      keys_[operation], ready, row.time[symbol % kKinds], symbol};
}

template <bool kCaps>
inline void Decoder::Hold(const Table& table, int32_t symbol, int32_t microbatch) {
  if (!kCaps) return;
  const int32_t stage = symbol / kKinds, kind = symbol % kKinds;
  const StageRow& row = table.row[stage];
  Device& device = devices_[row.device];
  for (int32_t k = problem_.first_memory; k < problem_.end_memory; ++k) {
    if (kind == kForward) {
      device.used[k] += row.acquire_forward[k];
      if (microbatch > oldest_) device.young[k] += row.acquire_forward[k];
    } else if (kind == kInput) {
      device.used[k] += row.acquire_input[k] - row.release_input[k];
    } else {
      device.used[k] -= row.release_weight[k];
    }
  }
  if (kind != kForward || stage != table.stages - 1) return;
  ++oldest_;
  for (int32_t s = 0; s < table.stages; ++s) {
    if (next_[s * kKinds] <= oldest_) continue;
    for (int32_t k = problem_.first_memory; k < problem_.end_memory; ++k) {
      devices_[table.row[s].device].young[k] -= table.row[s].acquire_forward[k];
    }
  }
}

template <bool kCaps, bool kLinks>
Ticks Decoder::RunAs(const Table& table, Ticks limit) {
  Reset(table);
  const int32_t microbatches = problem_.microbatches, stages = table.stages,
                device_count = problem_.devices;
  for (int32_t b = 0; b < microbatches; ++b) Offer(table, kForward, b, 0);
  Choose<kCaps>(table, table.row[0].device);
  Ticks makespan = 0;
  int32_t left = stages * microbatches * (problem_.split_backward ? 3 : 2);
  while (left-- > 0) {
    int32_t d = 0;
    Ticks start = devices_[0].choice_start;
    for (int32_t i = 1; i < device_count; ++i) {
      if (devices_[i].choice_start < start) start = devices_[i].choice_start, d = i;
    }
    PILLION_CHECK(start < kNever, "a safe state has an operation that can start");
    Device& device = devices_[d];
    if (start + device.left > limit) return -1;
    Entry* entries = &entries_[static_cast<size_t>(d) * capacity_];
    const Entry entry = entries[device.choice];
    entries[device.choice] = entries[--device.entries];
    const int32_t symbol = entry.symbol, stage = symbol / kKinds, kind = symbol % kKinds;
    const int32_t microbatch = next_[symbol]++;
    const StageRow& row = table.row[stage];
    const Operation operation = symbol * microbatches + microbatch;
    start_[operation] = start;
    before_[operation] = last_[d];
    last_[d] = operation;
    const Ticks end = start + entry.time;
    device.free = end;
    device.left -= entry.time;
    makespan = std::max(makespan, end);
    const int32_t oldest = oldest_;
    Hold<kCaps>(table, symbol, microbatch);
    if (microbatch + 1 < microbatches) {
      const Ticks ready = ready_[symbol * microbatches + microbatch + 1];
      if (ready != kUnknown) Offer(table, symbol, microbatch + 1, ready);
    }
    int32_t other = d;
    Ticks arrival = end;
    if (kind == kForward) {
      if (stage + 1 < stages) {
        if (kLinks && row.forward_link >= 0) {
          Ticks& free = link_free_[row.forward_link];
          free = std::max(free, end) + row.forward_occupancy;
          arrival = free + row.forward_latency;
        }
        other = table.row[stage + 1].device;
        Offer(table, symbol + kKinds, microbatch, arrival);
      } else {
        Offer(table, stage * kKinds + kInput, microbatch, end);
      }
    } else if (kind == kInput) {
      if (problem_.split_backward) Offer(table, symbol + 1, microbatch, end);
      if (stage > 0) {
        if (kLinks && row.input_link >= 0) {
          Ticks& free = link_free_[row.input_link];
          free = std::max(free, end) + row.input_occupancy;
          arrival = free + row.input_latency;
        }
        other = table.row[stage - 1].device;
        Offer(table, symbol - kKinds, microbatch, arrival);
      }
    }
    if (kCaps && oldest != oldest_) {
      for (int32_t i = 0; i < device_count; ++i) Choose<kCaps>(table, i);
    } else {
      Choose<kCaps>(table, d);
      if (other != d) Choose<kCaps>(table, other);
    }
  }
  return makespan;
}

void Decoder::TraceCritical(const Table& table, Random* random,
                            std::vector<Operation>* chain) const {
  chain->clear();
  const int32_t m = problem_.microbatches;
  auto end_of = [&](Operation op) {
    return start_[op] + table.row[op / (kKinds * m)].time[op / m % kKinds];
  };
  Operation op = last_[0];
  for (int32_t d = 1; d < problem_.devices; ++d) {
    if (last_[d] >= 0 && (op < 0 || end_of(last_[d]) > end_of(op))) op = last_[d];
  }
  while (op >= 0) {
    chain->push_back(op);
    const int32_t stage = op / (kKinds * m), kind = op / m % kKinds;
    Operation input = -1;
    if (kind == kForward && stage > 0) input = op - kKinds * m;
    if (kind == kInput) input = stage + 1 < table.stages ? op + kKinds * m : op - m;
    if (kind == kWeight) input = op - m;
    if (input >= 0 && ready_[op] != start_[op]) input = -1;
    Operation previous = before_[op];
    if (previous >= 0 && end_of(previous) != start_[op]) previous = -1;
    if (input >= 0 && previous >= 0) {
      op = random->Below(2) == 0 ? input : previous;
    } else {
      op = input >= 0 ? input : previous;
    }
  }
}

void Decoder::Extract(const Table& table, Schedule* schedule) const {
  const int32_t microbatches = problem_.microbatches, kinds = problem_.split_backward ? 3 : 2;
  schedule->order.resize(problem_.devices);
  for (auto& order : schedule->order) order.clear();
  schedule->start = start_;
  std::vector<std::vector<std::pair<Ticks, int32_t>>> by_start(problem_.devices);
  schedule->makespan = 0;
  for (int32_t s = 0; s < table.stages; ++s) {
    for (int32_t kind = 0; kind < kinds; ++kind) {
      const int32_t symbol = s * kKinds + kind;
      for (int32_t b = 0; b < microbatches; ++b) {
        const Ticks start = start_[symbol * microbatches + b];
        by_start[table.row[s].device].push_back({start, symbol});
        schedule->makespan = std::max(schedule->makespan, start + table.row[s].time[kind]);
      }
    }
  }
  for (int32_t d = 0; d < problem_.devices; ++d) {
    std::sort(by_start[d].begin(), by_start[d].end());
    for (const auto& [start, symbol] : by_start[d]) schedule->order[d].push_back(symbol);
  }
}

}  // namespace pillion::pipeline::tuner
