#include "base/service_notify.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstdlib>
#include <cstring>

#include "base/clock.h"
#include "base/file.h"

namespace pillion {

ServiceNotifier::ServiceNotifier() {
  if (const char* path = std::getenv("NOTIFY_SOCKET"); path != nullptr) socket_ = path;
  if (const char* text = std::getenv("WATCHDOG_USEC"); text != nullptr && !socket_.empty()) {
    int64_t timeout_us = std::atoll(text);
    if (timeout_us > 0) {
      interval_ns_ = timeout_us * kNanosPerMicro / 2;
      next_beat_ns_ = 0;
    }
  }
  unsetenv("NOTIFY_SOCKET");
  unsetenv("WATCHDOG_USEC");
}

void ServiceNotifier::Beat(int64_t now_ns) {
  if (interval_ns_ == 0 || now_ns < next_beat_ns_) return;
  Send("WATCHDOG=1");
  next_beat_ns_ = now_ns + interval_ns_;
}

void ServiceNotifier::Send(std::string_view message) const {
  sockaddr_un address{};
  if (socket_.empty() || socket_.size() >= sizeof address.sun_path) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  if (address.sun_path[0] == '@') address.sun_path[0] = 0;  // an abstract name
  FileDescriptor fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return;
  auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  // Nobody may be listening any more; a daemon does not care.
  (void)sendto(fd.get(), message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
               reinterpret_cast<sockaddr*>(&address), length);
}

}  // namespace pillion
