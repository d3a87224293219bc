#include <gtest/gtest.h>

#include <cstring>

#include "api/pillion/side_task.h"

namespace pillion {
namespace {

class Nothing : public SideTask {
 public:
  Status Init(InitContext&) override { return Status::Ok(); }
  Status Load(Device&, CheckpointReader*) override { return Status::Ok(); }
  Result<StepOutcome> Step(StepContext&) override { return StepOutcome{true, 0}; }
  Status Save(CheckpointWriter&) override { return Status::Ok(); }
  Result<std::string> Finish() override { return std::string("{}"); }
  void Unload() override {}
};
PILLION_SIDE_TASK("registry_nothing", Nothing, Devices::kCpu);

TEST(Registry, MacroRegistersAndFindNamesTheNearest) {
  Result<const Program*> program = ProgramRegistry::Global().Find("registry_nothing");
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  EXPECT_NE((*program)->make_task(), nullptr);
  Status status = ProgramRegistry::Global().Find("registry_nothin").status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_NE(status.message().find("'registry_nothing'"), std::string::npos);
}

TEST(Registry, TwoOfOneNameAreReported) {
  auto make = [] { return std::make_unique<Nothing>(); };
  ProgramRegistry::Global().Register(Program{"registry_twice", Devices::kCpu, "", make, nullptr});
  EXPECT_TRUE(ProgramRegistry::Global().Find("registry_twice").ok());
  ProgramRegistry::Global().Register(Program{"registry_twice", Devices::kCpu, "", make, nullptr});
  EXPECT_EQ(ProgramRegistry::Global().Find("registry_twice").status().code(), StatusCode::kAlreadyExists);
}

class BytesReader : public CheckpointReader {
 public:
  explicit BytesReader(std::string bytes) : bytes_(std::move(bytes)) {}
  Status Read(void* to, size_t bytes) override {
    if (bytes > remaining()) return Corruption("short");
    std::memcpy(to, bytes_.data() + at_, bytes);
    at_ += bytes;
    return Status::Ok();
  }
  size_t remaining() const override { return bytes_.size() - at_; }

 private:
  std::string bytes_;
  size_t at_ = 0;
};

TEST(CheckpointReader, TextLengthIsCheckedBeforeMemoryIsTaken) {
  uint64_t huge = uint64_t{1} << 60;
  BytesReader reader(std::string(reinterpret_cast<char*>(&huge), sizeof huge));
  std::string text;
  EXPECT_EQ(reader.ReadText(&text).code(), StatusCode::kCorruption);
}

}  // namespace
}  // namespace pillion
