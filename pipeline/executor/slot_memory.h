// The memory that the ranks of a host share: one word per rank and per slot, the buffers, and the
// reason why a run ended. Waiting is on futexes in it.
//
// Layout, all offsets multiples of 64: Header · RankState[ranks] · SlotState[slots] · buffers. A
// slot's word is 2 · round while it is free for that round, and 2 · round + 1 while it is full.
#ifndef PILLION_PIPELINE_EXECUTOR_SLOT_MEMORY_H_
#define PILLION_PIPELINE_EXECUTOR_SLOT_MEMORY_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pipeline/executor/transport.h"

namespace pillion::executor {

struct alignas(64) Header {
  std::atomic<uint64_t> magic;  // written last
  uint64_t fingerprint;         // of the program
  uint64_t size_bytes;
  std::atomic<uint32_t> failure;  // futex: 0 none, 1 being written, 2 written
  int32_t failure_code;
  char failure_text[1024];
};
struct alignas(64) RankState {
  std::atomic<uint32_t> presence;  // futex: Presence
  std::atomic<int32_t> waits_for;  // rank, or -1 while it works
  std::atomic<int32_t> position;   // index in its instructions, or -1 between iterations
};
struct alignas(64) SlotState {
  std::atomic<uint32_t> word;
};
enum Presence : uint32_t { kAbsent = 0, kJoined = 1, kLeft = 2 };

inline constexpr uint64_t kSlotMemoryMagic = 0x31304C5058454C50ull;  // "PLEXPL01"

// Where things lie; a pure function of the program.
class SlotMemoryLayout {
 public:
  explicit SlotMemoryLayout(const Program& program);
  size_t size_bytes() const { return size_bytes_; }
  size_t buffer_offset(int32_t slot) const { return buffers_[slot]; }
  size_t ranks_offset() const { return sizeof(Header); }
  size_t slots_offset() const { return slots_offset_; }

 private:
  size_t slots_offset_ = 0;
  size_t size_bytes_ = 0;
  std::vector<size_t> buffers_;  // [slot]; 0 for local ones, which lie in their rank
};

// What keeps the memory there and knows who lives.
class SlotMemory {
 public:
  virtual ~SlotMemory() = default;
  virtual uint8_t* base() = 0;
  // Whether the process of a rank that has joined still lives.
  virtual bool IsAlive(int32_t rank) = 0;
  // Called by each rank once all ranks have joined.
  virtual void AllJoined() {}
};

std::unique_ptr<Transport> MakeMemoryTransport(std::shared_ptr<SlotMemory> memory, int32_t rank,
                                               const Program& program, const Clock& clock);

}  // namespace pillion::executor

#endif  // PILLION_PIPELINE_EXECUTOR_SLOT_MEMORY_H_
