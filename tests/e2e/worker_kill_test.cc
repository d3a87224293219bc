// kill -9 of each process, and tasks that crash, hog or breed.
#include <signal.h>

#include <algorithm>
#include <map>

#include "worker_fixture.h"

namespace pillion::testing {
namespace {

using WorkerKillTest = WorkerFixture;
using wire::TaskState;

// From the journal: the steps that another process had done before.
std::vector<Step> RepeatedSteps(const std::vector<JournalLine>& lines) {
  std::map<Step, int> times;
  std::vector<Step> repeated;
  for (const JournalLine& line : lines) {
    if (++times[line.step] > 1) repeated.push_back(line.step);
  }
  return repeated;
}

TEST_F(WorkerKillTest, AKilledHostGoesOnFromTheLastCommit) {
  auto worker = StartWorker("cpu0");
  TaskId task = SubmitCount(6'000);
  ASSERT_TRUE(WaitForCommit(task)) << worker->Output();
  Step committed = Get(task).committed_step;
  std::vector<pid_t> hosts = Processes("pillion-host");
  ASSERT_EQ(hosts.size(), 1u);
  kill(hosts[0], SIGKILL);
  wire::TaskInfo info = WaitForEnd(task);
  ASSERT_EQ(info.state, TaskState::kSucceeded) << info.error << worker->Output();
  EXPECT_EQ(info.result, CountResult(6'000));
  EXPECT_EQ(info.app_failures, 0u) << "it was not the task's fault";
  EXPECT_EQ(info.epoch, 2u);
  for (Step step : RepeatedSteps(Journal())) ASSERT_GE(step, committed);
}

TEST_F(WorkerKillTest, AKilledWorkerLeavesNoHostAndItsTasksGoOnElsewhere) {
  auto worker = StartWorker("cpu0");
  TaskId task = SubmitCount(6'000);
  ASSERT_TRUE(WaitForCommit(task)) << worker->Output();
  Step committed = Get(task).committed_step;
  worker->Signal(SIGKILL);
  worker->Wait();
  EXPECT_TRUE(Until([&] { return Processes("pillion-host").empty(); }, 2'000));
  worker = StartWorker("cpu0");
  wire::TaskInfo info = WaitForEnd(task);
  ASSERT_EQ(info.state, TaskState::kSucceeded) << info.error << worker->Output();
  EXPECT_EQ(info.result, CountResult(6'000));
  for (Step step : RepeatedSteps(Journal())) ASSERT_GE(step, committed);
}

TEST_F(WorkerKillTest, AKilledHeadFindsItsWorkerAgainAndNoStepIsRepeated) {
  auto worker = StartWorker("cpu0");
  TaskId task = SubmitCount(12'000);
  ASSERT_TRUE(WaitForCommit(task)) << worker->Output();
  head_->Signal(SIGKILL);
  head_->Wait();
  size_t steps_then = Journal().size();
  ASSERT_TRUE(Until([&] { return Journal().size() > steps_then + 100; })) << "the task stands still without a head";
  StartHead();
  ASSERT_TRUE(WaitForConnectedWorkers(1)) << worker->Output();
  wire::TaskInfo info = WaitForEnd(task);
  ASSERT_EQ(info.state, TaskState::kSucceeded) << info.error << worker->Output();
  EXPECT_EQ(info.result, CountResult(12'000));
  EXPECT_EQ(info.epoch, 1u);
  EXPECT_EQ(Journal().size(), 12'000u);
}

TEST_F(WorkerKillTest, AResultThatCameWhileTheHeadWasDownArrives) {
  auto worker = StartWorker("cpu0");
  TaskId task = SubmitCount(3'000);
  ASSERT_TRUE(Until([&] { return Get(task).step > 0; })) << worker->Output();
  head_->Signal(SIGKILL);
  head_->Wait();
  ASSERT_TRUE(Until([&] { return Journal().size() == 3'000; }));
  ASSERT_TRUE(Until([&] { return Processes("pillion-host").empty(); }));
  StartHead();
  wire::TaskInfo info = WaitForEnd(task);
  ASSERT_EQ(info.state, TaskState::kSucceeded) << info.error << worker->Output();
  EXPECT_EQ(info.result, CountResult(3'000));
  EXPECT_EQ(Journal().size(), 3'000u);
}

TEST_F(WorkerKillTest, ACrashIsTheTasksOwnFailureAndIsRetried) {
  auto worker = StartWorker("cpu0");
  TaskId task = SubmitCount(2'000, "\"deed\":\"crash\",\"at\":500");
  wire::TaskInfo info = WaitForEnd(task);
  ASSERT_EQ(info.state, TaskState::kSucceeded) << info.error << worker->Output();
  EXPECT_EQ(info.app_failures, 1u);
  EXPECT_EQ(info.result, CountResult(2'000));
}

TEST_F(WorkerKillTest, AKilledTrainerCostsItsTasksNothingAndAnotherFindsTheSameBoard) {
  auto metronome = StartMetronome("cpu0");
  auto worker = StartWorker("cpu0", {"--without-trainer", "wait"});
  TaskId task = SubmitCount(1'500);
  ASSERT_TRUE(Until([&] { return Journal().size() > 300; })) << worker->Output();
  metronome->Signal(SIGKILL);
  metronome->Wait();
  ASSERT_EQ(Processes("pillion-host").size(), 1u) << worker->Output();
  metronome = StartMetronome("cpu0");
  wire::TaskInfo info = WaitForEnd(task);
  ASSERT_EQ(info.state, TaskState::kSucceeded) << info.error << worker->Output();
  EXPECT_EQ(info.result, CountResult(1'500));
  EXPECT_EQ(info.epoch, 1u) << "the lease was never lost";
  EXPECT_EQ(Journal().size(), 1'500u);
  EXPECT_TRUE(metronome->Running());
}

TEST_F(WorkerKillTest, ATaskThatIgnoresTheStopFlagIsKilledAndTheTrainerGoesOn) {
  auto metronome = StartMetronome("cpu0");
  auto worker = StartWorker("cpu0", {"--without-trainer", "wait"});
  TaskId task = SubmitCount(400, "\"deed\":\"hog\",\"at\":200");
  wire::TaskInfo info = WaitForEnd(task);
  ASSERT_EQ(info.state, TaskState::kSucceeded) << info.error << worker->Output();
  EXPECT_EQ(info.preemptions, 1u);
  EXPECT_EQ(info.result, CountResult(400));
  EXPECT_TRUE(metronome->Running());
}

TEST_F(WorkerKillTest, ChildrenOfATaskInOtherSessionsAreKilledWithIt) {
  auto worker = StartWorker("cpu0");
  TaskId task = SubmitCount(1'000'000, "\"deed\":\"breed\",\"at\":50");
  ASSERT_TRUE(Until([&] { return Processes("pillion-host").size() == 2; })) << worker->Output();
  ASSERT_TRUE(operator_->Call<wire::CountReply>(wire::CancelTasks{task.job, {}}));
  EXPECT_TRUE(Until([&] { return Processes("pillion-host").empty(); })) << worker->Output();
}

}  // namespace
}  // namespace pillion::testing
