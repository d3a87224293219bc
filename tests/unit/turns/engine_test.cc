// The turn engine against real host processes and a trainer that sleeps instead of computing. These tests check
// what happens when, never how fast.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <thread>

#include "pillion/trainer.h"
#include "tests/unit/board/temporary_board_directory.h"
#include "tests/unit/turns/test_host.h"
#include "worker/turns/turn_engine.h"

namespace pillion::turns {
namespace {

constexpr int64_t kMs = kNanosPerMilli;

void SleepNs(int64_t ns) {
  timespec time{ns / kNanosPerSecond, ns % kNanosPerSecond};
  while (nanosleep(&time, &time) != 0) {
  }
}

class Trainer {
 public:
  explicit Trainer(uint64_t run_id = 1) {
    pillion_board_options options = PILLION_BOARD_OPTIONS_INIT;
    options.device = "cpu0";
    options.run_id = run_id;
    board_ = pillion_board_open(&options);
    EXPECT_NE(board_, nullptr) << pillion_board_error();
  }
  ~Trainer() { pillion_board_close(board_); }
  void Iterate(int iterations, std::initializer_list<int64_t> bubbles_ns, int64_t busy_ns = 2 * kMs) {
    for (int i = 0; i < iterations; ++i) {
      pillion_iteration(board_, nullptr, static_cast<uint32_t>(bubbles_ns.size()));
      for (int64_t bubble_ns : bubbles_ns) {
        SleepNs(busy_ns);
        pillion_bubble_begin(board_, nullptr);
        SleepNs(bubble_ns);
        pillion_bubble_end(board_, nullptr);
      }
    }
  }

 private:
  pillion_board* board_;
};

class EngineTest : public testing::Test {
 protected:
  void StartEngine(EngineOptions options = {}) {
    auto board = board::Board::Open("cpu-0", board::Board::Access::kReadWrite);
    ASSERT_TRUE(board.ok()) << board.status().ToString();
    auto engine = TurnEngine::Start(options, std::move(*board), [this](ResidentId id, int64_t overrun_ns) {
      overran_ = id;
      overrun_ns_ = overrun_ns;
    });
    ASSERT_TRUE(engine.ok()) << engine.status().ToString();
    engine_ = std::move(*engine);
  }
  static EngineOptions Plain() {
    EngineOptions options;
    options.quiet_one_in = 0;
    return options;
  }
  std::unique_ptr<TestHost> StartHost(TestTask task) {
    return std::make_unique<TestHost>(engine_->doorbell(), "cpu-0", task);
  }
  ResidentId Add(const TestHost& host, double value = 1) {
    ResidentOptions options;
    options.name = "task";
    options.value = value;
    auto id = engine_->AddResident(host.page(), options);
    EXPECT_TRUE(id.ok());
    return id.ok() ? *id : 0;
  }
  uint64_t StepsOf(ResidentId id) {
    auto figures = engine_->GetResidentFigures(id);
    return figures.ok() ? figures->steps : 0;
  }
  std::vector<TimelineEvent> Events(TimelineEvent::Kind kind) {
    std::vector<TimelineEvent> events;
    for (TimelineEvent& event : engine_->GetTimeline()) {
      if (event.kind == kind) events.push_back(event);
    }
    return events;
  }

  TemporaryBoardDirectory directory_;
  std::atomic<ResidentId> overran_{0};
  std::atomic<int64_t> overrun_ns_{0};
  std::unique_ptr<TurnEngine> engine_;
};

TEST_F(EngineTest, OneWorkerPerDevice) {
  StartEngine();
  auto board = board::Board::Open("cpu-0", board::Board::Access::kReadWrite);
  ASSERT_TRUE(board.ok());
  EXPECT_EQ(TurnEngine::Start({}, std::move(*board), {}).status().code(), StatusCode::kUnavailable);
}

TEST_F(EngineTest, WithoutATrainerTasksRunFreelyAndShare) {
  StartEngine(Plain());
  auto a = StartHost({}), b = StartHost({});
  ResidentId first = Add(*a), second = Add(*b);
  EXPECT_TRUE(Eventually([&] { return StepsOf(first) > 50 && StepsOf(second) > 50; }));
  EXPECT_GT(engine_->GetFigures().free_ns, 0);
  EXPECT_EQ(engine_->GetFigures().bubbles, 0u);
  EXPECT_FALSE(engine_->GetCapacity().trainer_attached);
  EXPECT_TRUE(Eventually([&] { return engine_->GetResidentFigures(first)->solo_unit_ns > 0.9e6; }));
}

TEST_F(EngineTest, WithoutATrainerTasksWaitWhenToldSo) {
  EngineOptions options = Plain();
  options.run_without_trainer = false;
  StartEngine(options);
  auto host = StartHost({});
  ResidentId id = Add(*host);
  ASSERT_TRUE(Eventually([&] { return engine_->GetResidentFigures(id)->ready; }));
  Trainer trainer;
  EXPECT_EQ(StepsOf(id), 0u);
  trainer.Iterate(20, {8 * kMs});
  EXPECT_GT(StepsOf(id), 0u);
}

TEST_F(EngineTest, StepsBeginOnlyWithinBubbles) {
  EngineOptions options = Plain();
  options.run_without_trainer = false;
  StartEngine(options);
  auto host = StartHost({});
  ResidentId id = Add(*host);
  Trainer trainer;
  trainer.Iterate(100, {10 * kMs, 6 * kMs}, 3 * kMs);
  EXPECT_GT(StepsOf(id), 0u);
  auto bubbles = Events(TimelineEvent::Kind::kBubble);
  EXPECT_GT(bubbles.size(), 150u);
  int settled = 0;
  for (const TimelineEvent& turn : Events(TimelineEvent::Kind::kTurn)) {
    if (turn.start_ns > bubbles.back().end_ns) continue;
    ++settled;
    EXPECT_TRUE(std::any_of(bubbles.begin(), bubbles.end(), [&](const TimelineEvent& bubble) {
      return bubble.start_ns <= turn.start_ns && turn.start_ns <= bubble.end_ns;
    }));
  }
  EXPECT_GT(settled, 0);
  DeviceFigures figures = engine_->GetFigures();
  EXPECT_GT(figures.harvest_ns, 0);
  EXPECT_GE(figures.bubble_ns, figures.harvest_ns);
  EXPECT_NEAR(figures.unexplained_ns, figures.bubble_ns - figures.harvest_ns - figures.losses.no_task_ns -
              figures.losses.memory_ns - figures.losses.shorter_than_step_ns - figures.losses.guard_ns -
              figures.losses.tail_ns - figures.losses.switching_ns - figures.losses.forecast_miss_ns, 1);
  Capacity capacity = engine_->GetCapacity();
  EXPECT_TRUE(capacity.trainer_attached);
  ASSERT_EQ(capacity.slots.size(), 2u);
  EXPECT_GE(capacity.slots[0].p50_us, 10'000u);
  EXPECT_GE(capacity.iteration_period_us, 22'000u);
}

TEST_F(EngineTest, QuietIterationsHoldNoTurns) {
  EngineOptions options;
  options.quiet_one_in = 2;
  options.run_without_trainer = false;
  StartEngine(options);
  auto host = StartHost({});
  ResidentId id = Add(*host);
  Trainer trainer(5);
  trainer.Iterate(160, {5 * kMs}, kMs);
  EXPECT_GT(StepsOf(id), 0u);
  auto quiet = Events(TimelineEvent::Kind::kQuietIteration);
  EXPECT_GT(quiet.size(), 8u);
  EXPECT_GT(Events(TimelineEvent::Kind::kIteration).size(), 8u);
  for (const TimelineEvent& turn : Events(TimelineEvent::Kind::kTurn)) {
    for (const TimelineEvent& iteration : quiet) {
      EXPECT_FALSE(iteration.start_ns <= turn.start_ns && turn.start_ns < iteration.end_ns);
    }
  }
  DeviceFigures figures = engine_->GetFigures();
  EXPECT_GE(figures.quiet_iterations, quiet.size());  // read a little later
  EXPECT_GT(figures.quiet_iteration_ns, 0);
}

TEST_F(EngineTest, AShorterTaskTakesTheTail) {
  EngineOptions options = Plain();
  options.run_without_trainer = false;
  options.overhead_budget = 1;  // a loaded machine is no reason to hold back here
  StartEngine(options);
  TestTask longer, shorter;
  longer.step_ns = 5 * kMs;
  shorter.step_ns = kMs;
  auto a = StartHost(longer), b = StartHost(shorter);
  ResidentId large = Add(*a, 5), small = Add(*b, 1);
  Trainer trainer;
  // Three long steps leave 3 ms: clearly more than a short one and its start. Until some bubble held both.
  bool both = false;
  for (int round = 0; round < 40 && !both; ++round) {
    trainer.Iterate(20, {18 * kMs});
    auto turns = Events(TimelineEvent::Kind::kTurn);
    for (const TimelineEvent& bubble : Events(TimelineEvent::Kind::kBubble)) {
      auto within = [&](ResidentId id) {
        return std::any_of(turns.begin(), turns.end(), [&](const TimelineEvent& turn) {
          return turn.resident == id && turn.start_ns >= bubble.start_ns && turn.end_ns <= bubble.end_ns;
        });
      };
      both |= within(large) && within(small);
    }
  }
  EXPECT_TRUE(both) << "steps " << StepsOf(large) << " and " << StepsOf(small) << ", estimates "
                    << engine_->GetResidentFigures(large)->step_estimate_ns << " and "
                    << engine_->GetResidentFigures(small)->step_estimate_ns << ", bubble "
                    << engine_->GetCapacity().slots.at(0).p10_us << " us, guard " << engine_->GetFigures().guard_us
                    << ", overran " << overran_.load();
}

TEST_F(EngineTest, ElasticTasksFillTheTimeTheyAreGiven) {
  EngineOptions options = Plain();
  options.run_without_trainer = false;
  StartEngine(options);
  TestTask task;
  task.elastic = true;
  auto host = StartHost(task);
  ResidentId id = Add(*host);
  Trainer trainer;
  trainer.Iterate(40, {8 * kMs});
  auto figures = engine_->GetResidentFigures(id);
  ASSERT_TRUE(figures.ok());
  EXPECT_GT(figures->steps, 0u);
  EXPECT_GT(figures->items, 10 * figures->steps);  // a millisecond each, at least: not the least that is given
}

TEST_F(EngineTest, AStepThatIgnoresTheStopFlagIsReported) {
  EngineOptions options = Plain();
  options.run_without_trainer = false;
  StartEngine(options);
  TestTask rogue;
  rogue.step_ns = 60 * kNanosPerSecond;
  rogue.honours_stop = false;
  auto host = StartHost(rogue);
  ResidentId id = Add(*host);
  Trainer trainer;
  for (int i = 0; i < 200 && overran_.load() == 0; ++i) trainer.Iterate(1, {5 * kMs});
  EXPECT_EQ(overran_.load(), id);
  EXPECT_GE(overrun_ns_.load(), 2 * options.stop_grace_ns);
  EXPECT_NE((*host->page())->stop.load(), 0u);
  host->Kill();
  engine_->RemoveResident(id);
  // The device is free for others.
  auto next = StartHost({});
  ResidentId other = Add(*next);
  for (int i = 0; i < 200 && StepsOf(other) == 0; ++i) trainer.Iterate(1, {5 * kMs});
  EXPECT_GT(StepsOf(other), 0u);
}

TEST_F(EngineTest, AStepThatHonoursTheStopFlagIsNotReported) {
  EngineOptions options = Plain();
  options.run_without_trainer = false;
  options.stop_grace_ns = 200 * kMs;  // a loaded machine may let the host wait that long
  StartEngine(options);
  TestTask slow;
  slow.step_ns = 60 * kNanosPerSecond;
  auto host = StartHost(slow);
  ResidentId id = Add(*host);
  Trainer trainer;
  trainer.Iterate(60, {5 * kMs});
  EXPECT_EQ(overran_.load(), 0u);
  EXPECT_GT(StepsOf(id), 0u);
}

TEST_F(EngineTest, StepsLongerThanAllBubblesAreNoticedAndLeftOut) {
  EngineOptions options = Plain();
  options.run_without_trainer = false;
  options.stop_grace_ns = kNanosPerSecond;
  StartEngine(options);
  TestTask slow;
  slow.step_ns = 40 * kMs;
  slow.honours_stop = false;
  auto host = StartHost(slow);
  ResidentId id = Add(*host);
  Trainer trainer;
  trainer.Iterate(60, {5 * kMs});
  EXPECT_EQ(overran_.load(), 0u);
  EXPECT_GT(StepsOf(id), 0u);
  EXPECT_LT(StepsOf(id), 10u);
  EXPECT_GT(engine_->GetFigures().losses.shorter_than_step_ns, 0);
}

TEST_F(EngineTest, PausedTasksRestAndCommandsReachThem) {
  StartEngine(Plain());
  auto host = StartHost({});
  ResidentId id = Add(*host);
  ASSERT_TRUE(Eventually([&] { return StepsOf(id) > 5; }));
  ASSERT_TRUE(engine_->Pause(id, 5 * kNanosPerSecond));
  uint64_t steps = StepsOf(id);
  SleepNs(50 * kMs);
  EXPECT_EQ(StepsOf(id), steps);
  engine_->Resume(id);
  EXPECT_TRUE(Eventually([&] { return StepsOf(id) > steps + 5; }));
  engine_->PostCommand(id);
  EXPECT_EQ(host->Join(), 0);
  engine_->RemoveResident(id);
  EXPECT_EQ(engine_->GetResidentFigures(id).status().code(), StatusCode::kNotFound);
}

TEST_F(EngineTest, ATaskWithoutFurtherStepsRests) {
  StartEngine(Plain());
  TestTask task;
  task.steps = 7;
  auto host = StartHost(task);
  ResidentId id = Add(*host);
  EXPECT_TRUE(Eventually([&] { return StepsOf(id) == 7 && !engine_->GetResidentFigures(id)->ready; }));
  EXPECT_FALSE(engine_->GetResidentFigures(id)->in_turn);
}

TEST_F(EngineTest, TasksWithTooLittleMemoryWaitAndAreCounted) {
  EngineOptions options = Plain();
  options.run_without_trainer = false;
  StartEngine(options);
  auto host = StartHost({});
  ResidentOptions resident;
  resident.memory_bytes = 1000;
  auto id = engine_->AddResident(host->page(), resident);
  ASSERT_TRUE(id.ok());
  engine_->SetFreeMemory(999);
  ASSERT_TRUE(Eventually([&] { return engine_->GetResidentFigures(*id)->ready; }));
  Trainer trainer;
  trainer.Iterate(20, {5 * kMs});
  EXPECT_EQ(StepsOf(*id), 0u);
  EXPECT_GT(engine_->GetFigures().losses.memory_ns, 0);
  engine_->SetFreeMemory(1000);
  trainer.Iterate(20, {5 * kMs});
  EXPECT_GT(StepsOf(*id), 0u);
}

TEST_F(EngineTest, AKilledTrainerFreesTheDeviceAndARestartedOneIsFollowed) {
  StartEngine(Plain());
  auto host = StartHost({});
  ResidentId id = Add(*host);
  pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Trainer trainer;
    trainer.Iterate(1'000'000, {5 * kMs});
    _exit(0);
  }
  ASSERT_TRUE(Eventually([&] { return engine_->GetFigures().bubbles > 10; }));
  EXPECT_TRUE(engine_->GetCapacity().trainer_attached);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  ASSERT_TRUE(Eventually([&] { return !engine_->GetCapacity().trainer_attached; }));
  uint64_t steps = StepsOf(id);
  EXPECT_TRUE(Eventually([&] { return StepsOf(id) > steps + 50; }));
  EXPECT_EQ(engine_->GetFigures().trainer_restarts, 0u);

  uint64_t bubbles = engine_->GetFigures().bubbles;
  Trainer again(2);
  again.Iterate(30, {5 * kMs, 3 * kMs});
  EXPECT_EQ(engine_->GetFigures().trainer_restarts, 1u);
  EXPECT_GT(engine_->GetFigures().bubbles, bubbles + 40);
}

TEST_F(EngineTest, ADeadHostCostsItsBubblesOnly) {
  EngineOptions options = Plain();
  options.run_without_trainer = false;
  StartEngine(options);
  auto dead = StartHost({}), live = StartHost({});
  ResidentId first = Add(*dead, 5), second = Add(*live, 1);
  Trainer trainer;
  trainer.Iterate(20, {6 * kMs});
  dead->Kill();
  uint64_t before = StepsOf(second);
  // A busy machine may spoil some bubbles: go on until one was used, within a bound.
  auto second_goes_on = [&] {
    for (int round = 0; round < 50 && StepsOf(second) == before; ++round) trainer.Iterate(20, {6 * kMs});
    return StepsOf(second) > before;
  };
  EXPECT_TRUE(second_goes_on());  // even before anybody removes the dead one
  engine_->RemoveResident(first);
  before = StepsOf(second);
  EXPECT_TRUE(second_goes_on());
}

TEST_F(EngineTest, SeedsComeFromThePlan) {
  StartEngine(Plain());
  pillion_board_options options = PILLION_BOARD_OPTIONS_INIT;
  options.device = "cpu0";
  pillion_board* board = pillion_board_open(&options);
  ASSERT_NE(board, nullptr);
  uint32_t lengths_us[] = {7000, 3000};
  pillion_expect(board, lengths_us, 2);
  EXPECT_TRUE(Eventually([&] {
    Capacity capacity = engine_->GetCapacity();
    return capacity.slots.size() == 2 && capacity.slots[0].p50_us == 7000;
  }));
  pillion_board_close(board);
}

}  // namespace
}  // namespace pillion::turns
