// The leases of steps tasks: each from its grant to the last verdict, with the host that runs it.
//
//   grant → starting → loading → running → (leaving) → ended → last verdict → forgotten
//
// Commit, Finish and Release are kept until the head has answered and sent again after a reconnect; per lease one is
// on its way at a time, so they arrive in order.
//
// One thread, but for the overrun callback.
#ifndef PILLION_WORKER_LEASES_H_
#define PILLION_WORKER_LEASES_H_

#include <poll.h>

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api/wire/messages.h"
#include "worker/process.h"
#include "worker/session.h"
#include "worker/turns/turn_engine.h"

namespace pillion::worker {

// Which process a resident is, for the overrun callback, which runs in the bubble thread and stops it at once.
class ResidentProcesses {
 public:
  explicit ResidentProcesses(int event_fd) : event_fd_(event_fd) {}
  void Add(turns::ResidentId id, pid_t pid);
  void Remove(turns::ResidentId id);
  void Overran(turns::ResidentId id, int64_t overrun_ns);  // SIGSTOP, and a word to the main thread
  std::vector<turns::ResidentId> TakeOverran();

 private:
  const int event_fd_;
  std::mutex mutex_;
  std::map<turns::ResidentId, pid_t> pids_;
  std::vector<turns::ResidentId> overran_;
};

struct LeaseContext {
  HostOptions host;
  std::string checkpoint_root;
  int64_t commit_interval_ns = 0;
  turns::TurnEngine* engine = nullptr;
  ResidentProcesses* processes = nullptr;
  Uplink* uplink = nullptr;
};

class Leases {
 public:
  explicit Leases(LeaseContext context) : context_(std::move(context)) {}

  void OnGrant(wire::Grant grant, int64_t now_ns);
  void OnRevoke(const wire::Revoke& revoke, int64_t now_ns);
  void Drop(const TaskId& task);  // no longer ours: kill without saving
  void OnVerdict(uint64_t request_id, const wire::Verdict& verdict);
  void OnReconnect();
  void OnOverrun(turns::ResidentId resident);
  void LeaveAll(int64_t now_ns);  // as if all were revoked
  void AbandonAll();              // time is up: kill

  // Everything that is due: messages of hosts, deaths, saves, reports. `polled` is what AddPolled added.
  void Pump(int64_t now_ns);
  void AddPolled(std::vector<pollfd>* polled) const;

  std::vector<wire::HeldLease> Held() const;
  uint32_t Occupied() const;  // places taken: hosts that live
  uint32_t Unreported() const;  // leases whose end has not been sent
  uint64_t DeclaredMemory() const;
  bool empty() const { return leases_.empty(); }
  bool any_host() const { return Occupied() > 0 || !exiting_.empty(); }

 private:
  enum class Phase { kStarting, kLoading, kRunning, kLeaving, kEnded };
  struct Lease {
    wire::Grant grant;
    Phase phase = Phase::kStarting;
    std::unique_ptr<HostProcess> host;
    std::optional<turns::ResidentId> resident;
    uint64_t memory_bytes = 0;
    Step step = 0, committed_step = 0;
    uint64_t items_done = 0, items_total = 0;
    wire::ReleaseCause leave_cause = wire::ReleaseCause::kPlannedMove;
    bool overran = false;
    bool save_asked = false;
    int64_t next_commit_ns = 0;
    int64_t deadline_ns = 0;         // of starting, loading or leaving
    int64_t next_progress_ns = 0;
    std::optional<ProgressMessage> progress;
    std::map<std::string, double> metrics;
    std::vector<std::string> log_lines;
    std::deque<wire::Body> reports;  // the first is on its way when `request` is not 0
    uint64_t request = 0;
    int64_t sent_ns = 0;
    bool end_sent = false;
  };
  struct Exiting {
    std::unique_ptr<HostProcess> host;
    int64_t kill_ns = 0;
  };

  void Start(Lease* lease, int64_t now_ns);
  void Receive(Lease* lease, int64_t now_ns);
  void OnHostMessage(Lease* lease, HostMessage message, int64_t now_ns);
  void OnLoaded(Lease* lease, const LoadedMessage& loaded, int64_t now_ns);
  void OnSaved(Lease* lease, SavedMessage saved, int64_t now_ns);
  void OnFailed(Lease* lease, const FailedMessage& failed, int64_t now_ns);
  void OnHostDeath(Lease* lease, int wait_status);
  void CheckTimes(Lease* lease, int64_t now_ns);
  void Leave(Lease* lease, wire::ReleaseCause cause, int64_t now_ns);
  void PostToHost(Lease* lease, HostMessage message);
  void LetHostExit(Lease* lease, int64_t now_ns);
  void KillHost(Lease* lease);
  void Release(Lease* lease, wire::ReleaseCause cause, std::string detail);
  void Finish(Lease* lease, wire::Finish finish);
  void SendReports(Lease* lease, int64_t now_ns);
  void SendProgress(Lease* lease, int64_t now_ns);
  std::string Name(const Lease& lease) const;

  const LeaseContext context_;
  std::map<TaskId, Lease> leases_;
  std::vector<Exiting> exiting_;
};

}  // namespace pillion::worker

#endif  // PILLION_WORKER_LEASES_H_
