// Real heads, workers, hosts and trainers in a directory of their own.
#ifndef PILLION_TESTS_E2E_WORKER_FIXTURE_H_
#define PILLION_TESTS_E2E_WORKER_FIXTURE_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "head_process.h"

namespace pillion::testing {

// What a "test.count" task wrote down.
struct JournalLine {
  pid_t pid = 0;
  Step step = 0;
};

class WorkerFixture : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;  // ends everything, and expects that no process of the test is left

  void StartHead();
  std::unique_ptr<HeadProcess> StartWorker(const std::string& device, std::vector<std::string> more = {});
  std::unique_ptr<HeadProcess> StartMetronome(const std::string& device);
  // Runs to the end.
  Exit RunWorker(std::vector<std::string> arguments);

  // A job of one "test.count" task.
  TaskId SubmitCount(int64_t steps, const std::string& more_arguments = "");
  static std::string CountResult(int64_t steps);
  wire::TaskInfo Get(const TaskId& task);
  wire::TaskInfo WaitForEnd(const TaskId& task);
  // Polls until the condition holds; false after the patience.
  static bool Until(const std::function<bool()>& condition, int64_t patience_ms = kPatienceMs);
  bool WaitForConnectedWorkers(uint32_t count);
  bool WaitForCommit(const TaskId& task);

  std::vector<JournalLine> Journal() const;
  std::string journal() const { return directory_.path() + "/journal"; }
  // Processes whose environment names this test's directory, by program name; all when it is empty.
  std::vector<pid_t> Processes(const std::string& name) const;

  TestDirectory directory_;
  const std::string runtime_ = directory_.path() + "/run";
  const std::string state_ = directory_.path() + "/state";
  const std::string library_ = std::string(PILLION_LIB_DIR) + "/libpillion_worker_test_programs.so";
  std::map<std::string, std::string> environment_;
  std::unique_ptr<HeadProcess> head_;
  std::unique_ptr<TestPeer> operator_;
};

}  // namespace pillion::testing

#endif  // PILLION_TESTS_E2E_WORKER_FIXTURE_H_
