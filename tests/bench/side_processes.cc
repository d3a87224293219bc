#include "tests/bench/side_processes.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <ctime>

#include "api/board/board.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/futex.h"
#include "examples/metronome/metronome.h"
#include "worker/host/turn_loop.h"

namespace pillion::bench {
namespace {

constexpr int64_t kManagerPollNs = 5 * kNanosPerMilli;

struct BubbleMessage {
  int64_t open_ns, end_ns;
};

bool IsMode(const Stage* stage, Mode mode) {
  return stage->mode.load(std::memory_order_relaxed) == static_cast<uint32_t>(mode);
}

// Sleeps while the mode is another one; false when it is time to leave.
bool AwaitMode(Stage* stage, Mode mode) {
  while (stage->leave.load() == 0) {
    uint32_t seen = stage->mode.load();
    if (seen == static_cast<uint32_t>(mode)) return true;
    FutexWait(&stage->mode, seen);
  }
  return false;
}

void OneStep(Stage* stage, Mode mode) {
  int64_t start_ns = MonotonicNowNs();
  metronome::Busy(stage->step_loops.load(std::memory_order_relaxed));
  stage->steps[static_cast<uint32_t>(mode)].Append({start_ns, MonotonicNowNs()});
}

class SpinClient final : public host::TurnClient {
 public:
  explicit SpinClient(Stage* stage) : stage_(stage) {}
  host::StepReport RunStep(int64_t) override {
    OneStep(stage_, Mode::kPillion);
    return {1, true};
  }
  bool HandleCommands() override { return stage_->leave.load() == 0; }

 private:
  Stage* const stage_;
};

}  // namespace

const char* ModeName(Mode mode) {
  switch (mode) {
    case Mode::kAlone: return "alone";
    case Mode::kPillion: return "pillion";
    case Mode::kUncontrolled: return "uncontrolled";
    case Mode::kUncontrolledNice19: return "uncontrolled_nice19";
    case Mode::kFreeRideLike: return "freeride_like";
  }
  return "";
}

Stage* MakeStage() {
  void* memory = mmap(nullptr, sizeof(Stage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  PILLION_CHECK(memory != MAP_FAILED, "no memory for the bench's stage");
  return static_cast<Stage*>(memory);
}

void RunTrainer(Stage* stage, const HarvestOptions& options, int core, double loops_per_ms, int manager_socket) {
  PILLION_CHECK(PinThisThread(core).ok(), "pin the trainer");
  pillion_board_options board_options = PILLION_BOARD_OPTIONS_INIT;
  std::string device = "cpu" + std::to_string(core);
  board_options.device = device.c_str();
  board_options.run_id = options.seed;
  pillion_board* board = pillion_board_open(&board_options);
  PILLION_CHECK(board != nullptr, pillion_board_error());
  metronome::Options metronome_options;
  metronome_options.busy_ms = options.busy_ms;
  metronome_options.bubble_ms = options.bubble_ms;
  metronome_options.jitter = options.jitter;
  metronome_options.seed = options.seed;
  metronome::Metronome metronome(metronome_options, loops_per_ms, board);
  // The profile of FreeRide knows the usual length, as its authors measured it beforehand.
  auto profiled_ns = static_cast<int64_t>(options.bubble_ms * 1e6);
  auto tell_manager = [&](int64_t open_ns, int64_t) {
    if (!IsMode(stage, Mode::kFreeRideLike)) return;
    BubbleMessage message{open_ns, open_ns + profiled_ns};
    (void)!send(manager_socket, &message, sizeof message, MSG_DONTWAIT);
  };
  while (stage->leave.load() == 0) {
    metronome::Iteration iteration = metronome.Next(tell_manager);
    stage->iterations.Append(
        {iteration.start_ns, iteration.end_ns, iteration.open_ns, iteration.close_ns, iteration.quiet});
  }
  pillion_board_close(board);
}

void RunPillionHost(Stage* stage, int core, host::ControlPage* control, host::DoorbellPage* doorbell) {
  PILLION_CHECK(PinThisThread(core).ok(), "pin the task host");
  auto board = board::Board::Open("cpu-" + std::to_string(core), board::Board::Access::kReadOnly);
  PILLION_CHECK(board.ok(), board.status().message().c_str());
  SpinClient client(stage);
  host::TurnLoop loop(&**control, &**doorbell, (*board)->layout(), &client);
  loop.SetReady(true);
  loop.Run();
}

void RunUncontrolled(Stage* stage, Mode mode, int core, int nice_value) {
  PILLION_CHECK(PinThisThread(core).ok(), "pin the uncontrolled task");
  // 0: the trainer's own, whatever that is.
  PILLION_CHECK(nice_value == 0 || setpriority(PRIO_PROCESS, 0, nice_value) == 0, "set its nice value");
  while (AwaitMode(stage, mode)) {
    while (IsMode(stage, mode) && stage->leave.load(std::memory_order_relaxed) == 0) OneStep(stage, mode);
  }
}

void RunFreeRideManager(Stage* stage, int trainer_socket, int task_socket) {
  while (AwaitMode(stage, Mode::kFreeRideLike)) {
    BubbleMessage message{}, newest{};
    while (recv(trainer_socket, &message, sizeof message, MSG_DONTWAIT) == static_cast<ssize_t>(sizeof message)) {
      newest = message;
    }
    if (newest.end_ns > MonotonicNowNs()) (void)!send(task_socket, &newest, sizeof newest, MSG_DONTWAIT);
    timespec pause{0, kManagerPollNs};
    nanosleep(&pause, nullptr);
  }
}

void RunFreeRideTask(Stage* stage, const HarvestOptions& options, int core, int manager_socket) {
  PILLION_CHECK(PinThisThread(core).ok(), "pin the FreeRide-like task");
  auto declared_ns = static_cast<int64_t>(std::ceil(options.step_ms / 10) * 10 * 1.2 * 1e6);
  timeval patience{0, 100'000};
  setsockopt(manager_socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  while (AwaitMode(stage, Mode::kFreeRideLike)) {
    BubbleMessage message{};
    if (recv(manager_socket, &message, sizeof message, 0) != static_cast<ssize_t>(sizeof message)) continue;
    while (MonotonicNowNs() + declared_ns <= message.end_ns) OneStep(stage, Mode::kFreeRideLike);
  }
}

}  // namespace pillion::bench
