#include "tests/sim/scenario.h"

namespace pillion::sim {
namespace {

std::vector<Scenario> Make() {
  std::vector<Scenario> all;
  auto add = [&](const char* name) -> Scenario& {
    all.emplace_back();
    all.back().name = name;
    return all.back();
  };
  {
    Scenario& s = add("calm");
    s.app_failures = 0.02;
    s.cancels = 0.1;
    s.moves_per_s = 0.2;
  }
  {
    Scenario& s = add("lossy_network");
    s.drop = 0.05;
    s.duplicate = 0.05;
    s.reorder = 0.1;
    s.cuts_per_s = 0.1;
    s.cancels = 0.1;
    s.moves_per_s = 0.1;
  }
  {
    Scenario& s = add("head_crashes");
    s.head_crashes_per_s = 0.2;
    s.write_errors = 0.01;
    s.cuts_per_s = 0.05;
    s.cancels = 0.2;
    s.moves_per_s = 0.2;
  }
  {
    Scenario& s = add("worker_crashes");
    s.workers = 5;
    s.worker_crashes_per_s = 0.15;
    s.freezes_per_s = 0.1;
    s.app_failures = 0.05;
    s.host_losses = 0.02;
    s.out_of_memory = 0.02;
    s.damaged_checkpoints = 0.05;
    s.moves_per_s = 0.2;
  }
  {
    Scenario& s = add("zombies");
    s.one_way_cuts_per_s = 0.2;
    s.freezes_per_s = 0.2;
    s.cuts_per_s = 0.1;
    s.duplicate = 0.02;
    s.cancels = 0.2;
  }
  {
    Scenario& s = add("bad_disk");
    s.write_errors = 0.05;
    s.head_crashes_per_s = 0.05;
    s.damaged_checkpoints = 0.1;
    s.cancels = 0.1;
  }
  {
    Scenario& s = add("operators");
    s.workers = 4;
    s.moves_per_s = 1.0;
    s.drains_per_s = 0.1;
    s.head_crashes_per_s = 0.05;
    s.cuts_per_s = 0.05;
    s.cancels = 0.3;
  }
  {
    Scenario& s = add("everything");
    s.workers = 4;
    s.clients = 3;
    s.drop = 0.03;
    s.duplicate = 0.03;
    s.reorder = 0.05;
    s.cuts_per_s = 0.1;
    s.one_way_cuts_per_s = 0.1;
    s.head_crashes_per_s = 0.1;
    s.worker_crashes_per_s = 0.05;
    s.freezes_per_s = 0.05;
    s.clock_jumps_per_s = 0.1;
    s.write_errors = 0.02;
    s.app_failures = 0.03;
    s.out_of_memory = 0.01;
    s.host_losses = 0.01;
    s.damaged_checkpoints = 0.03;
    s.cancels = 0.2;
    s.moves_per_s = 0.3;
    s.drains_per_s = 0.02;
  }
  return all;
}

}  // namespace

const std::vector<Scenario>& Scenarios() {
  static const std::vector<Scenario> all = Make();
  return all;
}

const Scenario* FindScenario(const std::string& name) {
  for (const Scenario& scenario : Scenarios()) {
    if (name == scenario.name) return &scenario;
  }
  return nullptr;
}

const char* PlantedBugName(PlantedBug bug) {
  static const char* const kNames[kPlantedBugs] = {
      "none",        "acknowledge_before_commit", "lose_record_silently", "grant_before_epoch_is_durable",
      "illegal_transition", "no_fencing",         "checkpoint_goes_back", "over_capacity",
      "repeat_gets_other_answer", "recovery_depends_on_run", "never_ends", "deletes_needed_file"};
  return kNames[static_cast<int>(bug)];
}

}  // namespace pillion::sim
