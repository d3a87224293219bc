// pillion-trainer as a program: losses that fall and repeat to the last bit, bubbles on the boards,
// dead stages.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "api/board/board.h"
#include "base/clock.h"
#include "tests/unit/board/temporary_board_directory.h"

namespace pillion {
namespace {

using nlohmann::json;

constexpr int64_t kDeadlineNs = 60 * kNanosPerSecond;

// A small model, so that the tests are quick.
const std::vector<std::string> kSmall = {"--width",  "32", "--heads",        "2", "--context", "32",
                                         "--layers", "3",  "--microbatches", "4", "--batch",   "2"};

class TrainerTest : public ::testing::Test {
 protected:
  struct Process {
    pid_t pid;
    std::string out, err;
  };

  Process Start(std::vector<std::string> arguments) {
    const std::string stem = boards_.path() + "/output-" + std::to_string(started_++);
    Process process{-1, stem + ".out", stem + ".err"};
    arguments.insert(arguments.begin(), std::string(PILLION_BIN_DIR) + "/pillion-trainer");
    arguments.insert(arguments.end(), kSmall.begin(), kSmall.end());
    std::vector<char*> words;
    for (std::string& argument : arguments) words.push_back(argument.data());
    words.push_back(nullptr);
    process.pid = fork();
    if (process.pid == 0) {
      int out = open(process.out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      int err = open(process.err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      if (dup2(out, 1) < 0 || dup2(err, 2) < 0) _exit(126);
      execv(words[0], words.data());
      _exit(127);
    }
    running_.insert(process.pid);
    return process;
  }

  int ExitCode(const Process& process) {
    int status = 0;
    const int64_t deadline_ns = MonotonicNowNs() + kDeadlineNs;
    while (waitpid(process.pid, &status, WNOHANG) == 0) {
      if (MonotonicNowNs() > deadline_ns) return -2;
      usleep(2000);
    }
    running_.erase(process.pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  static std::string Text(const std::string& path) {
    std::ifstream in(path);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }

  json Run(std::vector<std::string> arguments, int exit_code = 0) {
    arguments.push_back("--json");
    Process process = Start(arguments);
    EXPECT_EQ(ExitCode(process), exit_code) << Text(process.err);
    return json::parse(Text(process.out), nullptr, false);
  }

  // Waits until the trainer of board cpu-`rank` is in its `iteration`th iteration.
  bool AwaitIteration(int rank, uint64_t iteration) {
    const int64_t deadline_ns = MonotonicNowNs() + kDeadlineNs;
    while (MonotonicNowNs() < deadline_ns) {
      auto board =
          board::Board::Open("cpu-" + std::to_string(rank), board::Board::Access::kReadOnly);
      if (board.ok() && (*board)->IsLocked(board::kLockTrainer)) {
        const uint64_t at = (*board)->layout()->iteration.load();
        if (at != board::kNoIteration && at >= iteration) return true;
      }
      usleep(2000);
    }
    return false;
  }

  void TearDown() override {
    for (pid_t pid : running_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }

  TemporaryBoardDirectory boards_;
  std::set<pid_t> running_;
  int started_ = 0;
};

TEST_F(TrainerTest, LossFallsAndRepeatsToTheLastBitHoweverThePipelineIsCut) {
  const json first = Run({"--iterations", "60", "--learning-rate", "3e-3"});
  ASSERT_EQ(first["losses"].size(), 60u);
  EXPECT_NEAR(first["losses"][0].get<double>(), 5.55, 0.5);  // log 256
  EXPECT_LT(first["losses"][59].get<double>(), 3.8);
  const json again = Run({"--iterations", "8", "--learning-rate", "3e-3"});
  const json one = Run({"--iterations", "8", "--learning-rate", "3e-3", "--stages", "1"});
  const json gpipe =
      Run({"--iterations", "8", "--learning-rate", "3e-3", "--stages", "3", "--schedule", "gpipe"});
  for (const json& other : {again, one, gpipe}) {
    ASSERT_EQ(other["losses_exact"].size(), 8u);
    for (int i = 0; i < 8; ++i) EXPECT_EQ(other["losses_exact"][i], first["losses_exact"][i]) << i;
  }
}

TEST_F(TrainerTest, MarksItsBubblesOnTheBoards) {
  const json report = Run({"--iterations", "5", "--run-id", "99"});
  for (int rank = 0; rank < 2; ++rank) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    auto board = board::Board::Open("cpu-" + std::to_string(rank), board::Board::Access::kReadOnly);
    ASSERT_TRUE(board.ok()) << board.status().ToString();
    const board::Layout* layout = (*board)->layout();
    const auto slots = report["ranks"][rank]["slots"].get<uint32_t>();
    EXPECT_EQ(layout->run_id.load(), 99u);
    EXPECT_EQ(layout->slots_per_iteration.load(), slots);
    EXPECT_EQ(board::SequenceOf(layout->edge.load()), 5 * slots);
    EXPECT_FALSE(board::IsOpen(layout->edge.load()));
    EXPECT_EQ(report["ranks"][rank]["iterations"].size(), 5u);
  }
}

TEST_F(TrainerTest, AKilledStageIsNamedByItsPeerAndARestartFindsTheSameBoards) {
  const std::vector<std::string> common = {"--iterations", "1000000", "--run-id", "41",
                                           "--ranks",      "2",       "--rank"};
  auto with_rank = [&](const char* rank) {
    std::vector<std::string> arguments = common;
    arguments.push_back(rank);
    return arguments;
  };
  Process rank0 = Start(with_rank("0"));
  Process rank1 = Start(with_rank("1"));
  ASSERT_TRUE(AwaitIteration(0, 3));
  kill(rank1.pid, SIGKILL);
  EXPECT_EQ(ExitCode(rank1), -1);
  EXPECT_EQ(ExitCode(rank0), 1);
  EXPECT_NE(Text(rank0.err).find("rank 1"), std::string::npos) << Text(rank0.err);
  EXPECT_NE(Text(rank0.err).find("its process has died"), std::string::npos) << Text(rank0.err);

  auto board = board::Board::Open("cpu-0", board::Board::Access::kReadOnly);
  ASSERT_TRUE(board.ok());
  const uint32_t generation = (*board)->layout()->trainer_generation.load();
  const uint32_t sequence = board::SequenceOf((*board)->layout()->edge.load());
  const json again = Run({"--iterations", "3", "--run-id", "41"});
  EXPECT_EQ(again["losses"].size(), 3u);
  // The same file, seen through the mapping made before the restart.
  EXPECT_EQ((*board)->layout()->trainer_generation.load(), generation + 1);
  EXPECT_GT(board::SequenceOf((*board)->layout()->edge.load()), sequence);
}

TEST_F(TrainerTest, TheLauncherNamesTheStageThatDiedAndLeavesNobody) {
  Process launcher = Start({"--iterations", "1000000", "--run-id", "42", "--json"});
  ASSERT_TRUE(AwaitIteration(0, 2));
  // The launcher's children, from /proc.
  const std::string task =
      "/proc/" + std::to_string(launcher.pid) + "/task/" + std::to_string(launcher.pid);
  std::istringstream children(Text(task + "/children"));
  std::vector<pid_t> ranks;
  for (pid_t pid; children >> pid;) ranks.push_back(pid);
  ASSERT_EQ(ranks.size(), 2u);
  kill(ranks[1], SIGKILL);
  EXPECT_EQ(ExitCode(launcher), 1);
  const json report = json::parse(Text(launcher.out), nullptr, false);
  EXPECT_NE(report["error"]["message"].get<std::string>().find("rank 1"), std::string::npos)
      << report.dump();
  for (pid_t rank : ranks) EXPECT_NE(kill(rank, 0), 0);
}

TEST_F(TrainerTest, BadInputIsNamed) {
  EXPECT_NE(Run({"--data", "/nonexistent"}, 1)["error"]["message"].get<std::string>().find(
                "/nonexistent"),
            std::string::npos);
  EXPECT_NE(Run({"--schedule", "2f2b"}, 2)["error"]["message"].get<std::string>().find("2f2b"),
            std::string::npos);
  EXPECT_NE(Run({"--schedule", "zb-h1"}, 2)["error"]["message"].get<std::string>().find("zb-h1"),
            std::string::npos);
  const std::string tiny = boards_.path() + "/tiny";
  std::ofstream(tiny) << "abc";
  EXPECT_NE(Run({"--data", tiny}, 2)["error"]["message"].get<std::string>().find("3 bytes"),
            std::string::npos);
}

}  // namespace
}  // namespace pillion
