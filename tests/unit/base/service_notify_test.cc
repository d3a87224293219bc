#include "base/service_notify.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "base/clock.h"
#include "base/file.h"

namespace pillion {
namespace {

// A service manager that listens under an abstract name.
class Manager {
 public:
  Manager()
      : name_("@pillion-notify-" + std::to_string(getpid())), fd_(socket(AF_UNIX, SOCK_DGRAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name_.data() + 1, name_.size() - 1);
    auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name_.size());
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
  }
  const std::string& name() const { return name_; }
  // "" when nothing has arrived.
  std::string Receive() {
    char text[256];
    ssize_t got = recv(fd_.get(), text, sizeof text, MSG_DONTWAIT);
    return got < 0 ? "" : std::string(text, static_cast<size_t>(got));
  }

 private:
  std::string name_;
  FileDescriptor fd_;
};

TEST(ServiceNotifier, TellsTheManagerAndBeatsAtHalfTheWatchdogsTime) {
  Manager manager;
  setenv("NOTIFY_SOCKET", manager.name().c_str(), 1);
  setenv("WATCHDOG_USEC", "2000000", 1);
  ServiceNotifier notifier;
  EXPECT_EQ(getenv("NOTIFY_SOCKET"), nullptr);
  notifier.Ready();
  EXPECT_EQ(manager.Receive(), "READY=1");
  notifier.SetStatus("12 tasks");
  EXPECT_EQ(manager.Receive(), "STATUS=12 tasks");

  const int64_t start_ns = 5 * kNanosPerSecond;
  notifier.Beat(start_ns);
  EXPECT_EQ(manager.Receive(), "WATCHDOG=1");
  EXPECT_EQ(notifier.next_beat_ns(), start_ns + kNanosPerSecond);
  notifier.Beat(start_ns + kNanosPerSecond - 1);
  EXPECT_EQ(manager.Receive(), "");
  notifier.Beat(start_ns + kNanosPerSecond);
  EXPECT_EQ(manager.Receive(), "WATCHDOG=1");
  notifier.Stopping();
  EXPECT_EQ(manager.Receive(), "STOPPING=1");
}

TEST(ServiceNotifier, IsSilentWithoutAManager) {
  unsetenv("NOTIFY_SOCKET");
  setenv("WATCHDOG_USEC", "2000000", 1);
  ServiceNotifier notifier;
  notifier.Ready();
  notifier.Beat(1);
  EXPECT_EQ(notifier.next_beat_ns(), INT64_MAX);
}

}  // namespace
}  // namespace pillion
