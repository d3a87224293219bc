// `pillion demo` as people run it, short.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/file.h"
#include "cli/demo/figures.h"
#include "head_process.h"

namespace pillion::testing {
namespace {

using nlohmann::json;

class DemoTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (OnlineCores() < 2) GTEST_SKIP() << "the demo needs two cores";
  }
  // Whatever the demo started names its directory in the environment.
  void TearDown() override {
    for (const std::string& entry : ListDirectory("/proc").value()) {
      if (entry[0] < '0' || entry[0] > '9') continue;
      auto environment = ReadFile("/proc/" + entry + "/environ");
      if (!environment.ok() || environment->find("PILLION_DEMO=" + keep()) == std::string::npos) continue;
      ADD_FAILURE() << "left behind: " << ReadFile("/proc/" + entry + "/comm").value();
      kill(std::stoi(entry), SIGKILL);
    }
  }
  std::string keep() const { return directory_.path() + "/kept"; }
  void Start(std::vector<std::string> more) {
    std::vector<std::string> words = {std::string(PILLION_BIN_DIR) + "/pillion", "demo", "--json", "--keep", keep()};
    words.insert(words.end(), more.begin(), more.end());
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    pid_ = fork();
    ASSERT_GE(pid_, 0);
    if (pid_ == 0) {
      if (std::freopen((directory_.path() + "/out").c_str(), "w", stdout) == nullptr ||
          std::freopen((directory_.path() + "/err").c_str(), "w", stderr) == nullptr) {
        _exit(126);
      }
      execv(pointers[0], pointers.data());
      _exit(127);
    }
  }
  int Wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string Output() const { return ReadFile(directory_.path() + "/out").value(); }
  std::string Messages() const {
    auto text = ReadFile(directory_.path() + "/err");  // not there before the child has started
    return text.ok() ? *text : "";
  }

  TestDirectory directory_;
  pid_t pid_ = -1;
};

void ExpectKeys(const json& object, const std::set<std::string>& keys) {
  std::set<std::string> found;
  for (const auto& [key, value] : object.items()) found.insert(key);
  EXPECT_EQ(found, keys);
}

void ExpectDevices(const json& devices) {
  ASSERT_EQ(devices.size(), 2u);
  for (const json& device : devices) {
    ExpectKeys(device, {"device", "iterations", "iteration_ms", "bubble_share", "harvest_share", "eligible_harvest_share",
                        "useful_share", "intrusion_ms_per_iteration", "losses"});
    ExpectKeys(device["iteration_ms"], {"quiet", "harvesting"});
    ExpectKeys(device["losses"], {"no_task", "memory", "shorter_than_step", "guard", "tail", "switching", "forecast_miss",
                                  "unexplained"});
    EXPECT_GT(device["harvest_share"].get<double>(), 0) << device;
    EXPECT_GT(device["bubble_share"].get<double>(), 0) << device;
    // How much bubbles give is measured elsewhere; here the books must add up.
    double sum = device["harvest_share"].get<double>();
    for (const auto& [name, share] : device["losses"].items()) sum += share.get<double>();
    EXPECT_NEAR(sum, 1, 1e-6) << device;
  }
}

void ExpectReport(const json& report, uint64_t iterations) {
  ExpectKeys(report, {"schema", "devices", "slowdown", "recovered_share", "tasks", "trainer", "migrations", "timeline",
                      "wall_s"});
  EXPECT_EQ(report["schema"], 1);
  ExpectDevices(report["devices"]);
  ExpectKeys(report["slowdown"], {"mean", "ci95"});
  ASSERT_EQ(report["slowdown"]["ci95"].size(), 2u);
  std::set<std::string> programs;
  uint64_t migrations = 0;
  for (const json& task : report["tasks"]) {
    ExpectKeys(task, {"task", "program", "state", "steps", "migrations", "verified"});
    EXPECT_EQ(task["state"], "succeeded") << task;
    EXPECT_EQ(task["verified"], true) << task;
    EXPECT_GT(task["steps"].get<uint64_t>(), 0u) << task;
    programs.insert(task["program"].get<std::string>());
    migrations += task["migrations"].get<uint64_t>();
  }
  EXPECT_GE(programs.size(), 3u);
  EXPECT_GE(migrations, 1u);
  EXPECT_EQ(report["migrations"].get<uint64_t>(), migrations);
  ExpectKeys(report["trainer"], {"iterations", "loss_first", "loss_last", "losses_identical_to_quiet_run"});
  EXPECT_EQ(report["trainer"]["iterations"].get<uint64_t>(), iterations);
  EXPECT_GT(report["wall_s"].get<double>(), 0);
  const json timeline = json::parse(ReadFile(report["timeline"].get<std::string>()).value());
  std::set<int> processes;
  for (const json& event : timeline["traceEvents"]) processes.insert(event["pid"].get<int>());
  EXPECT_EQ(processes.size(), 2u);
}

TEST_F(DemoTest, RunsTheMainJobOnRealParts) {
  const uint64_t iterations = demo::IterationsOf(2);
  Start({"--iterations", std::to_string(iterations)});
  ASSERT_EQ(Wait(), 0) << Messages();
  const json report = json::parse(Output());
  ExpectReport(report, iterations);
  if (FileExists(std::string(PILLION_BIN_DIR) + "/pillion-trainer")) {
    EXPECT_EQ(report["trainer"]["losses_identical_to_quiet_run"], true);
    EXPECT_LT(report["trainer"]["loss_last"].get<double>(), report["trainer"]["loss_first"].get<double>());
  }
}

TEST_F(DemoTest, RunsWithoutLibTorch) {
  const uint64_t iterations = demo::IterationsOf(2);
  Start({"--trainer", "metronome", "--iterations", std::to_string(iterations)});
  ASSERT_EQ(Wait(), 0) << Messages();
  const json report = json::parse(Output());
  ExpectReport(report, iterations);
  EXPECT_TRUE(report["trainer"]["losses_identical_to_quiet_run"].is_null());
}

TEST_F(DemoTest, LeavesNothingBehindWhenInterrupted) {
  Start({"--trainer", "metronome"});
  const int64_t end_ns = MonotonicNowNs() + kPatienceMs * kNanosPerMilli;
  while (Messages().find("submitted") == std::string::npos && MonotonicNowNs() < end_ns) usleep(20'000);
  kill(pid_, SIGINT);
  EXPECT_EQ(Wait(), 130) << Messages();
  EXPECT_EQ(json::parse(Output())["error"]["code"], "cancelled");
}

TEST_F(DemoTest, RefusesADirectoryThatIsNotEmpty) {
  std::filesystem::create_directories(keep());
  std::ofstream(keep() + "/mine") << "precious";
  Start({});
  EXPECT_EQ(Wait(), 2);
  EXPECT_NE(Messages().find("not empty"), std::string::npos) << Messages();
  EXPECT_EQ(ReadFile(keep() + "/mine").value(), "precious");
}

}  // namespace
}  // namespace pillion::testing
