// List scheduling: turns a table of stages and a priority key per operation into a schedule.
// Micro-batches go through every (stage, kind) in order, which loses nothing: they are alike, and
// exchanging two that overtake each other keeps every time and every memory.
//
// A device takes, among the operations whose inputs are known, the one with the smallest key plus a
// penalty for each tick it would have to wait for it: with a small penalty devices idle on purpose,
// with a large one never. A gap that would be left is filled with whatever ends before the wait
// does.
//
// Memory. F(s, b) may start only if its device has room and if the state stays safe. Let c be the
// oldest micro-batch whose forwards are not all started. Those before it finish without new memory,
// and c needs all its forwards before anything younger can go back, so a state can be completed
// exactly if on every device what the micro-batches younger than c hold, plus all that one
// micro-batch needs there, is within the cap. (The Banker's test, in constant time.) So a search
// over keys never meets a deadlock, and no plan that fits is out of its reach.
#ifndef PILLION_PIPELINE_TUNER_DECODER_H_
#define PILLION_PIPELINE_TUNER_DECODER_H_

#include <cstdint>
#include <vector>

#include "pipeline/tuner/problem.h"
#include "pipeline/tuner/random.h"

namespace pillion::pipeline::tuner {

// Index of an operation: (stage * kKinds + kind) * microbatches + microbatch.
using Operation = int32_t;

struct Schedule {
  Ticks makespan = 0;
  std::vector<std::vector<int32_t>>
      order;                 // [device] stage * kKinds + kind; the micro-batch is its count so far
  std::vector<Ticks> start;  // [Operation]
};

// Not thread-safe: one per thread. Buffers are kept between calls.
class Decoder {
 public:
  explicit Decoder(const Problem& problem);

  // The makespan, or -1 as soon as it is certain to exceed `limit`. `keys` [Operation];
  // wait_penalty in sixteenths of key per tick. table.fits must hold.
  Ticks Run(const Table& table, const std::vector<Ticks>& keys, int32_t wait_penalty, Ticks limit);

  // Of the last successful Run.
  const std::vector<Ticks>& start() const { return start_; }
  // [operation] the one before it on its device, or -1.
  const std::vector<Operation>& before() const { return before_; }
  // Operations of one longest chain of the last Run, latest first: each starts when the next one of
  // the list ends (or its transfer arrives). The chain stops where a device waits although it need
  // not.
  void TraceCritical(const Table& table, Random* random, std::vector<Operation>* chain) const;
  void Extract(const Table& table, Schedule* schedule) const;

 private:
  struct Entry {
    Ticks key;
    Ticks ready;
    Ticks time;
    int32_t symbol;  // stage * kKinds + kind
  };
  struct Device {
    Ticks free = 0;
    Ticks left = 0;  // work not yet started
    Ticks choice_start = 0;
    int32_t choice = -1;  // index of an entry
    int32_t entries = 0;
    int64_t used[kMemories];
    int64_t young[kMemories];  // held by micro-batches younger than oldest_
  };

  template <bool kCaps, bool kLinks>
  Ticks RunAs(const Table& table, Ticks limit);
  void Reset(const Table& table);
  template <bool kCaps>
  bool Admissible(const Table& table, int32_t device, const Entry& entry) const;
  template <bool kCaps>
  void Choose(const Table& table, int32_t device);
  void Offer(const Table& table, int32_t symbol, int32_t microbatch, Ticks ready);
  template <bool kCaps>
  void Hold(const Table& table, int32_t symbol, int32_t microbatch);

  const Problem& problem_;
  const Ticks* keys_ = nullptr;
  int32_t wait_penalty_ = 16;
  int32_t capacity_ = 0;  // entries per device
  int32_t oldest_ = 0;
  std::vector<Device> devices_;
  std::vector<Entry> entries_;  // [device * capacity_ + i]
  std::vector<int32_t> next_;   // [symbol] micro-batches started
  std::vector<Ticks> ready_;    // [Operation] when its inputs are there; -1 unknown
  std::vector<Ticks> start_;
  std::vector<Operation> before_;
  std::vector<Operation> last_;   // [device]
  std::vector<Ticks> link_free_;  // [from * devices + to]
};

}  // namespace pillion::pipeline::tuner

#endif  // PILLION_PIPELINE_TUNER_DECODER_H_
