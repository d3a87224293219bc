// Compilation: messages, slots and waits follow from the plan alone.
#include "pipeline/executor/program.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "pipeline/schedules/schedules.h"
#include "tests/unit/executor/chain.h"

namespace pillion::executor {
namespace {

using pipeline::Action;
using pipeline::ActionType;
using pipeline::Plan;
using pipeline::ScheduleKind;

Plan Generate(ScheduleKind kind, int32_t devices, int32_t microbatches) {
  pipeline::ScheduleOptions options;
  options.devices = devices;
  options.microbatches = microbatches;
  auto plan = pipeline::GenerateSchedule(kind, options);
  EXPECT_TRUE(plan.ok()) << plan.status().ToString();
  return *plan;
}

Program CompileOk(const Plan& plan) {
  auto program = Compile(plan, std::vector<size_t>(plan.stages.size() - 1, 64));
  EXPECT_TRUE(program.ok()) << program.status().ToString();
  return *program;
}

std::string ErrorOf(const Plan& plan) {
  return Compile(plan, std::vector<size_t>(plan.stages.size() - 1, 64)).status().ToString();
}

std::map<std::pair<int, int>, int> SlotsPerBoundary(const Program& program) {
  std::map<std::pair<int, int>, std::set<int>> slots;
  for (const Message& m : program.messages) slots[{m.from_stage, m.to_stage}].insert(m.slot);
  std::map<std::pair<int, int>, int> counts;
  for (const auto& [boundary, set] : slots) counts[boundary] = static_cast<int>(set.size());
  return counts;
}

TEST(Program, OneFOneBNeedsTwoForwardBuffersHoweverManyMicrobatches) {
  Program program = CompileOk(Generate(ScheduleKind::kOneFOneB, 2, 16));
  auto slots = SlotsPerBoundary(program);
  EXPECT_EQ((slots[{0, 1}]), 2);
  // Nothing orders rank 0's next backward before rank 1's, so gradients may pile up by one more.
  EXPECT_LE((slots[{1, 0}]), 2);
  EXPECT_EQ(program.messages.size(), 32u);
}

TEST(Program, GPipeKeepsAllActivationsInFlight) {
  auto slots = SlotsPerBoundary(CompileOk(Generate(ScheduleKind::kGPipe, 2, 5)));
  EXPECT_EQ((slots[{0, 1}]), 5);
  EXPECT_EQ((slots[{1, 0}]), 5);
}

TEST(Program, WaitsAreTheActionsThatMayHaveTo) {
  Program program = CompileOk(Generate(ScheduleKind::kOneFOneB, 2, 4));
  // Rank 0 waits for each of its backwards; rank 1 for each forward.
  EXPECT_EQ(program.WaitsOf(0), 4u);
  EXPECT_EQ(program.WaitsOf(1), 4u);
  for (const Instruction& i : program.instructions[0]) {
    EXPECT_EQ(i.marks_wait, i.action.type == ActionType::kBackward)
        << pipeline::ActionName(i.action);
  }
}

TEST(Program, AnInputThatIsAlwaysThereMarksNoWait) {
  // Rank 1 does 1F0 only after 1F1, whose input was sent after 1F0's.
  Plan plan;
  plan.devices = 2;
  plan.microbatches = 2;
  plan.stages = {{0, 1, 0}, {1, 2, 1}};
  auto f = [](int s, int m) { return Action{ActionType::kForward, false, s, m}; };
  auto b = [](int s, int m) { return Action{ActionType::kBackward, false, s, m}; };
  plan.order = {{f(0, 0), f(0, 1), b(0, 0), b(0, 1)}, {f(1, 1), f(1, 0), b(1, 0), b(1, 1)}};
  Program program = CompileOk(plan);
  EXPECT_TRUE(program.instructions[1][0].marks_wait);
  EXPECT_FALSE(program.instructions[1][1].marks_wait);
}

TEST(Program, SlotsAreReusedOnlyAfterTheirReader) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    Plan plan = RandomPlan(&random);
    Program program = CompileOk(plan);
    ASSERT_EQ(program.messages.size(),
              2 * (plan.stages.size() - 1) * static_cast<size_t>(plan.microbatches));
    std::vector<uint32_t> uses(program.slots.size(), 0);
    std::map<std::pair<int, int>, size_t> at;  // place → position in the global order
    for (size_t i = 0; i < program.global_order.size(); ++i) {
      at[{program.global_order[i].rank, program.global_order[i].index}] = i;
    }
    std::vector<size_t> free_after(program.slots.size(), 0);
    for (ActionPlace place : program.global_order) {
      const int32_t id = program.instructions[place.rank][place.index].output;
      if (id == kNoMessage) continue;
      const Message& message = program.messages[id];
      EXPECT_EQ(message.use, uses[message.slot]++);
      EXPECT_LE(free_after[message.slot], (at[{place.rank, place.index}]));
      free_after[message.slot] = at[{message.to_rank, message.to_index}];
      EXPECT_GT(free_after[message.slot], (at[{place.rank, place.index}]));
    }
    for (size_t s = 0; s < uses.size(); ++s) EXPECT_EQ(uses[s], program.slots[s].uses);
  }
}

TEST(Program, SteadyWaitsOfGPipe) {
  // Two ranks, F = 10, B = 20, three micro-batches: rank 1 waits for the first F and, at the end,
  // for the next iteration's; rank 0 waits for the first B only.
  Plan plan = Generate(ScheduleKind::kGPipe, 2, 3);
  Program program = CompileOk(plan);
  auto duration = [](int32_t, const Action& action) {
    return action.type == ActionType::kForward ? 10.0 : 20.0;
  };
  const std::vector<uint32_t> rank0 = SteadyWaitsUs(program, 0, duration);
  const std::vector<uint32_t> rank1 = SteadyWaitsUs(program, 1, duration);
  ASSERT_EQ(rank0.size(), program.WaitsOf(0));
  ASSERT_EQ(rank1.size(), program.WaitsOf(1));
  EXPECT_EQ(rank0.front(), 30u);  // 1F2 and 1B0
  EXPECT_EQ(rank1.front(), 30u);  // 0B2 and 0F0
  for (size_t i = 1; i < rank0.size(); ++i) EXPECT_EQ(rank0[i], 0u);
  for (size_t i = 1; i < rank1.size(); ++i) EXPECT_EQ(rank1[i], 0u);
}

TEST(Program, RefusesWhatItCannotRun) {
  Plan dualpipe = Generate(ScheduleKind::kDualPipe, 4, 8);
  EXPECT_NE(ErrorOf(dualpipe).find("2 copies of the weights"), std::string::npos)
      << ErrorOf(dualpipe);

  Plan split = Generate(ScheduleKind::kGPipe, 2, 2);
  split.stages[1].shard_devices = {1, 0};
  EXPECT_NE(ErrorOf(split).find("splits stage 1"), std::string::npos) << ErrorOf(split);

  Plan missing = Generate(ScheduleKind::kGPipe, 2, 2);
  missing.order[1].pop_back();
  EXPECT_NE(ErrorOf(missing).find("stage 1, micro-batch"), std::string::npos) << ErrorOf(missing);

  Plan twice = Generate(ScheduleKind::kGPipe, 2, 2);
  twice.order[0].push_back(twice.order[0].front());
  EXPECT_NE(ErrorOf(twice).find("repeats"), std::string::npos) << ErrorOf(twice);

  Plan sizes = Generate(ScheduleKind::kGPipe, 2, 2);
  EXPECT_EQ(Compile(sizes, {}).status().code(), StatusCode::kInvalidArgument);
}

TEST(Program, NamesTheCircleOfAPlanThatHangs) {
  // Rank 0 wants the gradient of micro-batch 0 before it sends micro-batch 1; rank 1 wants
  // micro-batch 1 first.
  Plan plan = Generate(ScheduleKind::kGPipe, 2, 2);
  auto f = [](int s, int m) { return Action{ActionType::kForward, false, s, m}; };
  auto b = [](int s, int m) { return Action{ActionType::kBackward, false, s, m}; };
  plan.order = {{f(0, 0), b(0, 0), f(0, 1), b(0, 1)}, {f(1, 0), f(1, 1), b(1, 0), b(1, 1)}};
  const std::string error = ErrorOf(plan);
  EXPECT_NE(error.find("cannot complete"), std::string::npos) << error;
  EXPECT_NE(error.find("0B0 on rank 0 waits for 1B0 on rank 1"), std::string::npos) << error;
  EXPECT_NE(error.find("1F1 on rank 1 waits for 0F1 on rank 0"), std::string::npos) << error;

  Plan backwards = Generate(ScheduleKind::kGPipe, 1, 1);
  std::swap(backwards.order[0][0], backwards.order[0][1]);
  EXPECT_NE(ErrorOf(backwards).find("0B0 on rank 0 waits for 0F0 on rank 0"), std::string::npos)
      << ErrorOf(backwards);
}

}  // namespace
}  // namespace pillion::executor
