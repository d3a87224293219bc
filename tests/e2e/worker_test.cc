// The worker as its operator meets it: tasks from submit to result, migration, drain, its end, and wrong settings.
#include <signal.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/file.h"
#include "pillion/announcer.h"
#include "worker_fixture.h"

namespace pillion::testing {
namespace {

using WorkerTest = WorkerFixture;
using wire::TaskState;

TEST_F(WorkerTest, RunsATaskWithoutATrainer) {
  auto worker = StartWorker("cpu0");
  TaskId task = SubmitCount(300);
  wire::TaskInfo info = WaitForEnd(task);
  ASSERT_EQ(info.state, TaskState::kSucceeded) << info.error << "\n" << worker->Output();
  EXPECT_EQ(info.result, CountResult(300));
  EXPECT_EQ(info.step, 300u);
  EXPECT_EQ(Journal().size(), 300u);
}

TEST_F(WorkerTest, FillsBubblesOfATrainerAndReportsThem) {
  auto metronome = StartMetronome("cpu0");
  std::string report = directory_.path() + "/report.json", timeline = directory_.path() + "/timeline.json";
  auto worker = StartWorker("cpu0", {"--without-trainer", "wait", "--report", report, "--timeline", timeline});
  TaskId task = SubmitCount(1500, "\"step_us\":1000");
  wire::TaskInfo info = WaitForEnd(task);
  ASSERT_EQ(info.state, TaskState::kSucceeded) << info.error << "\n" << worker->Output();
  EXPECT_EQ(info.result, CountResult(1500));
  worker->Signal(SIGTERM);
  EXPECT_EQ(worker->Wait().code, 0) << worker->Output();
  auto text = ReadFile(report);
  ASSERT_TRUE(text.ok());
  nlohmann::json figures = nlohmann::json::parse(*text);
  EXPECT_EQ(figures["schema"], 1);
  EXPECT_GT(figures["harvest_ns"].get<double>(), 0);
  EXPECT_GT(figures["bubble_ns"].get<double>(), figures["harvest_ns"].get<double>());
  text = ReadFile(timeline);
  ASSERT_TRUE(text.ok());
  int turns = 0, bubbles = 0;
  const nlohmann::json trace = nlohmann::json::parse(*text);
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    turns += event["tid"].get<int>() >= 3;
    bubbles += event["tid"].get<int>() == 2;
  }
  EXPECT_GT(turns, 0);
  EXPECT_GT(bubbles, 0);
}

TEST_F(WorkerTest, ATaskMovesAndEndsAsIfItHadNot) {
  auto first = StartWorker("cpu0", {"--name", "a"});
  ASSERT_TRUE(WaitForConnectedWorkers(1)) << first->Output();
  TaskId task = SubmitCount(5'000);
  ASSERT_TRUE(Until([&] { return Get(task).step > 0; })) << first->Output();
  auto second = StartWorker("cpu1", {"--name", "b"});
  ASSERT_TRUE(WaitForConnectedWorkers(2)) << second->Output();
  std::optional<wire::CountReply> moved;
  Until([&] {  // the second may not have pulled yet
    moved = operator_->Call<wire::CountReply>(wire::MigrateTask{task, "b"});
    return moved.has_value();
  });
  ASSERT_TRUE(moved) << operator_->last_error.ToString();
  wire::TaskInfo info = WaitForEnd(task);
  ASSERT_EQ(info.state, TaskState::kSucceeded) << info.error << first->Output() << second->Output();
  EXPECT_EQ(info.result, CountResult(5'000));
  EXPECT_EQ(info.planned_moves, 1u);
  EXPECT_EQ(info.epoch, 2u);
  std::vector<JournalLine> lines = Journal();
  ASSERT_EQ(lines.size(), 5'000u) << "steps were repeated or left out";
  EXPECT_NE(lines.front().pid, lines.back().pid);
}

TEST_F(WorkerTest, SavesAndReleasesEverythingAtSigterm) {
  auto worker = StartWorker("cpu0");
  TaskId task = SubmitCount(20'000);
  ASSERT_TRUE(Until([&] { return Get(task).step > 0; })) << worker->Output();
  int64_t begin_ns = MonotonicNowNs();
  worker->Signal(SIGTERM);
  Exit exit = worker->Wait();
  EXPECT_EQ(exit.code, 0) << exit.output;
  EXPECT_LT(MonotonicNowNs() - begin_ns, 10 * kNanosPerSecond);
  EXPECT_TRUE(Processes("pillion-host").empty());
  wire::TaskInfo info = Get(task);
  EXPECT_EQ(info.state, TaskState::kQueued);
  EXPECT_EQ(info.committed_step, Journal().size());
  EXPECT_EQ(info.app_failures + info.worker_losses + info.preemptions, 0u);
}

TEST_F(WorkerTest, ACancelledTaskIsKilled) {
  auto worker = StartWorker("cpu0");
  TaskId task = SubmitCount(1'000'000);
  ASSERT_TRUE(Until([&] { return Get(task).step > 0; })) << worker->Output();
  ASSERT_TRUE(operator_->Call<wire::CountReply>(wire::CancelTasks{task.job, {}}));
  EXPECT_TRUE(Until([&] { return Processes("pillion-host").empty(); })) << worker->Output();
  EXPECT_EQ(Get(task).state, TaskState::kCancelled);
}

TEST_F(WorkerTest, ReceivedAnnouncementsCountWithoutATrainer) {
  auto worker = StartWorker("cpu0", {"--without-trainer", "wait"});
  ASSERT_TRUE(WaitForConnectedWorkers(1)) << worker->Output();
  auto announcer = Announcer::Connect({runtime_, "cpu0", "", 5'000});
  ASSERT_TRUE(announcer.ok()) << announcer.status().ToString() << worker->Output();
  wire::Capacity capacity;
  capacity.iteration_period_us = 40'000;
  capacity.slots = {{18'000, 20'000, 22'000}};
  ASSERT_TRUE(announcer->Announce(capacity).ok());
  EXPECT_TRUE(Until([&] {
    auto workers = operator_->Call<wire::WorkersReply>(wire::ListWorkers{});
    return workers && workers->workers.size() == 1 && workers->workers[0].capacity.iteration_period_us == 40'000;
  })) << worker->Output();
}

TEST_F(WorkerTest, SaysWhatIsWrongWithItsSettings) {
  Exit exit = RunWorker({"--device", "gpu9", "--runtime-dir", runtime_});
  EXPECT_EQ(exit.code, 2);
  EXPECT_NE(exit.output.find("gpu9"), std::string::npos) << exit.output;
  exit = RunWorker({"--device", "cpu9999", "--runtime-dir", runtime_});
  EXPECT_EQ(exit.code, 2) << exit.output;
  auto worker = StartWorker("cpu0");
  ASSERT_TRUE(WaitForConnectedWorkers(1)) << worker->Output();
  exit = RunWorker({"--device", "cpu0", "--runtime-dir", runtime_});
  EXPECT_EQ(exit.code, 1) << exit.output;
  ASSERT_EQ(chmod((runtime_ + "/worker.key").c_str(), 0644), 0);
  exit = RunWorker({"--device", "cpu1", "--runtime-dir", runtime_});
  EXPECT_EQ(exit.code, 1);
  EXPECT_NE(exit.output.find("worker.key"), std::string::npos) << exit.output;
}

}  // namespace
}  // namespace pillion::testing
