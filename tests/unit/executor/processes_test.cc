// Ranks as processes that meet in a file: a run, a killed rank, a rank that hangs, files that the
// dead left.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "base/file.h"
#include "pipeline/executor/executor.h"
#include "pipeline/schedules/schedules.h"
#include "tests/unit/executor/chain.h"

namespace pillion::executor {
namespace {

using pipeline::Plan;

const SystemClock kClock;

Plan MakePlan(int32_t microbatches = 4) {
  pipeline::ScheduleOptions options;
  options.devices = 2;
  options.microbatches = microbatches;
  return *pipeline::GenerateSchedule(pipeline::ScheduleKind::kOneFOneB, options);
}

Program CompileOk(const Plan& plan) {
  return *Compile(plan, std::vector<size_t>(plan.stages.size() - 1, Chain::kBoundaryBytes));
}

class Processes : public ::testing::Test {
 protected:
  Processes() {
    char name[] = "/tmp/pillion-executor-XXXXXX";
    directory_ = mkdtemp(name);
    path_ = directory_ + "/run";
  }
  ~Processes() override {
    unlink(path_.c_str());
    rmdir(directory_.c_str());
    for (pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }

  // Runs `body` in a child process; its return value is the exit code.
  pid_t Fork(const std::function<int()>& body) {
    pid_t child = fork();
    if (child == 0) _exit(body());
    children_.push_back(child);
    return child;
  }
  int ExitCode(pid_t child) {
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    std::erase(children_, child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::string directory_, path_;
  std::vector<pid_t> children_;
};

// A chain that does something else at one forward.
class Interrupted final : public Module {
 public:
  Interrupted(Chain* chain, uint64_t iteration, std::function<void()> what)
      : chain_(chain), iteration_(iteration), what_(std::move(what)) {}
  Status BeginIteration(uint64_t i) override {
    now_ = i;
    return chain_->BeginIteration(i);
  }
  Status EndIteration(uint64_t i) override { return chain_->EndIteration(i); }
  Status Forward(int32_t s, int32_t m, Buffer in, Buffer out) override {
    if (now_ == iteration_ && m == 2) what_();
    return chain_->Forward(s, m, in, out);
  }
  Status InputGradient(int32_t s, int32_t m, Buffer o, Buffer i) override {
    return chain_->InputGradient(s, m, o, i);
  }
  Status WeightGradient(int32_t s, int32_t m) override { return chain_->WeightGradient(s, m); }
  Status Backward(int32_t s, int32_t m, Buffer o, Buffer i) override {
    return chain_->Backward(s, m, o, i);
  }

 private:
  Chain* const chain_;
  const uint64_t iteration_;
  const std::function<void()> what_;
  uint64_t now_ = 0;
};

Status RunRank(const std::string& path, int32_t rank, const Program& program, Module* module,
               uint64_t iterations, int64_t peer_timeout_ms = 20'000) {
  PILLION_ASSIGN_OR_RETURN(auto transport, OpenSharedTransport(path, rank, program, kClock));
  ExecutorOptions options;
  options.join_timeout_ms = options.peer_timeout_ms = peer_timeout_ms;
  Executor executor(program, module, transport.get(), kClock, options);
  PILLION_RETURN_IF_ERROR(executor.Join());
  for (uint64_t i = 0; i < iterations; ++i) PILLION_RETURN_IF_ERROR(executor.RunIteration());
  executor.Leave();
  return Status();
}

TEST_F(Processes, TwoProcessesTrainAsOneDoesAndLeaveNoFile) {
  const Plan plan = MakePlan();
  const Program program = CompileOk(plan);
  constexpr uint64_t kIterations = 5;
  pid_t child = Fork([&] {
    Chain chain(plan, 1, 9);
    return RunRank(path_, 1, program, &chain, kIterations).ok() ? 0 : 1;
  });
  Chain chain(plan, 0, 9);
  Status end = RunRank(path_, 0, program, &chain, kIterations);
  EXPECT_TRUE(end.ok()) << end.ToString();
  EXPECT_EQ(ExitCode(child), 0);
  EXPECT_FALSE(FileExists(path_));
  Chain reference(plan, -1, 9);
  for (uint64_t i = 0; i < kIterations; ++i) RunReference(&reference, plan, i);
  // The same sums in the same order: the gradients are equal to the last bit.
  EXPECT_EQ(chain.gradients().at(0), reference.gradients().at(0));
}

TEST_F(Processes, AKilledRankIsNamedAndARestartRuns) {
  const Plan plan = MakePlan();
  const Program program = CompileOk(plan);
  pid_t child = Fork([&] {
    Chain chain(plan, 1, 9);
    Interrupted dies(&chain, 1, [] { kill(getpid(), SIGKILL); });
    return RunRank(path_, 1, program, &dies, 3).ok() ? 0 : 1;
  });
  Chain chain(plan, 0, 9);
  Status end = RunRank(path_, 0, program, &chain, 3);
  EXPECT_EQ(end.code(), StatusCode::kUnavailable) << end.ToString();
  EXPECT_NE(end.message().find("rank 1 (in 1F2): its process has died"), std::string::npos)
      << end.ToString();
  EXPECT_EQ(ExitCode(child), -1);

  pid_t again = Fork([&] {
    Chain fresh(plan, 1, 9);
    return RunRank(path_, 1, program, &fresh, 2).ok() ? 0 : 1;
  });
  Chain fresh(plan, 0, 9);
  end = RunRank(path_, 0, program, &fresh, 2);
  EXPECT_TRUE(end.ok()) << end.ToString();
  EXPECT_EQ(ExitCode(again), 0);
}

TEST_F(Processes, AStoppedRankIsNamedWithinTheTimeout) {
  const Plan plan = MakePlan();
  const Program program = CompileOk(plan);
  pid_t child = Fork([&] {
    Chain chain(plan, 1, 9);
    Interrupted stops(&chain, 1, [] { raise(SIGSTOP); });
    return RunRank(path_, 1, program, &stops, 3).ok() ? 0 : 1;
  });
  Chain chain(plan, 0, 9);
  const int64_t start_ns = MonotonicNowNs();
  Status end = RunRank(path_, 0, program, &chain, 3, 1'000);
  EXPECT_LT(MonotonicNowNs() - start_ns, 30 * kNanosPerSecond);
  EXPECT_EQ(end.code(), StatusCode::kDeadlineExceeded) << end.ToString();
  EXPECT_NE(end.message().find("rank 1 (in 1F2) lives"), std::string::npos) << end.ToString();
  kill(child, SIGCONT);
  EXPECT_EQ(ExitCode(child), 1);  // told why by the memory
}

TEST_F(Processes, AnErrorTravelsToTheOtherProcess) {
  const Plan plan = MakePlan();
  const Program program = CompileOk(plan);
  pid_t child = Fork([&] {
    Chain chain(plan, 1, 9);
    auto transport = OpenSharedTransport(path_, 1, program, kClock);
    if (!transport.ok() || !(*transport)->Join(kClock.NowNs() + 20 * kNanosPerSecond).ok())
      return 1;
    (*transport)->Fail(ResourceExhausted("no memory for activations"));
    return 0;
  });
  Chain chain(plan, 0, 9);
  Status end = RunRank(path_, 0, program, &chain, 3);
  EXPECT_EQ(end.code(), StatusCode::kResourceExhausted) << end.ToString();
  EXPECT_NE(end.message().find("rank 1: no memory for activations"), std::string::npos)
      << end.ToString();
  EXPECT_EQ(ExitCode(child), 0);
}

TEST_F(Processes, ARankThatNeverComesIsNamed) {
  const Plan plan = MakePlan();
  const Program program = CompileOk(plan);
  Chain chain(plan, 0, 9);
  Status end = RunRank(path_, 0, program, &chain, 1, 200);
  EXPECT_EQ(end.code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(end.message().find("rank 1 has not come"), std::string::npos) << end.ToString();
  EXPECT_TRUE(
      FileExists(path_));  // the next run of this path takes it over: AKilledRank… and below
}

TEST_F(Processes, RefusesASecondHolderAndAnotherPlan) {
  const Program program = CompileOk(MakePlan());
  auto first = OpenSharedTransport(path_, 0, program, kClock);
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_EQ(OpenSharedTransport(path_, 0, program, kClock).status().code(),
            StatusCode::kAlreadyExists);
  const Program other = CompileOk(MakePlan(8));
  EXPECT_EQ(OpenSharedTransport(path_, 1, other, kClock).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenSharedTransport(path_, 2, program, kClock).status().code(),
            StatusCode::kInvalidArgument);
  // With nobody alive the file is used anew, by any plan.
  first->reset();
  auto second = OpenSharedTransport(path_, 1, other, kClock);
  EXPECT_TRUE(second.ok()) << second.status().ToString();
}

}  // namespace
}  // namespace pillion::executor
