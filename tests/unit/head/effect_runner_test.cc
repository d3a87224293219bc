#include "head/effect_runner.h"

#include <gtest/gtest.h>

#include <map>

namespace pillion::head {
namespace {

using Lines = std::vector<std::string>;

// A store whose disk fills up when told.
class FakeStore final : public store::RecordStore {
 public:
  explicit FakeStore(Lines* lines) : lines_(lines) {}
  Status Write(const store::Batch& batch) override {
    if (!error_.ok()) return error_;
    if (full_) return error_ = ResourceExhausted("full");
    std::string line = "write";
    for (size_t i = 0; i < batch.count(); ++i) {
      auto entry = batch.entry(i);
      line += std::string(entry.is_delete ? " -" : " +") + std::string(entry.key.substr(1));
    }
    lines_->push_back(line);
    return Status::Ok();
  }
  Status error() const override { return error_; }
  Status Reopen() override {
    return error_ = full_ ? ResourceExhausted("still full") : Status::Ok();
  }
  Status ForEach(const Visitor&) override { return Status::Ok(); }
  Result<std::string> Get(uint8_t, std::string_view) override { return NotFound("none"); }
  store::StoreStatistics statistics() override { return {}; }
  Status Backup(const std::string&) override { return Status::Ok(); }

  bool full_ = false;

 private:
  Lines* lines_;
  Status error_;
};

class FakeCheckpoints final : public store::CheckpointStore {
 public:
  explicit FakeCheckpoints(Lines* lines) : lines_(lines) {}
  Result<store::StoredCheckpoint> Save(const TaskId&, Epoch, Step, std::string_view) override {
    return Internal("the head saves nothing");
  }
  Result<std::string> Load(const TaskId&, const store::StoredCheckpoint&) override {
    return NotFound("none");
  }
  Status Retain(const TaskId& task, const std::vector<store::StoredCheckpoint>& keep) override {
    std::string line = "retain " + std::to_string(task.index);
    for (const auto& kept : keep)
      line += " " + std::to_string(kept.epoch) + "-" + std::to_string(kept.step);
    lines_->push_back(line);
    return Status::Ok();
  }
  Status RemoveJob(const JobId& job) override {
    lines_->push_back("remove job " + std::to_string(job.low));
    return IoError("a failed deletion changes nothing");
  }

 private:
  Lines* lines_;
};

class EffectRunnerTest : public ::testing::Test {
 protected:
  // One of everything, marked with `name`.
  void Turn(const std::string& name) {
    effects_.SendNow(1, {1, wire::ErrorReply{Stale(name)}});
    effects_.Put(RecordKind::kJob, name, "v");
    effects_.Delete(RecordKind::kTask, name);
    effects_.SendAfterCommit(2, {1, wire::ErrorReply{Stale(name)}});
    wire::CheckpointRef ref;
    ref.epoch = 4;
    ref.step = 5;
    effects_.CleanUp({TaskId{JobId{0, 9}, 3}, false, {ref}});
    effects_.Disconnect(7);
  }
  Lines Take() { return std::move(lines_); }

  Lines lines_;
  FakeStore store_{&lines_};
  FakeCheckpoints checkpoints_{&lines_};
  Effects effects_;
  EffectRunner runner_{
      &store_,
      &checkpoints_,
      {[this](Peer peer, const wire::Message& message) {
         lines_.push_back("send " + std::to_string(peer) + " " +
                          std::get<wire::ErrorReply>(message.body).status.message());
       },
       [this](Peer peer) { lines_.push_back("disconnect " + std::to_string(peer)); }},
      CrashPoints()};
};

TEST_F(EffectRunnerTest, GivesOnlyAfterTheBatch) {
  Turn("a");
  ASSERT_TRUE(runner_.CarryOut(&effects_).ok());
  EXPECT_EQ(Take(), (Lines{"send 1 a", "disconnect 7", "write +a -a", "send 2 a", "retain 3 4-5"}));
  EXPECT_TRUE(effects_.empty());
  EXPECT_FALSE(runner_.waiting());
}

TEST_F(EffectRunnerTest, ATurnWithoutRecordsWritesNothing) {
  effects_.SendAfterCommit(2, {1, wire::ErrorReply{Stale("read")}});
  effects_.CleanUp({TaskId{JobId{0, 9}, 0}, true, {}});
  ASSERT_TRUE(runner_.CarryOut(&effects_).ok());
  EXPECT_EQ(Take(), (Lines{"send 2 read", "remove job 9"}));
}

TEST_F(EffectRunnerTest, WhileTheStoreFailsWhatGivesWaitsInOrder) {
  store_.full_ = true;
  Turn("a");
  EXPECT_EQ(runner_.CarryOut(&effects_), ResourceExhausted("full"));
  EXPECT_TRUE(runner_.waiting());
  EXPECT_TRUE(effects_.empty());
  EXPECT_EQ(Take(), (Lines{"send 1 a", "disconnect 7"}));

  // A turn without records waits behind it; what takes away does not.
  effects_.SendNow(1, {1, wire::ErrorReply{Stale("b")}});
  effects_.SendAfterCommit(2, {1, wire::ErrorReply{Stale("b")}});
  EXPECT_FALSE(runner_.CarryOut(&effects_).ok());
  EXPECT_EQ(Take(), (Lines{"send 1 b"}));
  EXPECT_EQ(runner_.Retry(), ResourceExhausted("still full"));
  EXPECT_TRUE(runner_.waiting());
  EXPECT_EQ(Take(), Lines{});

  store_.full_ = false;
  ASSERT_TRUE(runner_.Retry().ok());
  EXPECT_FALSE(runner_.waiting());
  EXPECT_EQ(Take(), (Lines{"write +a -a", "send 2 a", "send 2 b", "retain 3 4-5"}));
  ASSERT_TRUE(runner_.Retry().ok());
  Turn("c");
  ASSERT_TRUE(runner_.CarryOut(&effects_).ok());
  EXPECT_EQ(Take(), (Lines{"send 1 c", "disconnect 7", "write +c -c", "send 2 c", "retain 3 4-5"}));
}

TEST_F(EffectRunnerTest, AWriteThatFailsAgainAfterReopeningKeepsEverything) {
  store_.full_ = true;
  Turn("a");
  EXPECT_FALSE(runner_.CarryOut(&effects_).ok());
  Take();
  for (int attempt = 0; attempt < 3; ++attempt) EXPECT_FALSE(runner_.Retry().ok());
  EXPECT_EQ(Take(), Lines{});
  store_.full_ = false;
  EXPECT_TRUE(runner_.Retry().ok());
  EXPECT_EQ(Take(), (Lines{"write +a -a", "send 2 a", "retain 3 4-5"}));
}

}  // namespace
}  // namespace pillion::head
