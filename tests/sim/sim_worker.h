// A worker of the simulation with its task hosts: takes leases, steps, saves, reports until it is answered.
#ifndef PILLION_TESTS_SIM_SIM_WORKER_H_
#define PILLION_TESTS_SIM_SIM_WORKER_H_

#include <deque>
#include <map>
#include <optional>
#include <string>

#include "tests/sim/checker.h"
#include "tests/sim/workload.h"
#include "tests/sim/world.h"

namespace pillion::sim {

class SimWorker final : public Node {
 public:
  SimWorker(World* world, Network* network, Files* files, Checker* checker, int number);

  void Start();
  // Everything in memory is gone; comes back as another worker of the same name after a while.
  void Crash();
  void Freeze(int64_t until_ns);

  void OnMessage(wire::Message message) override;
  void OnDisconnected() override;

  bool idle() const { return held_.empty() && reports_.empty(); }
  const std::string& name() const { return name_; }

 private:
  enum class Phase { kRunning, kFinishing, kReleasing };
  struct Held {
    Epoch epoch = 0;
    wire::TaskSpec spec;
    std::vector<std::string> inputs;
    Step step = 0;
    uint64_t state = 0;
    Step committed_step = 0;      // below or at this nothing is committed again
    bool nested = false;          // has asked for more tasks and waits for the answer
    bool stop = false;            // revoked: save and give back
    Phase phase = Phase::kRunning;
    uint64_t run = 0;             // step events of an earlier run do nothing
  };
  void Connect();
  void SayHello();
  void Tick();
  void Send(wire::Body body);          // unanswered kinds
  void Report(wire::Body body);        // sent again until its verdict comes
  void Pull();
  void OnGrant(const wire::Grant& grant);
  void OnRevoke(const wire::Revoke& revoke);
  void OnVerdict(uint64_t request_id, const wire::Verdict& verdict);
  bool LoadState(const wire::Grant& grant, Held* held);
  void ScheduleStep(const TaskId& id);
  void DoStep(const TaskId& id);
  void TakeStep(const TaskId& id, Held* step_of);
  void OnNestedReply(const wire::Message& message);
  void Save(const TaskId& id, Held* held);
  void FinishTask(const TaskId& id, Held* held, Status outcome, wire::ReleaseCause cause);
  uint32_t Running(bool calls) const;

  World* const world_;
  Network* const network_;
  Files* const files_;
  Checker* const checker_;
  const int number_;
  const std::string name_;
  const uint32_t residents_, call_slots_;

  WorkerId id_;
  uint64_t life_ = 0;
  uint64_t lives_ = 0;
  int64_t frozen_until_ns_ = 0;
  std::deque<wire::Message> frozen_inbox_;
  uint64_t connection_ = 0;
  bool welcome_ = false;
  bool draining_ = false;
  std::map<TaskId, Held> held_;
  std::map<uint64_t, wire::Body> reports_;   // unanswered, by request id
  uint64_t next_request_ = 1;
  uint64_t next_run_ = 1;
};

}  // namespace pillion::sim

#endif  // PILLION_TESTS_SIM_SIM_WORKER_H_
