// The trainer stand-in and the bench as programs: what they print, and how they refuse.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

struct Outcome {
  int exit_code = -1;
  std::vector<std::string> lines;
};

Outcome RunProgram(const std::string& command) {
  Outcome outcome;
  FILE* pipe = popen((std::string(PILLION_BIN_DIR) + "/" + command + " 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::string text;
  char piece[4096];
  for (size_t bytes; (bytes = fread(piece, 1, sizeof piece, pipe)) > 0;) text.append(piece, bytes);
  int status = pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  size_t from = 0;
  for (size_t end; (end = text.find('\n', from)) != std::string::npos; from = end + 1) {
    outcome.lines.push_back(text.substr(from, end - from));
  }
  return outcome;
}

TEST(Metronome, PrintsOneLinePerIteration) {
  char directory[] = "/tmp/pillion-programs-XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  setenv("PILLION_BOARD_DIR", directory, 1);
  Outcome outcome = RunProgram("pillion-metronome --busy-ms 1 --bubble-ms 2 --bubbles 3 --iterations 7 --warm-up-ms 1 --jitter 0.1");
  EXPECT_EQ(outcome.exit_code, 0);
  ASSERT_EQ(outcome.lines.size(), 9u);
  EXPECT_EQ(nlohmann::json::parse(outcome.lines[0])["board"], true);
  for (int i = 0; i < 7; ++i) {
    auto line = nlohmann::json::parse(outcome.lines[static_cast<size_t>(i) + 1]);
    EXPECT_EQ(line["iteration"], i);
    EXPECT_GT(line["duration_ms"].get<double>(), 3.0);  // three bubbles, shortened by the jitter at worst
    EXPECT_TRUE(line["quiet"].is_boolean());
  }
  EXPECT_EQ(nlohmann::json::parse(outcome.lines.back())["iterations"], 7);
  std::filesystem::remove_all(directory);
}

TEST(Metronome, RefusesNonsense) {
  EXPECT_EQ(RunProgram("pillion-metronome --bubbles -1").exit_code, 2);
  EXPECT_EQ(RunProgram("pillion-metronome --device cpu4711 --iterations 1").exit_code, 2);
}

TEST(Bench, HarvestPrintsEveryPromisedKey) {
  Outcome outcome = RunProgram(
      "pillion-bench harvest --json --rounds 2 --block-s 0.5 --busy-ms 3 --bubble-ms 4 --step-ms 0.3 "
      "--modes pillion,freeride_like");
  ASSERT_EQ(outcome.exit_code, 0);
  ASSERT_EQ(outcome.lines.size(), 1u);
  auto report = nlohmann::json::parse(outcome.lines[0]);
  EXPECT_EQ(report["schema"], 1);
  ASSERT_EQ(report["cells"].size(), 3u);
  EXPECT_EQ(report["cells"][0]["mode"], "alone");
  for (const auto& cell : report["cells"]) {
    for (const char* key : {"mode", "bubble_ms", "step_ms", "useful_share", "harvest_share", "eligible_harvest_share",
                            "slowdown", "losses", "edge_to_step_us"}) {
      EXPECT_TRUE(cell.contains(key)) << key;
    }
    EXPECT_EQ(cell["slowdown"]["ci95"].size(), 2u);
  }
  const auto& pillion = report["cells"][1];
  EXPECT_EQ(pillion["mode"], "pillion");
  EXPECT_GT(pillion["harvest_share"].get<double>(), 0.0);
  for (const char* loss : {"no_task", "memory", "shorter_than_step", "guard", "tail", "switching", "forecast_miss",
                           "unexplained"}) {
    EXPECT_TRUE(pillion["losses"].contains(loss)) << loss;
  }
}

TEST(Bench, RefusesNonsense) {
  EXPECT_EQ(RunProgram("pillion-bench harvest --device tpu0").exit_code, 2);
  EXPECT_EQ(RunProgram("pillion-bench harvest --modes magic").exit_code, 2);
  EXPECT_EQ(RunProgram("pillion-bench").exit_code, 2);
}

TEST(Bench, BoardSaysWhatMarkingCosts) {
  Outcome outcome = RunProgram("pillion-bench board --json");
  ASSERT_EQ(outcome.exit_code, 0);
  EXPECT_GT(nlohmann::json::parse(outcome.lines.at(0))["begin_ns"]["alone"].get<double>(), 0.0);
}

}  // namespace
