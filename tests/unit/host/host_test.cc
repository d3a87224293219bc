// The real pillion-host, driven as the worker drives it: socket pair, control page, a turn engine without trainer.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "base/clock.h"
#include "worker/host/host_protocol.h"
#include "worker/turns/turn_engine.h"

namespace pillion::worker {
namespace {

constexpr int64_t kPatienceNs = 60 * kNanosPerSecond;

class HostTest : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/pillion-host-XXXXXX";
    directory_ = mkdtemp(pattern);
    setenv("PILLION_BOARD_DIR", (directory_ + "/boards").c_str(), 1);
    auto board = board::Board::Open("cpu-0", board::Board::Access::kReadWrite);
    ASSERT_TRUE(board.ok()) << board.status().ToString();
    auto engine = turns::TurnEngine::Start({}, std::move(*board), [](turns::ResidentId, int64_t) {});
    ASSERT_TRUE(engine.ok()) << engine.status().ToString();
    engine_ = std::move(*engine);
  }
  void TearDown() override {
    engine_.reset();
    (void)!system(("rm -rf " + directory_).c_str());
  }

  std::string directory_;
  std::unique_ptr<turns::TurnEngine> engine_;
};

class RealHost {
 public:
  RealHost(turns::TurnEngine* engine, const char* mode) : engine_(engine) {
    page_ = *host::ControlPage::Create("host-test");
    int pair[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(pair[0]);
      std::string socket = std::to_string(pair[1]), control = std::to_string(dup(page_->fd())),
                  doorbell = std::to_string(dup(engine->doorbell()->fd()));
      execl(PILLION_BIN_DIR "/pillion-host", "pillion-host", "--socket-fd", socket.c_str(), "--control-fd",
            control.c_str(), "--doorbell-fd", doorbell.c_str(), "--board", "cpu-0", "--device", "cpu0", "--mode", mode,
            nullptr);
      _exit(127);
    }
    close(pair[1]);
    fd_ = FileDescriptor(pair[0]);
    socket_ = std::make_unique<HostSocket>(fd_.get());
  }
  ~RealHost() {
    if (resident_ != 0 || added_) engine_->RemoveResident(resident_);
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }

  void Add() {
    turns::ResidentOptions options;
    options.name = "test";
    resident_ = *engine_->AddResident(page_, options);
    added_ = true;
  }
  void Send(const HostMessage& message) {
    ASSERT_TRUE(socket_->Send(message, 1000).ok());
    if (added_) engine_->PostCommand(resident_);
  }
  // The next message of type T; others (progress, logs) are passed over. Failed is an answer to everything.
  template <typename T>
  Result<T> Await() {
    for (int64_t until_ns = MonotonicNowNs() + kPatienceNs; MonotonicNowNs() < until_ns;) {
      pollfd readable{fd_.get(), POLLIN, 0};
      poll(&readable, 1, 100);
      auto message = socket_->Receive();
      if (!message.ok()) {
        if (message.status().code() == StatusCode::kNotFound) continue;
        return message.status();
      }
      if (auto* wanted = std::get_if<T>(&*message)) return *wanted;
      if (auto* failed = std::get_if<FailedMessage>(&*message)) return failed->status;
    }
    return DeadlineExceeded("no answer of the host");
  }
  int ExitCode() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  void CloseSocket() { fd_ = FileDescriptor(); }

 private:
  turns::TurnEngine* const engine_;
  std::shared_ptr<host::ControlPage> page_;
  pid_t pid_ = -1;
  FileDescriptor fd_;
  std::unique_ptr<HostSocket> socket_;
  turns::ResidentId resident_ = 0;
  bool added_ = false;
};

InitMessage ChecksumOf(const std::string& directory, const std::string& arguments) {
  InitMessage init;
  init.task = TaskId{JobId::Random(), 0};
  init.epoch = 1;
  init.program = "checksum";
  init.arguments = arguments;
  init.device = "cpu0";
  init.checkpoint_root = directory + "/checkpoints";
  return init;
}

TEST_F(HostTest, RunsATaskToItsResultAndExits) {
  RealHost host(engine_.get(), "steps");
  host.Send(ChecksumOf(directory_, R"({"path":"/bin/bash"})"));
  ASSERT_TRUE(host.Await<ReadyMessage>().ok());
  host.Send(LoadMessage{});
  ASSERT_TRUE(host.Await<LoadedMessage>().ok());
  host.Add();
  auto done = host.Await<DoneMessage>();
  ASSERT_TRUE(done.ok()) << done.status().ToString();
  EXPECT_NE(done->result.find("checksum"), std::string::npos);
  EXPECT_GT(done->step, 0u);
  host.Send(ExitMessage{});
  EXPECT_EQ(host.ExitCode(), 0);
}

TEST_F(HostTest, ASavedTaskGoesOnElsewhereToTheSameResult) {
  InitMessage init = ChecksumOf(directory_, R"({"path":"/bin/bash"})");
  std::string expected;
  {
    RealHost whole(engine_.get(), "steps");
    whole.Send(init);
    ASSERT_TRUE(whole.Await<ReadyMessage>().ok());
    whole.Send(LoadMessage{});
    whole.Add();
    auto done = whole.Await<DoneMessage>();
    ASSERT_TRUE(done.ok()) << done.status().ToString();
    expected = done->result;
  }
  RealHost first(engine_.get(), "steps");
  InitMessage part = init;
  part.max_steps = 0;
  first.Send(part);
  ASSERT_TRUE(first.Await<ReadyMessage>().ok());
  first.Send(LoadMessage{});
  ASSERT_TRUE(first.Await<LoadedMessage>().ok());
  first.Send(SaveMessage{true});  // before it has turns: at step 0, the one boundary that is sure
  auto saved = first.Await<SavedMessage>();
  ASSERT_TRUE(saved.ok()) << saved.status().ToString();
  EXPECT_EQ(saved->checkpoint.epoch, 1u);

  RealHost second(engine_.get(), "steps");
  second.Send(init);
  ASSERT_TRUE(second.Await<ReadyMessage>().ok());
  LoadMessage load;
  load.first = saved->checkpoint;
  load.first.checksum ^= 1;           // damaged: the one before is used, and said so
  load.previous = saved->checkpoint;
  second.Send(load);
  auto loaded = second.Await<LoadedMessage>();
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_EQ(loaded->step, saved->checkpoint.step);
  EXPECT_NE(loaded->detail.find("passed over"), std::string::npos) << loaded->detail;
  second.Add();
  auto done = second.Await<DoneMessage>();
  ASSERT_TRUE(done.ok()) << done.status().ToString();
  EXPECT_EQ(done->result, expected);
}

TEST_F(HostTest, ErrorsNameTheThing) {
  InitMessage unknown = ChecksumOf(directory_, "{}");
  unknown.program = "checksom";
  RealHost first(engine_.get(), "steps");
  first.Send(unknown);
  auto answer = first.Await<ReadyMessage>();
  EXPECT_EQ(answer.status().code(), StatusCode::kNotFound);
  EXPECT_NE(answer.status().message().find("'checksum'"), std::string::npos) << answer.status().ToString();

  RealHost second(engine_.get(), "steps");
  second.Send(ChecksumOf(directory_, R"({"path":"/bin/bash","pathh":1})"));
  answer = second.Await<ReadyMessage>();
  EXPECT_EQ(answer.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(answer.status().message().find("pathh"), std::string::npos) << answer.status().ToString();

  RealHost third(engine_.get(), "calls");
  third.Add();
  CallMessage call;
  call.call = 7;
  call.program = "no.such.function";
  third.Send(call);
  auto called = third.Await<CallDoneMessage>();
  ASSERT_TRUE(called.ok()) << called.status().ToString();
  EXPECT_EQ(called->call, 7u);
  EXPECT_EQ(called->status.code(), StatusCode::kNotFound);
}

TEST_F(HostTest, EndsWithItsWorker) {
  RealHost host(engine_.get(), "steps");
  host.Send(ChecksumOf(directory_, R"({"path":"/bin/bash"})"));
  ASSERT_TRUE(host.Await<ReadyMessage>().ok());
  host.CloseSocket();
  EXPECT_EQ(host.ExitCode(), 0);
}

}  // namespace
}  // namespace pillion::worker
