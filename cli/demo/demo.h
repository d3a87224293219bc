// The main job, end to end, on real components: a trainer with bubbles, a head, a worker per device, and side tasks of
// several programs, one of which moves unfinished to the other device. Every result is compared with that of a second
// run of the same task which was neither cut nor moved.
#ifndef PILLION_CLI_DEMO_DEMO_H_
#define PILLION_CLI_DEMO_DEMO_H_

#include <optional>
#include <string>
#include <vector>

#include "cli/demo/figures.h"
#include "cli/demo/trainer.h"

namespace pillion::demo {

struct DemoOptions {
  std::string directory;       // private, empty; what the parts need is made in it
  std::string board_directory; // private, best in memory
  TrainerKind trainer = TrainerKind::kGpt;
  double seconds = 40;         // how long the training lasts, about
  uint64_t iterations = 0;     // instead of `seconds`; rounded to what MeasureSlowdown needs
  uint64_t reference_iterations = 96;
};

struct TaskOutcome {
  std::string task, program, state;
  uint64_t steps = 0, migrations = 0;
  bool verified = false;       // compared with its reference, and the same
};

struct DemoRecord {
  TrainerKind trainer_kind = TrainerKind::kGpt;
  TrainerRecord trainer;
  uint64_t iterations = 0;
  std::optional<Slowdown> slowdown;
  bool losses_compared = false, losses_identical = false;
  uint64_t losses_compared_count = 0;
  std::vector<TaskOutcome> tasks;
  std::string moved_task, moved_from, moved_to;
  uint64_t moved_at_step = 0;
  std::vector<std::string> report_files, timeline_files;  // of the workers, by device
};

// The devices of the demo.
inline const std::vector<std::string> kDevices = {"cpu0", "cpu1"};

// kCancelled when interrupted. Errors name the part that failed. No process is left in any case, other than by
// SIGKILL of the caller, which the kernel passes on.
Result<DemoRecord> RunDemo(const DemoOptions& options);

}  // namespace pillion::demo

#endif  // PILLION_CLI_DEMO_DEMO_H_
