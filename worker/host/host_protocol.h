// What worker and task host say to each other over one SOCK_SEQPACKET pair. Permission to run does not travel here
// but on the control page (worker/turns); this socket carries the life cycle.
//
// Grammar. One packet is one message of at most limits::kHostMessageBytes:
//   packet  = kind:u8 field*            the fields of that kind, in the order of its struct; nothing after them
//   u8 u16 u32 u64                      little-endian
//   f64     = u64                       bits of an IEEE 754 double
//   text    = length:u32 byte*          at most the packet
//   status  = code:u8 message:text      code < kStatusCodeCount
//   task    = job_high:u64 job_low:u64 index:u32
//   stored  = epoch:u64 step:u64 length:u64 checksum:u64 bytes:text path:text
// Whatever does not match is kCorruption. Results of dependencies may be many: each travels in an Input of its own
// ahead of the Init or Call that takes them all.
//
// Steps conversation:   W Input* Init → H Ready | Failed;  W Load → H Loaded | Failed; the worker makes it a resident.
//   H Progress, Log, Metric at any time; W Save → H Saved | Failed (when `hold` was set the host stays at that boundary
//   until Exit), or the Done | Failed that was already on its way; H Done | Failed is the last message of the task.
//   W Exit → the host unloads and exits.
// Calls conversation: W (Input* Call)* → H CallDone per Call, in order; W Exit ends the host.
#ifndef PILLION_WORKER_HOST_HOST_PROTOCOL_H_
#define PILLION_WORKER_HOST_HOST_PROTOCOL_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "base/ids.h"
#include "base/status.h"
#include "store/checkpoint_store.h"

namespace pillion::worker {

// ---- worker → host
struct InputMessage {
  std::string bytes;
};
struct InitMessage {
  TaskId task;
  Epoch epoch = 0;
  std::string program;
  std::string library;           // empty: ships with Pillion
  std::string arguments;         // JSON
  std::string device;            // "cpu0"
  std::string checkpoint_root;   // where Save writes payloads that do not fit inline
  uint64_t max_steps = 0;        // 0: until the task says done
  uint64_t memory_limit_bytes = 0;  // most that the pool may be, whatever the task declares; 0: the device's
};
// Tried in order: first, previous, fresh. epoch 0: there is none.
struct LoadMessage {
  store::StoredCheckpoint first;
  store::StoredCheckpoint previous;
};
struct SaveMessage {
  bool hold = false;             // true: take no further step afterwards (the task is about to leave)
};
struct ExitMessage {};
struct CallMessage {
  uint64_t call = 0;             // repeated by CallDone
  std::string program;
  std::string library;
  std::string arguments;         // an encoded tuple
  std::string positions;         // u32 per input: the argument that it replaces, or 2^32-1: order only
};

// ---- host → worker
struct ReadyMessage {
  uint64_t memory_bytes = 0;     // declared device memory
  bool elastic = false;
  uint64_t items_total = 0;
};
struct LoadedMessage {
  Step step = 0;                 // from which it goes on
  uint64_t items_done = 0;
  std::string detail;            // not empty: a checkpoint was passed over, and why
};
struct ProgressMessage {
  Step step = 0;
  uint64_t items_done = 0;
  uint32_t step_p50_us = 0;
  uint32_t step_p99_us = 0;
  uint64_t peak_memory_bytes = 0;
};
struct SavedMessage {            // epoch 0: nothing was saved (not loaded yet, or the disk refused: a Log says why)
  store::StoredCheckpoint checkpoint;
  uint64_t items_done = 0;
};
struct DoneMessage {
  Step step = 0;
  uint64_t items_done = 0;
  std::string result;
};
struct FailedMessage {
  Step step = 0;
  Status status;
};
struct LogMessage {
  std::string line;
};
struct MetricMessage {
  std::string name;
  double value = 0;
};
struct CallDoneMessage {
  uint64_t call = 0;
  Status status;
  std::string result;
};

// worker → host: a call that has not begun is dropped and gets no CallDone; one that runs is answered as usual.
struct CancelCallMessage {
  uint64_t call = 0;
};

// The order is the kind byte, from 1. It only grows.
using HostMessage = std::variant<InputMessage, InitMessage, LoadMessage, SaveMessage, ExitMessage, CallMessage,
                                 ReadyMessage, LoadedMessage, ProgressMessage, SavedMessage, DoneMessage, FailedMessage,
                                 LogMessage, MetricMessage, CallDoneMessage, CancelCallMessage>;

// kResourceExhausted when it does not fit one packet.
Result<std::string> EncodeHostMessage(const HostMessage& message);
Result<HostMessage> DecodeHostMessage(std::string_view packet);

// One end of the socket pair. One thread; the descriptor is non-blocking.
class HostSocket {
 public:
  explicit HostSocket(int fd) : fd_(fd) {}
  int fd() const { return fd_; }

  // kUnavailable: the other side is gone. kResourceExhausted: its queue is full (it does not read) and `wait_ms`
  // passed.
  Status Send(const HostMessage& message, int64_t wait_ms);
  // The next message; kNotFound when there is none now, kUnavailable when the other side is gone, kCorruption for a
  // packet that is no message.
  Result<HostMessage> Receive();

 private:
  const int fd_;  // owned by the caller
};

}  // namespace pillion::worker

#endif  // PILLION_WORKER_HOST_HOST_PROTOCOL_H_
