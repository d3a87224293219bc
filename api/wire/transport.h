// Encrypted, authenticated message sockets: ServerSocket (the head; a worker's announcement socket) and PeerSocket
// (everybody who connects to one). One message is one frame of at most limits::kMessageBytes. ZeroMQ with CURVE
// below; nothing of it shows here.
//
// Both are for one thread each. Both are polled through one descriptor, poll_fd(), which stays the same for the
// socket's life and is readable (level semantics) while Receive may have something: to return or to do, such as an
// attempt to connect. Wait() is that poll for those who need no poll loop of their own.
#ifndef PILLION_API_WIRE_TRANSPORT_H_
#define PILLION_API_WIRE_TRANSPORT_H_

#include <poll.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "api/wire/keys.h"
#include "api/wire/messages.h"
#include "base/status.h"

namespace pillion::wire {

// One connection to a ServerSocket. A peer that reconnects is another peer: it has to say hello again. Chosen by
// the server, so nobody can claim another's; never 0, never reused.
struct PeerId {
  uint64_t value = 0;
  friend bool operator==(PeerId a, PeerId b) { return a.value == b.value; }
  friend bool operator!=(PeerId a, PeerId b) { return a.value != b.value; }
  friend bool operator<(PeerId a, PeerId b) { return a.value < b.value; }
};

struct ServerEvent {
  enum class Kind { kMessage, kPeerGone } kind = Kind::kMessage;
  PeerId peer;
  Role role = Role::kClient;  // what its key is allowed to be: authenticated, unlike anything in the payload
  std::string_view user;      // the key's name in the allow-list; valid until the next call of Receive
  std::string payload;        // kMessage: the frame, at an address aligned for Decode
};

// What was turned away, counted since the start.
struct ServerCounters {
  uint64_t refused_keys = 0;         // not in the allow-list
  uint64_t bad_frames = 0;           // multipart, or a routing id chosen by the peer
  uint64_t undecodable = 0;          // ReportHostile
  uint64_t closed_connections = 0;   // by us: flooding, repeated hostility, over the connection limit
  uint64_t total() const { return refused_keys + bad_frames + undecodable + closed_connections; }
};

struct ServerOptions {
  ServerKeys keys;
  std::string bind_host = "127.0.0.1";  // other hosts are reachable only when the operator says so
  uint16_t port = 0;                    // 0: the kernel chooses
  // 0: limits::kServerConnections, or what the descriptor limit leaves after a reserve, if less. Connections beyond
  // it are closed at once.
  uint32_t connection_limit = 0;
  // Unread bytes (incomplete messages included) at which a peer is closed; it shrinks with many connections.
  uint64_t unread_limit_bytes = 0;      // 0: limits::kUnreadBytesPerPeer
};

class ServerSocket {
 public:
  // Binds. kUnavailable, naming the address, when the port is in use.
  static Result<std::unique_ptr<ServerSocket>> Open(ServerOptions options);
  ~ServerSocket();

  // Address with the port that was bound, and this server's public key: what WriteEndpoint publishes.
  const Endpoint& endpoint() const;

  // The next message or notice, or nothing for now. Never blocks. Also answers authentication requests, so a
  // server that does not call it lets nobody in. kPeerGone comes after the last message of that peer and only for
  // peers that sent one. A peer that vanished without closing is noticed by heartbeats within 8 s.
  std::optional<ServerEvent> Receive();

  // Queues a message. Never blocks. kUnavailable: the peer is gone. kResourceExhausted: its queue is full (it does
  // not read); nothing was queued. A queued message is lost when the connection breaks.
  Status Send(PeerId peer, std::string_view payload);

  // The caller could not decode what `peer` sent, or it broke the conversation. Counted; after
  // limits::kHostileMessagesPerPeer of them the connection is closed (kPeerGone follows).
  void ReportHostile(PeerId peer);
  // Closes a connection; kPeerGone follows. Messages of it that are still queued are dropped.
  void Disconnect(PeerId peer);

  const ServerCounters& counters() const;
  uint32_t connections() const;  // open ones, authenticated or not

  int poll_fd() const;
  // Sleeps until something may be received, `timeout_ms` passed (< 0: forever), or one of `others` is ready
  // (their revents are filled in). True when Receive is worth calling.
  bool Wait(int64_t timeout_ms, std::span<pollfd> others = {});

 private:
  class Impl;
  explicit ServerSocket(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct PeerEvent {
  enum class Kind {
    kConnected,  // encrypted and accepted: say hello. Comes again after every kLost
    kLost,       // what was sent and not answered may or may not have arrived. Reconnecting goes on by itself
    kRefused,    // the server does not know our key (or has another one); tried again like a lost connection
    kMessage,
  } kind = Kind::kMessage;
  std::string payload;  // kMessage: the frame; kRefused: why, for people
};

struct PeerOptions {
  // Asked before every attempt, so that a head that restarted on another port is found.
  std::function<Result<Endpoint>()> find_server;
  KeyPair keys;
  // Pause between attempts: doubles from the first to the second, each ± 50 % at random.
  int64_t retry_first_ms = 50;
  int64_t retry_most_ms = 2'000;  // workers: 1'000 and 30'000
};
// The usual find_server: reads <runtime_directory>/<name>.endpoint.
std::function<Result<Endpoint>()> EndpointFromFile(std::string runtime_directory, std::string name);

class PeerSocket {
 public:
  // Starts connecting; never fails for an absent server.
  explicit PeerSocket(PeerOptions options);
  ~PeerSocket();

  // The next event, or nothing for now. Never blocks. Drives reconnecting: call it whenever poll_fd() is readable.
  // `now_ns` is monotonic.
  std::optional<PeerEvent> Receive(int64_t now_ns);

  // Queues a message on the present connection. Never blocks. kUnavailable, naming the endpoint, while there is
  // none; kResourceExhausted when the queue is full: nothing was queued in either case.
  Status Send(std::string_view payload);

  bool connected() const;
  // Why there is no connection: names the endpoint (or its missing file) and what happened last. Ok when connected.
  Status connection_status() const;
  // When Receive wants to be called although nothing arrived (poll_fd() is readable then); INT64_MAX: no need.
  int64_t next_attempt_ns() const;

  int poll_fd() const;
  // As ServerSocket::Wait.
  bool Wait(int64_t timeout_ms, std::span<pollfd> others = {});

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pillion::wire

template <>
struct std::hash<pillion::wire::PeerId> {
  size_t operator()(pillion::wire::PeerId id) const noexcept { return static_cast<size_t>(id.value); }
};

#endif  // PILLION_API_WIRE_TRANSPORT_H_
