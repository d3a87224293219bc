#include "api/wire/transport.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/limits.h"
#include "net_testing.h"

namespace pillion::wire {

uint64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * 4096;
}

namespace {

TEST(Transport, MessagesGoBothWaysWithTheRoleOfTheKey) {
  TestServer server;
  std::vector<PeerEvent> client_events, worker_events;
  auto client = server.Connect(Role::kClient);
  auto worker = server.Connect(Role::kWorker);
  ASSERT_TRUE(PumpUntil(&server, {{client.get(), &client_events}, {worker.get(), &worker_events}},
                        [&] { return client->connected() && worker->connected(); }));
  EXPECT_EQ(server.socket->connections(), 2u);
  ASSERT_TRUE(client->Send("I am a worker").ok());  // whatever it says
  ASSERT_TRUE(worker->Send("work").ok());
  ASSERT_TRUE(PumpUntil(&server, {}, [&] { return server.events.size() == 2; }));
  for (const ServerEvent& event : server.events) {
    EXPECT_EQ(event.role, event.payload == "work" ? Role::kWorker : Role::kClient);
    EXPECT_EQ(event.user, "local");
    ASSERT_TRUE(server.socket->Send(event.peer, "reply to " + event.payload).ok());
  }
  ASSERT_TRUE(PumpUntil(&server, {{client.get(), &client_events}, {worker.get(), &worker_events}}, [&] {
    return CountOf(client_events, PeerEvent::Kind::kMessage) == 1 &&
           CountOf(worker_events, PeerEvent::Kind::kMessage) == 1;
  }));
  EXPECT_EQ(worker_events.back().payload, "reply to work");
}

TEST(Transport, LargestMessagePasses) {
  TestServer server;
  std::vector<PeerEvent> events;
  auto client = server.Connect(Role::kClient);
  ASSERT_TRUE(PumpUntil(&server, {{client.get(), &events}}, [&] { return client->connected(); }));
  const std::string largest(limits::kMessageBytes, 'x');
  ASSERT_TRUE(client->Send(largest).ok());
  ASSERT_TRUE(PumpUntil(&server, {{client.get(), &events}}, [&] { return server.events.size() == 1; }));
  EXPECT_TRUE(server.events[0].payload == largest);
  ASSERT_TRUE(server.socket->Send(server.events[0].peer, largest).ok());
  ASSERT_TRUE(PumpUntil(&server, {{client.get(), &events}},
                        [&] { return CountOf(events, PeerEvent::Kind::kMessage) == 1; }));
  EXPECT_TRUE(events.back().payload == largest);
}

TEST(Transport, PeerThatLeavesIsGoneAfterItsLastMessage) {
  TestServer server;
  std::vector<PeerEvent> events;
  auto client = server.Connect(Role::kClient);
  ASSERT_TRUE(PumpUntil(&server, {{client.get(), &events}}, [&] { return client->connected(); }));
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(client->Send(std::to_string(i)).ok());
  ASSERT_TRUE(PumpUntil(&server, {}, [&] { return !server.events.empty(); }));
  const PeerId peer = server.events[0].peer;
  ASSERT_TRUE(PumpUntil(&server, {}, [&] { return server.events.size() == 100; }));
  client.reset();
  ASSERT_TRUE(PumpUntil(&server, {}, [&] { return server.events.size() == 101; }));
  EXPECT_EQ(server.events.back().kind, ServerEvent::Kind::kPeerGone);
  EXPECT_EQ(server.events.back().peer, peer);
  EXPECT_EQ(server.socket->Send(peer, "x").code(), StatusCode::kUnavailable);
}

TEST(Transport, RestartedServerOnAnotherPortIsFoundAndSeesAnotherPeer) {
  TestServer server;
  std::vector<PeerEvent> events;
  auto client = server.Connect(Role::kClient);
  ASSERT_TRUE(PumpUntil(&server, {{client.get(), &events}}, [&] { return client->connected(); }));
  server.socket.reset();
  ASSERT_TRUE(PumpUntil(&server, {{client.get(), &events}}, [&] { return !client->connected(); }));
  EXPECT_EQ(events.back().kind, PeerEvent::Kind::kLost);
  Status lost = client->Send("nobody hears this");
  EXPECT_EQ(lost.code(), StatusCode::kUnavailable);
  EXPECT_NE(lost.message().find("tcp://127.0.0.1:"), std::string::npos) << lost.ToString();
  server.Open();
  ASSERT_TRUE(PumpUntil(&server, {{client.get(), &events}}, [&] { return client->connected(); }));
  ASSERT_TRUE(client->Send("again").ok());
  ASSERT_TRUE(PumpUntil(&server, {{client.get(), &events}}, [&] { return !server.events.empty(); }));
  EXPECT_EQ(server.events[0].payload, "again");
  EXPECT_EQ(CountOf(events, PeerEvent::Kind::kConnected), 2u);
}

TEST(Transport, AbsentServerIsNamed) {
  TemporaryDirectory directory;
  PeerOptions options;
  options.keys = GenerateKeyPair().value();
  options.find_server = EndpointFromFile(directory.path(), "head");
  PeerSocket client(std::move(options));
  EXPECT_FALSE(client.Receive(MonotonicNowNs()).has_value());
  EXPECT_EQ(client.Send("x").code(), StatusCode::kUnavailable);
  EXPECT_NE(client.connection_status().message().find(directory.path()), std::string::npos);
}

TEST(Transport, TakenPortIsNamed) {
  TestServer server;
  const std::string address = server.socket->endpoint().address;
  ServerOptions options;
  options.keys = server.keys;
  options.port = static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  Status status = ServerSocket::Open(std::move(options)).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(status.message().find(address), std::string::npos) << status.ToString();
}

TEST(Transport, FloodOfSmallMessagesArrivesInOrderUnderBackPressure) {
  TestServer server;
  std::vector<PeerEvent> events;
  auto client = server.Connect(Role::kClient);
  ASSERT_TRUE(PumpUntil(&server, {{client.get(), &events}}, [&] { return client->connected(); }));
  constexpr size_t kMessages = 50'000;
  size_t sent = 0;
  ASSERT_TRUE(PumpUntil(&server, {{client.get(), &events}}, [&] {
    while (sent < kMessages) {
      Status status = client->Send(std::to_string(sent));
      if (!status.ok()) {
        EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
        break;
      }
      ++sent;
    }
    return server.events.size() == kMessages;
  }, 60'000));
  for (size_t i = 0; i < kMessages; ++i) ASSERT_EQ(server.events[i].payload, std::to_string(i));
}

TEST(Transport, WaitWakesForAMessageAndForOtherDescriptors) {
  TestServer server;
  std::vector<PeerEvent> events;
  auto client = server.Connect(Role::kClient);
  ASSERT_TRUE(PumpUntil(&server, {{client.get(), &events}}, [&] { return client->connected(); }));
  server.Pump();
  ASSERT_TRUE(client->Send("x").ok());
  for (int64_t end = MonotonicNowNs() + 20 * kNanosPerSecond; server.events.empty() && MonotonicNowNs() < end;) {
    server.socket->Wait(5'000);
    server.Pump();
  }
  ASSERT_EQ(server.events.size(), 1u);
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  ASSERT_EQ(write(pipe_fds[1], "x", 1), 1);
  pollfd other{pipe_fds[0], POLLIN, 0};
  server.socket->Wait(20'000, {&other, 1});
  EXPECT_NE(other.revents & POLLIN, 0);
  close(pipe_fds[0]);
  close(pipe_fds[1]);
}

}  // namespace
}  // namespace pillion::wire
