// The packets between worker and task host: what is written is read back, and hostile bytes are only ever refused.
#include "worker/host/host_protocol.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>
#include <vector>

#include "base/limits.h"

namespace pillion::worker {
namespace {

store::StoredCheckpoint SomeCheckpoint() {
  store::StoredCheckpoint checkpoint;
  checkpoint.epoch = 3;
  checkpoint.step = 1'000'000'007;
  checkpoint.length_bytes = 5;
  checkpoint.checksum = 0xfedcba9876543210ull;
  checkpoint.bytes = std::string("a\0b\xff\n", 5);
  checkpoint.path = "/checkpoints/a/0/3-7.ckpt";
  return checkpoint;
}

// One of every kind, each field unlike its default.
std::vector<HostMessage> OneOfEach() {
  TaskId task{JobId{0x0123456789abcdefull, 0x1122334455667788ull}, 42};
  InitMessage init;
  init.task = task;
  init.epoch = 9;
  init.program = "pagerank";
  init.library = "/lib/a.so";
  init.arguments = R"({"nodes":3})";
  init.device = "cpu1";
  init.checkpoint_root = "/checkpoints";
  init.max_steps = 77;
  init.memory_limit_bytes = uint64_t{1} << 40;
  return {InputMessage{"input"},
          init,
          LoadMessage{SomeCheckpoint(), {}},
          SaveMessage{true},
          ExitMessage{},
          CallMessage{5, "square", "/lib/b.so", "tuple", std::string("\xff\xff\xff\xff", 4)},
          ReadyMessage{123, true, 456},
          LoadedMessage{8, 9, "passed over"},
          ProgressMessage{1, 2, 3, 4, 5},
          SavedMessage{SomeCheckpoint(), 6},
          DoneMessage{10, 11, "{}"},
          FailedMessage{12, TaskFailed("no such file")},
          LogMessage{"a line"},
          MetricMessage{"loss", -0.5},
          CallDoneMessage{13, ResourceExhausted("too much"), "result"}, CancelCallMessage{14}};
}

TEST(HostProtocol, TheListOfSamplesIsComplete) {
  std::vector<HostMessage> messages = OneOfEach();
  ASSERT_EQ(messages.size(), std::variant_size_v<HostMessage>);
  for (size_t i = 0; i < messages.size(); ++i) EXPECT_EQ(messages[i].index(), i);
}

TEST(HostProtocol, ReadsBackWhatItWrote) {
  for (const HostMessage& message : OneOfEach()) {
    Result<std::string> packet = EncodeHostMessage(message);
    ASSERT_TRUE(packet.ok());
    Result<HostMessage> again = DecodeHostMessage(*packet);
    ASSERT_TRUE(again.ok()) << message.index() << ": " << again.status().ToString();
    EXPECT_EQ(again->index(), message.index());
    EXPECT_EQ(*EncodeHostMessage(*again), *packet) << "kind " << message.index() + 1;
  }
  LoadMessage load = std::get<LoadMessage>(*DecodeHostMessage(*EncodeHostMessage(LoadMessage{{}, SomeCheckpoint()})));
  EXPECT_EQ(load.first.epoch, 0u);
  EXPECT_EQ(load.previous.bytes, SomeCheckpoint().bytes);
  EXPECT_EQ(load.previous.checksum, SomeCheckpoint().checksum);
  FailedMessage failed =
      std::get<FailedMessage>(*DecodeHostMessage(*EncodeHostMessage(FailedMessage{12, TaskFailed("why")})));
  EXPECT_EQ(failed.status.code(), StatusCode::kTaskFailed);
  EXPECT_EQ(failed.status.message(), "why");
}

// Stored nowhere, but two builds may meet while a machine is upgraded: the bytes of a kind stay as they are.
TEST(HostProtocol, BytesAreAsTheGrammarSays) {
  EXPECT_EQ(*EncodeHostMessage(SaveMessage{true}), std::string("\x04\x01", 2));
  EXPECT_EQ(*EncodeHostMessage(InputMessage{"xy"}), std::string("\x01\x02\0\0\0xy", 7));
  EXPECT_EQ(*EncodeHostMessage(MetricMessage{"", 1.0}), std::string("\x0e\0\0\0\0\0\0\0\0\0\0\xf0\x3f", 13));
}

TEST(HostProtocol, EveryTruncationAndEveryExtraByteIsRefused) {
  for (const HostMessage& message : OneOfEach()) {
    std::string packet = *EncodeHostMessage(message);
    for (size_t size = 0; size < packet.size(); ++size) {
      EXPECT_EQ(DecodeHostMessage(packet.substr(0, size)).status().code(), StatusCode::kCorruption)
          << "kind " << message.index() + 1 << " cut to " << size;
    }
    EXPECT_EQ(DecodeHostMessage(packet + '\0').status().code(), StatusCode::kCorruption);
  }
}

TEST(HostProtocol, UnknownKindsFlagsAndCodesAreRefused) {
  EXPECT_EQ(DecodeHostMessage(std::string(1, '\0')).status().code(), StatusCode::kCorruption);
  EXPECT_EQ(DecodeHostMessage("\xff").status().code(), StatusCode::kCorruption);
  std::string after_last(1, static_cast<char>(std::variant_size_v<HostMessage> + 1));
  EXPECT_EQ(DecodeHostMessage(after_last).status().code(), StatusCode::kCorruption);
  EXPECT_EQ(DecodeHostMessage(std::string("\x04\x02", 2)).status().code(), StatusCode::kCorruption);
  std::string failed = *EncodeHostMessage(FailedMessage{0, TaskFailed("")});
  failed[9] = static_cast<char>(kStatusCodeCount);
  EXPECT_EQ(DecodeHostMessage(failed).status().code(), StatusCode::kCorruption);
}

// Whatever is accepted must mean exactly the bytes that it came from.
TEST(HostProtocol, DamagedPacketsAreRefusedOrMeanWhatTheySay) {
  std::mt19937_64 random(20260711);
  std::vector<HostMessage> samples = OneOfEach();
  int accepted = 0, refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string packet = *EncodeHostMessage(samples[random() % samples.size()]);
    for (uint64_t flips = 1 + random() % 4; flips > 0; --flips) {
      packet[random() % packet.size()] = static_cast<char>(random());
    }
    Result<HostMessage> decoded = DecodeHostMessage(packet);
    if (!decoded.ok()) {
      ++refused;
      ASSERT_EQ(decoded.status().code(), StatusCode::kCorruption);
      continue;
    }
    ++accepted;
    if (const auto* metric = std::get_if<MetricMessage>(&*decoded); metric != nullptr && metric->value != metric->value) {
      continue;  // a NaN may change its payload bits when it is copied
    }
    ASSERT_EQ(*EncodeHostMessage(*decoded), packet) << "round " << round;
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(refused, 1000);
}

class HostSocketTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds_), 0); }
  void TearDown() override {
    for (int fd : fds_) {
      if (fd >= 0) close(fd);
    }
  }
  int fds_[2] = {-1, -1};
};

TEST_F(HostSocketTest, CarriesTheLargestMessageAndRefusesALargerOne) {
  HostSocket worker(fds_[0]), host(fds_[1]);
  EXPECT_EQ(host.Receive().status().code(), StatusCode::kNotFound);
  constexpr size_t kHeader = 1 + 4;  // kind and length
  InputMessage largest{std::string(limits::kHostMessageBytes - kHeader, 'x')};
  ASSERT_TRUE(worker.Send(largest, 0).ok());
  Result<HostMessage> received = host.Receive();
  ASSERT_TRUE(received.ok()) << received.status().ToString();
  EXPECT_EQ(std::get<InputMessage>(*received).bytes, largest.bytes);
  largest.bytes += 'x';
  EXPECT_EQ(worker.Send(largest, 0).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(host.Receive().status().code(), StatusCode::kNotFound);
}

TEST_F(HostSocketTest, SaysWhenTheOtherEndDoesNotReadAndWhenItIsGone) {
  HostSocket worker(fds_[0]), host(fds_[1]);
  Status status;
  int sent = 0;
  while ((status = worker.Send(LogMessage{"line"}, 0)).ok()) ASSERT_LT(++sent, 100'000);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  for (int i = 0; i < sent; ++i) ASSERT_TRUE(host.Receive().ok());
  EXPECT_TRUE(worker.Send(ExitMessage{}, 0).ok());
  close(std::exchange(fds_[0], -1));
  EXPECT_TRUE(host.Receive().ok());  // what was sent before the end still arrives
  EXPECT_EQ(host.Receive().status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(host.Send(ExitMessage{}, 0).code(), StatusCode::kUnavailable);
}

TEST_F(HostSocketTest, APacketThatIsNoMessageIsCorruption) {
  HostSocket host(fds_[1]);
  ASSERT_EQ(send(fds_[0], "\xee\x01", 2, 0), 2);
  EXPECT_EQ(host.Receive().status().code(), StatusCode::kCorruption);
  std::string oversized(limits::kHostMessageBytes + 100, '\x01');
  ASSERT_GT(send(fds_[0], oversized.data(), oversized.size(), 0), 0);
  EXPECT_EQ(host.Receive().status().code(), StatusCode::kCorruption);
}

}  // namespace
}  // namespace pillion::worker
