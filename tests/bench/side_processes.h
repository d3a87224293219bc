// The processes of the harvest bench. Each Run… function is the body of a forked child; it returns when
// stage->leave is set.
#ifndef PILLION_TESTS_BENCH_SIDE_PROCESSES_H_
#define PILLION_TESTS_BENCH_SIDE_PROCESSES_H_

#include <memory>

#include "tests/bench/stage.h"
#include "worker/host/control_page.h"

namespace pillion::bench {

// The trainer; tells the manager of the FreeRide-like mode about each bubble through `manager_socket`.
void RunTrainer(Stage* stage, const HarvestOptions& options, int core, double loops_per_ms, int manager_socket);

// A task host under a turn engine.
void RunPillionHost(Stage* stage, int core, host::ControlPage* control, host::DoorbellPage* doorbell);

// Steps back to back while the mode is `mode`.
void RunUncontrolled(Stage* stage, Mode mode, int core, int nice_value);

// FreeRide's way of control: the trainer reports each bubble with its profiled length to a manager process, which looks at its
// socket every 5 ms and starts the task by message; the task checks before each step that its declared step time
// (rounded up to 10 ms, and a fifth more) still fits.
void RunFreeRideManager(Stage* stage, int trainer_socket, int task_socket);
void RunFreeRideTask(Stage* stage, const HarvestOptions& options, int core, int manager_socket);

}  // namespace pillion::bench

#endif  // PILLION_TESTS_BENCH_SIDE_PROCESSES_H_
