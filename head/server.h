// The head as a process: one loop over a ZeroMQ socket, the reactor and the store. One turn: drain
// up to a bound → reactor → one synced batch → send (head/effects.h).
#ifndef PILLION_HEAD_SERVER_H_
#define PILLION_HEAD_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "api/wire/keys.h"
#include "base/limits.h"
#include "base/service_notify.h"
#include "base/status.h"
#include "head/crash_points.h"
#include "head/reactor.h"

namespace pillion::head {

struct ServerOptions {
  std::string state_directory;
  std::string runtime_directory;
  std::string checkpoint_directory;  // empty: checkpoints/ in the state directory
  std::string listen_host = "127.0.0.1";
  uint16_t listen_port = 0;  // 0: the kernel chooses
  int metrics_port = -1;     // Prometheus on the same host; -1: none, 0: the kernel chooses
  uint64_t store_reserve_bytes = limits::kStoreReserveBytes;
  ReactorOptions reactor;
  CrashPoints crash_points;
};

// "tcp://127.0.0.1:0" → host and port; kInvalidArgument says what is expected.
Status ParseListenAddress(const std::string& text, std::string* host, uint16_t* port);

// One thread.
class Server {
 public:
  // Binds, takes the directories, recovers, and publishes keys and endpoint in the runtime
  // directory: clients are served as soon as Run is called. Errors name the port, directory, file
  // or version that stands in the way.
  static Result<std::unique_ptr<Server>> Start(ServerOptions options);
  ~Server();

  const wire::Endpoint& endpoint() const;
  int metrics_port() const;  // -1: none

  // Serves until `stop_fd` becomes readable; everything acknowledged is on disk when it returns.
  void Run(int stop_fd, ServiceNotifier* notifier);

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pillion::head

#endif  // PILLION_HEAD_SERVER_H_
