// The pillion command as people and scripts see it: output, JSON, exit codes; against a fake head.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "../api/fake_head.h"
#include "base/file.h"
#include "pillion/function.h"

namespace pillion {
namespace {

using nlohmann::json;

int Square(int x) { return x * x; }
PILLION_FUNCTION(Square);

struct Outcome {
  int code = -1;
  std::string out, err;
  json value() const { return json::parse(out, nullptr, false); }
};

class CliTest : public testing::Test {
 protected:
  CliTest() {
    char name[] = "/tmp/pillion-cli-XXXXXX";
    directory_ = mkdtemp(name);
    runtime_ = directory_ + "/run";
  }
  ~CliTest() override { std::filesystem::remove_all(directory_); }

  Outcome Run(std::vector<std::string> arguments, const std::string& binary = PILLION_BIN_DIR "/pillion") {
    const std::string out = directory_ + "/out", err = directory_ + "/err";
    pid_t child = fork();
    if (child == 0) {
      setenv("PILLION_RUNTIME_DIR", runtime_.c_str(), 1);
      dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
      dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
      std::vector<char*> argv = {const_cast<char*>(binary.c_str())};
      for (std::string& argument : arguments) argv.push_back(argument.data());
      argv.push_back(nullptr);
      execv(binary.c_str(), argv.data());
      _exit(127);
    }
    Outcome outcome;
    int status = 0;
    waitpid(child, &status, 0);
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    outcome.out = ReadFile(out).value();
    outcome.err = ReadFile(err).value();
    return outcome;
  }
  std::string Submit(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "submit");
    Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out.substr(0, 32);
  }

  std::string directory_, runtime_;
};

TEST_F(CliTest, SubmitWaitGet) {
  FakeHead head(runtime_);
  const std::string job = Submit({"resize", "folder=in", "width=320", "--steps", "9", "--name", "thumbs"});
  auto specs = head.SpecsOf(JobId::Parse(job).value());
  ASSERT_EQ(specs.size(), 1u);
  EXPECT_EQ(specs[0].arguments, R"({"folder":"in","width":320})");
  EXPECT_EQ(specs[0].max_steps, 9u);
  Outcome wait = Run({"wait", job, "--json"});
  EXPECT_EQ(wait.code, 0);
  EXPECT_EQ(wait.value()["schema"], 1);
  EXPECT_EQ(wait.value()["succeeded"], 1);
  EXPECT_EQ(wait.value()["submitted"], "2023-11-14T22:13:20.000Z");
  Outcome get = Run({"get", job + ".0", "--json"});
  EXPECT_EQ(get.value()["result"]["answer"], 42) << get.out;
  EXPECT_EQ(Run({"get", job}).out, "{\"answer\":42}\n");
  EXPECT_EQ(Run({"submit", "resize", "--wait", "--json"}).value()["finished"], true);
}

TEST_F(CliTest, GraphFileWithCalls) {
  FakeHead head(runtime_);
  std::ofstream(directory_ + "/g.json") << R"({"schema": 1, "tasks": [
      {"name": "four", "kind": "call", "program": "Square", "arguments": [2]},
      {"kind": "call", "program": "Square", "arguments": [{"result_of": "four"}]}]})";
  Outcome submit = Run({"submit", "--graph", directory_ + "/g.json", "--json"});
  ASSERT_EQ(submit.code, 0) << submit.out;
  EXPECT_EQ(submit.value()["tasks"], 2);
  Outcome get = Run({"get", submit.value()["job"].get<std::string>() + ".1", "--json"});
  EXPECT_EQ(get.value()["result"], 16) << get.out;
}

TEST_F(CliTest, ExitCodeOneWhenTheOperationFailed) {
  FakeHead head(runtime_);
  const std::string job = Submit({"fails"});
  Outcome wait = Run({"wait", job});
  EXPECT_EQ(wait.code, 1);
  EXPECT_NE(wait.out.find("1 failed"), std::string::npos);
  Outcome get = Run({"get", job, "--json"});
  EXPECT_EQ(get.code, 1);
  EXPECT_EQ(get.value()["error"], "broken image x.png");
  Outcome absent = Run({"get", std::string(32, 'a') + ".0", "--json"});
  EXPECT_EQ(absent.code, 1);
  EXPECT_EQ(absent.value()["error"]["code"], "not_found");
}

TEST_F(CliTest, ExitCodeTwoForUsage) {
  EXPECT_EQ(Run({}).code, 2);
  EXPECT_EQ(Run({"frobnicate"}).code, 2);
  EXPECT_EQ(Run({"submit"}).code, 2);
  EXPECT_EQ(Run({"submit", "p", "noequals"}).code, 2);
  EXPECT_EQ(Run({"get", "nonsense"}).code, 2);
  EXPECT_EQ(Run({"list", "things"}).code, 2);
  EXPECT_EQ(Run({"submit", "--graph", directory_ + "/absent.json"}).code, 2);
  EXPECT_EQ(Run({"announce", "cpu0", "--slot", "long"}).code, 2);
  EXPECT_EQ(Run({"announce", "cpu0", "--slot", "20", "--period-ms", "10"}).code, 2);
  Outcome unknown = Run({"status", "--colour", "--json"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_EQ(unknown.value()["error"]["code"], "invalid_argument") << unknown.out;
}

TEST_F(CliTest, ExitCodeThreeWhenTheHeadIsAbsent) {
  Outcome no_head = Run({"status", "--timeout", "0.2", "--json"});
  EXPECT_EQ(no_head.code, 3);
  EXPECT_EQ(no_head.value()["error"]["code"], "unavailable");
  EXPECT_NE(no_head.value()["error"]["message"].get<std::string>().find(runtime_), std::string::npos);
  { FakeHead head(runtime_); }
  Outcome stopped = Run({"--timeout", "0.2", "list", "jobs"});
  EXPECT_EQ(stopped.code, 3);
  EXPECT_NE(stopped.err.find("tcp://127.0.0.1:"), std::string::npos) << stopped.err;
  EXPECT_EQ(stopped.out, "");
}

TEST_F(CliTest, ExitCodeFourWhenRefused) {
  FakeHead head(runtime_);
  Outcome unknown = Run({"submit", "unknown", "--json"});
  EXPECT_EQ(unknown.code, 4);
  EXPECT_NE(unknown.value()["error"]["message"].get<std::string>().find("unknown program"), std::string::npos);
  wire::KeyPair stranger = wire::GenerateKeyPair().value();
  ASSERT_TRUE(wire::WriteKeyFile(directory_ + "/stranger.key", stranger).ok());
  EXPECT_EQ(Run({"status", "--key", directory_ + "/stranger.key"}).code, 4);
}

TEST_F(CliTest, ExitCodeFiveWhenTimeIsUp) {
  FakeHead head(runtime_);
  const std::string job = Submit({"never"});
  Outcome wait = Run({"wait", job, "--for", "0.1", "--json"});
  EXPECT_EQ(wait.code, 5);
  EXPECT_EQ(wait.value()["error"]["code"], "deadline_exceeded");
  EXPECT_EQ(Run({"get", job, "--wait", "--for", "0.1"}).code, 5);
  head.silent = true;
  EXPECT_EQ(Run({"status", "--timeout", "0.2"}).code, 5);
}

TEST_F(CliTest, AskingAndSteering) {
  FakeHead head(runtime_);
  const std::string job = Submit({"never"});
  EXPECT_EQ(Run({"status", "--json"}).value()["head"]["incarnation"], 3);
  EXPECT_NE(Run({"status"}).out.find("incarnation 3"), std::string::npos);
  EXPECT_EQ(Run({"list", "jobs", "--json"}).value()["jobs"][0]["job"], job);
  EXPECT_EQ(Run({"list", "tasks", job, "--json"}).value()["tasks"][0]["state"], "queued");
  EXPECT_EQ(Run({"list", "workers", "--json"}).value()["workers"][0]["bubble_share"], 0.4);
  EXPECT_EQ(Run({"list", "workers", "--json"}).value()["workers"][0]["harvest_share"], nullptr);
  EXPECT_NE(Run({"list", "bubbles"}).out.find("slot 1  p10 19.00 ms"), std::string::npos);
  EXPECT_EQ(Run({"explain", job, "--json"}).value()["workers"][0]["steps_per_s"], 12.5);
  EXPECT_EQ(Run({"migrate", job, "--json"}).value()["moving"], 1);
  EXPECT_EQ(Run({"migrate", job, "--to", "nowhere"}).code, 1);
  EXPECT_EQ(Run({"drain", "host/cpu0", "--json"}).value()["moving"], 2);
  EXPECT_EQ(Run({"cancel", job, "--json"}).value()["cancelled"], 1);
  EXPECT_EQ(Run({"wait", job}).code, 1);
}

TEST_F(CliTest, AnnounceReachesTheWorker) {
  FakeHead worker(runtime_, "worker-cpu0");
  Outcome announce = Run({"announce", "cpu0", "--period-ms", "80", "--slot", "20ms", "--slot", "18/20/23.5", "--json"});
  EXPECT_EQ(announce.code, 0) << announce.out;
  ASSERT_EQ(worker.announcements().size(), 1u);
  EXPECT_EQ(worker.announcements()[0].capacity.slots[1].p90_us, 23'500u);
  EXPECT_EQ(Run({"announce", "cpu1", "--timeout", "0.1"}).code, 3);
}

TEST_F(CliTest, KeygenAllowsTheNewKey) {
  EXPECT_EQ(Run({"keygen", "worker", "node7", "--out", directory_ + "/k"}).code, 2);  // no head was ever here
  FakeHead head(runtime_);
  head.Stop();
  Outcome made = Run({"keygen", "client", "ada", "--out", directory_ + "/ada.key", "--json"});
  ASSERT_EQ(made.code, 0) << made.out;
  EXPECT_EQ(wire::ReadKeyFile(directory_ + "/ada.key").value().public_key, made.value()["public_key"]);
  FakeHead again(runtime_);
  EXPECT_EQ(Run({"status", "--key", directory_ + "/ada.key"}).code, 0);
  EXPECT_EQ(Run({"keygen", "client", "ada", "--out", directory_ + "/ada.key"}).code, 2);  // nothing is overwritten
}

TEST_F(CliTest, HelpHasExamplesAndOthersAreOffered) {
  for (const char* command : {"submit", "wait", "status", "list", "get", "explain", "cancel", "migrate", "drain",
                              "announce", "keygen", "version", "completion"}) {
    Outcome help = Run({command, "--help"});
    EXPECT_EQ(help.code, 0) << command;
    EXPECT_NE(help.out.find("Examples:"), std::string::npos) << command;
  }
  EXPECT_NE(Run({"--help"}).out.find("demo"), std::string::npos);
  EXPECT_EQ(Run({"version", "--json"}).value()["schema"], 1);
  EXPECT_NE(Run({"completion"}).out.find("explain"), std::string::npos);
}

TEST_F(CliTest, HeavyVerbsRunTheirProgramBesideIt) {
  const std::string bin = directory_ + "/bin";
  std::filesystem::create_directory(bin);
  std::filesystem::copy_file(PILLION_BIN_DIR "/pillion", bin + "/pillion");
  for (const char* name : {"pillion-demo", "pillion-plan"}) {
    std::ofstream(bin + "/" + name) << "#!/bin/sh\necho \"${0##*/} $*\"\nexit 7\n";
    std::filesystem::permissions(bin + "/" + name, std::filesystem::perms::owner_all);
  }
  Outcome demo = Run({"demo", "--json", "--seconds", "3"}, bin + "/pillion");
  EXPECT_EQ(demo.out, "pillion-demo --json --seconds 3\n");
  EXPECT_EQ(demo.code, 7);
  EXPECT_EQ(Run({"tune", "model.json"}, bin + "/pillion").out, "pillion-plan tune model.json\n");
  Outcome absent = Run({"bench", "--json"}, bin + "/pillion");
  EXPECT_EQ(absent.code, 2);
  EXPECT_NE(absent.value()["error"]["message"].get<std::string>().find("pillion-bench"), std::string::npos);
}

TEST_F(CliTest, InterruptedWaitEndsBySignal) {
  FakeHead head(runtime_);
  const std::string job = Submit({"never"});
  pid_t child = fork();
  if (child == 0) {
    setenv("PILLION_RUNTIME_DIR", runtime_.c_str(), 1);
    execl(PILLION_BIN_DIR "/pillion", "pillion", "wait", job.c_str(), nullptr);
    _exit(127);
  }
  const int before = head.hellos;
  while (head.hellos == before) usleep(1000);
  kill(child, SIGINT);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);  // which a shell reports as 130
}

}  // namespace
}  // namespace pillion
