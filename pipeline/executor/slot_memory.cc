#include "pipeline/executor/slot_memory.h"

#include <algorithm>
#include <cstring>

#include "base/futex.h"

namespace pillion::executor {
namespace {

// How often a sleeper looks whether the others live. Long, because every look interrupts what runs
// in the bubble.
constexpr int64_t kLivenessPollNs = 100 * kNanosPerMilli;

size_t RoundUp(size_t bytes) { return (bytes + 63) / 64 * 64; }

class MemoryTransport final : public Transport {
 public:
  MemoryTransport(std::shared_ptr<SlotMemory> memory, int32_t rank, const Program& program,
                  const Clock& clock)
      : memory_(std::move(memory)),
        layout_(program),
        program_(program),
        clock_(clock),
        rank_(rank),
        header_(reinterpret_cast<Header*>(memory_->base())),
        ranks_(reinterpret_cast<RankState*>(memory_->base() + layout_.ranks_offset())),
        slots_(reinterpret_cast<SlotState*>(memory_->base() + layout_.slots_offset())) {}

  int32_t rank() const override { return rank_; }

  Status Join(int64_t deadline_ns) override {
    Me().waits_for.store(-1);
    Me().position.store(-1);
    Me().presence.store(kJoined, std::memory_order_release);
    FutexWakeAll(&Me().presence);
    for (int32_t peer = 0; peer < program_.ranks; ++peer) {
      PILLION_RETURN_IF_ERROR(Await(&ranks_[peer].presence, peer, deadline_ns, [&](uint32_t seen) {
                                return seen != kAbsent;
                              }).WithContext("joining"));
    }
    memory_->AllJoined();
    return Status();
  }

  void Leave() override {
    Me().presence.store(kLeft, std::memory_order_release);
    FutexWakeAll(&Me().presence);
  }

  void Fail(const Status& why) override {
    (void)Report(why.code(), NameRank(rank_) + ": " + why.message());
  }

  void SetPosition(int32_t index) override {
    Me().position.store(index, std::memory_order_relaxed);
  }

  Buffer BufferOf(int32_t slot) override {
    return {memory_->base() + layout_.buffer_offset(slot), program_.slots[slot].bytes};
  }

  Status AwaitFree(int32_t slot, uint32_t round, int64_t deadline_ns) override {
    return AwaitWord(slot, 2 * round, program_.slots[slot].to_rank, deadline_ns);
  }
  Status AwaitFull(int32_t slot, uint32_t round, int64_t deadline_ns) override {
    return AwaitWord(slot, 2 * round + 1, program_.slots[slot].from_rank, deadline_ns);
  }
  void Fill(int32_t slot, uint32_t round) override { SetWord(slot, 2 * round + 1); }
  void Release(int32_t slot, uint32_t round) override { SetWord(slot, 2 * round + 2); }

 private:
  RankState& Me() { return ranks_[rank_]; }

  static std::string NameRank(int32_t rank) { return "rank " + std::to_string(rank); }

  // "rank 1 (in 1F3)".
  std::string NameWork(int32_t rank) const {
    const int32_t position = ranks_[rank].position.load(std::memory_order_relaxed);
    const auto& instructions = program_.instructions[rank];
    if (position < 0 || position >= static_cast<int32_t>(instructions.size()))
      return NameRank(rank);
    return NameRank(rank) + " (in " + pipeline::ActionName(instructions[position].action) + ")";
  }

  void SetWord(int32_t slot, uint32_t value) {
    slots_[slot].word.store(value, std::memory_order_release);
    FutexWakeAll(&slots_[slot].word);
  }

  Status AwaitWord(int32_t slot, uint32_t wanted, int32_t peer, int64_t deadline_ns) {
    return Await(&slots_[slot].word, peer, deadline_ns,
                 [wanted](uint32_t seen) { return seen == wanted; });
  }

  // The first failure is the one that counts. Its text is there when `failure` is 2.
  Status Report(StatusCode code, const std::string& text) {
    uint32_t none = 0;
    if (header_->failure.compare_exchange_strong(none, 1)) {
      header_->failure_code = static_cast<int32_t>(code);
      const size_t length = std::min(text.size(), sizeof header_->failure_text - 1);
      std::memcpy(header_->failure_text, text.data(), length);
      header_->failure_text[length] = 0;
      header_->failure.store(2, std::memory_order_release);
      FutexWakeAll(&header_->failure);
    }
    return Status(code, text);
  }

  // The text is bytes that another process wrote.
  Status ReportedFailure() const {
    const int32_t code = header_->failure_code;
    const char* text = header_->failure_text;
    const bool known = code > 0 && code < kStatusCodeCount;
    return Status(known ? static_cast<StatusCode>(code) : StatusCode::kInternal,
                  std::string(text, strnlen(text, sizeof header_->failure_text)));
  }

  Status LookForDead() {
    for (int32_t rank = 0; rank < program_.ranks; ++rank) {
      if (rank == rank_ || ranks_[rank].presence.load(std::memory_order_acquire) != kJoined)
        continue;
      if (memory_->IsAlive(rank)) continue;
      // Its lock is gone: it left in order just now, or it died.
      if (ranks_[rank].presence.load(std::memory_order_acquire) == kLeft) continue;
      return Report(StatusCode::kUnavailable, NameWork(rank) + ": its process has died");
    }
    return Status();
  }

  // Waiting ranks form a chain; the one at its end keeps all of them.
  Status TimedOut(int32_t peer) {
    int32_t culprit = peer;
    for (int32_t hops = 0; hops < program_.ranks; ++hops) {
      const int32_t next = ranks_[culprit].waits_for.load(std::memory_order_relaxed);
      if (next < 0 || next >= program_.ranks || next == rank_) break;
      culprit = next;
    }
    const bool absent = ranks_[culprit].presence.load() == kAbsent;
    return Report(StatusCode::kDeadlineExceeded,
                  absent ? NameRank(culprit) + " has not come within the time-out"
                         : NameWork(culprit) + " lives but has not gone on within the time-out");
  }

  template <typename Condition>
  Status Await(const std::atomic<uint32_t>* word, int32_t peer, int64_t deadline_ns,
               Condition fulfilled) {
    if (fulfilled(word->load(std::memory_order_acquire))) return Status();
    Me().waits_for.store(peer, std::memory_order_relaxed);
    int64_t next_look_ns = clock_.NowNs() + kLivenessPollNs;
    Status status;
    while (true) {
      const uint32_t failure = header_->failure.load(std::memory_order_acquire);
      const bool peer_left = ranks_[peer].presence.load(std::memory_order_acquire) == kLeft;
      const uint32_t seen = word->load(std::memory_order_acquire);
      if (fulfilled(seen)) break;
      if (failure == 2) {
        status = ReportedFailure();
        break;
      }
      if (peer_left) {
        status = Report(StatusCode::kUnavailable,
                        NameRank(peer) + " has left before the others were done");
        break;
      }
      const int64_t now_ns = clock_.NowNs();
      if (now_ns >= next_look_ns) {
        if (status = LookForDead(); !status.ok()) break;
        next_look_ns = now_ns + kLivenessPollNs;
      }
      if (now_ns >= deadline_ns) {
        status = TimedOut(peer);
        break;
      }
      FutexWaitEither(word, seen, &header_->failure, failure, std::min(deadline_ns, next_look_ns));
    }
    Me().waits_for.store(-1, std::memory_order_relaxed);
    return status;
  }

  const std::shared_ptr<SlotMemory> memory_;
  const SlotMemoryLayout layout_;
  const Program& program_;
  const Clock& clock_;
  const int32_t rank_;
  Header* const header_;
  RankState* const ranks_;
  SlotState* const slots_;
};

class HeapMemory final : public SlotMemory {
 public:
  explicit HeapMemory(size_t bytes) : words_(bytes / 64) {}
  uint8_t* base() override { return reinterpret_cast<uint8_t*>(words_.data()); }
  bool IsAlive(int32_t) override { return true; }

 private:
  struct alignas(64) Line {
    uint8_t bytes[64] = {};
  };
  std::vector<Line> words_;
};

}  // namespace

SlotMemoryLayout::SlotMemoryLayout(const Program& program) {
  slots_offset_ = sizeof(Header) + program.ranks * sizeof(RankState);
  size_t offset = slots_offset_ + program.slots.size() * sizeof(SlotState);
  for (const Slot& slot : program.slots) {
    buffers_.push_back(slot.IsLocal() ? 0 : offset);
    if (!slot.IsLocal()) offset += RoundUp(slot.bytes);
  }
  size_bytes_ = offset;
}

std::unique_ptr<Transport> MakeMemoryTransport(std::shared_ptr<SlotMemory> memory, int32_t rank,
                                               const Program& program, const Clock& clock) {
  return std::make_unique<MemoryTransport>(std::move(memory), rank, program, clock);
}

Result<std::vector<std::unique_ptr<Transport>>> MakeThreadTransports(const Program& program,
                                                                     const Clock& clock) {
  auto memory = std::make_shared<HeapMemory>(SlotMemoryLayout(program).size_bytes());
  std::vector<std::unique_ptr<Transport>> transports;
  for (int32_t rank = 0; rank < program.ranks; ++rank) {
    transports.push_back(MakeMemoryTransport(memory, rank, program, clock));
  }
  return transports;
}

}  // namespace pillion::executor
