#include <gtest/gtest.h>

#include "tests/unit/head/head_fixture.h"

namespace pillion::head {
namespace {

using wire::ReleaseCause;
using wire::TaskState;

constexpr Peer kClient = 1, kOperator = 2, kWorker = 10, kOther = 11;

class ReactorTest : public testing::Test {
 protected:
  ReactorTest() {
    head_.Client(kClient);
    head_.Client(kOperator, wire::Role::kOperator);
  }
  Head head_;
};

TEST_F(ReactorTest, OneCallFromSubmitToResult) {
  head_.AddWorker(kWorker, 0);
  ASSERT_TRUE(head_.Submit(kClient, Id(1), {Call(0), Call(1, {{0, 0}})}).ok());
  std::vector<wire::Grant> grants = head_.Pull(kWorker, 4, 4);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].spec.program, "square");
  EXPECT_EQ(grants[0].epoch, 1u);
  ASSERT_TRUE(head_.Finish(kWorker, grants[0], "four").ok());
  grants = head_.TakeGrants(kWorker);
  ASSERT_EQ(grants.size(), 1u) << "room was left, so the dependent follows in the same turn";
  EXPECT_EQ(grants[0].inputs, std::vector<std::string>{"four"});
  ASSERT_TRUE(head_.Finish(kWorker, grants[0], "sixteen").ok());
  EXPECT_EQ(head_.Info(kClient, Id(1), 1).result, "sixteen");
  EXPECT_EQ(head_.Info(kClient, Id(1), 1).state, TaskState::kSucceeded);
  EXPECT_TRUE(head_.inbox[kWorker].empty());
}

TEST_F(ReactorTest, WhatGivesWaitsForTheCommitAndWhatTakesDoesNot) {
  head_.AddWorker(kWorker, 0);
  wire::SubmitChunk chunk;
  chunk.job = Id(1);
  chunk.tasks = {Steps(0)};
  wire::Pull pull;
  pull.want = 1;
  head_.FromWorker(kWorker, pull);
  head_.Send(kClient, chunk);
  head_.reactor->EndTurn({head_.now_ns, 1});
  EXPECT_TRUE(head_.effects.now.empty());
  ASSERT_EQ(head_.effects.after_commit.size(), 2u);  // the acknowledgement and the grant
  EXPECT_EQ(head_.effects.records.size(), 3u);       // specs, job, and the lease with its epoch
  head_.Commit();
  wire::CancelTasks cancel;
  cancel.job = Id(1);
  head_.Send(kClient, cancel);
  head_.reactor->EndTurn({head_.now_ns, 1});
  ASSERT_EQ(head_.effects.now.size(), 1u);
  const auto& revoke = std::get<wire::Revoke>(head_.effects.now[0].message.body);
  EXPECT_TRUE(revoke.discard);
  EXPECT_EQ(revoke.epoch, 1u);
  EXPECT_EQ(head_.effects.after_commit.size(), 1u);
}

TEST_F(ReactorTest, UnknownProgramNamesTheNearest) {
  EXPECT_TRUE(head_.Submit(kClient, Id(9), {Steps(0, {}, "cuont")}).ok()) << "no worker has ever been seen";
  head_.AddWorker(kWorker, 0);
  Status status = head_.Submit(kClient, Id(1), {Steps(0), Steps(1, {}, "cuont")});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "task 1: unknown program 'cuont': did you mean 'count'?");
  wire::TaskSpec with_library = Steps(0, {}, "mine");
  with_library.library = "/lib/mine.so";
  EXPECT_TRUE(head_.Submit(kClient, Id(2), {with_library}).ok());
  wire::TaskSpec waits = Steps(0, {}, "later");
  waits.options.wait_for_device = true;
  EXPECT_TRUE(head_.Submit(kClient, Id(3), {waits}).ok());
}

TEST_F(ReactorTest, InfeasibleIsAnErrorThatSaysWhy) {
  head_.AddWorker(kWorker, 0);
  wire::TaskSpec spec = Steps(0);
  spec.options.device_kind = static_cast<uint8_t>(DeviceKind::kCuda);
  Status status = head_.Submit(kClient, Id(1), {spec});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("host/cpu0 needs a cuda device, this is a cpu device"), std::string::npos)
      << status.message();
}

TEST_F(ReactorTest, RolesAreEnforced) {
  head_.Send(50, wire::GetStatus{});
  head_.Turn();
  EXPECT_EQ(head_.Take<wire::ErrorReply>(50).status.code(), StatusCode::kFailedPrecondition);
  wire::WorkerHello hello;
  hello.worker = {1, 1};
  hello.name = "evil/cpu0";
  EXPECT_EQ(head_.Ask<wire::ErrorReply>(kClient, hello).status.code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(head_.Ask<wire::ErrorReply>(kClient, wire::DrainWorker{"x", true}).status.code(),
            StatusCode::kPermissionDenied);
  wire::Hello claims;
  claims.role = wire::Role::kOperator;
  EXPECT_EQ(head_.Ask<wire::ErrorReply>(51, claims).status.code(), StatusCode::kPermissionDenied);
  head_.AddWorker(kWorker, 0);
  EXPECT_EQ(head_.Ask<wire::ErrorReply>(kWorker, wire::GetStatus{}, wire::Role::kWorker).status.code(),
            StatusCode::kPermissionDenied);
}

TEST_F(ReactorTest, SilentWorkerIsLostAndItsTaskGoesOnElsewhere) {
  head_.AddWorker(kWorker, 0);
  ASSERT_TRUE(head_.Submit(kClient, Id(1), {Steps(0)}).ok());
  std::vector<wire::Grant> grants = head_.Pull(kWorker, 1);
  ASSERT_EQ(grants.size(), 1u);
  ASSERT_TRUE(head_.CommitStep(kWorker, grants[0], 40).ok());
  head_.reactor->OnPeerLost(kWorker, {head_.now_ns, 1});
  head_.Turn();
  head_.Advance(10'000);
  EXPECT_EQ(head_.Info(kClient, Id(1), 0).state, TaskState::kLeased) << "a broken connection is no loss";
  head_.AddWorker(kOther, 1);
  head_.Advance(6'000);
  wire::TaskInfo info = head_.Info(kClient, Id(1), 0);
  EXPECT_EQ(info.state, TaskState::kQueued);
  EXPECT_EQ(info.worker_losses, 1u);
  EXPECT_EQ(info.app_failures, 0u);
  std::vector<wire::Grant> again = head_.Pull(kOther, 1);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].epoch, 2u);
  EXPECT_EQ(again[0].checkpoint.step, 40u);
  wire::Welcome welcome = head_.AddWorker(12, 0, {{{Id(1), 0}, 1, 55, wire::HostState::kRunning}});
  EXPECT_EQ(welcome.drop.size(), 1u) << "the zombie is told to drop it";
  EXPECT_EQ(head_.CommitStep(12, grants[0], 60).code(), StatusCode::kStale);
}

TEST_F(ReactorTest, ReconnectingWorkerKeepsWhatItHoldsAndLosesWhatItNeverGot) {
  head_.AddWorker(kWorker, 0);
  ASSERT_TRUE(head_.Submit(kClient, Id(1), {Steps(0), Steps(1)}).ok());
  std::vector<wire::Grant> grants = head_.Pull(kWorker, 2);
  ASSERT_EQ(grants.size(), 2u);
  head_.reactor->OnPeerLost(kWorker, {head_.now_ns, 1});
  wire::Welcome welcome = head_.AddWorker(20, 0, {{grants[0].task, 1, 3, wire::HostState::kRunning}});
  EXPECT_TRUE(welcome.drop.empty());
  EXPECT_EQ(head_.Info(kClient, Id(1), 0).state, TaskState::kLeased);
  EXPECT_EQ(head_.Info(kClient, Id(1), 1).state, TaskState::kQueued);
  EXPECT_EQ(head_.Info(kClient, Id(1), 1).worker_losses, 0u);
  EXPECT_TRUE(head_.Finish(20, grants[0]).ok());
}

TEST_F(ReactorTest, GrantThatGotLostIsNoticedByHeartbeats) {
  head_.AddWorker(kWorker, 0);
  ASSERT_TRUE(head_.Submit(kClient, Id(1), {Steps(0), Steps(1)}).ok());
  ASSERT_EQ(head_.Pull(kWorker, 2).size(), 2u);
  wire::Heartbeat heartbeat;
  heartbeat.info.leases = {{Id(1), 0}};
  for (int i = 0; i < 3; ++i) head_.FromWorker(kWorker, heartbeat);
  head_.Turn();
  EXPECT_EQ(head_.Info(kClient, Id(1), 0).state, TaskState::kLeased);
  EXPECT_EQ(head_.Info(kClient, Id(1), 1).state, TaskState::kQueued);
  EXPECT_TRUE(head_.Take<wire::Revoke>(kWorker).discard);
}

TEST_F(ReactorTest, PullCountsGrantsOnTheirWay) {
  head_.AddWorker(kWorker, 0);
  std::vector<wire::TaskSpec> tasks;
  for (uint32_t i = 0; i < 10; ++i) tasks.push_back(Steps(i));
  ASSERT_TRUE(head_.Submit(kClient, Id(1), tasks).ok());
  wire::Pull pull;
  pull.held = 0;
  pull.want = 3;
  head_.FromWorker(kWorker, pull);
  head_.Turn();
  EXPECT_EQ(head_.TakeGrants(kWorker).size(), 3u);
  head_.FromWorker(kWorker, pull);  // sent before the grants arrived
  head_.Turn();
  EXPECT_EQ(head_.TakeGrants(kWorker).size(), 0u);
  pull.held = 3;
  pull.want = 1;
  head_.FromWorker(kWorker, pull);
  head_.Turn();
  EXPECT_EQ(head_.TakeGrants(kWorker).size(), 1u);
}

TEST_F(ReactorTest, FinishesAndThePullAfterThemInOneTurnMakeRoom) {
  head_.AddWorker(kWorker, 0);
  ASSERT_TRUE(head_.Submit(kClient, Id(1), {Call(0), Call(1), Call(2), Call(3)}).ok());
  wire::FinishBatch batch;
  for (const wire::Grant& grant : head_.Pull(kWorker, 2, 2)) {
    wire::Finish finish;
    finish.task = grant.task;
    finish.epoch = grant.epoch;
    batch.finishes.push_back(finish);
  }
  ASSERT_EQ(batch.finishes.size(), 2u);
  wire::Heartbeat heartbeat;
  heartbeat.info.leases = {batch.finishes[0].task};
  head_.FromWorker(kWorker, batch);
  head_.FromWorker(kWorker, heartbeat);
  wire::Pull pull;
  pull.held = 0;
  pull.want = pull.call_slots = 2;
  head_.FromWorker(kWorker, pull);
  head_.Turn();
  EXPECT_EQ(head_.TakeGrants(kWorker).size(), 2u);
}

TEST_F(ReactorTest, MigrateReservesItsTargetFirst) {
  head_.AddWorker(kWorker, 0);
  head_.AddWorker(kOther, 1);
  ASSERT_TRUE(head_.Submit(kClient, Id(1), {Steps(0)}).ok());
  std::vector<wire::Grant> grants = head_.Pull(kWorker, 1);
  ASSERT_EQ(grants.size(), 1u);
  wire::MigrateTask migrate{{Id(1), 0}, "host/cpu1"};
  EXPECT_EQ(head_.Ask<wire::ErrorReply>(kOperator, migrate, wire::Role::kOperator).status.code(),
            StatusCode::kUnavailable)
      << "the target has not asked for anything";
  EXPECT_TRUE(head_.Pull(kOther, 1).empty());
  head_.Ask<wire::CountReply>(kOperator, migrate, wire::Role::kOperator);
  wire::Revoke revoke = head_.Take<wire::Revoke>(kWorker);
  EXPECT_FALSE(revoke.discard);
  ASSERT_TRUE(head_.Submit(kClient, Id(2), {Steps(0)}).ok());
  EXPECT_TRUE(head_.TakeGrants(kOther).empty()) << "the room is reserved";
  EXPECT_TRUE(head_.Pull(kOther, 1).empty()) << "and stays so when the target pulls again";
  ASSERT_TRUE(head_.CommitStep(kWorker, grants[0], 7).ok());
  ASSERT_TRUE(head_.Release(kWorker, grants[0], ReleaseCause::kPlannedMove).ok());
  std::vector<wire::Grant> moved = head_.TakeGrants(kOther);
  ASSERT_EQ(moved.size(), 1u);
  EXPECT_EQ(moved[0].task, grants[0].task);
  EXPECT_EQ(moved[0].checkpoint.step, 7u);
  EXPECT_EQ(moved[0].epoch, 2u);
  EXPECT_EQ(head_.Info(kClient, Id(1), 0).planned_moves, 1u);
}

TEST_F(ReactorTest, MigrateToAnyOtherWorker) {
  head_.AddWorker(kWorker, 0);
  ASSERT_TRUE(head_.Submit(kClient, Id(1), {Steps(0)}).ok());
  std::vector<wire::Grant> grants = head_.Pull(kWorker, 2);
  wire::MigrateTask migrate{{Id(1), 0}, ""};
  EXPECT_EQ(head_.Ask<wire::ErrorReply>(kOperator, migrate, wire::Role::kOperator).status.code(),
            StatusCode::kUnavailable);
  head_.AddWorker(kOther, 1);
  head_.Pull(kOther, 1);
  head_.Ask<wire::CountReply>(kOperator, migrate, wire::Role::kOperator);
  ASSERT_TRUE(head_.Release(kWorker, grants[0], ReleaseCause::kPlannedMove).ok());
  EXPECT_EQ(head_.TakeGrants(kOther).size(), 1u);
}

TEST_F(ReactorTest, FinishingBeforeTheMoveGivesTheReservationBack) {
  head_.AddWorker(kWorker, 0);
  head_.AddWorker(kOther, 1);
  ASSERT_TRUE(head_.Submit(kClient, Id(1), {Steps(0)}).ok());
  std::vector<wire::Grant> grants = head_.Pull(kWorker, 1);
  head_.Pull(kOther, 1);
  head_.Ask<wire::CountReply>(kOperator, wire::MigrateTask{{Id(1), 0}, "host/cpu1"}, wire::Role::kOperator);
  ASSERT_TRUE(head_.Finish(kWorker, grants[0]).ok());
  ASSERT_TRUE(head_.Submit(kClient, Id(2), {Steps(0)}).ok());
  EXPECT_EQ(head_.TakeGrants(kOther).size(), 1u);
}

TEST_F(ReactorTest, DrainMovesTasksAndOutlivesTheHead) {
  head_.AddWorker(kWorker, 0);
  head_.AddWorker(kOther, 1);
  ASSERT_TRUE(head_.Submit(kClient, Id(1), {Steps(0)}).ok());
  std::vector<wire::Grant> grants = head_.Pull(kWorker, 1);
  head_.Pull(kOther, 4);
  EXPECT_EQ(head_.Ask<wire::CountReply>(kOperator, wire::DrainWorker{"host/cpu0", true}, wire::Role::kOperator).count,
            1u);
  EXPECT_FALSE(head_.Take<wire::Revoke>(kWorker).discard);
  EXPECT_TRUE(head_.Take<wire::Drain>(kWorker).drain);
  ASSERT_TRUE(head_.Release(kWorker, grants[0], ReleaseCause::kPlannedMove).ok());
  EXPECT_EQ(head_.TakeGrants(kOther).size(), 1u);
  head_.Start();
  head_.inbox.clear();
  head_.AddWorker(kWorker, 0);
  EXPECT_TRUE(head_.Take<wire::Drain>(kWorker).drain);
  head_.Client(kOperator, wire::Role::kOperator);
  head_.Ask<wire::CountReply>(kOperator, wire::DrainWorker{"cpu0", false}, wire::Role::kOperator);
  head_.Client(kClient);
  ASSERT_TRUE(head_.Submit(kClient, Id(2), {Steps(0)}).ok());
  EXPECT_EQ(head_.Pull(kWorker, 1).size(), 1u);
}

TEST_F(ReactorTest, WaitAnswersOnChangeOnFinishAndOnTimeout) {
  head_.AddWorker(kWorker, 0);
  ASSERT_TRUE(head_.Submit(kClient, Id(1), {Steps(0), Steps(1)}).ok());
  wire::JobInfo first = head_.Ask<wire::JobReply>(kClient, wire::WaitJob{Id(1), 0, 60'000}).job;
  EXPECT_EQ(first.queued, 2u);
  head_.Send(kClient, wire::WaitJob{Id(1), first.version, 60'000});
  head_.Turn();
  EXPECT_FALSE(head_.Has<wire::JobReply>(kClient));
  std::vector<wire::Grant> grants = head_.Pull(kWorker, 2);
  wire::JobInfo second = head_.Take<wire::JobReply>(kClient).job;
  EXPECT_EQ(second.leased, 2u);
  EXPECT_GT(second.version, first.version);
  head_.Send(kClient, wire::WaitJob{Id(1), second.version, 3'000});
  head_.Turn();
  head_.Advance(2'900);
  EXPECT_FALSE(head_.Has<wire::JobReply>(kClient));
  head_.Advance(200);
  EXPECT_EQ(head_.Take<wire::JobReply>(kClient).job.version, second.version);
  EXPECT_TRUE(head_.Finish(kWorker, grants[0]).ok());
  EXPECT_TRUE(head_.Finish(kWorker, grants[1]).ok());
  wire::JobInfo last = head_.Ask<wire::JobReply>(kClient, wire::WaitJob{Id(1), UINT64_MAX, 60'000}).job;
  EXPECT_TRUE(last.finished()) << "a finished job is answered at once";
  EXPECT_EQ(head_.Ask<wire::ErrorReply>(kClient, wire::WaitJob{Id(7), 0, 1}).status.code(), StatusCode::kNotFound);
}

TEST_F(ReactorTest, WatchSeesEverythingOfItsTurn) {
  head_.AddWorker(kWorker, 0);
  ASSERT_TRUE(head_.Submit(kClient, Id(1), {Steps(0), Steps(1), Steps(2)}).ok());
  std::vector<wire::Grant> grants = head_.Pull(kWorker, 3);
  auto finish = [&](int i) {
    wire::Finish message;
    message.task = grants[i].task;
    message.epoch = grants[i].epoch;
    head_.FromWorker(kWorker, message);
  };
  finish(0);
  head_.Send(kClient, wire::WaitJob{Id(1), 0, 60'000});
  finish(1);
  head_.Turn();
  EXPECT_EQ(head_.Take<wire::JobReply>(kClient).job.succeeded, 2u);
}

TEST_F(ReactorTest, WatchesPerClientAreBounded) {
  ASSERT_TRUE(head_.Submit(kClient, Id(1), {Steps(0)}).ok());
  wire::JobInfo info = head_.Ask<wire::JobReply>(kClient, wire::WaitJob{Id(1), 0, 60'000}).job;
  for (uint32_t i = 0; i < limits::kWatchersPerClient; ++i) {
    head_.Send(kClient, wire::WaitJob{Id(1), info.version, 60'000});
  }
  head_.Turn();
  EXPECT_FALSE(head_.Has<wire::ErrorReply>(kClient));
  EXPECT_EQ(head_.Ask<wire::ErrorReply>(kClient, wire::WaitJob{Id(1), info.version, 60'000}).status.code(),
            StatusCode::kResourceExhausted);
  head_.reactor->OnPeerLost(kClient, {head_.now_ns, 1});
  head_.Advance(61'000);
  head_.inbox[kClient].clear();
}

TEST_F(ReactorTest, ExplainUsesTheSameCodeAsGrants) {
  wire::TaskSpec big = Steps(1);
  big.options.memory_bytes = uint64_t{2} << 30;
  ASSERT_TRUE(head_.Submit(kClient, Id(1), {Steps(0), big, Steps(2, {0})}).ok());
  auto explain = [&](uint32_t index) { return head_.Ask<wire::ExplainReply>(kClient, wire::ExplainTask{{Id(1), index}}); };
  EXPECT_EQ(explain(0).summary, "no worker has ever connected");
  wire::WorkerHello hello;
  hello.worker = {1, 1};
  hello.name = "host/cpu0";
  hello.device.memory_bytes = uint64_t{1} << 30;
  hello.programs = {"count"};
  head_.Ask<wire::Welcome>(kWorker, hello, wire::Role::kWorker);
  wire::ExplainReply reply = explain(1);
  ASSERT_EQ(reply.workers.size(), 1u);
  EXPECT_EQ(reply.workers[0].reason, "needs 2.0 GiB, the device has 1.0 GiB");
  EXPECT_NE(explain(0).summary.find("1 workers could run it, none has room"), std::string::npos) << explain(0).summary;
  EXPECT_EQ(explain(2).summary, "waits for task 0, which is queued");
  ASSERT_EQ(head_.Pull(kWorker, 5).size(), 1u) << "the big one stays";
  EXPECT_NE(explain(0).summary.find("is leased to host/cpu0"), std::string::npos);
  EXPECT_EQ(explain(1).summary, "none of the 1 known workers can run it now");
}

TEST_F(ReactorTest, PlacementPrefersTheDeviceWithMoreUsableSteps) {
  head_.AddWorker(kWorker, 0);
  head_.AddWorker(kOther, 1);
  wire::Announce narrow, wide;
  narrow.device = wide.device = "self";
  narrow.capacity.trainer_attached = wide.capacity.trainer_attached = true;
  narrow.capacity.iteration_period_us = wide.capacity.iteration_period_us = 100'000;
  narrow.capacity.slots = {{3'000, 3'000, 3'000}};
  wide.capacity.slots = {{30'000, 30'000, 30'000}};
  head_.FromWorker(kWorker, narrow);
  head_.FromWorker(kOther, wide);
  wire::Pull pull;
  pull.want = 4;
  head_.FromWorker(kWorker, pull);
  head_.FromWorker(kOther, pull);
  head_.Turn();
  ASSERT_TRUE(head_.Submit(kClient, Id(1), {Steps(0), Steps(1), Steps(2)}).ok());
  EXPECT_EQ(head_.TakeGrants(kOther).size(), 3u) << "30, 15 and 10 steps against 3";
  EXPECT_TRUE(head_.TakeGrants(kWorker).empty());
}

TEST_F(ReactorTest, RebalancingMovesOnlyAfterResidenceAndForClearGain) {
  head_.AddWorker(kWorker, 0);
  head_.AddWorker(kOther, 1);
  wire::Announce announce;
  announce.capacity.trainer_attached = true;
  announce.capacity.iteration_period_us = 100'000;
  announce.capacity.slots = {{10'000, 10'000, 10'000}};
  head_.FromWorker(kWorker, announce);
  ASSERT_TRUE(head_.Submit(kClient, Id(1), {Steps(0)}).ok());
  std::vector<wire::Grant> grants = head_.Pull(kWorker, 1);
  ASSERT_EQ(grants.size(), 1u);
  head_.FromWorker(kOther, announce);
  head_.Pull(kOther, 1);
  wire::Progress progress;
  progress.task = grants[0].task;
  progress.epoch = grants[0].epoch;
  progress.step_time_p50_us = 1'000;
  auto live = [&](int64_t ms) {
    for (int64_t i = 0; i < ms / 2'000; ++i) {
      head_.FromWorker(kWorker, progress);
      wire::Announce other = announce;
      head_.FromWorker(kOther, other);
      head_.Advance(2'000);
    }
  };
  live(60'000);
  EXPECT_FALSE(head_.Has<wire::Revoke>(kWorker)) << "both are alike";
  announce.capacity.slots = {{30'000, 30'000, 30'000}};
  live(10'000);
  EXPECT_FALSE(head_.Take<wire::Revoke>(kWorker).discard);
}

TEST_F(ReactorTest, StoreErrorStopsAcknowledgingAndSaysSo) {
  head_.AddWorker(kWorker, 0);
  ASSERT_TRUE(head_.Submit(kClient, Id(1), {Steps(0), Steps(1)}).ok());
  std::vector<wire::Grant> grants = head_.Pull(kWorker, 1);
  head_.reactor->OnStoreError(ResourceExhausted("disk full"), {head_.now_ns, 1});
  wire::SubmitChunk chunk;
  chunk.job = Id(2);
  chunk.tasks = {Steps(0)};
  head_.Send(kClient, chunk);
  EXPECT_EQ(std::get<wire::ErrorReply>(head_.effects.now.at(0).message.body).status.code(), StatusCode::kUnavailable);
  wire::Finish finish;
  finish.task = grants[0].task;
  finish.epoch = grants[0].epoch;
  head_.FromWorker(kWorker, finish);
  wire::Pull pull;
  pull.want = 5;
  head_.FromWorker(kWorker, pull);
  head_.Send(kClient, wire::GetStatus{});
  head_.reactor->EndTurn({head_.now_ns, 1});
  EXPECT_TRUE(head_.effects.records.empty());
  EXPECT_TRUE(head_.effects.after_commit.empty()) << "the report is unanswered and nothing is granted";
  EXPECT_NE(std::get<wire::StatusReply>(head_.effects.now.at(1).message.body).store_error.find("disk full"),
            std::string::npos);
  head_.Commit();
  head_.Turn();
  EXPECT_EQ(head_.TakeGrants(kWorker).size(), 1u);
  EXPECT_TRUE(head_.Finish(kWorker, grants[0]).ok());
}

TEST_F(ReactorTest, ListsAreBoundedAndComplete) {
  std::vector<wire::TaskSpec> tasks;
  for (uint32_t i = 0; i < 3000; ++i) tasks.push_back(Steps(i));
  ASSERT_TRUE(head_.Submit(kClient, Id(1), tasks).ok());
  ASSERT_TRUE(head_.Submit(kClient, Id(2), {Steps(0)}).ok());
  EXPECT_EQ(head_.Ask<wire::JobsReply>(kClient, wire::ListJobs{}).jobs.at(0).job, Id(2)) << "newest first";
  uint32_t next = 0;
  for (int calls = 0; next < 3000; ++calls) {
    ASSERT_LT(calls, 20);
    auto reply = head_.Ask<wire::TasksReply>(kClient, wire::ListTasks{Id(1), next, 1000});
    ASSERT_FALSE(reply.tasks.empty());
    for (const wire::TaskInfo& info : reply.tasks) EXPECT_EQ(info.task.index, next++);
  }
  EXPECT_EQ(head_.Ask<wire::TasksReply>(kClient, wire::ListTasks{{}, 0, 10'000}).tasks.size() > 2000, true);
}

TEST_F(ReactorTest, FinishedJobsAreForgottenFilesFirst) {
  head_.options.finished_tasks_retained = 1;
  head_.Start();
  head_.inbox.clear();
  head_.Client(kClient);
  size_t bare = head_.store.size();
  head_.AddWorker(kWorker, 0);
  ASSERT_TRUE(head_.Submit(kClient, Id(1), {Steps(0), Steps(1)}).ok());
  for (const wire::Grant& grant : head_.Pull(kWorker, 2)) EXPECT_TRUE(head_.Finish(kWorker, grant).ok());
  ASSERT_FALSE(head_.cleanups.empty());
  EXPECT_TRUE(head_.cleanups.back().whole_job);
  EXPECT_EQ(head_.cleanups.back().task.job, Id(1));
  head_.Turn();
  head_.Turn();
  EXPECT_EQ(head_.store.size(), bare);
  EXPECT_EQ(head_.Ask<wire::ErrorReply>(kClient, wire::GetTask{{Id(1), 0}}).status.code(), StatusCode::kNotFound);
}

TEST_F(ReactorTest, CheckpointFilesAreKeptByTwo) {
  head_.AddWorker(kWorker, 0);
  ASSERT_TRUE(head_.Submit(kClient, Id(1), {Steps(0)}).ok());
  std::vector<wire::Grant> grants = head_.Pull(kWorker, 1);
  for (Step step : {1, 2, 3}) {
    wire::Commit commit;
    commit.task = grants[0].task;
    commit.checkpoint = {grants[0].epoch, step, 1 << 20, step, "", "/ckpt/1-" + std::to_string(step)};
    EXPECT_TRUE(head_.Ask<wire::Verdict>(kWorker, commit, wire::Role::kWorker).status.ok());
  }
  ASSERT_FALSE(head_.cleanups.empty());
  ASSERT_EQ(head_.cleanups.back().keep.size(), 2u);
  EXPECT_EQ(head_.cleanups.back().keep[0].step, 3u);
  EXPECT_EQ(head_.cleanups.back().keep[1].step, 2u);
  EXPECT_TRUE(head_.Finish(kWorker, grants[0], "", {}, 3).ok());
  EXPECT_TRUE(head_.cleanups.back().keep.empty());
}

}  // namespace
}  // namespace pillion::head
