#include "api/wire/codec.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/limits.h"
#include "random_message.h"

namespace pillion::wire {
namespace {

constexpr size_t kKinds = std::variant_size_v<Body>;

uint64_t Seed() {
  static const uint64_t seed = std::random_device()();
  return seed;
}

TEST(Codec, EveryMessageRoundTripsAtEveryAlignment) {
  SCOPED_TRACE("seed " + std::to_string(Seed()));
  RandomMessages random(Seed());
  for (size_t kind = 0; kind < kKinds; ++kind) {
    for (int repeat = 0; repeat < 200; ++repeat) {
      const Message message = random.Make(kind);
      std::string bytes = Encode(message).value();
      auto decoded = Decode(bytes);
      ASSERT_TRUE(decoded.ok()) << kind << ": " << decoded.status().ToString();
      ASSERT_TRUE(Same(message, *decoded)) << "alternative " << kind;
      const size_t shift = 1 + repeat % 7;
      bytes.insert(0, shift, 'x');
      decoded = Decode(std::string_view(bytes).substr(shift));
      ASSERT_TRUE(decoded.ok() && Same(message, *decoded)) << "alternative " << kind << " shifted by " << shift;
    }
  }
}

TEST(Codec, DefaultsAreWhatTheStructsSay) {
  RandomMessages random(1);
  for (size_t kind = 0; kind < kKinds; ++kind) {
    Message message = random.Make(kind);
    std::visit([](auto& body) { body = {}; }, message.body);
    EXPECT_TRUE(Same(message, Decode(Encode(message).value()).value())) << kind;
  }
}

TEST(Codec, LimitsAreNamedOnBothSides) {
  Message message;
  message.body = GetTask{};
  message.body = DrainWorker{std::string(limits::kTextBytes + 1, 'w'), true};
  Status status = Encode(message).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("DrainWorker.worker"), std::string::npos) << status.ToString();
  EXPECT_NE(status.message().find("limits::kTextBytes = 4096"), std::string::npos) << status.ToString();

  SubmitChunk chunk;
  chunk.tasks.resize(limits::kTasksPerChunk + 1);
  message.body = chunk;
  EXPECT_NE(Encode(message).status().message().find("limits::kTasksPerChunk"), std::string::npos);

  chunk.tasks.resize(20);
  for (TaskSpec& task : chunk.tasks) task.arguments.assign(limits::kArgumentBytes, 'a');
  message.body = chunk;
  EXPECT_NE(Encode(message).status().message().find("limits::kMessageBytes"), std::string::npos);

  EXPECT_NE(Decode(std::string(limits::kMessageBytes + 8, '\0')).status().message().find("limits::kMessageBytes"),
            std::string::npos);
}

TEST(Codec, LongErrorTextsAreCutNotRefused) {
  Message message;
  message.body = ErrorReply{Internal(std::string(100'000, 'e'))};
  Message decoded = Decode(Encode(message).value()).value();
  EXPECT_EQ(std::get<ErrorReply>(decoded.body).status.message().size(), limits::kTextBytes);
}

TEST(Codec, OtherSchemaVersionIsUnsupportedAndBothAreNamed) {
  Message message;
  message.body = GetStatus{};
  std::string bytes = Encode(message).value();
  // The version is the first 16 bits of the root struct, which follows the segment table and the root pointer.
  const uint16_t other = 7;
  std::memcpy(bytes.data() + 16, &other, sizeof other);
  Status status = Decode(bytes).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_NE(status.message().find("version 7"), std::string::npos) << status.ToString();
  EXPECT_NE(status.message().find("version 1"), std::string::npos) << status.ToString();
}

TEST(Codec, DamagedBytesGetAnErrorAndNeverMore) {
  SCOPED_TRACE("seed " + std::to_string(Seed()));
  RandomMessages random(Seed() + 1);
  int accepted = 0, refused = 0;
  for (int round = 0; round < 40'000; ++round) {
    std::string bytes = Encode(random.Make(round % kKinds)).value();
    for (uint64_t change = random.Number() % 4 + 1; change > 0 && !bytes.empty(); --change) {
      const size_t at = random.Number() % bytes.size();
      switch (random.Number() % 5) {
        case 0: bytes[at] = static_cast<char>(random.Number()); break;
        case 1: bytes[at] ^= static_cast<char>(1 << random.Number() % 8); break;
        case 2: bytes.resize(at - at % 8); break;
        case 3: {  // a pointer elsewhere
          const uint64_t word = random.Number() & 0x0000ffff0000ffffull;
          if (at + 8 <= bytes.size()) std::memcpy(bytes.data() + at - at % 8, &word, sizeof word);
          break;
        }
        default: bytes.append(8, static_cast<char>(random.Number())); break;
      }
    }
    auto decoded = Decode(bytes);
    if (decoded.ok()) {
      ++accepted;
      continue;
    }
    ++refused;
    const StatusCode code = decoded.status().code();
    EXPECT_TRUE(code == StatusCode::kCorruption || code == StatusCode::kResourceExhausted ||
                code == StatusCode::kUnsupported)
        << decoded.status().ToString();
  }
  EXPECT_GT(accepted, 0);
  EXPECT_GT(refused, 1000);
}

TEST(Codec, TextsThatAreNoMessageAreCorrupt) {
  EXPECT_EQ(Decode("").status().code(), StatusCode::kCorruption);
  EXPECT_EQ(Decode("GET / HTTP/1.1\r\n\r\n").status().code(), StatusCode::kCorruption);
  EXPECT_FALSE(Decode(std::string(64, '\xff')).ok());
  EXPECT_FALSE(Decode(std::string(4096, '\0')).ok());
}

}  // namespace
}  // namespace pillion::wire
