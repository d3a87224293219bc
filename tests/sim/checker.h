// The invariants of DESIGN §14, checked after every event at the head. The ledger holds what the head has said to
// anybody; whatever happens later must agree with it.
#ifndef PILLION_TESTS_SIM_CHECKER_H_
#define PILLION_TESTS_SIM_CHECKER_H_

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "head/reactor_impl.h"
#include "tests/sim/workload.h"
#include "tests/sim/world.h"

namespace pillion::sim {

// The durable records: (kind, key) → value.
using Disk = std::map<std::pair<uint8_t, std::string>, std::string>;

enum class Invariant {
  kNothingAcknowledgedIsLost,
  kLegalStates,
  kOneResult,
  kEpochsGrow,
  kCheckpointsNeverGoBack,
  kWithinCapacity,
  kRepliesAreIdempotent,
  kRecoveryIsIdempotent,
  kEverythingEnds,
};
const char* InvariantName(Invariant invariant);

struct Violation {
  Invariant invariant;
  std::string text;
};

class Checker {
 public:
  Checker(World* world, const Disk* disk, const Files* files) : world_(world), disk_(disk), files_(files) {}

  void KnowJob(const SimJob* job) { jobs_[job->id] = job; }
  void KnowCapacity(const WorkerId& worker, uint32_t tasks) { capacity_[worker] = tasks; }

  // A message leaves the head. `request` is what it answers, null when nothing.
  void OnSent(const wire::Message& message, const wire::Message* request);
  // The head has dealt with an event.
  void OnHeadTurn(const head::Reactor::Impl& head);
  // The head has started: two loads of the same records must give the same.
  void OnHeadStarted(const head::Reactor::Impl& head, const head::Reactor::Impl& again);
  void OnStuck(const std::string& what) { Fail(Invariant::kEverythingEnds, what); }

  const std::vector<Violation>& violations() const { return violations_; }

 private:
  struct Seen {
    wire::TaskState state = wire::TaskState::kWaiting;
    Epoch epoch = 0;
    Step committed = 0;
  };
  struct Told {           // about one task, by the head to anybody
    bool is_final = false;
    wire::TaskState state = wire::TaskState::kWaiting;
    std::string result;
    Step committed = 0;
    Epoch granted = 0;
    Epoch finished = 0;   // epoch of the accepted successful finish
  };
  void Fail(Invariant invariant, std::string text);
  void OnGrant(const wire::Grant& grant);
  void OnVerdict(const wire::Verdict& verdict, const wire::Finish* finish, const wire::Commit* commit);
  void OnInfo(const wire::TaskInfo& info);
  void CheckJob(const head::Job& job);
  void CheckTask(const head::Job& job, uint32_t index);
  void CheckFile(const TaskId& task, const wire::CheckpointRef& checkpoint);

  World* const world_;
  const Disk* const disk_;
  const Files* const files_;
  std::map<JobId, const SimJob*> jobs_;
  std::set<JobId> acknowledged_;
  std::map<JobId, std::set<uint32_t>> cancelled_;  // told to be cancelled or otherwise final
  std::map<TaskId, Told> told_;
  std::map<TaskId, Seen> seen_;                    // in this life of the head
  std::set<std::tuple<TaskId, Epoch, bool>> accepted_;  // finishes called ok: task, epoch, with a result
  std::map<std::pair<TaskId, uint32_t>, uint32_t> nested_;  // parent, batch → the first index that was told
  std::map<WorkerId, uint32_t> capacity_;
  std::vector<Violation> violations_;
};

}  // namespace pillion::sim

#endif  // PILLION_TESTS_SIM_CHECKER_H_
