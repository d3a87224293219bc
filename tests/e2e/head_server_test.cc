// The head as an operator meets it: starting, stopping, and everything that can stand in its way.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/clock.h"
#include "base/file.h"
#include "head_process.h"
#include "unit/store/temporary.h"

namespace pillion::testing {
namespace {

class HeadServerTest : public ::testing::Test {
 protected:
  std::vector<std::string> Arguments(std::vector<std::string> more = {}) const {
    std::vector<std::string> all = {"--state-dir",         state_, "--runtime-dir", runtime_,
                                    "--store-reserve-mib", "1"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // Runs to the end with these arguments alone.
  static Exit RunHead(std::vector<std::string> arguments) {
    return HeadProcess(std::move(arguments)).Wait();
  }

  TestDirectory directory_;
  const std::string state_ = directory_.path() + "/state";
  const std::string runtime_ = directory_.path() + "/run";
};

TEST_F(HeadServerTest, ServesStopsCleanlyAndRemembers) {
  JobId job = JobId::Random();
  uint64_t first_incarnation = 0;
  {
    HeadProcess head(Arguments());
    ASSERT_TRUE(head.WaitUntilServing(runtime_)) << head.Output();
    TestPeer client(runtime_, wire::Role::kClient);
    auto submitted = client.Call<wire::SubmitReply>(MakeJob(3, job));
    ASSERT_TRUE(submitted) << client.last_error.ToString();
    EXPECT_EQ(submitted->job, job);
    auto status = client.Call<wire::StatusReply>(wire::GetStatus{});
    ASSERT_TRUE(status);
    EXPECT_EQ(status->queued, 3u);
    EXPECT_EQ(status->store_error, "");
    first_incarnation = status->incarnation;
    head.Signal(SIGTERM);
    Exit exit = head.Wait();
    EXPECT_EQ(exit.code, 0) << exit.output;
    EXPECT_FALSE(FileExists(runtime_ + "/head.endpoint"));
  }
  HeadProcess head(Arguments());
  ASSERT_TRUE(head.WaitUntilServing(runtime_)) << head.Output();
  TestPeer client(runtime_, wire::Role::kClient);
  auto reply = client.Call<wire::JobReply>(wire::WaitJob{job, 0, 0});
  ASSERT_TRUE(reply) << client.last_error.ToString();
  EXPECT_EQ(reply->job.queued, 3u);
  auto status = client.Call<wire::StatusReply>(wire::GetStatus{});
  ASSERT_TRUE(status);
  EXPECT_EQ(status->incarnation, first_incarnation + 1);
  head.Signal(SIGINT);
  EXPECT_EQ(head.Wait().code, 0);
}

TEST_F(HeadServerTest, DirectoriesAndKeysArePrivate) {
  HeadProcess head(Arguments());
  ASSERT_TRUE(head.WaitUntilServing(runtime_)) << head.Output();
  for (const std::string& path :
       {runtime_, runtime_ + "/head.key", runtime_ + "/client.key", state_}) {
    struct stat info {};
    ASSERT_EQ(stat(path.c_str(), &info), 0) << path;
    EXPECT_EQ(info.st_mode & 0077, 0u) << path;
  }
}

TEST_F(HeadServerTest, AMessageOfAnotherSchemaIsAnsweredAndCounted) {
  HeadProcess head(Arguments());
  ASSERT_TRUE(head.WaitUntilServing(runtime_)) << head.Output();
  wire::PeerOptions options;
  options.find_server = wire::EndpointFromFile(runtime_, "head");
  options.keys = *wire::LoadKeys(runtime_, wire::Role::kClient);
  options.retry_first_ms = 5;
  wire::PeerSocket hostile(std::move(options));
  const int64_t end_ns = MonotonicNowNs() + kPatienceMs * kNanosPerMilli;
  bool answered = false, sent = false;
  while (!answered && MonotonicNowNs() < end_ns) {
    hostile.Wait(50);
    while (auto event = hostile.Receive(MonotonicNowNs())) {
      if (event->kind == wire::PeerEvent::Kind::kConnected)
        sent = hostile.Send("no message at all").ok();
      answered = answered || event->kind == wire::PeerEvent::Kind::kMessage;
    }
  }
  EXPECT_TRUE(sent);
  EXPECT_TRUE(answered);
  TestPeer client(runtime_, wire::Role::kClient);
  uint64_t counted = 0;
  while (counted == 0 && MonotonicNowNs() < end_ns) {
    auto status = client.Call<wire::StatusReply>(wire::GetStatus{});
    ASSERT_TRUE(status);
    counted = status->hostile_messages;
  }
  EXPECT_EQ(counted, 1u);
}

TEST_F(HeadServerTest, APortInUseIsNamed) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length), 0);
  std::string port = std::to_string(ntohs(address.sin_port));
  Exit exit = RunHead(Arguments({"--listen", "tcp://127.0.0.1:" + port}));
  EXPECT_EQ(exit.code, 1);
  EXPECT_NE(exit.output.find(port), std::string::npos) << exit.output;
  exit = RunHead(Arguments({"--metrics-port", port}));
  EXPECT_EQ(exit.code, 1);
  EXPECT_NE(exit.output.find(port), std::string::npos) << exit.output;
  close(fd);
}

TEST_F(HeadServerTest, DirectoriesThatCannotBeUsedAreNamed) {
  ASSERT_TRUE(WriteFileAtomically(directory_.path() + "/file", "x").ok());
  std::string below_a_file = directory_.path() + "/file/state";
  Exit exit = RunHead({"--state-dir", below_a_file, "--runtime-dir", runtime_});
  EXPECT_EQ(exit.code, 1);
  EXPECT_NE(exit.output.find(directory_.path() + "/file"), std::string::npos) << exit.output;
  exit = RunHead({"--state-dir", state_, "--runtime-dir", below_a_file});
  EXPECT_EQ(exit.code, 1);
  EXPECT_NE(exit.output.find(directory_.path() + "/file"), std::string::npos) << exit.output;

  ASSERT_TRUE(MakeDirectories(runtime_, 0755).ok());
  ASSERT_EQ(chmod(runtime_.c_str(), 0755), 0);
  exit = RunHead(Arguments());
  EXPECT_EQ(exit.code, 1);
  EXPECT_NE(exit.output.find("chmod 700"), std::string::npos) << exit.output;
}

TEST_F(HeadServerTest, AnotherHeadsDirectoriesAreRefused) {
  HeadProcess head(Arguments());
  ASSERT_TRUE(head.WaitUntilServing(runtime_)) << head.Output();
  Exit exit = RunHead({"--state-dir", state_, "--runtime-dir", directory_.path() + "/other"});
  EXPECT_EQ(exit.code, 1);
  EXPECT_NE(exit.output.find(state_), std::string::npos) << exit.output;
  EXPECT_NE(exit.output.find("pid " + std::to_string(head.pid())), std::string::npos)
      << exit.output;
  exit = RunHead({"--state-dir", directory_.path() + "/other-state", "--runtime-dir", runtime_});
  EXPECT_EQ(exit.code, 1);
  EXPECT_NE(exit.output.find(runtime_), std::string::npos) << exit.output;
}

TEST_F(HeadServerTest, ANewerStoreIsRefusedNamingBothVersions) {
  ASSERT_TRUE(MakeDirectories(state_, 0700).ok());
  ASSERT_TRUE(WriteFileAtomically(state_ + "/FORMAT", "pillion-store 9\n").ok());
  Exit exit = RunHead(Arguments());
  EXPECT_EQ(exit.code, 1);
  EXPECT_NE(exit.output.find("version 9"), std::string::npos) << exit.output;
  EXPECT_NE(exit.output.find("version 1"), std::string::npos) << exit.output;
}

TEST_F(HeadServerTest, WrongConfigurationEndsWithTwo) {
  EXPECT_EQ(RunHead(Arguments({"--no-such-flag"})).code, 2);
  EXPECT_EQ(RunHead(Arguments({"--listen", "localhost"})).code, 2);
  EXPECT_EQ(RunHead(Arguments({"--policy", "lifo"})).code, 2);
  std::string file = directory_.path() + "/pillion.toml";
  ASSERT_TRUE(WriteFileAtomically(file, "[head]\nlog_levle = 'info'\n").ok());
  Exit exit = RunHead(Arguments({"--config", file}));
  EXPECT_EQ(exit.code, 2);
  EXPECT_NE(exit.output.find(file + ":2:1"), std::string::npos) << exit.output;
  EXPECT_NE(exit.output.find("did you mean log_level?"), std::string::npos) << exit.output;
  Exit crash = HeadProcess(Arguments(), {{"PILLION_CRASH_AT", "nowhere"}}).Wait();
  EXPECT_EQ(crash.code, 2) << crash.output;
}

TEST_F(HeadServerTest, VerifyChecksAStoppedHeadsState) {
  {
    HeadProcess head(Arguments());
    ASSERT_TRUE(head.WaitUntilServing(runtime_)) << head.Output();
    Exit busy = RunHead({"--verify", "--state-dir", state_});
    EXPECT_EQ(busy.code, 1);
    EXPECT_NE(busy.output.find("in use"), std::string::npos) << busy.output;
    head.Signal(SIGTERM);
    EXPECT_EQ(head.Wait().code, 0);
  }
  Exit verified = RunHead({"--verify", "--json", "--state-dir", state_});
  EXPECT_EQ(verified.code, 0) << verified.output;
  EXPECT_NE(verified.output.find("\"format_version\":1"), std::string::npos) << verified.output;
  EXPECT_EQ(RunHead({"--verify", "--state-dir", directory_.path()}).code, 1);
}

TEST_F(HeadServerTest, AFullDiskStopsAcknowledgingAndIsSaidInStatus) {
  SmallDisk disk(64);
  if (!disk.mounted()) GTEST_SKIP() << "mounting a small file system needs root";
  std::string filler = disk / "somebody-else";
  ASSERT_TRUE(WriteFileAtomically(filler, std::string(16 << 20, 'x')).ok());
  HeadProcess head(
      {"--state-dir", disk / "state", "--runtime-dir", runtime_, "--store-reserve-mib", "20"});
  ASSERT_TRUE(head.WaitUntilServing(runtime_)) << head.Output();
  TestPeer client(runtime_, wire::Role::kClient);
  ASSERT_TRUE(client.Call<wire::StatusReply>(wire::GetStatus{}));

  // Jobs of about 800 KB until one is not acknowledged.
  std::vector<JobId> acknowledged;
  JobId refused = JobId::Random();
  for (int i = 0; i < 200; ++i) {
    wire::SubmitChunk job = MakeJob(14, refused = JobId::Random());
    for (wire::TaskSpec& task : job.tasks)
      task.arguments = "{\"x\":\"" + std::string(57'000, 'a' + i % 26) + "\"}";
    if (!client.Call<wire::SubmitReply>(job, 3'000)) break;
    acknowledged.push_back(refused);
  }
  ASSERT_LT(acknowledged.size(), 200u);
  ASSERT_GT(acknowledged.size(), 5u);

  // Reads are served, also for those who come now; changes are refused and say why.
  TestPeer late(runtime_, wire::Role::kClient);
  auto status = late.Call<wire::StatusReply>(wire::GetStatus{});
  ASSERT_TRUE(status) << head.Output();
  EXPECT_NE(status->store_error.find("full"), std::string::npos) << status->store_error;
  EXPECT_FALSE(late.Call<wire::SubmitReply>(MakeJob(1)));
  EXPECT_EQ(late.last_error.code(), StatusCode::kUnavailable) << late.last_error.ToString();

  std::filesystem::remove(filler);
  JobId after = JobId::Random();
  const int64_t end_ns = MonotonicNowNs() + kPatienceMs * kNanosPerMilli;
  bool goes_on = false;
  while (!goes_on && MonotonicNowNs() < end_ns) {
    goes_on = late.Call<wire::SubmitReply>(MakeJob(1, after), 1'000).has_value();
    if (!goes_on) late.Receive(100);
  }
  ASSERT_TRUE(goes_on) << head.Output();
  acknowledged.push_back(after);
  head.Signal(SIGKILL);
  head.Wait();

  HeadProcess again(
      {"--state-dir", disk / "state", "--runtime-dir", runtime_, "--store-reserve-mib", "20"});
  ASSERT_TRUE(again.WaitUntilServing(runtime_)) << again.Output();
  TestPeer checker(runtime_, wire::Role::kClient);
  for (const JobId& job : acknowledged) {
    EXPECT_TRUE(checker.Call<wire::JobReply>(wire::WaitJob{job, 0, 0}))
        << "an acknowledged job is lost";
  }
}

}  // namespace
}  // namespace pillion::testing
