// Ranks as threads: gradients equal the single-device run, bubbles are marked as the plan says,
// errors end all ranks.
#include "pipeline/executor/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <random>
#include <thread>

#include "api/board/board.h"
#include "pipeline/schedules/schedules.h"
#include "tests/unit/board/temporary_board_directory.h"
#include "tests/unit/executor/chain.h"

namespace pillion::executor {
namespace {

using pipeline::Plan;
using pipeline::ScheduleKind;

const SystemClock kClock;
constexpr uint64_t kIterations = 3;

Program CompileOk(const Plan& plan) {
  auto program = Compile(plan, std::vector<size_t>(plan.stages.size() - 1, Chain::kBoundaryBytes));
  EXPECT_TRUE(program.ok()) << program.status().ToString();
  return *program;
}

// Runs every rank in a thread; `make_module` may wrap the rank's chain. Returns each rank's end.
template <typename MakeModule>
std::vector<Status> RunThreads(const Program& program, uint64_t iterations,
                               const ExecutorOptions& options, MakeModule make_module) {
  auto transports = MakeThreadTransports(program, kClock);
  EXPECT_TRUE(transports.ok());
  std::vector<Status> ends(program.ranks);
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < program.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Module* module = make_module(rank);
      Executor executor(program, module, (*transports)[rank].get(), kClock, options);
      ends[rank] = executor.Join();
      for (uint64_t i = 0; i < iterations && ends[rank].ok(); ++i)
        ends[rank] = executor.RunIteration();
      executor.Leave();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ends;
}

void ExpectGradientsOfOneDevice(const Plan& plan, uint64_t seed) {
  const Program program = CompileOk(plan);
  std::vector<std::unique_ptr<Chain>> chains;
  for (int32_t rank = 0; rank < program.ranks; ++rank)
    chains.push_back(std::make_unique<Chain>(plan, rank, seed));
  std::vector<Status> ends =
      RunThreads(program, kIterations, {}, [&](int32_t rank) { return chains[rank].get(); });
  for (const Status& end : ends) ASSERT_TRUE(end.ok()) << end.ToString();
  Chain reference(plan, -1, seed);
  for (uint64_t i = 0; i < kIterations; ++i) RunReference(&reference, plan, i);
  size_t layers = 0;
  double loss = 0;
  for (const auto& chain : chains) {
    loss += chain->loss();
    for (const auto& [layer, gradient] : chain->gradients()) {
      ++layers;
      EXPECT_EQ(gradient, reference.gradients().at(layer)) << "layer " << layer;
    }
  }
  EXPECT_EQ(layers, reference.gradients().size());
  EXPECT_EQ(loss, reference.loss());
}

TEST(Executor, EverySingleCopyScheduleGivesTheGradientsOfOneDevice) {
  int ran = 0;
  for (ScheduleKind kind : pipeline::AllSchedules()) {
    for (auto [devices, microbatches] : {std::pair{2, 4}, {4, 8}, {3, 7}, {4, 3}}) {
      pipeline::ScheduleOptions options;
      options.devices = devices;
      options.microbatches = microbatches;
      auto plan = pipeline::GenerateSchedule(kind, options);
      if (!plan.ok() || plan->copies != 1) continue;
      SCOPED_TRACE(std::string(pipeline::ScheduleName(kind)) + " on " + std::to_string(devices));
      ExpectGradientsOfOneDevice(*plan, 11);
      ++ran;
    }
  }
  EXPECT_GE(ran, 20);
}

TEST(Executor, RandomPlansGiveTheGradientsOfOneDevice) {
  const char* count_text = std::getenv("PILLION_RANDOM_PLANS");
  const uint64_t count = count_text != nullptr ? std::strtoull(count_text, nullptr, 10) : 150;
  for (uint64_t seed = 1; seed <= count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    Plan plan = RandomPlan(&random);
    ExpectGradientsOfOneDevice(plan, seed);
    if (HasFatalFailure()) return;
  }
}

TEST(Executor, TracesEveryActionInOrder) {
  pipeline::ScheduleOptions options;
  options.devices = 2;
  options.microbatches = 4;
  const Plan plan = *pipeline::GenerateSchedule(ScheduleKind::kOneFOneB, options);
  const Program program = CompileOk(plan);
  auto transports = MakeThreadTransports(program, kClock);
  Chain chain0(plan, 0, 1), chain1(plan, 1, 1);
  std::thread other([&] {
    Executor executor(program, &chain1, (*transports)[1].get(), kClock, {});
    EXPECT_TRUE(executor.Join().ok());
    EXPECT_TRUE(executor.RunIteration().ok());
    executor.Leave();
  });
  Executor executor(program, &chain0, (*transports)[0].get(), kClock, {});
  ASSERT_TRUE(executor.Join().ok());
  ASSERT_TRUE(executor.RunIteration().ok());
  executor.Leave();
  other.join();
  const IterationTrace& trace = executor.last();
  ASSERT_EQ(trace.actions.size(), 8u);
  int64_t last_ns = trace.start_ns;
  for (const ActionTrace& action : trace.actions) {
    EXPECT_LE(last_ns, action.ready_ns);
    EXPECT_LE(action.ready_ns, action.start_ns);
    EXPECT_LE(action.start_ns, action.end_ns);
    last_ns = action.end_ns;
  }
  EXPECT_LE(last_ns, trace.end_ns);
  EXPECT_GE(trace.WaitNs(), 0);
}

TEST(Executor, MarksEveryPredictedWaitOnTheBoard) {
  TemporaryBoardDirectory directory;
  pillion_board_options board_options = PILLION_BOARD_OPTIONS_INIT;
  board_options.device = "cpu0";
  board_options.run_id = 5;
  board_options.ranks = 2;
  pillion_board* board = pillion_board_open(&board_options);
  ASSERT_NE(board, nullptr) << pillion_board_error();
  pipeline::ScheduleOptions schedule;
  schedule.devices = 2;
  schedule.microbatches = 4;
  const Plan plan = *pipeline::GenerateSchedule(ScheduleKind::kOneFOneB, schedule);
  const Program program = CompileOk(plan);
  auto transports = MakeThreadTransports(program, kClock);
  Chain chain0(plan, 0, 1), chain1(plan, 1, 1);
  std::thread other([&] {
    Executor executor(program, &chain1, (*transports)[1].get(), kClock, {});
    EXPECT_TRUE(executor.Join().ok());
    for (uint64_t i = 0; i < kIterations; ++i) EXPECT_TRUE(executor.RunIteration().ok());
    executor.Leave();
  });
  ExecutorOptions options;
  options.board = board;
  Executor executor(program, &chain0, (*transports)[0].get(), kClock, options);
  executor.Expect({30, 20, 10, 5});
  ASSERT_TRUE(executor.Join().ok());
  for (uint64_t i = 0; i < kIterations; ++i) ASSERT_TRUE(executor.RunIteration().ok());
  executor.Leave();
  other.join();

  auto reader = board::Board::Open("cpu-0", board::Board::Access::kReadOnly);
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  const board::Layout* layout = (*reader)->layout();
  EXPECT_EQ(layout->slots_per_iteration.load(), 4u);
  EXPECT_EQ(layout->iteration.load(), kIterations - 1);
  EXPECT_EQ(layout->expected_slots.load(), 4u);
  EXPECT_EQ(layout->expected_us[3].load(), 5u);
  // Whatever their lengths: 4 bubbles in each iteration, numbered 0 to 3, and the last one is
  // closed.
  const uint32_t edge = layout->edge.load();
  EXPECT_EQ(board::SequenceOf(edge), 4 * kIterations);
  EXPECT_FALSE(board::IsOpen(edge));
  for (uint32_t sequence = 1; sequence <= 4 * kIterations; ++sequence) {
    const board::RingEntry& entry = layout->ring[sequence % limits::kBoardRing];
    EXPECT_EQ(entry.slot.load(), (sequence - 1) % 4);
    EXPECT_EQ(entry.iteration.load(), (sequence - 1) / 4);
    EXPECT_LE(entry.open_ns.load(), entry.close_ns.load());
  }
  pillion_board_close(board);
}

// Fails or hangs in one forward.
class Troubled final : public Module {
 public:
  enum class Trouble { kFails, kHangs };
  Troubled(Module* module, int32_t microbatch, Trouble trouble, std::atomic<bool>* leave)
      : module_(module), microbatch_(microbatch), trouble_(trouble), leave_(leave) {}
  Status BeginIteration(uint64_t i) override { return module_->BeginIteration(i); }
  Status EndIteration(uint64_t i) override { return module_->EndIteration(i); }
  Status Forward(int32_t stage, int32_t microbatch, Buffer input, Buffer output) override {
    if (microbatch == microbatch_) {
      if (trouble_ == Trouble::kFails) return TaskFailed("loss is not a number");
      leave_->wait(false);
    }
    return module_->Forward(stage, microbatch, input, output);
  }
  Status InputGradient(int32_t s, int32_t m, Buffer o, Buffer i) override {
    return module_->InputGradient(s, m, o, i);
  }
  Status WeightGradient(int32_t s, int32_t m) override { return module_->WeightGradient(s, m); }
  Status Backward(int32_t s, int32_t m, Buffer o, Buffer i) override {
    return module_->Backward(s, m, o, i);
  }

 private:
  Module* const module_;
  const int32_t microbatch_;
  const Trouble trouble_;
  std::atomic<bool>* const leave_;
};

Plan FourRanks() {
  pipeline::ScheduleOptions options;
  options.devices = 4;
  options.microbatches = 6;
  return *pipeline::GenerateSchedule(ScheduleKind::kOneFOneB, options);
}

TEST(Executor, AnErrorInOneStageEndsAllRanksNamingIt) {
  const Plan plan = FourRanks();
  const Program program = CompileOk(plan);
  std::vector<std::unique_ptr<Chain>> chains;
  for (int32_t rank = 0; rank < 4; ++rank) chains.push_back(std::make_unique<Chain>(plan, rank, 3));
  Troubled troubled(chains[2].get(), 4, Troubled::Trouble::kFails, nullptr);
  std::vector<Status> ends = RunThreads(program, 2, {}, [&](int32_t rank) -> Module* {
    return rank == 2 ? static_cast<Module*>(&troubled) : chains[rank].get();
  });
  for (const Status& end : ends) {
    EXPECT_EQ(end.code(), StatusCode::kTaskFailed) << end.ToString();
    EXPECT_NE(end.message().find("rank 2: 2F4: loss is not a number"), std::string::npos)
        << end.ToString();
  }
}

TEST(Executor, AHungRankIsNamedByAllThatWaitWithinTheTimeout) {
  const Plan plan = FourRanks();
  const Program program = CompileOk(plan);
  std::vector<std::unique_ptr<Chain>> chains;
  for (int32_t rank = 0; rank < 4; ++rank) chains.push_back(std::make_unique<Chain>(plan, rank, 3));
  std::atomic<bool> leave = false;
  Troubled troubled(chains[1].get(), 3, Troubled::Trouble::kHangs, &leave);
  ExecutorOptions options;
  options.peer_timeout_ms = 1'500;
  auto transports = MakeThreadTransports(program, kClock);
  std::vector<Status> ends(4);
  std::vector<std::thread> threads;
  std::atomic<int> ended = 0;
  for (int32_t rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      Module* module = rank == 1 ? static_cast<Module*>(&troubled) : chains[rank].get();
      Executor executor(program, module, (*transports)[rank].get(), kClock, options);
      ends[rank] = executor.Join();
      if (ends[rank].ok()) ends[rank] = executor.RunIteration();
      if (++ended == 3) {  // only the hung one is left
        leave = true;
        leave.notify_all();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int32_t rank : {0, 2, 3}) {
    EXPECT_EQ(ends[rank].code(), StatusCode::kDeadlineExceeded) << ends[rank].ToString();
    EXPECT_NE(ends[rank].message().find("rank 1 (in 1F3) lives but has not gone on"),
              std::string::npos)
        << ends[rank].ToString();
  }
  EXPECT_FALSE(ends[1].ok());
}

}  // namespace
}  // namespace pillion::executor
