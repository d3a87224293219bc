#include <gtest/gtest.h>

#include "tests/unit/head/head_fixture.h"

namespace pillion::head {
namespace {

using wire::TaskState;

constexpr Peer kClient = 1, kWorker = 10, kOther = 11;

// A head with one job in every state that a task can be in.
class RecoveryTest : public testing::Test {
 protected:
  RecoveryTest() {
    head_.Client(kClient);
    head_.AddWorker(kWorker, 0);
    std::vector<wire::TaskSpec> tasks = {Call(0), Call(1, {{0, 0}}), Steps(2), Steps(3, {2}), Steps(4), Steps(5, {4})};
    tasks[4].options.app_retries = 0;
    EXPECT_TRUE(head_.Submit(kClient, Id(1), tasks).ok());
    for (const wire::Grant& grant : head_.Pull(kWorker, 3, 1)) {
      if (grant.task.index == 0) {
        EXPECT_TRUE(head_.Finish(kWorker, grant, "result").ok());
      }
      if (grant.task.index == 4) {
        EXPECT_TRUE(head_.Finish(kWorker, grant, "", TaskFailed("no")).ok());
      }
      if (grant.task.index == 2) {
        leased_ = grant;
        EXPECT_TRUE(head_.CommitStep(kWorker, grant, 12, "state").ok());
      }
    }
  }
  std::vector<TaskState> States() {
    std::vector<TaskState> states;
    for (uint32_t i = 0; i < 6; ++i) states.push_back(head_.Info(kClient, Id(1), i).state);
    return states;
  }
  void Restart() {
    head_.Start();
    head_.inbox.clear();
    head_.Client(kClient);
  }

  Head head_;
  wire::Grant leased_;
};

TEST_F(RecoveryTest, EverythingAcknowledgedIsThereAfterARestart) {
  std::vector<TaskState> before = {TaskState::kSucceeded, TaskState::kQueued, TaskState::kLeased,
                                   TaskState::kWaiting,   TaskState::kFailed, TaskState::kSkipped};
  ASSERT_EQ(States(), before);
  uint64_t incarnation = head_.reactor->incarnation();
  Restart();
  EXPECT_EQ(States(), before);
  EXPECT_EQ(head_.reactor->incarnation(), incarnation + 1);
  EXPECT_EQ(head_.Info(kClient, Id(1), 0).result, "result");
  EXPECT_EQ(head_.Info(kClient, Id(1), 2).committed_step, 12u);
  EXPECT_NE(head_.Info(kClient, Id(1), 4).error.find("no"), std::string::npos);
  EXPECT_EQ(head_.Info(kClient, Id(1), 5).error, "skipped: it depends on task 4, which is failed");
}

TEST_F(RecoveryTest, RecoveringTwiceChangesNothingMore) {
  Restart();
  auto once = head_.store;
  Restart();
  auto is_state = [](const auto& item) { return item.first.first == static_cast<uint8_t>(RecordKind::kHead); };
  std::erase_if(once, is_state);
  auto twice = head_.store;
  std::erase_if(twice, is_state);
  EXPECT_EQ(once, twice);
}

TEST_F(RecoveryTest, WorkerComesBackAndGoesOnWithTheSameEpoch) {
  Restart();
  wire::Welcome welcome = head_.AddWorker(kWorker, 0, {{leased_.task, leased_.epoch, 20, wire::HostState::kRunning}});
  EXPECT_TRUE(welcome.drop.empty());
  EXPECT_TRUE(head_.CommitStep(kWorker, leased_, 25).ok());
  EXPECT_TRUE(head_.Finish(kWorker, leased_, "", {}, 30).ok());
  EXPECT_EQ(head_.Info(kClient, Id(1), 3).state, TaskState::kQueued);
}

TEST_F(RecoveryTest, LeaseIsKeptForTheGraceTimeAndNoLonger) {
  Restart();
  head_.AddWorker(kOther, 1);
  wire::Pull pull;
  pull.want = 4;
  head_.FromWorker(kOther, pull);
  for (int i = 0; i < 58; ++i) {
    head_.FromWorker(kOther, wire::Heartbeat{});
    head_.Advance(1'000);
  }
  EXPECT_EQ(head_.Info(kClient, Id(1), 2).state, TaskState::kLeased);
  for (int i = 0; i < 4; ++i) {
    head_.FromWorker(kOther, wire::Heartbeat{});
    head_.Advance(1'000);
  }
  EXPECT_EQ(head_.Info(kClient, Id(1), 2).worker, "host/cpu1");
  EXPECT_EQ(head_.Info(kClient, Id(1), 2).epoch, 2u);
}

TEST_F(RecoveryTest, ResubmittingAfterARestartIsTheSameSubmit) {
  std::vector<wire::TaskSpec> tasks = {Steps(0), Steps(1, {0})};
  ASSERT_TRUE(head_.Submit(kClient, Id(2), tasks).ok());
  Restart();
  EXPECT_TRUE(head_.Submit(kClient, Id(2), tasks).ok());
  tasks[1].max_steps = 5;
  EXPECT_EQ(head_.Submit(kClient, Id(2), tasks).code(), StatusCode::kAlreadyExists);
}

TEST_F(RecoveryTest, HalfASubmissionIsForgottenAndItsPagesAreDeleted) {
  size_t before = head_.store.size();
  wire::SubmitChunk chunk;
  chunk.job = Id(3);
  chunk.last = false;
  chunk.tasks = {Steps(0)};
  ASSERT_TRUE(head_.SubmitChunk(kClient, chunk).ok());
  EXPECT_EQ(head_.store.size(), before + 1);
  Restart();
  EXPECT_EQ(head_.store.size(), before);
  EXPECT_EQ(head_.Ask<wire::ErrorReply>(kClient, wire::GetTask{{Id(3), 0}}).status.code(), StatusCode::kNotFound);
}

TEST_F(RecoveryTest, NestedBatchesAreAddedOnceAndSurvive) {
  wire::NestedSubmit nested;
  nested.parent = leased_.task;
  nested.epoch = leased_.epoch;
  nested.tasks = {Steps(0), Steps(1, {0}), Steps(2, {(uint32_t{1} << 31) + 2})};
  auto ask = [&] { return head_.Ask<wire::NestedReply>(kWorker, nested, wire::Role::kWorker).first_index; };
  EXPECT_EQ(ask(), 6u);
  EXPECT_EQ(ask(), 6u) << "a repeat";
  auto states = [&] {
    std::vector<TaskState> states;
    for (uint32_t i = 6; i < 9; ++i) states.push_back(head_.Info(kClient, Id(1), i).state);
    return states;
  };
  std::vector<TaskState> expected = {TaskState::kQueued, TaskState::kWaiting, TaskState::kWaiting};
  EXPECT_EQ(states(), expected);
  Restart();
  EXPECT_EQ(states(), expected);
  head_.AddWorker(kWorker, 0, {{leased_.task, leased_.epoch, 20, wire::HostState::kRunning}});
  EXPECT_EQ(ask(), 6u) << "a repeat after a restart";
  nested.batch = 1;
  EXPECT_EQ(ask(), 9u);
  nested.batch = 2;
  nested.tasks = {Steps(0, {0})};
  EXPECT_EQ(head_.Ask<wire::ErrorReply>(kWorker, nested, wire::Role::kWorker).status.code(),
            StatusCode::kInvalidArgument);
  EXPECT_TRUE(head_.Finish(kWorker, leased_, "", {}, 30).ok());
  EXPECT_EQ(head_.Info(kClient, Id(1), 8).state, TaskState::kQueued);
  nested.tasks = {Steps(0)};
  EXPECT_EQ(head_.Ask<wire::ErrorReply>(kWorker, nested, wire::Role::kWorker).status.code(), StatusCode::kStale);
}

TEST_F(RecoveryTest, NestedTaskThatDependsOnAFailedOneIsSkipped) {
  wire::NestedSubmit nested;
  nested.parent = leased_.task;
  nested.epoch = leased_.epoch;
  nested.tasks = {Steps(0, {(uint32_t{1} << 31) + 4}), Steps(1, {0})};
  head_.Ask<wire::NestedReply>(kWorker, nested, wire::Role::kWorker);
  EXPECT_EQ(head_.Info(kClient, Id(1), 6).state, TaskState::kSkipped);
  EXPECT_EQ(head_.Info(kClient, Id(1), 7).state, TaskState::kSkipped);
  Restart();
  EXPECT_EQ(head_.Info(kClient, Id(1), 7).state, TaskState::kSkipped);
}

TEST_F(RecoveryTest, VersionsGoOnGrowing) {
  uint64_t before = head_.Ask<wire::JobReply>(kClient, wire::WaitJob{Id(1), 0, 1000}).job.version;
  Restart();
  EXPECT_GT(head_.Ask<wire::JobReply>(kClient, wire::WaitJob{Id(1), before, 1000}).job.version, before);
}

TEST_F(RecoveryTest, DamagedRecordIsNamed) {
  for (auto& [key, value] : head_.store) {
    if (key.first != static_cast<uint8_t>(RecordKind::kTask)) continue;
    value.resize(3);
    break;
  }
  Reactor reactor({}, &head_.effects);
  Status found;
  for (const auto& [key, value] : head_.store) {
    Status status = reactor.Load(static_cast<RecordKind>(key.first), key.second, value);
    if (!status.ok() && found.ok()) found = status;
  }
  EXPECT_EQ(found.code(), StatusCode::kCorruption);
  EXPECT_NE(found.message().find("task " + Id(1).ToString() + ".0"), std::string::npos) << found.message();
}

TEST_F(RecoveryTest, MissingSpecsAreCorruption) {
  std::erase_if(head_.store, [](const auto& item) { return item.first.first == static_cast<uint8_t>(RecordKind::kSpecs); });
  Reactor reactor({}, &head_.effects);
  for (const auto& [key, value] : head_.store) {
    ASSERT_TRUE(reactor.Load(static_cast<RecordKind>(key.first), key.second, value).ok());
  }
  EXPECT_EQ(reactor.FinishLoad({1, 1}).code(), StatusCode::kCorruption);
}

}  // namespace
}  // namespace pillion::head
