#include "tests/unit/host_process/host_under_test.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"

namespace pillion {
namespace {
constexpr int64_t kPatienceNs = 10 * kNanosPerSecond;
}  // namespace

HostUnderTest::HostUnderTest(turns::TurnEngine* engine, const std::string& board_uuid, const std::string& mode)
    : engine_(engine) {
  page_ = *host::ControlPage::Create("host-under-test");
  int pair[2];
  PILLION_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
  socket_ = FileDescriptor(pair[0]);
  host_ = std::make_unique<worker::HostSocket>(pair[0]);
  int theirs[3] = {pair[1], page_->fd(), engine->doorbell()->fd()};
  std::string numbers[3];
  std::string binary = std::string(PILLION_BIN_DIR) + "/pillion-host";
  for (int i = 0; i < 3; ++i) numbers[i] = std::to_string(theirs[i]);
  const char* arguments[] = {binary.c_str(),       "--socket-fd", numbers[0].c_str(), "--control-fd",
                             numbers[1].c_str(),   "--doorbell-fd", numbers[2].c_str(), "--board",
                             board_uuid.c_str(),   "--device",    "cpu0",             "--mode",
                             mode.c_str(),         nullptr};
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int fd : theirs) fcntl(fd, F_SETFD, 0);
    execv(binary.c_str(), const_cast<char* const*>(arguments));
    _exit(127);
  }
  close(pair[1]);
}

HostUnderTest::~HostUnderTest() {
  if (resides_) engine_->RemoveResident(resident_);
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void HostUnderTest::AddToEngine() {
  Result<turns::ResidentId> resident = engine_->AddResident(page_, {});
  ASSERT_TRUE(resident.ok()) << resident.status().ToString();
  resident_ = *resident;
  resides_ = true;
}

void HostUnderTest::Post(const worker::HostMessage& message) {
  Status status = host_->Send(message, 5'000);
  ASSERT_TRUE(status.ok()) << status.ToString();
  if (resides_) engine_->PostCommand(resident_);
}

worker::HostMessage HostUnderTest::Next() {
  const int64_t until_ns = MonotonicNowNs() + kPatienceNs;
  while (!gone_ && MonotonicNowNs() < until_ns) {
    Result<worker::HostMessage> message = host_->Receive();
    if (message.ok()) return *std::move(message);
    gone_ = message.status().code() != StatusCode::kNotFound;
    pollfd readable{socket_.get(), POLLIN, 0};
    if (!gone_) poll(&readable, 1, 100);
  }
  ADD_FAILURE() << (gone_ ? "the host is gone" : "no such message within ten seconds");
  gone_ = true;
  return worker::ExitMessage{};
}

int HostUnderTest::Join() {
  int status = 0;
  const int64_t until_ns = MonotonicNowNs() + kPatienceNs;
  while (waitpid(pid_, &status, WNOHANG) == 0) {
    if (MonotonicNowNs() > until_ns) {
      ADD_FAILURE() << "the host does not end";
      return -1;
    }
    usleep(1000);
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace pillion
