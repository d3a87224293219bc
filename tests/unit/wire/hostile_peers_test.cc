// Peers that break the rules: they get nothing, cost bounded memory, and honest ones are served meanwhile.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <zmq.h>

#include <atomic>
#include <thread>

#include "base/limits.h"
#include "net_testing.h"

namespace pillion::wire {
namespace {

constexpr uint64_t kMebibyte = 1 << 20;

// A raw DEALER with a valid key, for what PeerSocket would never send.
class RawClient {
 public:
  RawClient(const TestServer& server, const KeyPair& pair, const std::string& routing_id = "") {
    context_ = zmq_ctx_new();
    socket_ = zmq_socket(context_, ZMQ_DEALER);
    int zero = 0, timeout_ms = 200;
    zmq_setsockopt(socket_, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt(socket_, ZMQ_SNDTIMEO, &timeout_ms, sizeof timeout_ms);
    zmq_setsockopt(socket_, ZMQ_RCVTIMEO, &timeout_ms, sizeof timeout_ms);
    const std::string server_key = server.socket->endpoint().public_key;
    zmq_setsockopt(socket_, ZMQ_CURVE_SERVERKEY, server_key.c_str(), server_key.size() + 1);
    zmq_setsockopt(socket_, ZMQ_CURVE_PUBLICKEY, pair.public_key.c_str(), pair.public_key.size() + 1);
    zmq_setsockopt(socket_, ZMQ_CURVE_SECRETKEY, pair.secret_key.c_str(), pair.secret_key.size() + 1);
    if (!routing_id.empty()) zmq_setsockopt(socket_, ZMQ_ROUTING_ID, routing_id.data(), routing_id.size());
    zmq_connect(socket_, server.socket->endpoint().address.c_str());
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
  RawClient client(server, LoadClientKeys(server.directory.path()).value());
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
  RawClient named(server, client_keys, "worker-1");
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
  TestServer server;
  const uint64_t before = ResidentBytes();
  // The sender is another process, so that its own copy does not count.
  const KeyPair pair = LoadClientKeys(server.directory.path()).value();
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    RawClient client(server, pair);
    client.Send(std::string(300 * kMebibyte, 'x'));
    client.Receive();
    _exit(0);
  }
  uint64_t most = 0;
  int status = 0;
  ASSERT_TRUE(PumpUntil(&server, {}, [&] {
    most = std::max(most, ResidentBytes());
    return waitpid(child, &status, WNOHANG) == child;
  }, 60'000));
  EXPECT_TRUE(server.events.empty());
  EXPECT_LT(most - std::min(most, before), 64 * kMebibyte);
  ExpectHonestClientIsServed(&server);
}

TEST(HostilePeers, EndlessMultipartIsCutOff) {
  TestServer server(0, 16 * kMebibyte);
  const uint64_t before = ResidentBytes();
  const KeyPair pair = LoadClientKeys(server.directory.path()).value();
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    RawClient client(server, pair);
    const std::string frame(256 << 10, 'x');
    // libzmq sends nothing before the last part; to the server, which has not seen the last one, 400 MiB look endless.
    for (int i = 0; i < 1600; ++i) client.Send(frame, true);
    client.Send("end");
    client.Receive();
    pause();
  }
  uint64_t most = 0;
  int status = 0;
  const bool ended = PumpUntil(&server, {}, [&] {
    most = std::max(most, ResidentBytes());
    return server.socket->counters().closed_connections >= 1;
  }, 60'000);
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  ASSERT_TRUE(ended);
  EXPECT_LT(most - std::min(most, before), 512 * kMebibyte);
  EXPECT_TRUE(server.events.empty());
  ExpectHonestClientIsServed(&server);
}

TEST(HostilePeers, MultipartAndUndecodableMessagesCloseTheConnectionWhenRepeated) {
  TestServer server;
  RawClient client(server, LoadClientKeys(server.directory.path()).value());
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
  RawClient client(server, pair);  // its own receive queue takes some, then TCP stops
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

// Opens plain TCP connections that say nothing, in a process of its own; tells through `ready` when it has them.
pid_t StartSilentConnections(const std::string& address, int count, int ready) {
  const uint16_t port = static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  pid_t child = fork();
  if (child != 0) return child;
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
    if (fd < 0 || connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) continue;
  }
  char byte = 'x';
  if (write(ready, &byte, 1) != 1) _exit(1);
  for (;;) pause();
}

void SilentConnectionsLeaveTheHonestServed(TestServer* server, int count, uint64_t memory_bytes) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const uint64_t before = ResidentBytes();
  pid_t child = StartSilentConnections(server->socket->endpoint().address, count, ready[1]);
  ASSERT_GE(child, 0);
  pollfd readable{ready[0], POLLIN, 0};
  uint64_t most = 0;
  ASSERT_TRUE(PumpUntil(server, {}, [&] {
    most = std::max(most, ResidentBytes());
    return poll(&readable, 1, 0) == 1;
  }, 100'000));
  ExpectHonestClientIsServed(server);
  // The silent ones are dropped without anybody's help.
  EXPECT_TRUE(PumpUntil(server, {}, [&] {
    most = std::max(most, ResidentBytes());
    return server->socket->connections() <= 1;
  }, 30'000)) << server->socket->connections();
  EXPECT_LT(most - std::min(most, before), memory_bytes);
  kill(child, SIGKILL);
  int status;
  waitpid(child, &status, 0);
  close(ready[0]);
  close(ready[1]);
}

TEST(HostilePeers, TwoThousandSilentConnections) {
  rlimit old{};
  getrlimit(RLIMIT_NOFILE, &old);
  rlimit more = old;
  more.rlim_cur = std::min<rlim_t>(old.rlim_max, 4096);
  setrlimit(RLIMIT_NOFILE, &more);
  {
    TestServer server;
    SilentConnectionsLeaveTheHonestServed(&server, 2000, 128 * kMebibyte);
  }
  setrlimit(RLIMIT_NOFILE, &old);
}

// Hangs under ctest (ARCHITECTURE.md, "Known faults"): to be enabled again with its fix.
TEST(HostilePeers, DISABLED_SixtyFourDescriptors) {
  rlimit old{};
  getrlimit(RLIMIT_NOFILE, &old);
  rlimit few = old;
  few.rlim_cur = 64;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  {
    TestServer server;
    SilentConnectionsLeaveTheHonestServed(&server, 200, 64 * kMebibyte);
    EXPECT_GT(server.socket->counters().closed_connections, 0u);
  }
  setrlimit(RLIMIT_NOFILE, &old);
}

}  // namespace
}  // namespace pillion::wire
