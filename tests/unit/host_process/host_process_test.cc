// The task host as a real process: life cycle, checkpoints, calls, and what users' code does wrong.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>
#include <filesystem>

#include "tests/unit/board/temporary_board_directory.h"
#include "tests/unit/host_process/host_under_test.h"
#include "pillion/serialize.h"

namespace pillion {
namespace {

using namespace worker;  // the messages

std::string Library() { return std::string(PILLION_LIB_DIR) + "/libpillion_test_programs.so"; }

class HostProcess : public testing::Test {
 protected:
  void SetUp() override {
    auto board = board::Board::Open(kBoard, board::Board::Access::kReadWrite);
    ASSERT_TRUE(board.ok()) << board.status().ToString();
    auto engine = turns::TurnEngine::Start({}, *std::move(board), [](turns::ResidentId, int64_t) {});
    ASSERT_TRUE(engine.ok()) << engine.status().ToString();
    engine_ = *std::move(engine);
    spec_.task = TaskId{JobId::Random(), 3};
    spec_.epoch = 1;
    spec_.program = "test.counter";
    spec_.library = Library();
    spec_.device = "cpu0";
    spec_.checkpoint_root = directory_.path() + "/checkpoints";
  }
  std::unique_ptr<HostUnderTest> Start(const std::string& mode = "steps") {
    return std::make_unique<HostUnderTest>(engine_.get(), kBoard, mode);
  }
  // Init and Load; then it takes turns.
  std::unique_ptr<HostUnderTest> Loaded(const LoadMessage& load, LoadedMessage* loaded = nullptr) {
    auto host = Start();
    host->Post(spec_);
    host->Await<ReadyMessage>();
    host->AddToEngine();
    host->Post(load);
    LoadedMessage answer = host->Await<LoadedMessage>();
    if (loaded != nullptr) *loaded = answer;
    return host;
  }
  store::StoredCheckpoint SaveSome(std::unique_ptr<HostUnderTest> host) {
    host->Await<ProgressMessage>();
    host->Post(SaveMessage{true});
    store::StoredCheckpoint saved = host->Await<SavedMessage>().checkpoint;
    EXPECT_EQ(saved.epoch, spec_.epoch);
    EXPECT_GT(saved.step, 0u);
    host->Post(ExitMessage{});
    EXPECT_EQ(host->Join(), 0);
    return saved;
  }
  Status AwaitFailure(const std::string& arguments) {
    spec_.arguments = arguments;
    auto host = Loaded({});
    Status status = host->Await<FailedMessage>().status;
    host->Post(ExitMessage{});
    EXPECT_EQ(host->Join(), 0);
    return status;
  }

  static constexpr char kBoard[] = "cpu-0";
  TemporaryBoardDirectory directory_;
  std::unique_ptr<turns::TurnEngine> engine_;
  InitMessage spec_;
};

constexpr char kEndless[] = R"({"count":1000000000})";

TEST_F(HostProcess, RunsATaskFromAUsersLibraryToItsResult) {
  auto host = Start();
  host->Post(spec_);
  EXPECT_EQ(host->Await<ReadyMessage>().items_total, 100u);
  ASSERT_EQ(host->passed.size(), 1u);
  EXPECT_EQ(std::get<LogMessage>(host->passed[0]).line, "counting to 100");
  host->AddToEngine();
  host->Post(LoadMessage{});
  EXPECT_EQ(host->Await<LoadedMessage>().step, 0u);
  DoneMessage done = host->Await<DoneMessage>();
  EXPECT_EQ(done.result, R"({"count":100})");
  EXPECT_EQ(done.step, 100u);
  EXPECT_EQ(done.items_done, 100u);
  // However often a step reports a metric, the last value arrives, and before the result.
  double at = 0;
  for (const HostMessage& message : host->passed) {
    if (auto* metric = std::get_if<MetricMessage>(&message)) at = metric->value;
  }
  EXPECT_EQ(at, 100.0);
  host->Post(ExitMessage{});
  EXPECT_EQ(host->Join(), 0);
}

TEST_F(HostProcess, EndsAtMaxSteps) {
  spec_.max_steps = 7;
  auto host = Loaded({});
  EXPECT_EQ(host->Await<DoneMessage>().result, R"({"count":7})");
}

TEST_F(HostProcess, GoesOnFromAnInlineCheckpointAndFromAFile) {
  for (const char* padding : {"0", "200000"}) {
    spec_.arguments = std::string(R"({"count":1000000000,"padding":)") + padding + "}";
    store::StoredCheckpoint saved = SaveSome(Loaded({}));
    EXPECT_EQ(saved.path.empty(), padding[1] == 0);
    LoadedMessage loaded;
    spec_.max_steps = saved.step + 5;
    auto host = Loaded({saved, {}}, &loaded);
    EXPECT_EQ(loaded.step, saved.step);
    EXPECT_EQ(loaded.items_done, saved.step);
    EXPECT_EQ(loaded.detail, "");
    EXPECT_EQ(host->Await<DoneMessage>().result, R"({"count":)" + std::to_string(saved.step + 5) + "}");
    spec_.max_steps = 0;
    ++spec_.epoch;
  }
}

TEST_F(HostProcess, HeldTasksTakeNoFurtherStep) {
  spec_.arguments = kEndless;
  auto host = Loaded({});
  host->Await<ProgressMessage>();
  host->Post(SaveMessage{true});
  Step held = host->Await<SavedMessage>().checkpoint.step;
  host->Post(SaveMessage{true});
  EXPECT_EQ(host->Await<SavedMessage>().checkpoint.step, held);
}

TEST_F(HostProcess, SaveWithoutHoldLetsItGoOn) {
  spec_.arguments = kEndless;
  auto host = Loaded({});
  host->Post(SaveMessage{false});
  Step first = host->Await<SavedMessage>().checkpoint.step;
  ProgressMessage progress;
  do progress = host->Await<ProgressMessage>();
  while (progress.step <= first && !HasFailure());
  host->Post(SaveMessage{false});
  EXPECT_GE(host->Await<SavedMessage>().checkpoint.step, progress.step);
}

TEST_F(HostProcess, ADamagedCheckpointIsPassedOverForTheOneBeforeAndThenForNone) {
  spec_.arguments = R"({"count":1000000000,"padding":200000})";
  store::StoredCheckpoint older = SaveSome(Loaded({}));
  ++spec_.epoch;
  store::StoredCheckpoint newer = SaveSome(Loaded({older, {}}));
  ASSERT_EQ(truncate((spec_.checkpoint_root + "/" + newer.path).c_str(), 1000), 0);
  LoadedMessage loaded;
  Loaded({newer, older}, &loaded);
  EXPECT_EQ(loaded.step, older.step);
  EXPECT_NE(loaded.detail.find(newer.path), std::string::npos) << loaded.detail;
  ASSERT_TRUE(std::filesystem::remove(spec_.checkpoint_root + "/" + older.path));
  Loaded({newer, older}, &loaded);
  EXPECT_EQ(loaded.step, 0u);
  EXPECT_NE(loaded.detail.find(older.path), std::string::npos) << loaded.detail;
}

// The file is whole and the task finds it wrong: the next attempt is made by a fresh object.
TEST_F(HostProcess, ACheckpointThatTheTaskRefusesIsPassedOverByAFreshObject) {
  spec_.arguments = R"({"count":1000000000,"padding":8})";
  store::StoredCheckpoint saved = SaveSome(Loaded({}));
  spec_.arguments = R"({"count":1000000000,"padding":9})";
  LoadedMessage loaded;
  Loaded({saved, {}}, &loaded);
  EXPECT_EQ(loaded.step, 0u);
  EXPECT_NE(loaded.detail.find("wrong padding"), std::string::npos) << loaded.detail;
}

TEST_F(HostProcess, ProgressIsNotThrownAwayBecauseTheTaskCannotLoad) {
  spec_.arguments = kEndless;
  store::StoredCheckpoint saved = SaveSome(Loaded({}));
  spec_.arguments = R"({"count":1000000000,"refuse_load":true})";
  auto host = Start();
  host->Post(spec_);
  host->Await<ReadyMessage>();
  host->Post(LoadMessage{saved, saved});
  Status status = host->Await<FailedMessage>().status;
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "the input file is gone");
}

TEST_F(HostProcess, ExceptionsAndMemoryOverTheDeclaredEndInTheTasksError) {
  EXPECT_EQ(AwaitFailure(R"({"throw_at":5})"), TaskFailed("Step threw: thrown at 5"));
  Status status = AwaitFailure(R"({"allocate":8192})");
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("8192"), std::string::npos) << status.ToString();
}

TEST_F(HostProcess, WhatIsWrongWithASpecIsNamed) {
  struct Case {
    const char *program, *library, *arguments, *text;
    StatusCode code;
  };
  std::string library = Library();
  const Case cases[] = {
      {"test.countr", library.c_str(), "", "did you mean 'test.counter'", StatusCode::kNotFound},
      {"test.counter", "/nowhere/lib.so", "", "/nowhere/lib.so", StatusCode::kNotFound},
      {"test.counter", "/etc/passwd", "", "/etc/passwd", StatusCode::kIoError},
      {"test.counter", library.c_str(), R"({"coun":1})", "did you mean 'count'", StatusCode::kInvalidArgument},
      {"test.counter", library.c_str(), "[", "JSON", StatusCode::kInvalidArgument},
      {"Square", library.c_str(), "", "submit it as a call", StatusCode::kInvalidArgument},
  };
  for (const Case& wrong : cases) {
    spec_.program = wrong.program;
    spec_.library = wrong.library;
    spec_.arguments = wrong.arguments;
    auto host = Start();
    host->Post(spec_);
    Status status = host->Await<FailedMessage>().status;
    EXPECT_EQ(status.code(), wrong.code) << status.ToString();
    EXPECT_NE(status.message().find(wrong.text), std::string::npos) << status.ToString();
  }
}

TEST_F(HostProcess, SaveBeforeLoadIsAnsweredWithNothing) {
  auto host = Start();
  host->Post(spec_);
  host->Await<ReadyMessage>();
  host->Post(SaveMessage{true});
  EXPECT_EQ(host->Await<SavedMessage>().checkpoint.epoch, 0u);
}

std::string Positions(std::vector<uint32_t> positions) {
  return std::string(reinterpret_cast<const char*>(positions.data()), positions.size() * sizeof(uint32_t));
}

TEST_F(HostProcess, CallsArePipelinedAndAnsweredInOrder) {
  auto host = Start("calls");
  host->AddToEngine();
  constexpr int kCalls = 500;
  for (int i = 0; i < kCalls; ++i) {
    host->Post(CallMessage{static_cast<uint64_t>(i), "Square", Library(), EncodeValue(std::tuple<int>(i)), ""});
  }
  for (int i = 0; i < kCalls; ++i) {
    CallDoneMessage done = host->Await<CallDoneMessage>();
    ASSERT_EQ(done.call, static_cast<uint64_t>(i));
    ASSERT_EQ(done.result, EncodeValue(i * i)) << done.status.ToString();
  }
  host->Post(ExitMessage{});
  EXPECT_EQ(host->Join(), 0);
}

TEST_F(HostProcess, ACancelledCallIsNotRun) {
  auto host = Start("calls");  // gets no turns yet, so nothing begins
  for (uint64_t call : {1, 2, 3}) {
    host->Post(CallMessage{call, "Square", Library(), EncodeValue(std::tuple<int>(static_cast<int>(call))), ""});
  }
  host->Post(CancelCallMessage{2});
  host->AddToEngine();
  EXPECT_EQ(host->Await<CallDoneMessage>().call, 1u);
  EXPECT_EQ(host->Await<CallDoneMessage>().call, 3u);
  host->Post(ExitMessage{});
  EXPECT_EQ(host->Join(), 0);
}

TEST_F(HostProcess, CallsTakeInputsAndTheirErrorsStayTheirOwn) {
  auto host = Start("calls");
  host->AddToEngine();
  host->Post(InputMessage{EncodeValue(40)});
  host->Post(InputMessage{"only for the order"});
  ValueWriter two_and_an_input;
  two_and_an_input.Head(ValueMajor::kArray, 2);
  two_and_an_input.Integer(2);
  two_and_an_input.Undefined();
  host->Post(CallMessage{1, "Add", Library(), two_and_an_input.Take(), Positions({1, UINT32_MAX})});
  host->Post(CallMessage{2, "Throw", Library(), EncodeValue(std::tuple<int>(9)), ""});
  host->Post(CallMessage{3, "Square", Library(), "no tuple", ""});
  host->Post(CallMessage{4, "Cube", Library(), "", ""});
  host->Post(CallMessage{5, "Square", Library(), EncodeValue(std::tuple<int>(3)), ""});
  EXPECT_EQ(host->Await<CallDoneMessage>().result, EncodeValue(42));
  EXPECT_EQ(host->Await<CallDoneMessage>().status, TaskFailed("thrown 9"));
  EXPECT_FALSE(host->Await<CallDoneMessage>().status.ok());
  EXPECT_EQ(host->Await<CallDoneMessage>().status.code(), StatusCode::kNotFound);
  EXPECT_EQ(host->Await<CallDoneMessage>().result, EncodeValue(9));
}

}  // namespace
}  // namespace pillion
