#include "cli/graph_file.h"

#include <gtest/gtest.h>

namespace pillion::cli {
namespace {

TEST(GraphFile, ReadsTasksOptionsAndEdges) {
  auto parsed = ParseGraph("g.json", R"({"schema": 1, "name": "n", "owner": "o", "priority": -2, "tasks": [
      {"name": "last", "program": "pagerank", "after": ["a"], "max_steps": 7, "device": "cuda", "memory_mib": 512,
       "deadline_s": 1.5, "wait_for_device": true, "app_retries": 0, "minimum_bubble_us": 900, "priority": 4},
      {"name": "a", "program": "resize", "arguments": {"folder": "in", "width": 320}},
      {"name": "four", "kind": "call", "program": "Square", "library": "/opt/m.so", "arguments": [2]},
      {"kind": "call", "program": "F", "arguments": ["x", {"result_of": "four"}, [1, null, 2.5], {"k": true}]}]})");
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  const auto& tasks = parsed->tasks();
  EXPECT_EQ(parsed->options().owner, "o");
  EXPECT_EQ(parsed->options().priority, -2);
  ASSERT_EQ(tasks.size(), 4u);
  EXPECT_EQ(tasks[0].dependencies.at(0).index, 1u);
  EXPECT_EQ(tasks[0].dependencies.at(0).argument, -1);
  EXPECT_EQ(tasks[0].max_steps, 7u);
  EXPECT_EQ(tasks[0].options.device_kind, 1);
  EXPECT_EQ(tasks[0].options.memory_bytes, 512u << 20);
  EXPECT_EQ(tasks[0].options.deadline_ms, 1500);
  EXPECT_TRUE(tasks[0].options.wait_for_device);
  EXPECT_EQ(tasks[1].arguments, R"({"folder":"in","width":320})");
  EXPECT_EQ(DecodeValue<std::tuple<int>>(tasks[2].arguments).value(), std::make_tuple(2));
  EXPECT_EQ(tasks[3].dependencies.at(0).index, 2u);
  EXPECT_EQ(tasks[3].dependencies.at(0).argument, 1);
  auto filled = FillArguments(tasks[3].arguments, {{1, EncodeValue(4)}}).value();
  using Arguments = std::tuple<std::string, int, std::tuple<int, std::optional<int>, double>, std::map<std::string, bool>>;
  EXPECT_EQ(std::get<1>(DecodeValue<Arguments>(filled).value()), 4);
}

TEST(GraphFile, ErrorsNameFileTaskAndKey) {
  const std::pair<const char*, std::vector<std::string>> cases[] = {
      {R"({"schema": 1, "tasks": [{"program": "p", "maxsteps": 3}]})", {"g.json", "task 0", "maxsteps", "max_steps"}},
      {R"({"schema": 2, "tasks": [{"program": "p"}]})", {"'schema' is 2"}},
      {R"({"schema": 1, "tasks": []})", {"'tasks'"}},
      {R"({"schema": 1, "tasks": [{"name": "a"}]})", {"(a)", "'program' is missing"}},
      {R"({"schema": 1, "tasks": [{"program": "p", "max_steps": -1}]})", {"'max_steps' is -1"}},
      {R"({"schema": 1, "tasks": [{"program": "p", "priority": 3000000000}]})", {"'priority'"}},
      {R"({"schema": 1, "tasks": [{"program": "p", "name": 5}]})", {"'name'"}},
      {R"({"schema": 1, "tasks": [{"program": "p", "device": "tpu"}]})", {"tpu", "cuda"}},
      {R"({"schema": 1, "tasks": [{"program": "p", "kind": "stpes"}]})", {"stpes"}},
      {R"({"schema": 1, "tasks": [{"program": "p", "name": "train"}, {"program": "q", "after": ["trainn"]}]})",
       {"trainn", "did you mean 'train'"}},
      {R"({"schema": 1, "tasks": [{"program": "p", "name": "x"}, {"program": "q", "name": "x"}]})", {"taken"}},
      {R"({"schema": 1, "tasks": [{"program": "p", "arguments": {"a": [1]}}]})", {"'arguments'"}},
      {R"({"schema": 1, "tasks": [{"kind": "call", "program": "p", "arguments": {}}]})", {"a list"}},
      {R"({"schema": 1, "tasks": )", {"g.json"}},
      {R"([])", {"object"}},
      {R"({"schema": 1, "tasks": ["p"]})", {"task 0"}},
  };
  for (const auto& [text, expected] : cases) {
    Status status = ParseGraph("g.json", text).status();
    EXPECT_FALSE(status.ok()) << text;
    for (const std::string& part : expected) {
      EXPECT_NE(status.message().find(part), std::string::npos) << status.message() << " lacks " << part;
    }
  }
  EXPECT_EQ(ReadGraphFile("/nowhere/g.json").status().code(), StatusCode::kNotFound);
}

TEST(GraphFile, PairsBecomeTypedArguments) {
  EXPECT_EQ(ArgumentsFromPairs({"a=1", "b=x=y", "c=true", "d=2.5", "e=\"7\"", "f="}).value(),
            R"({"a":1,"b":"x=y","c":true,"d":2.5,"e":"7","f":""})");
  EXPECT_EQ(ArgumentsFromPairs({"path=/tmp/x", "list=[1]"}).value(), R"({"list":"[1]","path":"/tmp/x"})");
  EXPECT_FALSE(ArgumentsFromPairs({"novalue"}).ok());
  EXPECT_FALSE(ArgumentsFromPairs({"a=1", "a=2"}).ok());
}

}  // namespace
}  // namespace pillion::cli
