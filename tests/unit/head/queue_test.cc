#include "head/queue.h"

#include <gtest/gtest.h>

#include "tests/unit/head/head_fixture.h"

namespace pillion::head {
namespace {

using wire::TaskState;

class QueueTest : public testing::Test {
 protected:
  QueueTest() : queue_([](const Template&) { return Status(); }) {}

  Status Submit(JobId job, std::vector<wire::TaskSpec> tasks, uint32_t chunk = 0, bool last = true) {
    wire::SubmitChunk message;
    message.job = job;
    message.chunk = chunk;
    message.last = last;
    message.tasks = std::move(tasks);
    return queue_.Apply(message, "owner", 0, 0);
  }
  TaskState StateOf(JobId job, uint32_t index) { return queue_.FindTask({job, index})->state; }
  Epoch Lease(JobId job, uint32_t index, uint64_t worker = 1) {
    TaskRef ref;
    queue_.FindTask({job, index}, &ref);
    return queue_.Apply(Grant{ref, {0, worker}, "w" + std::to_string(worker)}, 0);
  }
  Status Finish(JobId job, uint32_t index, Epoch epoch, Status outcome = {}, uint64_t worker = 1) {
    struct Finish finish;
    finish.task = {job, index};
    finish.worker = {0, worker};
    finish.epoch = epoch;
    finish.outcome = std::move(outcome);
    return queue_.Apply(std::move(finish), 0);
  }
  void Lose(JobId job, uint32_t index) {
    TaskRef ref;
    queue_.FindTask({job, index}, &ref);
    queue_.Apply(LoseLease{ref, true}, 0);
  }

  Queue queue_;
};

TEST_F(QueueTest, JobExistsOnlyWithItsLastChunk) {
  ASSERT_TRUE(Submit(Id(1), {Steps(0), Steps(1)}, 0, false).ok());
  EXPECT_EQ(queue_.FindJob(Id(1)), nullptr);
  EXPECT_TRUE(queue_.transitions().ready.empty());
  ASSERT_TRUE(Submit(Id(1), {Steps(2, {0})}, 1, true).ok());
  ASSERT_NE(queue_.FindJob(Id(1)), nullptr);
  EXPECT_EQ(StateOf(Id(1), 0), TaskState::kQueued);
  EXPECT_EQ(StateOf(Id(1), 2), TaskState::kWaiting);
  ASSERT_EQ(queue_.transitions().ready.size(), 1u);
  EXPECT_EQ(queue_.transitions().ready[0].count, 2u);
}

TEST_F(QueueTest, RepeatedChunksAreAcknowledgedAndOthersRefused) {
  std::vector<wire::TaskSpec> first = {Steps(0)}, second = {Steps(1)}, other = {Steps(1, {}, "other")};
  ASSERT_TRUE(Submit(Id(1), first, 0, false).ok());
  ASSERT_TRUE(Submit(Id(1), first, 0, false).ok()) << "while the rest is missing";
  ASSERT_TRUE(Submit(Id(1), second, 1, true).ok());
  EXPECT_TRUE(Submit(Id(1), first, 0, false).ok());
  EXPECT_TRUE(Submit(Id(1), second, 1, true).ok());
  EXPECT_EQ(Submit(Id(1), other, 1, true).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(queue_.FindJob(Id(1))->tasks.size(), 2u);
}

TEST_F(QueueTest, ChunkWithoutThoseBeforeItSaysWhatToDo) {
  Status status = Submit(Id(1), {Steps(5)}, 3, true);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("from chunk 0"), std::string::npos) << status.message();
}

TEST_F(QueueTest, CycleIsNamed) {
  wire::TaskSpec b = Steps(1, {3});
  b.name = "b";
  Status status = Submit(Id(1), {Steps(0), b, Steps(2, {1, 0}), Steps(3, {2}), Steps(4, {3})});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(status.message().find("task 1 ('b') -> task 2 -> task 3 -> task 1 ('b')") != std::string::npos ||
              status.message().find("task 2 -> task 3 -> task 1 ('b') -> task 2") != std::string::npos ||
              status.message().find("task 3 -> task 1 ('b') -> task 2 -> task 3") != std::string::npos)
      << status.message();
  EXPECT_EQ(queue_.FindJob(Id(1)), nullptr);
  EXPECT_TRUE(Submit(Id(1), {Steps(0)}).ok()) << "the id is free again";
}

TEST_F(QueueTest, TaskThatWaitsForItselfIsACycle) {
  EXPECT_NE(Submit(Id(1), {Steps(0, {0})}).message().find("task 0 -> task 0"), std::string::npos);
}

TEST_F(QueueTest, DanglingDependencyIsNamed) {
  Status status = Submit(Id(1), {Steps(0), Steps(1, {9})});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("task 1 depends on task 9"), std::string::npos) << status.message();
}

TEST_F(QueueTest, ForwardDependenciesAcrossChunksWork) {
  ASSERT_TRUE(Submit(Id(1), {Steps(0, {2}), Steps(1)}, 0, false).ok());
  ASSERT_TRUE(Submit(Id(1), {Steps(2)}, 1, true).ok());
  EXPECT_EQ(StateOf(Id(1), 0), TaskState::kWaiting);
  Epoch epoch = Lease(Id(1), 2);
  ASSERT_TRUE(Finish(Id(1), 2, epoch).ok());
  EXPECT_EQ(StateOf(Id(1), 0), TaskState::kQueued);
}

TEST_F(QueueTest, WrongNumberingIsRefused) {
  EXPECT_EQ(Submit(Id(1), {Steps(0), Steps(2)}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Submit(Id(2), {}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Submit(Id(3), {Steps(0, {}, "")}).code(), StatusCode::kInvalidArgument);
}

TEST_F(QueueTest, RefusedJobLeavesNoPages) {
  ASSERT_TRUE(Submit(Id(1), {Steps(0)}, 0, false).ok());
  EXPECT_FALSE(Submit(Id(1), {Steps(1, {1})}, 1, true).ok());
  EXPECT_TRUE(queue_.transitions().pages.empty());
  EXPECT_EQ(queue_.payload_bytes(), 0u);
  EXPECT_FALSE(queue_.transitions().dropped_pages.empty());
}

TEST_F(QueueTest, EpochsGrowAndOldOnesAreStale) {
  ASSERT_TRUE(Submit(Id(1), {Steps(0)}).ok());
  EXPECT_EQ(Lease(Id(1), 0, 1), 1u);
  Lose(Id(1), 0);
  EXPECT_EQ(Finish(Id(1), 0, 1).code(), StatusCode::kStale) << "lost, not granted again yet";
  EXPECT_EQ(Lease(Id(1), 0, 2), 2u);
  EXPECT_EQ(Finish(Id(1), 0, 1, {}, 1).code(), StatusCode::kStale);
  EXPECT_EQ(Finish(Id(1), 0, 2, {}, 1).code(), StatusCode::kStale) << "right epoch, wrong worker";
  EXPECT_TRUE(Finish(Id(1), 0, 2, {}, 2).ok());
  EXPECT_TRUE(Finish(Id(1), 0, 2, {}, 2).ok()) << "a repeat";
  EXPECT_EQ(StateOf(Id(1), 0), TaskState::kSucceeded);
}

TEST_F(QueueTest, CommitsNeverGoBack) {
  ASSERT_TRUE(Submit(Id(1), {Steps(0)}).ok());
  Epoch epoch = Lease(Id(1), 0);
  auto commit = [&](Step step, uint64_t checksum) {
    Commit event;
    event.task = {Id(1), 0};
    event.worker = {0, 1};
    event.checkpoint.epoch = epoch;
    event.checkpoint.step = step;
    event.checkpoint.checksum = checksum;
    return queue_.Apply(std::move(event));
  };
  EXPECT_TRUE(commit(10, 1).ok());
  EXPECT_TRUE(commit(20, 2).ok());
  EXPECT_TRUE(commit(20, 2).ok());
  EXPECT_EQ(commit(10, 1).code(), StatusCode::kStale);
  const head::Run& run = *queue_.FindTask({Id(1), 0})->run;
  EXPECT_EQ(run.committed_step, 20u);
  EXPECT_EQ(run.checkpoints->previous.step, 10u) << "the last two are kept";
  EXPECT_TRUE(commit(30, 3).ok());
  EXPECT_EQ(run.checkpoints->previous.step, 20u);
  EXPECT_EQ(Finish(Id(1), 0, epoch).code(), StatusCode::kStale) << "a result from before the checkpoint";
}

TEST_F(QueueTest, OnlyAppFailuresUseUpRetries) {
  wire::TaskSpec spec = Steps(0);
  spec.options.app_retries = 2;
  ASSERT_TRUE(Submit(Id(1), {spec, Steps(1, {0}), Steps(2, {1})}).ok());
  for (int i = 0; i < 5; ++i) {
    Epoch epoch = Lease(Id(1), 0);
    Release release{{Id(1), 0}, {0, 1}, epoch, wire::ReleaseCause::kPreempted, ""};
    ASSERT_TRUE(queue_.Apply(release, 0).ok());
    ASSERT_TRUE(queue_.Apply(release, 0).ok()) << "a repeat";
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(StateOf(Id(1), 0), TaskState::kQueued);
    ASSERT_TRUE(Finish(Id(1), 0, Lease(Id(1), 0), TaskFailed("it broke")).ok());
  }
  EXPECT_EQ(StateOf(Id(1), 0), TaskState::kFailed);
  EXPECT_EQ(StateOf(Id(1), 1), TaskState::kSkipped);
  EXPECT_EQ(StateOf(Id(1), 2), TaskState::kSkipped);
  const head::Run& run = *queue_.FindTask({Id(1), 0})->run;
  EXPECT_EQ(run.app_failures, 3u);
  EXPECT_EQ(run.preemptions, 5u);
  EXPECT_NE(run.error.find("it broke"), std::string::npos);
  EXPECT_TRUE(queue_.FindJob(Id(1))->finished());
}

TEST_F(QueueTest, WrongArgumentsAreNotRetried) {
  ASSERT_TRUE(Submit(Id(1), {Steps(0)}).ok());
  ASSERT_TRUE(Finish(Id(1), 0, Lease(Id(1), 0), InvalidArgument("no file 'x'")).ok());
  EXPECT_EQ(StateOf(Id(1), 0), TaskState::kFailed);
}

TEST_F(QueueTest, QuarantineAfterThreeDifferentWorkers) {
  ASSERT_TRUE(Submit(Id(1), {Steps(0)}).ok());
  for (uint64_t worker : {1, 1, 2, 2}) {
    Lease(Id(1), 0, worker);
    Lose(Id(1), 0);
    EXPECT_EQ(StateOf(Id(1), 0), TaskState::kQueued);
  }
  Lease(Id(1), 0, 3);
  Lose(Id(1), 0);
  EXPECT_EQ(StateOf(Id(1), 0), TaskState::kFailed);
  EXPECT_NE(queue_.FindTask({Id(1), 0})->run->error.find("quarantined"), std::string::npos);
}

TEST_F(QueueTest, OutOfMemoryPausesBeforeTheNextTry) {
  ASSERT_TRUE(Submit(Id(1), {Steps(0)}).ok());
  Epoch epoch = Lease(Id(1), 0);
  queue_.transitions().Clear();
  ASSERT_TRUE(queue_.Apply(Release{{Id(1), 0}, {0, 1}, epoch, wire::ReleaseCause::kOutOfMemory, ""}, 0).ok());
  ASSERT_EQ(queue_.transitions().ready.size(), 1u);
  EXPECT_GT(queue_.transitions().ready[0].not_before_ns, 0);
}

TEST_F(QueueTest, CancelTakesDependentsAndRevokesLeases) {
  ASSERT_TRUE(Submit(Id(1), {Steps(0), Steps(1, {0}), Steps(2, {1}), Steps(3)}).ok());
  Lease(Id(1), 0);
  EXPECT_EQ(*queue_.Cancel(Id(1), {0}, 0), 3u);
  EXPECT_EQ(StateOf(Id(1), 2), TaskState::kCancelled);
  EXPECT_EQ(StateOf(Id(1), 3), TaskState::kQueued);
  ASSERT_EQ(queue_.transitions().ended.size(), 1u);
  EXPECT_TRUE(queue_.transitions().ended[0].revoke);
  EXPECT_EQ(Finish(Id(1), 0, 1).code(), StatusCode::kStale);
  EXPECT_EQ(*queue_.Cancel(Id(1), {0}, 0), 0u) << "again";
  EXPECT_EQ(*queue_.Cancel(Id(1), {}, 0), 1u);
  EXPECT_TRUE(queue_.FindJob(Id(1))->finished());
  EXPECT_EQ(queue_.Cancel(Id(1), {7}, 0).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(queue_.Cancel(Id(2), {}, 0).status().code(), StatusCode::kNotFound);
}

TEST_F(QueueTest, CancelledSuccessfulTaskTakesItsDependents) {
  ASSERT_TRUE(Submit(Id(1), {Steps(0), Steps(1, {0})}).ok());
  ASSERT_TRUE(Finish(Id(1), 0, Lease(Id(1), 0)).ok());
  EXPECT_EQ(*queue_.Cancel(Id(1), {0}, 0), 1u);
  EXPECT_EQ(StateOf(Id(1), 0), TaskState::kSucceeded);
  EXPECT_EQ(StateOf(Id(1), 1), TaskState::kCancelled);
}

}  // namespace
}  // namespace pillion::head
