// Peers that break the rules: they get nothing, cost bounded memory, and honest ones are served meanwhile.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <zmq.h>

#include <algorithm>
#include <functional>

#include "base/limits.h"
#include "net_testing.h"

namespace pillion::wire {
namespace {

constexpr uint64_t kMebibyte = 1 << 20;

// A raw DEALER with a valid key, for what PeerSocket would never send.
class RawClient {
 public:
  RawClient(const Endpoint& server, const KeyPair& pair, const std::string& routing_id = "") {
    context_ = zmq_ctx_new();
    socket_ = zmq_socket(context_, ZMQ_DEALER);
    int zero = 0, timeout_ms = 200;
    zmq_setsockopt(socket_, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt(socket_, ZMQ_SNDTIMEO, &timeout_ms, sizeof timeout_ms);
    zmq_setsockopt(socket_, ZMQ_RCVTIMEO, &timeout_ms, sizeof timeout_ms);
    zmq_setsockopt(socket_, ZMQ_CURVE_SERVERKEY, server.public_key.c_str(), server.public_key.size() + 1);
    zmq_setsockopt(socket_, ZMQ_CURVE_PUBLICKEY, pair.public_key.c_str(), pair.public_key.size() + 1);
    zmq_setsockopt(socket_, ZMQ_CURVE_SECRETKEY, pair.secret_key.c_str(), pair.secret_key.size() + 1);
    if (!routing_id.empty()) zmq_setsockopt(socket_, ZMQ_ROUTING_ID, routing_id.data(), routing_id.size());
    zmq_connect(socket_, server.address.c_str());
  }
  ~RawClient() {
    zmq_close(socket_);
    zmq_ctx_term(context_);
  }
  bool Send(const std::string& bytes, bool more = false) {
    return zmq_send(socket_, bytes.data(), bytes.size(), more ? ZMQ_SNDMORE : 0) >= 0;
  }
  bool Receive() {
    char buffer[64];
    return zmq_recv(socket_, buffer, sizeof buffer, 0) >= 0;
  }

 private:
  void* context_;
  void* socket_;
};

// A process that attacks (or behaves) when told where. It is forked before the server has threads, since a child forked later could
// inherit a held lock; it dies with its parent.
class OtherProcess {
 public:
  explicit OtherProcess(const std::function<void(const Endpoint&, const KeyPair&)>& attack) {
    EXPECT_EQ(pipe(to_child_), 0);
    child_ = fork();
    EXPECT_GE(child_, 0);
    if (child_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::string directory(4096, '\0');
    const ssize_t size = read(to_child_[0], directory.data(), directory.size());
    if (size <= 0) _exit(1);
    directory.resize(static_cast<size_t>(size));
    attack(ReadEndpoint(directory, "head").value(), LoadClientKeys(directory).value());
    _exit(0);
  }
  ~OtherProcess() {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    close(to_child_[0]);
    close(to_child_[1]);
  }
  void Start(const TestServer& server) {
    const std::string& directory = server.directory.path();
    EXPECT_EQ(write(to_child_[1], directory.data(), directory.size()), static_cast<ssize_t>(directory.size()));
  }
  bool ended() {
    int status = 0;
    if (child_ > 0 && waitpid(child_, &status, WNOHANG) == child_) {
      child_ = 0;
      exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    return child_ == 0;
  }
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_ = -1;
  int to_child_[2];
  pid_t child_ = -1;
};

// Asks and gets an answer: the server still works for the honest.
void ExpectHonestClientIsServed(TestServer* server) {
  std::vector<PeerEvent> events;
  auto client = server->Connect(Role::kClient);
  ASSERT_TRUE(PumpUntil(server, {{client.get(), &events}}, [&] { return client->connected(); }, 30'000))
      << client->connection_status().ToString();
  server->events.clear();
  ASSERT_TRUE(client->Send("honest").ok());
  ASSERT_TRUE(PumpUntil(server, {{client.get(), &events}}, [&] {
    for (ServerEvent& event : server->events) {
      if (event.payload == "honest") {
        event.payload.clear();
        EXPECT_TRUE(server->socket->Send(event.peer, "served").ok());
      }
    }
    return CountOf(events, PeerEvent::Kind::kMessage) > 0;
  }));
}

TEST(HostilePeers, UnknownKeyIsRefusedAndToldSo) {
  TestServer server;
  std::vector<PeerEvent> events;
  auto stranger = server.ConnectWith(GenerateKeyPair().value());
  ASSERT_TRUE(PumpUntil(&server, {{stranger.get(), &events}},
                        [&] { return CountOf(events, PeerEvent::Kind::kRefused) > 0; }));
  EXPECT_EQ(stranger->Send("x").code(), StatusCode::kPermissionDenied);
  EXPECT_NE(stranger->connection_status().message().find("allowed.keys"), std::string::npos);
  EXPECT_GE(server.socket->counters().refused_keys, 1u);
  EXPECT_TRUE(server.events.empty());
  ExpectHonestClientIsServed(&server);
}

TEST(HostilePeers, ServerWithAnotherKeyIsNotTalkedTo) {
  TestServer server;
  Endpoint wrong = server.socket->endpoint();
  wrong.public_key = GenerateKeyPair().value().public_key;
  ASSERT_TRUE(WriteEndpoint(server.directory.path(), "head", wrong).ok());
  std::vector<PeerEvent> events;
  auto client = server.Connect(Role::kClient);
  ASSERT_TRUE(PumpUntil(&server, {{client.get(), &events}}, [&] {
    return client->connection_status().message().find("handshake") != std::string::npos;
  })) << client->connection_status().ToString();
  EXPECT_FALSE(client->connected());
}

TEST(HostilePeers, WithoutAnAnsweringHandlerNobodyGetsIn) {
  TestServer server;  // never pumped: its authentication handler does not answer
  RawClient client(server.socket->endpoint(), LoadClientKeys(server.directory.path()).value());
  client.Send("let me in");
  EXPECT_FALSE(client.Receive());
  server.socket->Wait(200);
  EXPECT_TRUE(server.events.empty());
  // The same client with the handler answering: the key was good.
  EXPECT_TRUE(PumpUntil(&server, {}, [&] { return server.events.size() == 1; }));
}

TEST(HostilePeers, ChosenRoutingIdIsTurnedAway) {
  TestServer server;
  std::vector<PeerEvent> events;
  auto worker = server.Connect(Role::kWorker);
  ASSERT_TRUE(PumpUntil(&server, {{worker.get(), &events}}, [&] { return worker->connected(); }));
  ASSERT_TRUE(worker->Send("first").ok());
  ASSERT_TRUE(PumpUntil(&server, {{worker.get(), &events}}, [&] { return !server.events.empty(); }));
  const PeerId honest = server.events[0].peer;
  const KeyPair client_keys = LoadClientKeys(server.directory.path()).value();
  RawClient named(server.socket->endpoint(), client_keys, "worker-1");
  named.Send("spoof");
  ASSERT_TRUE(PumpUntil(&server, {}, [&] { return server.socket->counters().bad_frames >= 1; }));
  // The id that the server gave to the worker, claimed by another connection: libzmq refuses a leading zero.
  EXPECT_EQ(server.events.size(), 1u);
  ASSERT_TRUE(server.socket->Send(honest, "to the worker").ok());
  ASSERT_TRUE(PumpUntil(&server, {{worker.get(), &events}},
                        [&] { return CountOf(events, PeerEvent::Kind::kMessage) == 1; }));
  EXPECT_FALSE(named.Receive());
}

TEST(HostilePeers, HugeFrameClosesTheConnectionWithoutItsMemory) {
  OtherProcess attacker([](const Endpoint& server, const KeyPair& pair) {
    RawClient client(server, pair);
    client.Send(std::string(300 * kMebibyte, 'x'));
    client.Receive();
  });
  TestServer server;
  const uint64_t before = ResidentBytes();
  attacker.Start(server);
  uint64_t most = 0;
  ASSERT_TRUE(PumpUntil(&server, {}, [&] {
    most = std::max(most, ResidentBytes());
    return attacker.ended();
  }, 60'000));
  EXPECT_TRUE(server.events.empty());
  EXPECT_LT(most - std::min(most, before), 64 * kMebibyte);
  ExpectHonestClientIsServed(&server);
}

TEST(HostilePeers, EndlessMultipartIsCutOff) {
  OtherProcess attacker([](const Endpoint& server, const KeyPair& pair) {
    RawClient client(server, pair);
    const std::string frame(256 << 10, 'x');
    // libzmq sends nothing before the last part; to the server, which has not seen the last one, 400 MiB look endless.
    for (int i = 0; i < 1600; ++i) client.Send(frame, true);
    client.Send("end");
    client.Receive();
    pause();
  });
  TestServer server(0, 16 * kMebibyte);
  const uint64_t before = ResidentBytes();
  attacker.Start(server);
  uint64_t most = 0;
  ASSERT_TRUE(PumpUntil(&server, {}, [&] {
    most = std::max(most, ResidentBytes());
    return server.socket->counters().closed_connections >= 1;
  }, 60'000));
  // Less than what was sent: the bound and what arrived between two looks at it.
  EXPECT_LT(most - std::min(most, before), 300 * kMebibyte);
  EXPECT_TRUE(server.events.empty());
  ExpectHonestClientIsServed(&server);
}

TEST(HostilePeers, MultipartAndUndecodableMessagesCloseTheConnectionWhenRepeated) {
  TestServer server;
  RawClient client(server.socket->endpoint(), LoadClientKeys(server.directory.path()).value());
  client.Send("one");
  ASSERT_TRUE(PumpUntil(&server, {}, [&] { return server.events.size() == 1; }));
  for (uint32_t i = 0; i + 1 < limits::kHostileMessagesPerPeer; ++i) {
    client.Send("a", true);
    client.Send("b");
  }
  ASSERT_TRUE(PumpUntil(&server, {}, [&] {
    return server.socket->counters().bad_frames == limits::kHostileMessagesPerPeer - 1;
  }));
  EXPECT_EQ(server.events.size(), 1u);  // none of them was handed out, and it is connected still
  server.socket->ReportHostile(server.events[0].peer);
  ASSERT_TRUE(PumpUntil(&server, {}, [&] { return server.events.size() == 2; }));
  EXPECT_EQ(server.events[1].kind, ServerEvent::Kind::kPeerGone);
  EXPECT_EQ(server.socket->counters().undecodable, 1u);
  EXPECT_EQ(server.socket->counters().closed_connections, 1u);
}

TEST(HostilePeers, PeerThatNeverReadsIsNotQueuedForWithoutBound) {
  TestServer server(0, 16 * kMebibyte);
  const KeyPair pair = LoadClientKeys(server.directory.path()).value();
  RawClient client(server.socket->endpoint(), pair);  // its own receive queue takes some, then TCP stops
  client.Send("all please");
  ASSERT_TRUE(PumpUntil(&server, {}, [&] { return server.events.size() == 1; }));
  const std::string reply(kMebibyte, 'x');
  Status status;
  int sent = 0;
  for (; sent < 8192 && status.ok(); ++sent) {
    status = server.socket->Send(server.events[0].peer, reply);
  }
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << sent;
}

// Opens plain TCP connections that say nothing, writes a byte to `ready` when it has them, and stays.
std::function<void(const Endpoint&, const KeyPair&)> SilentConnections(int count, int ready) {
  return [=](const Endpoint& server, const KeyPair&) {
    const uint16_t port = static_cast<uint16_t>(std::stoi(server.address.substr(server.address.rfind(':') + 1)));
    rlimit descriptors{};
    getrlimit(RLIMIT_NOFILE, &descriptors);
    descriptors.rlim_cur = descriptors.rlim_max;
    setrlimit(RLIMIT_NOFILE, &descriptors);
    for (int i = 0; i < count; ++i) {
      int fd = socket(AF_INET, SOCK_STREAM, 0);
      sockaddr_in to{};
      to.sin_family = AF_INET;
      to.sin_port = htons(port);
      to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      timeval timeout{2, 0};
      setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
      (void)!connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to);  // some are turned away at once
    }
    char byte = 'x';
    if (write(ready, &byte, 1) != 1) _exit(1);
    for (;;) pause();
  };
}

// Asks until it is answered, and ends then.
void AskOnce(const Endpoint& server, const KeyPair& pair) {
  PeerOptions options;
  options.find_server = [&]() -> Result<Endpoint> { return server; };
  options.keys = pair;
  PeerSocket client(std::move(options));
  for (;;) {
    client.Wait(1000);
    while (auto event = client.Receive(MonotonicNowNs())) {
      if (event->kind == PeerEvent::Kind::kConnected && !client.Send("honest").ok()) _exit(2);
      if (event->kind == PeerEvent::Kind::kMessage) _exit(event->payload == "served" ? 0 : 3);
    }
  }
}

// `descriptors`: soft limit of this process while it serves. `closed`: connections that the server closed.
void SilentConnectionsLeaveTheHonestServed(int count, rlim_t descriptors, uint64_t memory_bytes, uint64_t* closed) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  OtherProcess attacker(SilentConnections(count, ready[1]));
  // A process too: it must not share the few descriptors of the server.
  OtherProcess honest(AskOnce);
  rlimit old{};
  getrlimit(RLIMIT_NOFILE, &old);
  rlimit limited = old;
  limited.rlim_cur = std::min(old.rlim_max, descriptors);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limited), 0);
  {
    TestServer server;
    const uint64_t before = ResidentBytes();
    attacker.Start(server);
    pollfd readable{ready[0], POLLIN, 0};
    uint64_t most = 0;
    ASSERT_TRUE(PumpUntil(&server, {}, [&] {
      most = std::max(most, ResidentBytes());
      return poll(&readable, 1, 0) == 1;
    }, 100'000));
    honest.Start(server);
    EXPECT_TRUE(PumpUntil(&server, {}, [&] {
      for (ServerEvent& event : server.events) {
        if (event.payload != "honest") continue;
        EXPECT_TRUE(server.socket->Send(event.peer, "served").ok());
      }
      server.events.clear();
      return honest.ended();
    }, 60'000));
    EXPECT_EQ(honest.exit_code(), 0);
    // The silent ones are dropped without anybody's help.
    EXPECT_TRUE(PumpUntil(&server, {}, [&] {
      most = std::max(most, ResidentBytes());
      return server.socket->connections() <= 1;
    }, 30'000)) << server.socket->connections();
    EXPECT_LT(most - std::min(most, before), memory_bytes);
    *closed = server.socket->counters().closed_connections;
  }
  setrlimit(RLIMIT_NOFILE, &old);
  close(ready[0]);
  close(ready[1]);
}

TEST(HostilePeers, TwoThousandSilentConnections) {
  uint64_t closed = 0;
  SilentConnectionsLeaveTheHonestServed(2000, 4096, 128 * kMebibyte, &closed);
  EXPECT_EQ(closed, 0u);  // there was room for them until their handshake was overdue
}

TEST(HostilePeers, SixtyFourDescriptors) {
  uint64_t closed = 0;
  SilentConnectionsLeaveTheHonestServed(200, 64, 64 * kMebibyte, &closed);
  EXPECT_GT(closed, 0u);
}

}  // namespace
}  // namespace pillion::wire
