#include "cli/demo/workload.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace pillion::demo {
namespace {

// Programs with their arguments, in order.
std::vector<std::string> Tasks(Wave wave, bool torch) {
  WorkloadOptions options;
  options.iterations = 100;
  options.torch = torch;
  options.file = "/bin/sh";
  const Graph graph = MakeWorkload(options, wave, "job", "/out").value();
  std::vector<std::string> tasks;
  for (const wire::TaskSpec& task : graph.tasks()) tasks.push_back(task.program + " " + task.arguments);
  return tasks;
}

TEST(Workload, BothWavesAreTheFirstAndThenTheSecond) {
  std::vector<std::string> apart = Tasks(Wave::kFirst, true);
  const std::vector<std::string> second = Tasks(Wave::kSecond, true);
  ASSERT_FALSE(apart.empty());
  ASSERT_FALSE(second.empty());
  apart.insert(apart.end(), second.begin(), second.end());
  EXPECT_EQ(apart, Tasks(Wave::kBoth, true));
}

TEST(Workload, WithoutTorchThereIsNoTraining) {
  auto trains = [](const std::string& task) { return task.rfind("train.cnn", 0) == 0; };
  const std::vector<std::string> with = Tasks(Wave::kBoth, true), without = Tasks(Wave::kBoth, false);
  EXPECT_GT(std::count_if(with.begin(), with.end(), trains), 0);
  EXPECT_EQ(std::count_if(without.begin(), without.end(), trains), 0);
}

TEST(SameResult, ComparesAllButTheFolder) {
  EXPECT_TRUE(SameResult(R"({"checksum":"a","output":"/x"})", R"({"checksum":"a","output":"/y"})").value());
  EXPECT_FALSE(SameResult(R"({"checksum":"a"})", R"({"checksum":"b"})").value());
  EXPECT_FALSE(SameResult(R"({"checksum":"a"})", R"({"checksum":"a","n":1})").value());
  EXPECT_FALSE(SameResult("", "{}").ok());
  EXPECT_FALSE(SameResult("{}", "{}").ok());
}

}  // namespace
}  // namespace pillion::demo
