// The head without sockets, disk and clock: messages and timers in, Effects out. The server, the simulation and
// the tests drive it the same way. Not thread-safe: the loop thread owns it.
//
// A turn of the loop:
//   for each message that is there (up to a bound):  reactor.OnMessage(sender, message, now)
//   for each connection that broke:                  reactor.OnPeerLost(peer, now)
//   when now ≥ NextTimerNs():                        reactor.OnTick(now)
//   reactor.EndTurn(now)                             grants are chosen, changed records are encoded
//   carry out the Effects as head/effects.h says, then Clear() them; OnCommitted(now) or OnStoreError(status, now)
#ifndef PILLION_HEAD_REACTOR_H_
#define PILLION_HEAD_REACTOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "api/wire/messages.h"
#include "base/limits.h"
#include "base/status.h"
#include "head/effects.h"
#include "scheduler/policy.h"

namespace pillion::head {

// One instant: `ns` is monotonic and decides; `wall_ns` is for people (submission times). One per turn.
struct Now {
  int64_t ns = 0;
  int64_t wall_ns = 0;
};

using scheduler::ParsePolicy;
using scheduler::Policy;
using scheduler::PolicyName;

struct ReactorOptions {
  std::string software_version;
  Policy policy = Policy::kFairShare;
  int64_t heartbeat_ms = limits::kHeartbeatMs;
  int64_t worker_lost_ms = limits::kWorkerLostMs;
  int64_t reattach_grace_ms = limits::kReattachGraceMs;
  bool rebalance = true;
  double rebalance_ratio = 1.5;              // another worker must be so much better …
  int64_t minimum_residence_ms = 30'000;     // … after a task has been where it is for so long
  int64_t finished_job_retention_ms = 24 * 3600 * 1000;
  uint64_t finished_tasks_retained = 2'000'000;  // oldest finished jobs go first
};

// Who sent a message, as the transport authenticated it.
struct Sender {
  Peer peer = 0;
  wire::Role role = wire::Role::kClient;  // what its key may be; an operator may do all that a client may
  std::string_view user;                  // the key's name: the default owner of its jobs
};

// What only the server knows, for `status`.
struct ServerFigures {
  double store_write_ms_p50 = 0, store_write_ms_p99 = 0;
  uint64_t store_bytes = 0;
  uint64_t hostile_messages = 0;
};

class Reactor {
 public:
  // `effects` outlives the reactor; each call below appends to it.
  Reactor(ReactorOptions options, Effects* effects);
  ~Reactor();

  // Recovery, before anything else: every stored record in order of (kind, key), then FinishLoad, which raises the
  // incarnation (a record in Effects: commit it before the first message) and starts the grace time of leases.
  // An empty store is a first start: FinishLoad alone. kCorruption and kUnsupported name the record.
  Status Load(RecordKind kind, std::string_view key, std::string_view value);
  Status FinishLoad(Now now);

  void OnMessage(const Sender& sender, wire::Message message, Now now);
  void OnPeerLost(Peer peer, Now now);
  void OnTick(Now now);
  // When OnTick wants to be called; INT64_MAX: no timer is set.
  int64_t NextTimerNs() const;
  void EndTurn(Now now);

  // The turn's records are durable (again): requests are taken.
  void OnCommitted(Now now);
  // They are not. Until OnCommitted, requests that would change something are refused with kUnavailable (the
  // message is in `status`), workers' reports are left unanswered so that they come again, and nothing is granted.
  void OnStoreError(const Status& status, Now now);

  void SetServerFigures(const ServerFigures& figures);

  uint64_t incarnation() const;

  class Impl;
  // The parts, for the simulation's checker and for tests.
  const Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace pillion::head

#endif  // PILLION_HEAD_REACTOR_H_
