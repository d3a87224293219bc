// Scenarios of the simulation: what is simulated and what goes wrong, as data. A run is a scenario and a seed; the
// seed also draws the sizes below their maxima.
#ifndef PILLION_TESTS_SIM_SCENARIO_H_
#define PILLION_TESTS_SIM_SCENARIO_H_

#include <cstdint>
#include <string>
#include <vector>

namespace pillion::sim {

struct Scenario {
  const char* name = "";
  int workers = 3;
  int clients = 2;
  int jobs_per_client = 3;
  int tasks_per_job = 12;         // at most
  int64_t fault_ms = 60'000;      // how long the fault stage lasts; then everything must end
  // Network, per message.
  double drop = 0, duplicate = 0, reorder = 0;
  // Events per second of the fault stage, over the whole cluster.
  double cuts_per_s = 0;          // a connection breaks; each side notices in its own time (half-open until then)
  double one_way_cuts_per_s = 0;  // one direction of a connection is silent for up to 25 s
  double head_crashes_per_s = 0;
  double worker_crashes_per_s = 0;
  double freezes_per_s = 0;       // a worker stands still for up to 40 s and then goes on as if nothing had happened
  double clock_jumps_per_s = 0;   // the wall clock jumps; nothing may depend on it
  // Per synced write.
  double write_errors = 0;        // half of them after the batch was applied after all
  // Per task attempt.
  double app_failures = 0, out_of_memory = 0, host_losses = 0;
  double damaged_checkpoints = 0; // per checkpoint file, when it is read
  double cancels = 0;             // per job
  double moves_per_s = 0;         // an operator migrates a running task
  double drains_per_s = 0;        // an operator drains a worker, and ends that later
};

const std::vector<Scenario>& Scenarios();
const Scenario* FindScenario(const std::string& name);

// A fault of the product that the checker must notice, made between the parts: each breaks one invariant.
enum class PlantedBug {
  kNone,
  kAcknowledgeBeforeCommit,    // replies (not grants) leave before the batch is durable
  kLoseRecordSilently,         // a batch loses one of its task records
  kGrantBeforeEpochIsDurable,  // the record of a lease is not written
  kIllegalTransition,          // a finished task is queued again
  kNoFencing,                  // reports of old epochs are taken for current ones
  kCheckpointGoesBack,         // an older record of a task is written over a newer one
  kOverCapacity,               // more is granted than was asked for
  kRepeatGetsOtherAnswer,      // the second copy of an accepted report is called stale
  kRecoveryDependsOnRun,       // loading the same records again gives something else
  kNeverEnds,                  // some grants never arrive
  kDeletesNeededFile,          // the newest checkpoint file is deleted with the old ones
};
inline constexpr int kPlantedBugs = 12;
const char* PlantedBugName(PlantedBug bug);

}  // namespace pillion::sim

#endif  // PILLION_TESTS_SIM_SCENARIO_H_
