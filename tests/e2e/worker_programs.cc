// Programs for the end-to-end tests of the worker: they write down what they do and misbehave when told.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stdexcept>
#include <string>

#include "base/clock.h"
#include "base/file.h"
#include "pillion/function.h"
#include "pillion/side_task.h"

namespace pillion::testing {
namespace {

// Counts to "steps" and journals "<pid> <step>" per step. At step "at" it does what "deed" says, once: the marker
// <journal>.done keeps it from doing it again after it was moved or restarted.
class Count final : public SideTask {
 public:
  Status Init(InitContext& context) override {
    PILLION_ASSIGN_OR_RETURN(journal_, context.arguments().Text("journal"));
    PILLION_ASSIGN_OR_RETURN(steps_, context.arguments().Integer("steps"));
    PILLION_ASSIGN_OR_RETURN(step_us_, context.arguments().Integer("step_us", 500));
    PILLION_ASSIGN_OR_RETURN(deed_, context.arguments().Text("deed", ""));
    PILLION_ASSIGN_OR_RETURN(at_, context.arguments().Integer("at", -1));
    file_ = FileDescriptor(open(journal_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    return file_.valid() ? Status::Ok() : ErrnoStatus("open " + journal_);
  }
  Status Load(Device&, CheckpointReader* checkpoint) override {
    return checkpoint == nullptr ? Status::Ok() : checkpoint->ReadValue(&state_);
  }
  Result<StepOutcome> Step(StepContext& context) override {
    if (context.step() == static_cast<pillion::Step>(at_)) Misbehave();
    const int64_t end_ns = MonotonicNowNs() + step_us_ * kNanosPerMicro;
    while (MonotonicNowNs() < end_ns) {
    }
    state_.hash = (state_.hash ^ static_cast<uint64_t>(state_.count)) * 0x100000001B3ull;
    ++state_.count;
    std::string line = std::to_string(getpid()) + " " + std::to_string(context.step()) + "\n";
    if (write(file_.get(), line.data(), line.size()) < 0) return ErrnoStatus("write " + journal_);
    StepOutcome outcome;
    outcome.items = 1;
    outcome.done = state_.count >= steps_;
    return outcome;
  }
  Status Save(CheckpointWriter& checkpoint) override { return checkpoint.WriteValue(state_); }
  Result<std::string> Finish() override {
    return "{\"count\":" + std::to_string(state_.count) + ",\"hash\":" + std::to_string(state_.hash) + "}";
  }
  void Unload() override {}

 private:
  void Misbehave() {
    FileDescriptor marker(open((journal_ + ".done").c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
    if (!marker.valid()) return;
    if (deed_ == "crash") raise(SIGSEGV);
    if (deed_ == "hog") {
      for (volatile bool forever = true; forever;) {
      }
    }
    if (deed_ == "breed" && fork() == 0) {  // a child in a session of its own that would outlive everything
      setsid();
      if (fork() != 0) _exit(0);
      for (;;) pause();
    }
  }

  struct State {
    int64_t count = 0;
    uint64_t hash = 0xCBF29CE484222325ull;
  } state_;
  std::string journal_, deed_;
  int64_t steps_ = 0, step_us_ = 0, at_ = -1;
  FileDescriptor file_;
};
PILLION_SIDE_TASK("test.count", Count, Devices::kCpu);

int64_t Square(int64_t x) {
  if (x < 0) throw std::runtime_error("a negative number");
  return x * x;
}
PILLION_FUNCTION(Square);

int64_t Add(int64_t a, int64_t b) { return a + b; }
PILLION_FUNCTION(Add);

int64_t Crash(int64_t x) {
  raise(SIGSEGV);
  return x;
}
PILLION_FUNCTION(Crash);

}  // namespace
}  // namespace pillion::testing
