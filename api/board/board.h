// The board: one shared-memory file per device on which the trainer's bubble edges appear. Written by the trainer
// (C ABI in pillion/trainer.h), read by the worker and, read-only, by the task hosts.
//
// Path: $PILLION_BOARD_DIR, else /dev/shm/pillion-<uid>, then /board-<device uuid>; mode 0600 in a 0700 directory.
// Created by whoever comes first, never unlinked or re-created while the machine runs. Liveness is by open file
// description locks on single bytes of the file (kLock…), not by pids: the kernel drops them with the process.
//
// Layout version 1; fields are only added at the end of `reserved` areas, with a higher minor version.
#ifndef PILLION_API_BOARD_BOARD_H_
#define PILLION_API_BOARD_BOARD_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/file.h"
#include "base/limits.h"
#include "base/status.h"

namespace pillion::board {

inline constexpr uint64_t kMagic = 0x44524F424E4C4C50ull;  // "PLLNBORD"
inline constexpr uint16_t kMajorVersion = 1;
inline constexpr uint16_t kMinorVersion = 0;

// Bytes of the file that are locked while…
inline constexpr int64_t kLockInitialise = 0;
inline constexpr int64_t kLockTrainer = 1;  // …a trainer is attached
inline constexpr int64_t kLockWorker = 2;   // …a worker serves the device

// The bubble with `sequence` s. Valid when sequence == s. Times are CLOCK_MONOTONIC; 0: not known (on CUDA the
// stream writes only the edge word, and observers stamp it).
struct RingEntry {
  std::atomic<uint32_t> sequence;
  std::atomic<uint32_t> slot;
  std::atomic<uint64_t> iteration;
  std::atomic<int64_t> open_ns;
  std::atomic<int64_t> close_ns;
};
static_assert(sizeof(RingEntry) == 32);

// Start of iteration i at [i mod kIterationRing]; valid when iteration == i.
inline constexpr uint32_t kIterationRing = 256;
struct IterationEntry {
  std::atomic<uint64_t> iteration;
  std::atomic<int64_t> start_ns;  // 0: not known
};

struct Layout {
  // Constant after creation. `magic` is written last.
  std::atomic<uint64_t> magic;
  uint16_t major_version;
  uint16_t minor_version;
  uint32_t size_bytes;
  char device_uuid[64];
  uint8_t reserved0[48];

  // The edge word: sequence · 2 + open, on a cache line of its own; a futex on cpu devices. Sequences count bubbles
  // from 1 and go on across trainers; they wrap at 2^31.
  alignas(128) std::atomic<uint32_t> edge;

  // Written by the trainer's host.
  alignas(128) std::atomic<uint64_t> run_id;
  std::atomic<uint32_t> trainer_generation;  // grows with every trainer that attaches
  std::atomic<int32_t> rank;
  std::atomic<int32_t> ranks;
  std::atomic<uint32_t> slots_per_iteration;
  std::atomic<uint64_t> iteration;           // that was started last; counts from 0 in each run; kNoIteration before
  std::atomic<uint64_t> memory_claim_bytes;
  std::atomic<uint32_t> expected_generation;  // grows with every pillion_expect
  std::atomic<uint32_t> expected_slots;

  // Written by the worker: the share of iterations that run quiet is 1 / quiet_one_in (0: none). The trainer reads
  // it so that pillion_iteration_is_quiet agrees with the worker.
  alignas(128) std::atomic<uint32_t> quiet_one_in;
  std::atomic<uint32_t> worker_generation;
  uint8_t reserved1[120];

  RingEntry ring[limits::kBoardRing];
  IterationEntry iterations[kIterationRing];
  std::atomic<uint32_t> expected_us[limits::kSlotsPerIteration];
};

inline constexpr uint64_t kNoIteration = UINT64_MAX;

// On cpu devices the opening edge wakes the futex; the closing edge does not, so that nobody gets to run just when
// the trainer goes on: steps watch the word themselves, and who only counts learns of it at the next opening.
constexpr uint32_t SequenceOf(uint32_t edge) { return edge >> 1; }
constexpr bool IsOpen(uint32_t edge) { return (edge & 1) != 0; }
constexpr uint32_t EdgeWord(uint32_t sequence, bool open) { return sequence << 1 | (open ? 1u : 0u); }
// The sequence after this one; 0 is never one.
constexpr uint32_t NextSequence(uint32_t sequence) { return (sequence + 1) << 1 == 0 ? 1 : sequence + 1; }

// Iterations run quiet in blocks of 8, the same on all ranks of a run, or each rank's quiet sample would hold its
// neighbours' intrusion.
inline constexpr uint64_t kQuietBlock = 8;
bool IsQuiet(uint64_t run_id, uint64_t iteration, uint32_t quiet_one_in);

// A mapped board. The mapping and the locks held through it live as long as the object.
class Board {
 public:
  enum class Access { kReadOnly, kReadWrite };

  // Opens or creates the board of a device. kUnsupported when the file has another major version (both are named),
  // kCorruption when it is no board, kPermissionDenied when the directory is not ours alone.
  static Result<std::unique_ptr<Board>> Open(const std::string& device_uuid, Access access);
  ~Board();

  Layout* layout() { return layout_; }
  const Layout* layout() const { return layout_; }
  int fd() const { return file_.get(); }
  const std::string& path() const { return path_; }

  // Takes a lock for as long as this object lives; kUnavailable when another process has it.
  Status TryLock(int64_t lock_byte);
  // Whether some process (other than through this object) holds the lock.
  bool IsLocked(int64_t lock_byte) const;

 private:
  Board(FileDescriptor file, Layout* layout, std::string path)
      : file_(std::move(file)), layout_(layout), path_(std::move(path)) {}
  FileDescriptor file_;
  Layout* layout_;
  std::string path_;
};

std::string BoardDirectory();
std::string BoardPath(const std::string& device_uuid);

}  // namespace pillion::board

#endif  // PILLION_API_BOARD_BOARD_H_
