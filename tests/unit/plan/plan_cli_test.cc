// pillion-plan as its users run it: JSON, exit codes, files.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace {

using nlohmann::json;

struct Answer {
  int code = -1;
  json value;
};

class PlanCli : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/pillion-plan-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
  }
  void TearDown() override {
    for (const char* file : {"a.csv", "p.json", "out.json", "out.csv"}) std::remove(File(file).c_str());
    std::remove(directory_.c_str());
  }
  std::string File(const std::string& name) const { return directory_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(File(name)) << text;
    return File(name);
  }
  static Answer RunPlan(const std::string& arguments) {
    const std::string line = std::string(PILLION_BIN_DIR) + "/pillion-plan " + arguments + " --json";
    std::FILE* pipe = popen(line.c_str(), "r");
    std::string text;
    char buffer[4096];
    for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, n);
    const int status = pclose(pipe);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, json::parse(text, nullptr, false)};
  }

 private:
  std::string directory_;
};

TEST_F(PlanCli, SimulatesATable) {
  const std::string csv = Write("a.csv", "0F0,0F1,,0B0,0W0,0B1,0W1\n,1F0,1B0,1F1,1B1,1W0,1W1\n");
  const Answer answer = RunPlan("simulate " + csv + " --cost F=10,I=10,W=10");
  EXPECT_EQ(answer.code, 0);
  EXPECT_EQ(answer.value["makespan"], 70);
  EXPECT_EQ(answer.value["bubble"], json({10, 10}));
}

TEST_F(PlanCli, ExitCodesSayWhoseFaultItIs) {
  const std::string hanging = Write("a.csv", "0B0,0F0\n");
  const Answer check = RunPlan("check " + hanging);
  EXPECT_EQ(check.code, 1);
  EXPECT_EQ(check.value["completes"], false);
  const Answer size = RunPlan("check " + hanging + " --devices 2");
  EXPECT_EQ(size.code, 2);
  EXPECT_EQ(size.value["error"]["code"], "invalid_argument");
  EXPECT_EQ(RunPlan("simulate " + hanging + " --cost F=1,I=0,W=1").code, 2);
  EXPECT_EQ(RunPlan("tune").code, 2);
}

TEST_F(PlanCli, TunedPlansAndTablesCheck) {
  const std::string profile = Write(
      "p.json",
      R"({"schema":1,"models":[{"model":"m","layers":"TTTTTT","layer_types":{"T":{"kind":"dense",)"
      R"("forward_ms":1,"input_gradient_ms":1.2,"weight_gradient_ms":0.8}}}]})");
  const Answer tuned = RunPlan("tune --profile " + profile +
                               " --devices 2 --microbatches 4 --evaluations 2000 --out " +
                               File("out.json") + " --torch-csv " + File("out.csv"));
  ASSERT_EQ(tuned.code, 0) << tuned.value.dump();
  EXPECT_GE(tuned.value["makespan_ticks"], tuned.value["lower_bound_ticks"]);
  const Answer replay = RunPlan("simulate " + File("out.json") + " --profile " + profile);
  EXPECT_EQ(replay.value["makespan"], tuned.value["makespan_ticks"]);
  EXPECT_EQ(RunPlan("check " + File("out.csv")).value["completes"], true);
}

}  // namespace
