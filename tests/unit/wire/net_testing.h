// Shared by the tests of the wire: a private directory, and loops that wait for a condition with a deadline.
#ifndef PILLION_TESTS_UNIT_WIRE_NET_TESTING_H_
#define PILLION_TESTS_UNIT_WIRE_NET_TESTING_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/wire/transport.h"
#include "base/clock.h"

namespace pillion::wire {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    char name[] = "/tmp/pillion-wire-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A server with the keys of a fresh runtime directory, and what it received.
struct TestServer {
  TemporaryDirectory directory;
  ServerKeys keys;
  std::unique_ptr<ServerSocket> socket;
  std::vector<ServerEvent> events;

  explicit TestServer(uint32_t connection_limit = 0, uint64_t unread_limit_bytes = 0) {
    keys = LoadOrCreateHeadKeys(directory.path()).value();
    Open(connection_limit, unread_limit_bytes);
  }
  void Open(uint32_t connection_limit = 0, uint64_t unread_limit_bytes = 0) {
    ServerOptions options;
    options.keys = keys;
    options.connection_limit = connection_limit;
    options.unread_limit_bytes = unread_limit_bytes;
    socket = ServerSocket::Open(std::move(options)).value();
    EXPECT_TRUE(WriteEndpoint(directory.path(), "head", socket->endpoint()).ok());
  }
  std::unique_ptr<PeerSocket> Connect(Role role) {
    return ConnectWith(LoadKeys(directory.path(), role).value());
  }
  std::unique_ptr<PeerSocket> ConnectWith(KeyPair pair) {
    PeerOptions options;
    options.find_server = EndpointFromFile(directory.path(), "head");
    options.keys = std::move(pair);
    options.retry_first_ms = 5;
    options.retry_most_ms = 50;
    return std::make_unique<PeerSocket>(std::move(options));
  }
  void Pump() {
    while (auto event = socket->Receive()) events.push_back(std::move(*event));
  }
};

// Pumps the server and peers until `condition` holds; false after the deadline.
template <typename Condition>
bool PumpUntil(TestServer* server, std::vector<std::pair<PeerSocket*, std::vector<PeerEvent>*>> peers,
               Condition condition, int64_t deadline_ms = 20'000) {
  const int64_t end_ns = MonotonicNowNs() + deadline_ms * kNanosPerMilli;
  while (!condition()) {
    if (MonotonicNowNs() > end_ns) return false;
    std::vector<pollfd> fds;
    if (server != nullptr && server->socket != nullptr) {
      server->Pump();
      fds.push_back({server->socket->poll_fd(), POLLIN, 0});
    }
    for (auto& [peer, events] : peers) {
      while (auto event = peer->Receive(MonotonicNowNs())) events->push_back(std::move(*event));
      fds.push_back({peer->poll_fd(), POLLIN, 0});
    }
    if (condition()) return true;
    poll(fds.data(), fds.size(), 20);
  }
  return true;
}

inline size_t CountOf(const std::vector<PeerEvent>& events, PeerEvent::Kind kind) {
  size_t count = 0;
  for (const PeerEvent& event : events) count += event.kind == kind ? 1 : 0;
  return count;
}
inline size_t CountOf(const std::vector<ServerEvent>& events, ServerEvent::Kind kind) {
  size_t count = 0;
  for (const ServerEvent& event : events) count += event.kind == kind ? 1 : 0;
  return count;
}

// Resident memory of this process.
uint64_t ResidentBytes();

}  // namespace pillion::wire

#endif  // PILLION_TESTS_UNIT_WIRE_NET_TESTING_H_
