#include "base/checksum.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness.h"

namespace pillion::sidetasks {
namespace {

using nlohmann::json;
using testing::RunOptions;
using testing::RunProgram;
using testing::RunReport;
using testing::TemporaryFolder;

std::string Reference(const std::string& bytes) {
  uint64_t sum = 0;
  for (size_t at = 0;; at += 64 << 10) {
    std::string piece = at < bytes.size() ? bytes.substr(at, 64 << 10) : "";
    uint64_t link[2] = {sum, Checksum64(piece)};
    sum = Checksum64(link, sizeof link);
    if (piece.size() < 64 << 10) break;
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016lx", static_cast<unsigned long>(sum));
  return text;
}

TEST(ChecksumTask, IsTheSameHoweverItIsCut) {
  TemporaryFolder folder;
  for (size_t size : {size_t{0}, size_t{1}, size_t{64} << 10, size_t{1'000'000}}) {
    std::string bytes;
    for (size_t i = 0; i < size; ++i) bytes.push_back(static_cast<char>(i * 131 >> 7));
    std::string path = folder.File("data", bytes);
    RunReport whole = RunProgram("checksum", json({{"path", path}}).dump());
    ASSERT_TRUE(whole.status.ok()) << whole.status.ToString();
    EXPECT_EQ(json::parse(whole.result), json({{"bytes", size}, {"checksum", Reference(bytes)}}));
    RunOptions options;
    options.move_every = 1;
    EXPECT_EQ(RunProgram("checksum", json({{"path", path}, {"items_per_step", 1}}).dump(), options)
                  .result,
              whole.result);
  }
}

TEST(ChecksumTask, BadArgumentsAreNamed) {
  EXPECT_NE(RunProgram("checksum", "{}").status.message().find("path"), std::string::npos);
  EXPECT_NE(RunProgram("checksum", R"({"path": "/none/such"})").status.message().find("/none/such"),
            std::string::npos);
  EXPECT_NE(RunProgram("checksum", R"({"path": "/etc/hostname", "pace": 1})")
                .status.message()
                .find("pace"),
            std::string::npos);
  EXPECT_FALSE(RunProgram("checksum", R"({"path": "/"})").status.ok());
}

TEST(Registry, ShippedProgramsAreLinkedIn) {
  for (const char* name : {"checksum", "graph.pagerank", "image.resize_watermark"}) {
    EXPECT_TRUE(ProgramRegistry::Global().Find(name).ok()) << name;
  }
}

}  // namespace
}  // namespace pillion::sidetasks
