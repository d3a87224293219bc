// The real head is killed at every crash point, and at random, while clients and a worker go on. A
// ledger keeps what was acknowledged; nothing of it may be lost or go back.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <random>
#include <set>

#include "base/clock.h"
#include "head/crash_points.h"
#include "head_process.h"
#include "store/checkpoint_store.h"

namespace pillion::testing {
namespace {

// What was acknowledged.
struct Ledger {
  std::map<JobId, uint32_t> jobs;  // tasks
  std::set<JobId> cancelled;
  std::map<TaskId, Epoch> epochs;  // highest granted
  std::map<TaskId, Step> committed;
  std::map<TaskId, std::string> results;
  std::map<TaskId, uint32_t> children;  // index that the task's batch got
};

// A head that is started again whenever it has died, with a client and a worker that carry on.
class Cluster {
 public:
  Cluster(std::vector<std::string> more_arguments, const std::string& crash_at) {
    arguments_ = {"--state-dir",         directory_.path() + "/state",
                  "--runtime-dir",       runtime_,
                  "--store-reserve-mib", "1",
                  "--reattach-grace-ms", "60000"};
    arguments_.insert(arguments_.end(), more_arguments.begin(), more_arguments.end());
    std::map<std::string, std::string> environment;
    if (!crash_at.empty()) environment["PILLION_CRASH_AT"] = crash_at;
    head_ = std::make_unique<HeadProcess>(arguments_, environment);
    if (!head_->WaitUntilServing(runtime_)) Recover();
    wire::WorkerHello hello;
    hello.worker = WorkerId::Random();
    hello.name = "test/cpu0";
    hello.device.name = "cpu0";
    hello.device.memory_bytes = 1 << 30;
    hello.programs = {"test.program"};
    client_ = std::make_unique<TestPeer>(runtime_, wire::Role::kClient);
    worker_ = std::make_unique<TestPeer>(runtime_, wire::Role::kWorker, hello);
    checkpoints_ = std::move(*store::OpenFileCheckpointStore(runtime_ + "/checkpoints"));
  }

  int crashes() const { return crashes_; }
  Ledger& ledger() { return ledger_; }
  HeadProcess& head() { return *head_; }
  TestPeer& client() { return *client_; }
  const std::string& runtime() const { return runtime_; }

  // Starts a dead head again, without a crash point.
  void Recover() {
    if (head_->Running()) return;
    Exit exit = head_->Wait();
    ASSERT_EQ(exit.signal, SIGKILL) << exit.output;
    ++crashes_;
    head_ = std::make_unique<HeadProcess>(arguments_);
    ASSERT_TRUE(head_->WaitUntilServing(runtime_)) << head_->Output();
  }

  void KillNow() {
    head_->Signal(SIGKILL);
    head_->Wait();
    Recover();
  }

  // Asks until there is an answer, whatever happens to the head.
  template <typename Reply>
  std::optional<Reply> Insist(TestPeer* peer, const wire::Body& request) {
    const int64_t end_ns = MonotonicNowNs() + kPatienceMs * kNanosPerMilli;
    while (MonotonicNowNs() < end_ns) {
      Recover();
      peer->last_error = Status::Ok();
      std::optional<Reply> reply = peer->Call<Reply>(request, 300);
      if (reply || !peer->last_error.ok()) return reply;
    }
    ADD_FAILURE() << "no answer: " << head_->Output();
    return std::nullopt;
  }

  JobId Submit(uint32_t tasks) {
    wire::SubmitChunk job = MakeJob(tasks);
    if (Insist<wire::SubmitReply>(client_.get(), job)) {
      ledger_.jobs[job.job] = tasks;
    } else {
      ADD_FAILURE() << client_->last_error.ToString();
    }
    return job.job;
  }

  void Cancel(const JobId& job) {
    if (Insist<wire::CountReply>(client_.get(), wire::CancelTasks{job, {}}))
      ledger_.cancelled.insert(job);
  }

  // Works as a worker until every task of the job has its acknowledged result.
  void Work(const JobId& job) {
    const int64_t end_ns = MonotonicNowNs() + kPatienceMs * kNanosPerMilli;
    while (!AllDone(job)) {
      ASSERT_LT(MonotonicNowNs(), end_ns) << "the job does not end: " << head_->Output();
      Recover();
      TakeGrants();
      if (held_.empty()) {
        wire::Pull pull;
        pull.held = 0;
        pull.want = 2;
        (void)worker_->Tell(pull);
        worker_->Receive(20);
        continue;
      }
      WorkOn(held_.begin()->first, held_.begin()->second);
    }
  }

  // What the head says now against the ledger.
  void Check(bool finished_jobs_may_be_gone) {
    Recover();
    for (const auto& [job, tasks] : ledger_.jobs) {
      std::optional<wire::JobReply> reply =
          Insist<wire::JobReply>(client_.get(), wire::WaitJob{job, 0, 0});
      if (!reply) {
        EXPECT_TRUE(finished_jobs_may_be_gone &&
                    (ledger_.cancelled.count(job) != 0 || AllDone(job)))
            << "an acknowledged job is lost";
        continue;
      }
      EXPECT_EQ(reply->job.tasks, tasks);
      if (ledger_.cancelled.count(job) != 0) {
        EXPECT_EQ(reply->job.cancelled, tasks) << "an acknowledged cancellation is lost";
        continue;
      }
      for (uint32_t i = 0; i < tasks; ++i) CheckTask({job, i}, finished_jobs_may_be_gone);
    }
  }

 private:
  struct Held {
    Epoch epoch;
    Step step;
  };

  bool AllDone(const JobId& job) {
    for (uint32_t i = 0; i < ledger_.jobs[job]; ++i) {
      if (ledger_.results.count({job, i}) == 0) return false;
    }
    return true;
  }

  void CheckTask(const TaskId& task, bool finished_jobs_may_be_gone) {
    std::optional<wire::TaskReply> reply =
        Insist<wire::TaskReply>(client_.get(), wire::GetTask{task});
    if (!reply && finished_jobs_may_be_gone && AllDone(task.job)) return;  // since a moment ago
    ASSERT_TRUE(reply) << "an acknowledged task is lost";
    EXPECT_GE(reply->task.epoch, ledger_.epochs[task]);
    EXPECT_GE(reply->task.committed_step, ledger_.committed[task])
        << "an acknowledged commit is lost";
    if (ledger_.results.count(task) == 0) return;
    EXPECT_EQ(reply->task.state, wire::TaskState::kSucceeded) << "an acknowledged result is lost";
    EXPECT_EQ(reply->task.result, ledger_.results[task]);
  }

  void TakeGrants() {
    worker_->Receive(0);
    if (worker_->connections != seen_connections_) {
      seen_connections_ = worker_->connections;  // what was held is said again in the hello
    }
    if (worker_->welcome) {
      for (const TaskId& task : worker_->welcome->drop) held_.erase(task);
      worker_->welcome.reset();
    }
    for (auto at = worker_->unasked.begin(); at != worker_->unasked.end();) {
      if (auto* grants = std::get_if<wire::Grants>(&at->body)) {
        for (const wire::Grant& grant : grants->grants) TakeGrant(grant);
      }
      at = worker_->unasked.erase(at);
    }
    UpdateHello();
  }

  void TakeGrant(const wire::Grant& grant) {
    EXPECT_GT(grant.epoch, ledger_.epochs[grant.task]) << "an epoch was given twice";
    ledger_.epochs[grant.task] = grant.epoch;
    EXPECT_GE(grant.checkpoint.step, ledger_.committed[grant.task])
        << "acknowledged progress went back";
    if (grant.checkpoint.exists()) {
      store::StoredCheckpoint stored{grant.checkpoint.epoch,        grant.checkpoint.step,
                                     grant.checkpoint.length_bytes, grant.checkpoint.checksum,
                                     grant.checkpoint.bytes,        grant.checkpoint.path};
      Result<std::string> payload = checkpoints_->Load(grant.task, stored);
      EXPECT_TRUE(payload.ok()) << payload.status().ToString();
    }
    held_[grant.task] = {grant.epoch, grant.checkpoint.step};
  }

  void UpdateHello() {
    auto& hello = std::get<wire::WorkerHello>(worker_->hello);
    hello.held.clear();
    for (const auto& [task, held] : held_) {
      hello.held.push_back({task, held.epoch, held.step, wire::HostState::kRunning});
    }
  }

  // Reports progress, commits three times and finishes. A stale verdict means that the lease is
  // somebody else's.
  void WorkOn(TaskId task, Held held) {
    wire::Progress progress{task, held.epoch, held.step + 5};
    progress.state = wire::HostState::kRunning;
    progress.step_time_p50_us =
        1000 + 400 * (ledger_.results.size() % 7);  // so that the profile changes
    (void)worker_->Tell(progress);
    for (int i = 0; i < 3; ++i) {
      held.step += 10;
      Result<store::StoredCheckpoint> saved =
          checkpoints_->Save(task, held.epoch, held.step, std::string(i == 1 ? 100 : 70'000, 'c'));
      ASSERT_TRUE(saved.ok()) << saved.status().ToString();
      wire::Commit commit;
      commit.task = task;
      commit.checkpoint = {saved->epoch,    saved->step,  saved->length_bytes,
                           saved->checksum, saved->bytes, saved->path};
      std::optional<wire::Verdict> verdict = Insist<wire::Verdict>(worker_.get(), commit);
      if (!verdict) return Drop(task);
      if (!verdict->status.ok()) return Drop(task);
      ledger_.committed[task] = held.step;
      held_[task].step = held.step;
      UpdateHello();
    }
    if (task.index == 0 && !AddChild(task, held.epoch)) return Drop(task);
    wire::Finish finish;
    finish.task = task;
    finish.epoch = held.epoch;
    finish.step = held.step;
    finish.result = "result of " + task.ToString();
    std::optional<wire::Verdict> verdict = Insist<wire::Verdict>(worker_.get(), finish);
    if (verdict && verdict->status.ok()) ledger_.results[task] = finish.result;
    Drop(task);
  }

  // The first task of a job adds one task to it, under whichever lease gets to it. False when the
  // lease is somebody else's by now.
  bool AddChild(const TaskId& task, Epoch epoch) {
    wire::NestedSubmit nested;
    nested.parent = task;
    nested.epoch = epoch;
    nested.tasks = MakeJob(1).tasks;
    auto reply = Insist<wire::NestedReply>(worker_.get(), nested);
    if (!reply) return false;
    auto [known, added] = ledger_.children.emplace(task, reply->first_index);
    EXPECT_EQ(known->second, reply->first_index) << "a batch was added twice";
    if (added) ++ledger_.jobs[task.job];
    return true;
  }

  void Drop(const TaskId& task) {
    held_.erase(task);
    UpdateHello();
  }

  TestDirectory directory_;
  const std::string runtime_ = directory_.path() + "/run";
  std::vector<std::string> arguments_;
  std::unique_ptr<HeadProcess> head_;
  std::unique_ptr<TestPeer> client_, worker_;
  std::unique_ptr<store::CheckpointStore> checkpoints_;
  std::map<TaskId, Held> held_;
  uint64_t seen_connections_ = 0;
  Ledger ledger_;
  int crashes_ = 0;
};

class CrashPointTest : public ::testing::TestWithParam<std::string> {};

TEST_P(CrashPointTest, NothingAcknowledgedIsLost) {
  const std::string& point = GetParam();
  // Deletions happen when finished jobs are forgotten.
  bool forgets =
      point.find("delete") != std::string::npos || point.find("clean-job") != std::string::npos;
  std::vector<std::string> more;
  if (forgets) more = {"--finished-job-retention-s", "0"};
  Cluster cluster(more, point);
  JobId work = cluster.Submit(2);
  JobId waiting = cluster.Submit(1);
  JobId cancelled = cluster.Submit(3);
  cluster.Cancel(cancelled);
  cluster.Work(work);
  {
    // Two connections for one worker: the head closes the first.
    wire::WorkerHello twin;
    twin.worker = WorkerId::Random();
    twin.name = "test/cpu1";
    TestPeer first(cluster.runtime(), wire::Role::kWorker, twin),
        second(cluster.runtime(), wire::Role::kWorker, twin);
    const int64_t end_ns = MonotonicNowNs() + kPatienceMs * kNanosPerMilli;
    auto gone = [&](const JobId& job) {
      return !cluster.Insist<wire::JobReply>(&cluster.client(), wire::WaitJob{job, 0, 0})
                  .has_value();
    };
    while (cluster.crashes() == 0 && MonotonicNowNs() < end_ns) {
      cluster.Recover();
      first.Receive(5);
      second.Receive(5);
      if (forgets && gone(work) && gone(cancelled) && cluster.crashes() == 0) break;
    }
  }
  EXPECT_EQ(cluster.crashes(), 1) << "the point was not reached";
  cluster.Check(forgets);
  cluster.KillNow();
  cluster.Check(forgets);
  cluster.Work(waiting);
  cluster.Check(forgets);
}

INSTANTIATE_TEST_SUITE_P(AllPoints, CrashPointTest, ::testing::ValuesIn(head::AllCrashPoints()),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

// PILLION_KILLS sets how many; CI does a few, the full ledger run 200.
TEST(RandomKills, NothingAcknowledgedIsLost) {
  const char* text = std::getenv("PILLION_KILLS");
  const int kills = text == nullptr ? 15 : std::atoi(text);
  uint32_t seed = std::random_device()();
  std::printf("seed %u, %d kills\n", seed, kills);
  std::mt19937 random(seed);
  Cluster cluster({}, "");
  std::vector<std::string> points = head::AllCrashPoints();
  for (int i = 0; i < kills && !::testing::Test::HasFailure(); ++i) {
    JobId job = cluster.Submit(1 + random() % 4);
    // From another process, at any moment of the work.
    pid_t victim = cluster.head().pid();
    pid_t killer = fork();
    if (killer == 0) {
      usleep(random() % 30'000);
      kill(victim, SIGKILL);
      _exit(0);
    }
    if (random() % 3 == 0) cluster.Cancel(cluster.Submit(2));
    cluster.Work(job);
    waitpid(killer, nullptr, 0);
    cluster.Recover();
    if (i % 10 == 9) cluster.Check(false);
  }
  cluster.Check(false);
  cluster.KillNow();
  cluster.Check(false);
  EXPECT_GE(cluster.crashes(), kills);
}

}  // namespace
}  // namespace pillion::testing
