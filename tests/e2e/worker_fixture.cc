#include "worker_fixture.h"

#include <signal.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/clock.h"
#include "base/file.h"

namespace pillion::testing {

void WorkerFixture::SetUp() {
  environment_ = {{"PILLION_BOARD_DIR", directory_.path() + "/board"}, {"PILLION_E2E", directory_.path()}};
  StartHead();
}

void WorkerFixture::TearDown() {
  operator_.reset();
  head_.reset();
  bool none_left = Until([&] { return Processes("").empty(); }, 5'000);
  for (pid_t pid : Processes("")) kill(pid, SIGKILL);
  EXPECT_TRUE(none_left) << "processes were left behind";
}

void WorkerFixture::StartHead() {
  head_ = std::make_unique<HeadProcess>(
      std::vector<std::string>{"--state-dir", state_, "--runtime-dir", runtime_, "--store-reserve-mib", "1"},
      environment_);
  ASSERT_TRUE(head_->WaitUntilServing(runtime_)) << head_->Output();
  operator_ = std::make_unique<TestPeer>(runtime_, wire::Role::kOperator);
}

std::unique_ptr<HeadProcess> WorkerFixture::StartWorker(const std::string& device, std::vector<std::string> more) {
  std::vector<std::string> arguments = {"--device", device, "--runtime-dir", runtime_,
                                        "--checkpoint-dir", state_ + "/checkpoints", "--commit-interval-s", "1"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return std::make_unique<HeadProcess>(arguments, environment_, "pillion-worker");
}

std::unique_ptr<HeadProcess> WorkerFixture::StartMetronome(const std::string& device) {
  return std::make_unique<HeadProcess>(
      std::vector<std::string>{"--device", device, "--busy-ms", "20", "--bubble-ms", "20", "--warm-up-ms", "100"},
      environment_, "pillion-metronome");
}

Exit WorkerFixture::RunWorker(std::vector<std::string> arguments) {
  return HeadProcess(std::move(arguments), environment_, "pillion-worker").Wait();
}

TaskId WorkerFixture::SubmitCount(int64_t steps, const std::string& more_arguments) {
  wire::SubmitChunk chunk = MakeJob(1);
  wire::TaskSpec& spec = chunk.tasks[0];
  spec.program = "test.count";
  spec.library = library_;
  spec.arguments = "{\"journal\":\"" + journal() + "\",\"steps\":" + std::to_string(steps) +
                   (more_arguments.empty() ? "" : "," + more_arguments) + "}";
  auto reply = operator_->Call<wire::SubmitReply>(chunk);
  EXPECT_TRUE(reply) << operator_->last_error.ToString();
  return {chunk.job, 0};
}

std::string WorkerFixture::CountResult(int64_t steps) {
  uint64_t hash = 0xCBF29CE484222325ull;
  for (int64_t i = 0; i < steps; ++i) hash = (hash ^ static_cast<uint64_t>(i)) * 0x100000001B3ull;
  return "{\"count\":" + std::to_string(steps) + ",\"hash\":" + std::to_string(hash) + "}";
}

wire::TaskInfo WorkerFixture::Get(const TaskId& task) {
  auto reply = operator_->Call<wire::TaskReply>(wire::GetTask{task});
  EXPECT_TRUE(reply) << operator_->last_error.ToString();
  return reply ? reply->task : wire::TaskInfo();
}

wire::TaskInfo WorkerFixture::WaitForEnd(const TaskId& task) {
  wire::TaskInfo info;
  Until([&] {
    info = Get(task);
    return wire::IsFinal(info.state);
  }, 60'000);
  return info;
}

bool WorkerFixture::Until(const std::function<bool()>& condition, int64_t patience_ms) {
  const int64_t end_ns = MonotonicNowNs() + patience_ms * kNanosPerMilli;
  while (!condition()) {
    if (MonotonicNowNs() >= end_ns) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

bool WorkerFixture::WaitForConnectedWorkers(uint32_t count) {
  return Until([&] {
    auto status = operator_->Call<wire::StatusReply>(wire::GetStatus{});
    return status && status->workers_connected == count;
  });
}

bool WorkerFixture::WaitForCommit(const TaskId& task) {
  return Until([&] { return Get(task).committed_step > 0; });
}

std::vector<JournalLine> WorkerFixture::Journal() const {
  std::ifstream in(journal());
  std::vector<JournalLine> lines;
  for (JournalLine line; in >> line.pid >> line.step;) lines.push_back(line);
  return lines;
}

std::vector<pid_t> WorkerFixture::Processes(const std::string& name) const {
  std::vector<pid_t> found;
  auto entries = ListDirectory("/proc");
  if (!entries.ok()) return found;
  const std::string mark = "PILLION_E2E=" + directory_.path() + '\0';
  for (const std::string& entry : *entries) {
    if (entry[0] < '0' || entry[0] > '9') continue;
    auto environment = ReadFile("/proc/" + entry + "/environ");
    auto program = ReadFile("/proc/" + entry + "/comm");
    if (!environment.ok() || !program.ok() || environment->find(mark) == std::string::npos) continue;
    if (!name.empty() && *program != name + "\n") continue;
    found.push_back(std::stoi(entry));
  }
  return found;
}

}  // namespace pillion::testing
