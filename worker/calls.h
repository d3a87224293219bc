// Call tasks: all in one pooled host, sent ahead so that it never waits for us between two calls. Results are kept
// until the head has answered, and go in batches.
//
// One thread.
#ifndef PILLION_WORKER_CALLS_H_
#define PILLION_WORKER_CALLS_H_

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "worker/leases.h"

namespace pillion::worker {

class Calls {
 public:
  static constexpr uint32_t kSlots = 64;

  explicit Calls(LeaseContext context) : context_(std::move(context)) {}

  void OnGrant(wire::Grant grant);
  bool OnRevoke(const wire::Revoke& revoke);  // false: not one of ours
  void Drop(const TaskId& task);
  void OnVerdict(const wire::Verdict& verdict);
  void OnReconnect();
  void OnOverrun(turns::ResidentId resident);
  void ReleaseAll();  // the worker ends

  void Pump(int64_t now_ns);
  void AddPolled(std::vector<pollfd>* polled) const;

  void AddHeld(std::vector<wire::HeldLease>* held) const;
  uint32_t Waiting() const { return static_cast<uint32_t>(pending_.size()); }  // without a result yet
  uint32_t Unreported() const;
  bool empty() const { return pending_.empty() && ended_.empty(); }

 private:
  struct Ended {
    wire::Body report;  // Finish or Release
    Epoch epoch = 0;
    bool sent = false;
    int64_t sent_ns = 0;
  };

  bool EnsureHost();
  void SendCall(const wire::Grant& grant);
  void OnDone(CallDoneMessage done);
  // The first pending call is to blame; the others go to the next host.
  void LoseHost(wire::ReleaseCause cause, const std::string& why);
  void End(const wire::Grant& grant, wire::Body report);
  void SendEnded(int64_t now_ns);

  const LeaseContext context_;
  std::unique_ptr<HostProcess> host_;
  std::optional<turns::ResidentId> resident_;
  std::deque<std::pair<uint64_t, wire::Grant>> pending_;  // in the order sent; the number repeats in CallDone
  std::map<TaskId, Ended> ended_;
  uint64_t next_call_ = 1;
};

}  // namespace pillion::worker

#endif  // PILLION_WORKER_CALLS_H_
