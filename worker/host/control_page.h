// The control page: one page of shared memory per task host, made by the worker (memfd) and inherited by the host.
// Through it the worker gives turns and posts commands, and the host says what it did with them. No system call is
// on the path from a bubble's edge to the first step but the futex wait itself.
//
// A turn's life is one word, id·4 + state:
//   kNone ──worker──▶ kArmed ──host──▶ kTaken ──host──▶ kEnded ──worker──▶ kArmed …
//                       └──worker──▶ kNone (disarmed; fails once the host has taken it)
// The worker writes the turn's fields only in kNone and kEnded, the host its record only in kTaken, so neither needs
// a lock. A host is not trusted: the worker checks every number that it reads from here.
#ifndef PILLION_WORKER_HOST_CONTROL_PAGE_H_
#define PILLION_WORKER_HOST_CONTROL_PAGE_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/file.h"
#include "base/status.h"

namespace pillion::host {

inline constexpr uint64_t kControlMagic = 0x4C54434E4C4C4C50ull;
inline constexpr uint32_t kControlVersion = 1;
inline constexpr uint32_t kRecordRing = 16;

enum class TurnState : uint32_t { kNone = 0, kArmed = 1, kTaken = 2, kEnded = 3 };
constexpr uint32_t TurnWord(uint32_t id, TurnState state) { return id << 2 | static_cast<uint32_t>(state); }
constexpr uint32_t TurnIdOf(uint32_t word) { return word >> 2; }
constexpr TurnState TurnStateOf(uint32_t word) { return static_cast<TurnState>(word & 3); }

enum class TurnKind : uint32_t {
  kBubble = 0,  // begins when the edge word becomes `edge`; ends at the opening + budget_ns
  kNow = 1,     // begins at once in the bubble that `edge` says is open; ends at deadline_ns
  kFree = 2,    // begins at once, no trainer is attached; ends at deadline_ns or when a trainer attaches
};

struct Turn {  // written by the worker
  std::atomic<uint32_t> kind;
  std::atomic<uint32_t> edge;               // steps start only while the board's edge word is this
  std::atomic<uint32_t> slot;               // kBubble: declined when the opened bubble is another than foreseen
  std::atomic<uint32_t> trainer_generation;
  std::atomic<uint64_t> iteration;
  std::atomic<int64_t> budget_ns;           // kBubble: guard already taken off
  std::atomic<int64_t> deadline_ns;         // kNow, kFree
  std::atomic<uint32_t> afresh;             // 1: forget the step estimate; a stall of the machine may have made it
  std::atomic<int64_t> expected_open_ns;    // kBubble: where devices without futex edges begin to poll
};

enum class TurnEnd : uint32_t {
  kFull = 0,       // the next step would no longer fit
  kClosed = 1,     // the bubble closed (or a trainer came) between two steps
  kOverran = 2,    // …during the last step
  kMissed = 3,     // the bubble had closed before the host came to run
  kMismatch = 4,   // the bubble that opened is not the one foreseen
  kStopped = 5,    // stop flag or paused
  kCommand = 6,    // a command is waiting
  kResting = 7,    // the task has no further step (done, failed, or not ready)
};

struct TurnRecord {  // written by the host; valid when `turn` is the turn's id
  std::atomic<uint32_t> turn;
  std::atomic<uint32_t> end;                // TurnEnd
  std::atomic<uint32_t> edge;               // of the bubble it ran in
  std::atomic<uint32_t> steps;
  std::atomic<uint64_t> items;
  std::atomic<int64_t> first_start_ns;      // 0: no step was run
  std::atomic<int64_t> last_start_ns;
  std::atomic<int64_t> last_end_ns;
  std::atomic<int64_t> step_time_ns;        // sum over the steps, the last one included
};

struct ControlLayout {
  // Constant.
  std::atomic<uint64_t> magic;
  uint32_t version;
  uint32_t size_bytes;

  // Written by the worker. `control` counts changes of anything in this group; the host sleeps on it.
  alignas(128) std::atomic<uint32_t> control;
  std::atomic<uint32_t> commands;           // grows with every message that waits on the host's socket
  std::atomic<uint32_t> stop;               // not 0: return from the step as soon as possible
  std::atomic<uint32_t> paused;             // not 0: take no turns; one that runs ends after its present step
  alignas(128) std::atomic<uint32_t> turn;  // TurnWord; also changed by the host, as drawn above
  Turn armed;

  // Written by the host.
  alignas(128) std::atomic<uint32_t> ready;  // 1: the task is loaded and has a next step
  std::atomic<uint32_t> elastic;
  std::atomic<int64_t> step_start_ns;        // of the step that is running; 0 between steps
  std::atomic<int64_t> step_estimate_ns;     // what the next step needs (high quantile); 0: none measured yet
  std::atomic<uint64_t> total_steps;
  std::atomic<uint64_t> total_items;
  TurnRecord records[kRecordRing];           // [id mod kRecordRing]
};
static_assert(sizeof(ControlLayout) <= 4096);

// The doorbell: one word per device, shared by the worker with all hosts of the device. A host adds 1 and wakes it
// when a turn has ended or when it became ready.
struct DoorbellLayout {
  std::atomic<uint32_t> doorbell;
};

// A page of T in a memfd. Created zeroed by the worker; opened by a host from the inherited descriptor.
template <typename T>
class SharedPage {
 public:
  static Result<std::shared_ptr<SharedPage>> Create(const char* name);
  // kCorruption when the descriptor is no such page.
  static Result<std::shared_ptr<SharedPage>> Open(FileDescriptor file);
  ~SharedPage();
  SharedPage(const SharedPage&) = delete;
  SharedPage& operator=(const SharedPage&) = delete;

  T* operator->() { return layout_; }
  const T* operator->() const { return layout_; }
  T& operator*() { return *layout_; }
  int fd() const { return file_.get(); }  // without CLOEXEC cleared: the spawner dup2s it

 private:
  SharedPage(FileDescriptor file, T* layout) : file_(std::move(file)), layout_(layout) {}
  FileDescriptor file_;
  T* layout_;
};

using ControlPage = SharedPage<ControlLayout>;
using DoorbellPage = SharedPage<DoorbellLayout>;

}  // namespace pillion::host

#endif  // PILLION_WORKER_HOST_CONTROL_PAGE_H_
