// A task host process for tests: TurnLoop around a spinning step, told by options.
#ifndef PILLION_TESTS_UNIT_TURNS_TEST_HOST_H_
#define PILLION_TESTS_UNIT_TURNS_TEST_HOST_H_

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>

#include "api/board/board.h"
#include "base/clock.h"
#include "worker/host/turn_loop.h"

namespace pillion {

struct TestTask {
  int64_t step_ns = 1'000'000;
  uint64_t steps = UINT64_MAX;       // then rests
  bool elastic = false;              // uses the time it is given, in items of 100 µs
  bool honours_stop = true;
  bool leave_on_command = true;
};

class SpinClient final : public host::TurnClient {
 public:
  explicit SpinClient(const TestTask& task) : task_(task) {}
  void set_loop(host::TurnLoop* loop) { loop_ = loop; }

  host::StepReport RunStep(int64_t time_left_ns) override {
    int64_t until_ns = MonotonicNowNs() + (task_.elastic ? time_left_ns : task_.step_ns);
    while (MonotonicNowNs() < until_ns && !(task_.honours_stop && loop_->stop_requested())) {
    }
    return {task_.elastic ? static_cast<uint64_t>(time_left_ns) / 100'000 + 1 : 1, ++done_ < task_.steps};
  }
  bool HandleCommands() override { return first_++ == 0 || !task_.leave_on_command || !CommandCame(); }
  bool CommandCame() { return control_->commands.load() != 0; }
  void set_control(host::ControlLayout* control) { control_ = control; }

 private:
  const TestTask task_;
  host::TurnLoop* loop_ = nullptr;
  host::ControlLayout* control_ = nullptr;
  uint64_t done_ = 0;
  int first_ = 0;
};

class TestHost {
 public:
  TestHost(std::shared_ptr<host::DoorbellPage> doorbell, const std::string& device_uuid, TestTask task) {
    page_ = *host::ControlPage::Create("test-host");
    pid_ = fork();
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto board = board::Board::Open(device_uuid, board::Board::Access::kReadOnly);
    if (!board.ok()) _exit(1);
    SpinClient client(task);
    host::TurnLoop loop(&**page_, &**doorbell, (*board)->layout(), &client);
    client.set_loop(&loop);
    client.set_control(&**page_);
    loop.SetElastic(task.elastic);
    loop.SetReady(true);
    loop.Run();
    _exit(0);
  }
  ~TestHost() {
    Kill();
  }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  // Waits for the process to leave by itself.
  int Join() {
    int status = -1;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }
  const std::shared_ptr<host::ControlPage>& page() const { return page_; }
  pid_t pid() const { return pid_; }

 private:
  std::shared_ptr<host::ControlPage> page_;
  pid_t pid_ = -1;
};

// Polls until the condition holds or ten seconds have passed; returns whether it holds.
inline bool Eventually(const std::function<bool()>& condition) {
  int64_t until_ns = MonotonicNowNs() + 10 * kNanosPerSecond;
  while (!condition()) {
    if (MonotonicNowNs() > until_ns) return false;
    usleep(1000);
  }
  return true;
}

}  // namespace pillion

#endif  // PILLION_TESTS_UNIT_TURNS_TEST_HOST_H_
