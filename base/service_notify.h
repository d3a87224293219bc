// Tells the service manager how a daemon is (systemd's Type=notify and WatchdogSec=), by datagram,
// without its library. Everything is a no-op when no service manager listens.
#ifndef PILLION_BASE_SERVICE_NOTIFY_H_
#define PILLION_BASE_SERVICE_NOTIFY_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace pillion {

class ServiceNotifier {
 public:
  // Reads NOTIFY_SOCKET and WATCHDOG_USEC and removes them, so that children do not speak for us.
  ServiceNotifier();

  void Ready() const { Send("READY=1"); }
  void Stopping() const { Send("STOPPING=1"); }
  // One line for `systemctl status`.
  void SetStatus(std::string_view text) const { Send("STATUS=" + std::string(text)); }

  // Call from the main loop: sends a sign of life when half of the watchdog's time has passed.
  void Beat(int64_t now_ns);
  // When Beat wants to be called next; INT64_MAX without a watchdog.
  int64_t next_beat_ns() const { return next_beat_ns_; }

 private:
  void Send(std::string_view message) const;

  std::string socket_;
  int64_t interval_ns_ = 0;  // 0: no watchdog
  int64_t next_beat_ns_ = INT64_MAX;
};

}  // namespace pillion

#endif  // PILLION_BASE_SERVICE_NOTIFY_H_
